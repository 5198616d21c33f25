// sources: core/error.c core/dtype.c core/file.c core/atomic_file.c core/json.c core/data/safetensors.c
// sources: core/data/safetensors_read.c core/data/safetensors_write.c
// libraries: -lcjson -lm
/* Any bytes as a safetensors file: either refused with a message, or everything it names can be read, and a file
 * written from it reads back the same. The input lies in memory (memfd), opened by path like any file. */
#include "ltrain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool held, const char *what) {
  if (held) return;
  fprintf(stderr, "%s: %s\n", what, lt_last_error());
  abort();
}

/* Reads every tensor by every way and copies what the engine can hold into `w`. */
static void copy_all(lt_safetensors *f, lt_safetensors_writer *w) {
  for (int64_t i = 0; i < lt_safetensors_metadata_count(f); i++) {
    const char *key, *value;
    require(lt_safetensors_metadata_at(f, i, &key, &value) == 0, "metadata");
    require(lt_safetensors_metadata(f, key) == value, "metadata by key");
    require(lt_safetensors_set(w, key, value) == 0, "set");
  }
  int64_t n = lt_safetensors_count(f);
  int64_t *numbers = malloc(sizeof(int64_t) * (size_t)(n + 1));
  for (int64_t i = 0; i < n; i++) {
    lt_stored_tensor t;
    require(lt_safetensors_entry(f, i, &t) == 0, "entry");
    require(lt_safetensors_find(f, t.name) == i, "find");
    numbers[i] = -1;
    if (t.dtype >= 0 && t.ndim <= LT_MAX_DIMS)
      require(lt_safetensors_add(w, t.name, t.dtype, t.ndim, t.shape, &numbers[i]) == 0, "add");
  }
  for (int64_t i = 0; i < n; i++) {
    lt_stored_tensor t;
    const void *mapped;
    lt_safetensors_entry(f, i, &t);
    char *bytes = malloc((size_t)t.bytes + 1), *rows = malloc((size_t)t.bytes + 1);
    bool usable = lt_safetensors_read(f, i, bytes, t.bytes) == 0;
    require((lt_safetensors_data(f, i, &mapped) == 0) == usable, "mapping and reading differ");
    require(usable || numbers[i] < 0 || t.dtype == LT_BOOL, "a tensor cannot be read");
    if (usable) {
      require(memcmp(bytes, mapped, (size_t)t.bytes) == 0, "mapping and reading differ");
      require(lt_safetensors_read_rows(f, i, rows, t.bytes, 1, 1) == 0, "rows");
      require(memcmp(bytes, rows, (size_t)t.bytes) == 0, "rows and reading differ");
    } else {
      memset(bytes, 0, (size_t)t.bytes);
    }
    if (numbers[i] >= 0) require(lt_safetensors_write(w, numbers[i], bytes, t.bytes) == 0, "write");
    free(bytes);
    free(rows);
  }
  free(numbers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static char path[64], copy[64];
  static int fd = -1;
  if (fd < 0) {
    fd = memfd_create("fuzz", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    snprintf(copy, sizeof copy, "/dev/shm/ltrain-fuzz-%d.safetensors", (int)getpid());
  }
  require(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size, "memfd");
  lt_safetensors *f, *again;
  int status = lt_safetensors_open(path, &f);
  require(status == 0 || strncmp(lt_last_error(), path, strlen(path)) == 0, "a message without the path");
  if (status < 0) return 0;
  lt_safetensors_writer *w;
  require(lt_safetensors_create(copy, &w) == 0, "create");
  copy_all(f, w);
  require(lt_safetensors_finish(w) == 0, "finish");
  lt_safetensors_writer_free(w);
  require(lt_safetensors_open(copy, &again) == 0, "what was written cannot be read");
  for (int64_t i = 0; i < lt_safetensors_count(again); i++) {
    lt_stored_tensor ours, theirs;
    lt_safetensors_entry(again, i, &ours);
    lt_safetensors_entry(f, lt_safetensors_find(f, ours.name), &theirs);
    require(ours.dtype == theirs.dtype && ours.ndim == theirs.ndim && ours.bytes == theirs.bytes, "a copy differs");
  }
  require(lt_safetensors_metadata_count(again) == lt_safetensors_metadata_count(f), "metadata was lost");
  lt_safetensors_close(again);
  lt_safetensors_close(f);
  unlink(copy);
  return 0;
}
