/* Copies rows of a frame to contiguous [rows, width] output. Neighbouring columns of the record are one memcpy, and
 * records ahead are prefetched: in shuffled order every row is a cache miss, and this hides most of it. */
#include "frame.h"

#include <stdlib.h>

enum { AHEAD = 8 };

int lt_gather_plan(const lt_frame *f, const int32_t *columns, int32_t width, const char *what, lt_gather *out) {
  *out = (lt_gather){0};
  if (width < 1) return lt_fail(LT_ERR_ARGUMENT, "%s: no columns; name at least one", what);
  for (int32_t i = 0; i < width; i++) {
    LT_TRY(lt_frame_check_column(f, columns[i], what));
    const frame_column *c = &f->columns[columns[i]], *first = &f->columns[columns[0]];
    if (c->strings)
      return lt_fail(LT_ERR_DTYPE, "%s: column \"%s\" is text without ids; encode it with a vocabulary first", what,
                     c->name);
    if (c->dtype != first->dtype)
      return lt_fail(LT_ERR_DTYPE, "%s: column \"%s\" is %s and \"%s\" is %s; the columns of one part need one dtype",
                     what, first->name, lt_dtype_name(first->dtype), c->name, lt_dtype_name(c->dtype));
  }
  lt_piece *piece = calloc((size_t)width, sizeof *piece);
  if (!piece) return lt_fail(LT_ERR_MEMORY, "%s: no memory for %d columns", what, width);
  int64_t size = lt_dtype_size(f->columns[columns[0]].dtype);
  int32_t n = 0;
  for (int32_t i = 0; i < width; i++) {
    int64_t from = f->columns[columns[i]].offset;
    if (n > 0 && piece[n - 1].from + piece[n - 1].bytes == from)
      piece[n - 1].bytes += size;
    else
      piece[n++] = (lt_piece){.from = from, .to = i * size, .bytes = size};
  }
  *out = (lt_gather){
      .dtype = f->columns[columns[0]].dtype, .width = width, .row_bytes = width * size, .pieces = n, .piece = piece};
  return LT_OK;
}

void lt_gather_free(lt_gather *g) {
  free(g->piece);
  g->piece = NULL;
}

void lt_gather_rows(const lt_gather *g, const lt_frame *f, const int64_t *rows, int64_t n, char *out) {
  const char *records = f->records->data;
  for (int64_t i = 0; i < n; i++, out += g->row_bytes) {
    if (i + AHEAD < n) {
      const char *ahead = records + rows[i + AHEAD] * f->stride;
      for (int64_t at = 0; at < f->stride && at < 256; at += 64) __builtin_prefetch(ahead + at);
    }
    const char *record = records + rows[i] * f->stride;
    for (int32_t k = 0; k < g->pieces; k++)
      memcpy(out + g->piece[k].to, record + g->piece[k].from, (size_t)g->piece[k].bytes);
  }
}

int lt_frame_gather(const lt_frame *f, const int64_t *rows, int64_t n, const int32_t *columns, int32_t width,
                    void *out) {
  lt_gather g;
  for (int64_t i = 0; i < n; i++)
    if (rows[i] < 0 || rows[i] >= f->rows)
      return lt_fail(LT_ERR_RANGE, "frame gather: row %lld of a frame with %lld rows (0 to %lld)", (long long)rows[i],
                     (long long)f->rows, (long long)f->rows - 1);
  LT_TRY(lt_gather_plan(f, columns, width, "frame gather", &g));
  lt_gather_rows(&g, f, rows, n, out);
  lt_gather_free(&g);
  return LT_OK;
}
