// sources: core/error.c core/dtype.c core/file.c core/atomic_file.c core/data/npy.c
// libraries: -lm
/* Any bytes as a npy file: either refused with a message, or its array can be read, and written again where we have its
 * type, with the same values after. */
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static char path[64], copy[64];
  static int fd = -1;
  if (fd < 0) {
    fd = memfd_create("fuzz", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    snprintf(copy, sizeof copy, "/dev/shm/ltrain-fuzz-%d.npy", (int)getpid());
  }
  require(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size, "memfd");
  lt_npy *f, *again;
  int status = lt_npy_open(path, &f);
  require(status == 0 || strncmp(lt_last_error(), path, strlen(path)) == 0, "a message without the path");
  if (status < 0) return 0;
  lt_npy_header h, other;
  lt_npy_info(f, &h);
  require(h.bytes >= 0 && h.bytes <= 8 * (int64_t)size, "more bytes than the file can hold");
  char *bytes = malloc((size_t)h.bytes + 1), *back = malloc((size_t)h.bytes + 1);
  if (lt_npy_read(f, bytes, h.bytes) == 0) {
    require(lt_npy_write(copy, h.dtype, h.ndim, h.shape, bytes) == 0, "write");
    require(lt_npy_open(copy, &again) == 0, "what was written cannot be read");
    lt_npy_info(again, &other);
    require(other.dtype == h.dtype && other.ndim == h.ndim && other.bytes == h.bytes, "the copy differs");
    require(memcmp(other.shape, h.shape, sizeof(int64_t) * (size_t)h.ndim) == 0, "the copy's shape differs");
    require(lt_npy_read(again, back, h.bytes) == 0 && memcmp(bytes, back, (size_t)h.bytes) == 0,
            "the copy's values differ");
    lt_npy_close(again);
    unlink(copy);
  }
  free(bytes);
  free(back);
  lt_npy_close(f);
  return 0;
}
