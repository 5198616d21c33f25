/* The engine of folds; see the header. Two walks: along a result's own elements, or, where neighbouring results lie
 * side by side in memory, across a tile of columns. Long ones are cut in pieces of fixed size, merged in order. */
#include "fold.h"
#include "elementwise.h"
#include <math.h>

enum { LANES = 8, COLUMNS = 256, ROWS = 1024, LONG = 65536 };

/* ---- steps: s is the state, x the element, c the center ---- */
#define WRAP_MUL(a, b) (int64_t)((uint64_t)(a) * (uint64_t)(b))
#define WRAP_ADD(a, b) (int64_t)((uint64_t)(a) + (uint64_t)(b))
#define LARGER(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define SMALLER(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
#define LOOPS(NAME, T, RAW, SUFFIX, START, STEP)                                                                       \
  LT_CLONES static T NAME##_along##SUFFIX(T start, const RAW *v, int64_t n, T c, double p) {                           \
    T lane[LANES];                                                                                                     \
    int64_t i = 0;                                                                                                     \
    (void)c, (void)p;                                                                                                  \
    for (int k = 0; k < LANES; k++) lane[k] = START;                                                                   \
    for (; i + LANES <= n; i += LANES)                                                                                 \
      for (int k = 0; k < LANES; k++) {                                                                                \
        const T s = lane[k], x = (T)v[i + k];                                                                          \
        lane[k] = STEP;                                                                                                \
      }                                                                                                                \
    for (int k = 0; i < n; i++, k++) {                                                                                 \
      const T s = lane[k], x = (T)v[i];                                                                                \
      lane[k] = STEP;                                                                                                  \
    }                                                                                                                  \
    for (int k = 0; k < LANES; k++) start = NAME##_merge(start, lane[k]);                                              \
    return start;                                                                                                      \
  }                                                                                                                    \
  LT_CLONES static void NAME##_across##SUFFIX(T *state, const RAW *v, int64_t n, const T *center, double p) {          \
    (void)p;                                                                                                           \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      const T s = state[i], x = (T)v[i], c = center[i];                                                                \
      (void)c;                                                                                                         \
      state[i] = STEP;                                                                                                 \
    }                                                                                                                  \
  }
#define FOLD(NAME, TYPE, T, RAW, START, STEP, MERGE)                                                                   \
  static T NAME##_merge(T a, T b) { return MERGE; }                                                                    \
  LOOPS(NAME, T, T, , START, STEP)                                                                                     \
  LOOPS(NAME, T, RAW, _raw, START, STEP)                                                                               \
  const TYPE lt_##NAME = {START, NAME##_along, NAME##_along_raw, NAME##_across, NAME##_across_raw, NAME##_merge};

FOLD(fold_sum, lt_fold, double, float, 0, s + x, a + b)
FOLD(fold_product, lt_fold, double, float, 1, s *x, a *b)
FOLD(fold_count, lt_fold, double, float, 0, s + (x != 0), a + b)
FOLD(fold_squares, lt_fold, double, float, 0, s + (x - c) * (x - c), a + b)
FOLD(fold_exponentials, lt_fold, double, float, 0, s + exp(x - c), a + b)
FOLD(fold_magnitudes, lt_fold, double, float, 0, s + fabs(x), a + b)
FOLD(fold_powers, lt_fold, double, float, 0, s + pow(fabs(x), p), a + b)
FOLD(fold_largest, lt_fold, double, float, -INFINITY, LARGER(s, x), LARGER(a, b))
FOLD(fold_smallest, lt_fold, double, float, INFINITY, SMALLER(s, x), SMALLER(a, b))
FOLD(fold_largest_magnitude, lt_fold, double, float, 0, LARGER(s, fabs(x)), LARGER(a, b))
FOLD(fold_int_sum, lt_fold_int, int64_t, int32_t, 0, WRAP_ADD(s, x), WRAP_ADD(a, b))
FOLD(fold_int_product, lt_fold_int, int64_t, int32_t, 1, WRAP_MUL(s, x), WRAP_MUL(a, b))
FOLD(fold_int_count, lt_fold_int, int64_t, int32_t, 0, s + (x != 0), a + b)
FOLD(fold_int_largest, lt_fold_int, int64_t, int32_t, INT64_MIN, x > s ? x : s, b > a ? b : a)
FOLD(fold_int_smallest, lt_fold_int, int64_t, int32_t, INT64_MAX, x < s ? x : s, b < a ? b : a)

static int64_t reduced_offset(const lt_reduction *r, int64_t i) {
  int64_t at = 0;
  for (int d = r->ndim - 1; d >= r->n_kept; d--) {
    at += i % r->shape[d] * r->stride[d];
    i /= r->shape[d];
  }
  return at;
}

