/* Turns columns of a frame into id columns, in place: texts by a vocabulary (each distinct text is looked up once, the
 * rows are a walk through a table), whole numbers by a range check, numbers by sorted edges. Quantiles for those edges.
 * Bucket ids: 0 padding, 1 missing (NaN), then 2 + the number of edges that are <= the value. */
#include "frame.h"
#include "vocabulary.h"

#include <math.h>
#include <stdlib.h>

static int encode_text(lt_frame *f, int32_t column, lt_vocabulary *v) {
  const lt_strings *s = f->columns[column].strings;
  int32_t *ids = malloc(((size_t)s->count + 1) * sizeof *ids);
  if (!ids) return lt_fail(LT_ERR_MEMORY, "encode: no memory for %lld values", (long long)s->count);
  for (int64_t code = 0; code < s->count; code++) {
    int64_t length;
    const char *text = lt_strings_text(s, code, &length);
    ids[code] = lt_vocabulary_id(v, text, (uint32_t)length, lt_hash_text(text, (uint64_t)length));
  }
  int64_t unknown = 0;
  for (int64_t row = 0; row < f->rows; row++) {
    int32_t *cell = (int32_t *)lt_frame_at(f, column, row);
    *cell = ids[*cell];
    unknown += *cell == LT_ID_UNKNOWN;
  }
  free(ids);
  lt_vocabulary_count(v, f->rows, unknown);
  lt_frame_set_strings(f, column, NULL);
  f->columns[column].kind = LT_COLUMN_NUMBER;
  return LT_OK;
}

int lt_frame_encode(lt_frame *f, int32_t column, lt_vocabulary *v) {
  LT_TRY(lt_frame_check_column(f, column, "encode"));
  LT_TRY(lt_frame_writable(f, "encode"));
  frame_column *c = &f->columns[column];
  if (v->kind != LT_VOCABULARY_WHOLE) {
    if (!c->strings)
      return lt_fail(LT_ERR_DTYPE, "encode: column \"%s\" holds %s, no texts; it may have been encoded before", c->name,
                     lt_dtype_name(c->dtype));
    return encode_text(f, column, v);
  }
  if (c->strings || c->dtype != LT_INT32)
    return lt_fail(LT_ERR_DTYPE, "encode: ids of \"%s\" must be an int32 column", v->name);
  for (int64_t row = 0; row < f->rows; row++) {
    int32_t id = *(const int32_t *)lt_frame_at(f, column, row);
    if (id < 0 || id >= v->buckets)
      return lt_fail(LT_ERR_RANGE, "encode: id %d of \"%s\" in row %lld; ids are 0 to %lld", id, v->name,
                     (long long)row, (long long)v->buckets - 1);
  }
  lt_vocabulary_count(v, f->rows, 0);
  return LT_OK;
}

static int check_edges(const float *edges, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (!isfinite(edges[i]) || (i > 0 && edges[i] <= edges[i - 1]))
      return lt_fail(LT_ERR_ARGUMENT, "bucketize: edge %lld is %g; edges must be finite and rise", (long long)i + 1,
                     (double)edges[i]);
  return LT_OK;
}

/* Edges <= value, by halving without branches: a mispredicted branch costs more than the steps it would save. */
static inline int32_t bucket_of(float value, const float *edges, int64_t n) {
  const float *base = edges;
  while (n > 1) {
    int64_t half = n / 2;
    base = base[half - 1] <= value ? base + half : base;
    n -= half;
  }
  return (int32_t)(base - edges) + (n == 1 && *base <= value);
}

static inline int32_t bucket_id(float value, const float *edges, int64_t n) {
  return isnan(value) ? LT_ID_UNKNOWN : LT_ID_FIRST + bucket_of(value, edges, n);
}

int lt_bucketize(const float *values, int64_t n, const float *edges, int64_t edge_count, int32_t *out) {
  LT_TRY(check_edges(edges, edge_count));
  for (int64_t i = 0; i < n; i++) out[i] = bucket_id(values[i], edges, edge_count);
  return LT_OK;
}

static int check_float(const lt_frame *f, int32_t column, const char *what) {
  LT_TRY(lt_frame_check_column(f, column, what));
  const frame_column *c = &f->columns[column];
  if (c->dtype == LT_FLOAT32) return LT_OK;
  return lt_fail(LT_ERR_DTYPE, "%s: column \"%s\" is %s; only float32 columns can be", what, c->name,
                 c->strings ? "text" : lt_dtype_name(c->dtype));
}

int lt_frame_bucketize(lt_frame *f, int32_t column, const float *edges, int64_t edge_count) {
  LT_TRY(check_float(f, column, "bucketize"));
  LT_TRY(lt_frame_writable(f, "bucketize"));
  LT_TRY(check_edges(edges, edge_count));
  for (int64_t row = 0; row < f->rows; row++) {
    char *cell = lt_frame_at(f, column, row);
    float value;
    memcpy(&value, cell, sizeof value);
    int32_t id = bucket_id(value, edges, edge_count);
    memcpy(cell, &id, sizeof id);
  }
  f->columns[column].dtype = LT_INT32;
  return LT_OK;
}

static int by_value(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* Edges at the ranks k n / buckets (k = 1 .. buckets - 1), each distinct value once and never the smallest one (its
 * bucket would be empty). NaN are left out. */
int lt_frame_quantiles(const lt_frame *f, int32_t column, const int64_t *rows, int64_t n, int32_t buckets, float *edges,
                       int64_t *edge_count) {
  LT_TRY(check_float(f, column, "quantiles"));
  if (buckets < 1) return lt_fail(LT_ERR_ARGUMENT, "quantiles: %d buckets; give 1 or more", buckets);
  if (!rows) n = f->rows;
  float *values = malloc(((size_t)n + 1) * sizeof *values);
  if (!values) return lt_fail(LT_ERR_MEMORY, "quantiles: no memory for %lld values", (long long)n);
  int64_t kept = 0, made = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t row = rows ? rows[i] : i;
    if (row < 0 || row >= f->rows) {
      free(values);
      return lt_fail(LT_ERR_RANGE, "quantiles: row %lld of a frame with %lld rows (0 to %lld)", (long long)row,
                     (long long)f->rows, (long long)f->rows - 1);
    }
    float value = *(const float *)lt_frame_at(f, column, row);
    if (!isnan(value)) values[kept++] = value;
  }
  qsort(values, (size_t)kept, sizeof *values, by_value);
  for (int64_t k = 1; k < buckets && kept > 0; k++) {
    float edge = values[(int64_t)((__int128)k * kept / buckets)];
    if (isfinite(edge) && edge > values[0] && (made == 0 || edge > edges[made - 1])) edges[made++] = edge;
  }
  free(values);
  *edge_count = made;
  return LT_OK;
}
