/* idx files, the form MNIST comes in: 00 00 type ndim, big-endian sizes, big-endian data. Read whole, packed or not,
 * into native byte order. int8 and int16, which tensors don't have, widen to int32. Memory grows with what the file
 * really holds, never with what its header claims. */
#include "buffer.h"
#include "stream.h"

#include <stdio.h>
#include <string.h>

enum { PIECE = 1 << 20, MAX_NDIM = 8 };

typedef struct idx {
  const char *path;
  lt_stream *stream;
  int32_t type, ndim;
  int64_t shape[MAX_NDIM], count, size; /* elements, bytes an element in the file */
  char shape_text[MAX_NDIM * 12];
} idx;

static int read_some(idx *x, void *out, int64_t want, int64_t *got) {
  *got = 0;
  while (*got < want) {
    int64_t n;
    int status = lt_stream_read(x->stream, (char *)out + *got, want - *got, &n);
    if (status < 0) return lt_fail_in(status, "idx");
    if (n == 0) break;
    *got += n;
  }
  return LT_OK;
}

static int check_magic(const idx *x, const unsigned char *head, int64_t got) {
  if (got == 0) return lt_fail(LT_ERR_FORMAT, "idx: %s is empty", x->path);
  if (got < 4)
    return lt_fail(LT_ERR_FORMAT, "idx: %s has %lld bytes; an idx file has 8 or more", x->path, (long long)got);
  if (head[0] || head[1])
    return lt_fail(LT_ERR_FORMAT, "idx: %s begins with bytes %02x %02x %02x %02x; an idx file begins with 00 00",
                   x->path, head[0], head[1], head[2], head[3]);
  if (head[3] < 1 || head[3] > MAX_NDIM)
    return lt_fail(LT_ERR_FORMAT, "idx: %s has %d dimensions; 1 to %d are possible", x->path, head[3], MAX_NDIM);
  return LT_OK;
}

static int element_type(idx *x, int32_t type, int32_t *dtype) {
  switch (type) {
  case 0x08: x->size = 1, *dtype = LT_UINT8; return LT_OK;
  case 0x09: x->size = 1, *dtype = LT_INT32; return LT_OK;
  case 0x0b: x->size = 2, *dtype = LT_INT32; return LT_OK;
  case 0x0c: x->size = 4, *dtype = LT_INT32; return LT_OK;
  case 0x0d: x->size = 4, *dtype = LT_FLOAT32; return LT_OK;
  case 0x0e: x->size = 8, *dtype = LT_FLOAT64; return LT_OK;
  }
  return lt_fail(LT_ERR_FORMAT, "idx: %s has elements of type 0x%02x; known are 08 09 0b 0c 0d 0e", x->path, type);
}

static int read_header(idx *x, int32_t *dtype) {
  unsigned char head[4], sizes[4 * MAX_NDIM];
  int64_t got;
  LT_TRY(read_some(x, head, 4, &got));
  LT_TRY(check_magic(x, head, got));
  x->type = head[2], x->ndim = head[3];
  LT_TRY(element_type(x, head[2], dtype));
  LT_TRY(read_some(x, sizes, 4 * x->ndim, &got));
  if (got < 4 * x->ndim)
    return lt_fail(LT_ERR_FORMAT, "idx: %s ends inside its header; %d dimensions need %d bytes, it has %lld", x->path,
                   x->ndim, 4 + 4 * x->ndim, (long long)got + 4);
  x->count = 1;
  for (int i = 0, at = 0; i < x->ndim; i++) {
    const unsigned char *p = sizes + 4 * i;
    x->shape[i] = (int64_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
    at += snprintf(x->shape_text + at, sizeof x->shape_text - (size_t)at, "%s%lld", i ? ", " : "",
                   (long long)x->shape[i]);
    if (x->shape[i] && x->count > INT64_MAX / 64 / x->shape[i])
      return lt_fail(LT_ERR_FORMAT, "idx: %s claims [%s, ...], more than any memory holds", x->path, x->shape_text);
    x->count *= x->shape[i];
  }
  return LT_OK;
}

static int read_data(idx *x, lt_buffer *b) {
  int64_t need = x->count * x->size, have = 0, got = 0;
  while (have < need) {
    int64_t piece = need - have < PIECE ? need - have : PIECE;
    LT_TRY(lt_buffer_resize(b, have + piece));
    LT_TRY(read_some(x, (char *)b->data + have, piece, &got));
    have += got;
    if (got < piece)
      return lt_fail(LT_ERR_FORMAT, "idx: %s is truncated; [%s] needs %lld bytes of data, it has %lld", x->path,
                     x->shape_text, (long long)need, (long long)have);
    if (lt_interrupted()) return lt_fail(LT_ERR_INTERRUPT, "idx: interrupted");
  }
  char extra;
  LT_TRY(read_some(x, &extra, 1, &got));
  if (got) return lt_fail(LT_ERR_FORMAT, "idx: %s has bytes behind the data of [%s]", x->path, x->shape_text);
  return LT_OK;
}

static void swap_bytes(void *data, int64_t count, int64_t size) {
  if (size == 2)
    for (int64_t i = 0; i < count; i++) ((uint16_t *)data)[i] = __builtin_bswap16(((uint16_t *)data)[i]);
  if (size == 4)
    for (int64_t i = 0; i < count; i++) ((uint32_t *)data)[i] = __builtin_bswap32(((uint32_t *)data)[i]);
  if (size == 8)
    for (int64_t i = 0; i < count; i++) ((uint64_t *)data)[i] = __builtin_bswap64(((uint64_t *)data)[i]);
}

/* int8 or int16 to int32 in place, from the end: the wide element never overwrites a narrow one not yet read. */
static int widen(const idx *x, lt_buffer *b) {
  LT_TRY(lt_buffer_resize(b, x->count * 4));
  int32_t *wide = b->data;
  if (x->size == 1)
    for (int64_t i = x->count - 1; i >= 0; i--) wide[i] = ((const int8_t *)b->data)[i];
  else
    for (int64_t i = x->count - 1; i >= 0; i--) {
      int16_t narrow;
      memcpy(&narrow, (const char *)b->data + 2 * i, 2);
      wide[i] = narrow;
    }
  return LT_OK;
}

static int read_idx(idx *x, int32_t *dtype, lt_buffer *b) {
  LT_TRY(read_header(x, dtype));
  LT_TRY(read_data(x, b));
  swap_bytes(b->data, x->count, x->size);
  return *dtype == LT_INT32 && x->size < 4 ? widen(x, b) : LT_OK;
}

int lt_idx_read(const char *path, int32_t *dtype, int32_t *ndim, int64_t *shape, lt_buffer **out) {
  idx x = {.path = path};
  lt_buffer *b;
  int status = lt_stream_open(path, &x.stream);
  if (status < 0) return lt_fail_in(status, "idx");
  status = lt_buffer_new(0, &b);
  if (status == LT_OK) {
    status = read_idx(&x, dtype, b);
    if (status < 0) lt_buffer_release(b);
  }
  lt_stream_close(x.stream);
  LT_TRY(status);
  *ndim = x.ndim;
  memcpy(shape, x.shape, sizeof x.shape);
  *out = b;
  return LT_OK;
}