/* Runs of the last reduced dim: `inner` elements `stride` apart, `runs` of them for each result. */
typedef struct walk {
  int64_t inner, stride, runs;
} walk;
static walk walk_of(const lt_reduction *r) {
  bool any = r->ndim > r->n_kept;
  walk w = {any ? r->shape[r->ndim - 1] : 1, any ? r->stride[r->ndim - 1] : 1, 0};
  w.runs = r->n_reduced ? r->n_reduced / w.inner : 0;
  return w;
}
static bool side_by_side(const lt_reduction *r) {
  int last = r->n_kept - 1;
  return r->n_kept > 0 && r->ndim > r->n_kept && r->stride[last] == 1 && r->shape[last] > 1 &&
         r->stride[r->ndim - 1] != 1;
}
static const char *address(const lt_tensor *x, int64_t offset) {
  return (const char *)x->storage->data + offset * lt_dtype_size(x->dtype);
}

#define ENGINE(NAME, T, KIND, RAW, RAW_DTYPE, FOLD_TYPE)                                                               \
  /* Pieces of a walk are whole runs, or parts of runs. */                                                             \
  static T NAME##_piece(const lt_tensor *x, const lt_reduction *r, const walk *w, const FOLD_TYPE *f, int64_t start,   \
                        int64_t first, int64_t last, T center, double p) {                                             \
    T block[LT_BLOCK], s = f->start;                                                                                   \
    bool direct = w->stride == 1 && (x->dtype == KIND || x->dtype == RAW_DTYPE);                                       \
    for (int64_t at = first, m; at < last; at += m) {                                                                  \
      int64_t in_run = at % w->inner;                                                                                  \
      m = w->inner - in_run < last - at ? w->inner - in_run : last - at;                                               \
      if (m > LT_BLOCK && !direct) m = LT_BLOCK;                                                                       \
      const char *from = address(x, start + lt_reduction_step(r, at / w->inner) + in_run * w->stride);                 \
      if (!direct) lt_load_block(block, KIND, from, x->dtype, w->stride, m);                                           \
      if (direct && x->dtype == RAW_DTYPE)                                                                             \
        s = f->along_raw(s, (const RAW *)from, m, center, p);                                                          \
      else                                                                                                             \
        s = f->along(s, direct ? (const T *)from : block, m, center, p);                                               \
    }                                                                                                                  \
    return s;                                                                                                          \
  }                                                                                                                    \
  static int NAME##_along(const lt_tensor *x, const lt_reduction *r, const FOLD_TYPE *f, const T *center, double p,    \
                          T *result) {                                                                                 \
    walk w = walk_of(r);                                                                                               \
    int64_t pieces = r->n_reduced ? (r->n_reduced + LONG - 1) / LONG : 1, tasks = r->n_out * pieces;                   \
    T *partial = pieces == 1 ? result : lt_alloc(tasks * (int64_t)sizeof *partial);                                    \
    if (!partial) return LT_ERR_MEMORY;                                                                                \
    _Pragma("omp parallel for schedule(static) num_threads(lt_threads_for(r->n_out * r->n_reduced))") for (int64_t t = \
                                                                                                               0;      \
                                                                                                           t < tasks;  \
                                                                                                           t++) {      \
      int64_t i = t / pieces, first = t % pieces * LONG;                                                               \
      int64_t last = r->n_reduced - first < LONG ? r->n_reduced : first + LONG;                                        \
      partial[t] = NAME##_piece(x, r, &w, f, lt_reduction_start(x, r, i), first, last, center ? center[i] : 0, p);     \
    }                                                                                                                  \
    if (pieces == 1) return LT_OK;                                                                                     \
    for (int64_t i = 0; i < r->n_out; i++) {                                                                           \
      result[i] = partial[i * pieces];                                                                                 \
      for (int64_t k = 1; k < pieces; k++) result[i] = f->merge(result[i], partial[i * pieces + k]);                   \
    }                                                                                                                  \
    lt_free(partial, tasks *(int64_t)sizeof *partial);                                                                 \
    return LT_OK;                                                                                                      \
  }                                                                                                                    \
  /* A tile: m neighbouring results, a piece of the reduced elements. Narrow rows that follow each other are taken     \
   * several at a time, each into states of its own. */                                                                \
  static void NAME##_tile(const lt_tensor *x, const lt_reduction *r, const FOLD_TYPE *f, int64_t start, int64_t m,     \
                          int64_t first, int64_t last, const T *center, double p, T *result) {                         \
    T block[COLUMNS], state[COLUMNS], about[COLUMNS] = {0};                                                            \
    int64_t inner = r->shape[r->ndim - 1], most = r->stride[r->ndim - 1] == m ? COLUMNS / m : 1;                       \
    for (int64_t j = 0; j < m * most; j++) state[j] = f->start, about[j] = center ? center[j % m] : 0;                 \
    for (int64_t i = first, rows; i < last; i += rows) {                                                               \
      rows = inner - i % inner < last - i ? inner - i % inner : last - i;                                              \
      if (rows > most) rows = most;                                                                                    \
      const char *from = address(x, start + reduced_offset(r, i));                                                     \
      if (x->dtype == RAW_DTYPE)                                                                                       \
        f->across_raw(state, (const RAW *)from, m *rows, about, p);                                                    \
      else if (x->dtype == KIND)                                                                                       \
        f->across(state, (const T *)from, m *rows, about, p);                                                          \
      else {                                                                                                           \
        lt_load_block(block, KIND, from, x->dtype, 1, m *rows);                                                        \
        f->across(state, block, m *rows, about, p);                                                                    \
      }                                                                                                                \
    }                                                                                                                  \
    for (int64_t k = 1; k < most; k++)                                                                                 \
      for (int64_t j = 0; j < m; j++) state[j] = f->merge(state[j], state[k * m + j]);                                 \
    memcpy(result, state, (size_t)m * sizeof *state);                                                                  \
  }                                                                                                                    \
  static int NAME##_across(const lt_tensor *x, const lt_reduction *r, const FOLD_TYPE *f, const T *center, double p,   \
                           T *result) {                                                                                \
    int64_t columns = r->shape[r->n_kept - 1], blocks = (columns + COLUMNS - 1) / COLUMNS;                             \
    int64_t outer = r->n_out / columns, pieces = (r->n_reduced + ROWS - 1) / ROWS, tasks = outer * blocks * pieces;    \
    T *partial = pieces == 1 ? result : lt_alloc(pieces * r->n_out * (int64_t)sizeof *partial);                        \
    if (!partial) return LT_ERR_MEMORY;                                                                                \
    _Pragma("omp parallel for schedule(static) num_threads(lt_threads_for(r->n_out * r->n_reduced))") for (int64_t t = \
                                                                                                               0;      \
                                                                                                           t < tasks;  \
                                                                                                           t++) {      \
      int64_t piece = t / (outer * blocks), tile = t % (outer * blocks), column = tile % blocks * COLUMNS;             \
      int64_t m = columns - column < COLUMNS ? columns - column : COLUMNS, i = tile / blocks * columns + column;       \
      int64_t first = piece * ROWS, last = r->n_reduced - first < ROWS ? r->n_reduced : first + ROWS;                  \
      NAME##_tile(x, r, f, lt_reduction_start(x, r, i), m, first, last, center ? center + i : NULL, p,                 \
                  partial + piece * r->n_out + i);                                                                     \
    }                                                                                                                  \
    if (pieces == 1) return LT_OK;                                                                                     \
    for (int64_t i = 0; i < r->n_out; i++) {                                                                           \
      result[i] = partial[i];                                                                                          \
      for (int64_t k = 1; k < pieces; k++) result[i] = f->merge(result[i], partial[k * r->n_out + i]);                 \
    }                                                                                                                  \
    lt_free(partial, pieces * r->n_out * (int64_t)sizeof *partial);                                                    \
    return LT_OK;                                                                                                      \
  }
