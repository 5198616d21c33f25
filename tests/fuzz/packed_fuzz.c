// sources: core/error.c core/interrupt.c core/dtype.c core/data/buffer.c core/data/gzip.c core/data/idx.c
// sources: core/data/number.c core/data/stream.c core/data/strings.c core/data/unpack.c core/data/vocabulary.c
// sources: core/data/vocabulary_text.c core/data/frame.c
// libraries: -lisal -larchive -lz -lm
/* The first byte says what the rest is: a gzip file, held against zlib; a text to be packed by zlib, damaged in one
 * byte or cut, and unpacked by us; an idx file; a saved vocabulary, which must come out as it went in. */
#include "ltrain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROOM = 1 << 20 };

static void require(bool held, const char *what) {
  if (held) return;
  fprintf(stderr, "%s: %s\n", what, lt_last_error());
  abort();
}

static const char *write_file(const uint8_t *data, size_t size) {
  static char path[64];
  static int fd = -1;
  if (fd < 0) {
    fd = memfd_create("fuzz", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  }
  require(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size, "memfd");
  return path;
}

/* Bytes of text, or -1 for a refusal. */
static int64_t ours(const uint8_t *data, size_t size, int64_t piece, uint8_t *out) {
  const char *path = write_file(data, size);
  lt_stream *s;
  int64_t n = 0, got = 0;
  int status = lt_stream_open(path, &s);
  require(status == 0 || strncmp(lt_last_error(), path, strlen(path)) == 0, "a message without the path");
  if (status < 0) return -1;
  do {
    int64_t room = ROOM - n < piece ? ROOM - n : piece;
    status = lt_stream_read(s, out + n, room, &got);
    require(status == 0 || strncmp(lt_last_error(), path, strlen(path)) == 0, "a message without the path");
    n += got;
  } while (status == 0 && got > 0 && n < ROOM);
  lt_stream_close(s);
  return status < 0 ? -1 : n;
}

/* The same by zlib: members one after another, then nothing but zeros. */
static int64_t theirs(const uint8_t *data, size_t size, uint8_t *out) {
  int64_t n = 0;
  size_t at = 0;
  do {
    z_stream z = {.next_in = (uint8_t *)data + at,
                  .avail_in = (uInt)(size - at),
                  .next_out = out + n,
                  .avail_out = (uInt)(ROOM - n)};
    require(inflateInit2(&z, 16 + MAX_WBITS) == Z_OK, "zlib");
    int status = inflate(&z, Z_FINISH);
    at += z.total_in, n += (int64_t)z.total_out;
    inflateEnd(&z);
    if (status != Z_STREAM_END) return z.avail_out == 0 ? ROOM : -1;
  } while (at < size && data[at] == 0x1f);
  for (; at < size; at++)
    if (data[at] != 0) return -1;
  return n;
}

static void compare_gzip(const uint8_t *data, size_t size) {
  static uint8_t a[ROOM], b[ROOM];
  if (size < 2 || data[0] != 0x1f || data[1] != 0x8b) return;
  int64_t n = theirs(data, size, a);
  if (n == ROOM) return; /* too big to hold */
  require(ours(data, size, 1 + (int64_t)(size % 5000), b) == n, "zlib judges otherwise");
  require(n < 0 || memcmp(a, b, (size_t)n) == 0, "zlib reads another text");
}

static void damage_gzip(const uint8_t *data, size_t size) {
  static uint8_t packed[ROOM];
  if (size < 4 || size > ROOM / 4) return;
  z_stream z = {.next_in = (uint8_t *)data + 4, .avail_in = (uInt)size - 4, .next_out = packed, .avail_out = ROOM};
  require(deflateInit2(&z, data[0] % 10, Z_DEFLATED, 16 + MAX_WBITS, 8, data[0] % 5) == Z_OK, "deflateInit");
  require(deflate(&z, Z_FINISH) == Z_STREAM_END, "deflate");
  size_t n = z.total_out, at = (size_t)(data[1] << 8 | data[2]) % n;
  deflateEnd(&z);
  if (data[3] & 1) packed[at] ^= data[3];
  if (data[3] & 2) n = at;
  compare_gzip(packed, n);
}

static void read_idx(const uint8_t *data, size_t size) {
  int32_t dtype, ndim;
  int64_t shape[8], count = 1;
  lt_buffer *b;
  int status = lt_idx_read(write_file(data, size), &dtype, &ndim, shape, &b);
  require(status == 0 || strncmp(lt_last_error(), "idx: /proc", 10) == 0, "a message without the path");
  if (status < 0) return;
  for (int i = 0; i < ndim; i++) count *= shape[i];
  require(lt_buffer_bytes(b) == count * lt_dtype_size(dtype), "size and shape differ");
  lt_buffer_release(b);
}

static void load_vocabulary(const uint8_t *data, size_t size) {
  lt_vocabulary *v, *again;
  lt_buffer *a, *b;
  if (lt_vocabulary_load((const char *)data, (int64_t)size, &v) < 0) return;
  require(lt_vocabulary_save(v, &a) == 0, "save");
  require(lt_vocabulary_load(lt_buffer_data(a), lt_buffer_bytes(a), &again) == 0, "what was saved cannot be loaded");
  require(lt_vocabulary_save(again, &b) == 0, "save again");
  require(lt_buffer_bytes(a) == lt_buffer_bytes(b), "the saved sizes differ");
  require(memcmp(lt_buffer_data(a), lt_buffer_data(b), (size_t)lt_buffer_bytes(a)) == 0, "the saved texts differ");
  lt_buffer_release(a), lt_buffer_release(b);
  lt_vocabulary_release(v), lt_vocabulary_release(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  switch (data[0] & 3) {
  case 0: compare_gzip(data + 1, size - 1); break;
  case 1: damage_gzip(data + 1, size - 1); break;
  case 2: read_idx(data + 1, size - 1); break;
  case 3: load_vocabulary(data + 1, size - 1); break;
  }
  return 0;
}