ENGINE(real, double, LT_FLOAT64, float, LT_FLOAT32, lt_fold)
ENGINE(whole, int64_t, LT_INT64, int32_t, LT_INT32, lt_fold_int)

int lt_fold_run(const lt_tensor *x, const lt_reduction *r, const lt_fold *f, const double *center, double p,
                double *result) {
  if (r->n_out == 0) return LT_OK;
  if (r->n_reduced && side_by_side(r)) return real_across(x, r, f, center, p, result);
  return real_along(x, r, f, center, p, result);
}
int lt_fold_run_int(const lt_tensor *x, const lt_reduction *r, const lt_fold_int *f, int64_t *result) {
  if (r->n_out == 0) return LT_OK;
  if (r->n_reduced && side_by_side(r)) return whole_across(x, r, f, NULL, 0, result);
  return whole_along(x, r, f, NULL, 0, result);
}

static void put(const lt_args *c, int k, const void *from, int kind) {
  const lt_tensor *o = c->out[k];
  int64_t size = lt_dtype_size(o->dtype), inner = o->ndim ? o->shape[o->ndim - 1] : 1,
          stride = o->ndim ? o->stride[o->ndim - 1] : 1;
  bool flat = lt_tensor_is_contiguous(o);
  if (flat) inner = o->n, stride = 1;
  for (int64_t at = 0, m; at < o->n; at += m) { /* a block stays within a run of the last dim */
    m = inner - at % inner < LT_BLOCK ? inner - at % inner : LT_BLOCK;
    char *to = (char *)lt_ptr(o) + (flat ? at : lt_offset_of(o, at)) * size;
    lt_store_block(to, o->dtype, stride, (const char *)from + at * 8, kind, m);
  }
}
void lt_put_doubles(const lt_args *c, int k, const double *from) { put(c, k, from, LT_FLOAT64); }
void lt_put_ints(const lt_args *c, int k, const int64_t *from) { put(c, k, from, LT_INT64); }
