/* The walk over lines and the loops on them; see the header. */
#include "line.h"
#include "vector_math.h"
#include <omp.h>

enum { MOST = LT_LINE_MOST, CHUNK = 16384 };

void lt_load_line(void *out, int kind, const void *in, int dtype, int64_t stride, int64_t n) {
  int64_t to = kind == LT_FLOAT32 ? 4 : 8, from = stride * lt_dtype_size(dtype);
  for (int64_t at = 0, m; at < n; at += m) {
    m = n - at < LT_BLOCK ? n - at : LT_BLOCK;
    lt_load_block((char *)out + at * to, kind, (const char *)in + at * from, dtype, stride, m);
  }
}
void lt_store_line(void *out, int dtype, int64_t stride, const void *in, int kind, int64_t n) {
  int64_t from = kind == LT_FLOAT32 ? 4 : 8, to = stride * lt_dtype_size(dtype);
  for (int64_t at = 0, m; at < n; at += m) {
    m = n - at < LT_BLOCK ? n - at : LT_BLOCK;
    lt_store_block((char *)out + at * to, dtype, stride, (const char *)in + at * from, kind, m);
  }
}

int lt_line_dim(const lt_args *c, int64_t *dim) {
  int64_t d = c->attr->i[0], ndim = c->in[0]->ndim;
  if (d < 0 || d >= (ndim ? ndim : 1))
    return lt_fail(LT_ERR_RANGE, "%s: dim %lld; the tensor is %s, so dims are 1 to %lld or -%lld to -1", c->op->name,
                   (long long)d + 1, lt_shape_text(c->in[0]), (long long)ndim, (long long)ndim);
  *dim = d;
  return LT_OK;
}

typedef struct side { /* one operand; 0 is the output */
  const lt_tensor *t;
  int64_t size, stride; /* bytes an element; elements along the line */
  int staged;           /* number of its scratch line, or -1: lines are read and written where they are */
} side;
typedef struct walk {
  side side[MOST + 1];
  int n_in, kind, ndim, n_staged;
  int64_t n, lines, shape[LT_MAX_DIMS], stride[MOST + 1][LT_MAX_DIMS]; /* of the dims other than the line's */
  lt_line f;
  const void *context;
} walk;

static void run_lines(const walk *w, int64_t first, int64_t last, char *scratch) {
  int64_t at[LT_MAX_DIMS], offset[MOST + 1], line_bytes = w->n * (w->kind == LT_FLOAT32 ? 4 : 8), rest = first;
  for (int k = 0; k <= w->n_in; k++) offset[k] = 0;
  for (int d = w->ndim - 1; d >= 0; d--) {
    at[d] = rest % w->shape[d];
    rest /= w->shape[d];
    for (int k = 0; k <= w->n_in; k++) offset[k] += at[d] * w->stride[k][d];
  }
  for (int64_t line = first; line < last; line++) {
    const void *in[MOST];
    char *out = NULL;
    for (int k = 0; k <= w->n_in; k++) {
      const side *s = &w->side[k];
      if (!s->t) continue;
      char *data = (char *)lt_ptr(s->t) + offset[k] * s->size,
           *stage = s->staged >= 0 ? scratch + s->staged * line_bytes : NULL;
      if (s->staged >= 0 && k) lt_load_line(stage, w->kind, data, s->t->dtype, s->stride, w->n);
      if (k)
        in[k - 1] = s->staged >= 0 ? stage : data;
      else
        out = s->staged >= 0 ? stage : data;
    }
    w->f(line, w->n, out, in, w->context);
    const side *o = &w->side[0];
    if (o->t && o->staged >= 0)
      lt_store_line((char *)lt_ptr(o->t) + offset[0] * o->size, o->t->dtype, o->stride, out, w->kind, w->n);
    for (int d = w->ndim - 1; d >= 0; d--) { /* to the next line */
      for (int k = 0; k <= w->n_in; k++) offset[k] += w->stride[k][d];
      if (++at[d] < w->shape[d]) break;
      for (int k = 0; k <= w->n_in; k++) offset[k] -= at[d] * w->stride[k][d];
      at[d] = 0;
    }
  }
}

int64_t lt_line_chunk(int64_t n) { return n < CHUNK ? CHUNK / (n ? n : 1) : 1; }
lt_tensor lt_flat(const lt_tensor *t, int64_t n) {
  lt_tensor flat = *t;
  flat.ndim = 2;
  flat.shape[0] = n ? t->n / n : 0;
  flat.shape[1] = n;
  flat.stride[0] = n;
  flat.stride[1] = 1;
  return flat;
}

int lt_lines_run(const lt_lines *l) {
  const lt_tensor *first = l->out ? l->out : l->in[0];
  walk w = {.n_in = l->n_in,
            .kind = l->kind,
            .n = first->ndim ? first->shape[l->dim] : 1,
            .lines = 1,
            .f = l->f,
            .context = l->context};
  if (first->n == 0) return LT_OK;
  for (int d = 0; d < first->ndim; d++)
    if (d != l->dim) w.shape[w.ndim++] = first->shape[d], w.lines *= first->shape[d];
  for (int k = 0; k <= l->n_in; k++) {
    const lt_tensor *t = k ? l->in[k - 1] : l->out;
    if (!t) continue;
    int64_t stride = t->ndim && w.n > 1 ? t->stride[l->dim] : 1;
    w.side[k] = (side){t, lt_dtype_size(t->dtype), stride, t->dtype == l->kind && stride == 1 ? -1 : w.n_staged++};
    for (int d = 0, to = 0; d < t->ndim; d++)
      if (d != l->dim) w.stride[k][to++] = t->stride[d];
  }
  int64_t per = l->chunk ? l->chunk : lt_line_chunk(w.n), chunks = (w.lines + per - 1) / per;
  int threads = chunks > 1 ? lt_threads_for(first->n) : 1;
  int64_t own = w.n_staged * w.n * (l->kind == LT_FLOAT32 ? 4 : 8), bytes = own * threads;
  char *scratch = bytes ? lt_alloc(bytes) : NULL;
  if (bytes && !scratch) return LT_ERR_MEMORY;
  if (threads == 1)
    run_lines(&w, 0, w.lines, scratch);
  else {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < chunks; i++)
      run_lines(&w, i * per, (i + 1) * per < w.lines ? (i + 1) * per : w.lines, scratch + own * omp_get_thread_num());
  }
  if (bytes) lt_free(scratch, bytes);
  return LT_OK;
}

/* ---- loops: vector sums within a block, blocks added in double ---- */
#ifdef __clang__ /* vectorises a maximum only when NaN is excluded, and warns */
#define SIMD_MAX
#else
#define SIMD_MAX _Pragma("omp simd reduction(max : best)")
#endif
#define LOOPS(T, S, EXP)                                                                                               \
  LT_CLONES T lt_line_max_##S(const T *v, int64_t n) { /* NaN may be missed: e^(NaN - max) tells of it anyway */       \
    T best = -INFINITY;                                                                                                \
    SIMD_MAX for (int64_t i = 0; i < n; i++) best = v[i] > best ? v[i] : best;                                         \
    return best;                                                                                                       \
  }                                                                                                                    \
  LT_CLONES static void exp_block_##S(T *out, const T *v, T shift, int64_t n) {                                        \
    _Pragma("omp simd") for (int64_t i = 0; i < n; i++) out[i] = EXP(v[i] - shift);                                    \
  }                                                                                                                    \
  LT_CLONES static T sum_block_##S(const T *v, int64_t n) {                                                            \
    T sum = 0;                                                                                                         \
    _Pragma("omp simd reduction(+ : sum)") for (int64_t i = 0; i < n; i++) sum += v[i];                                \
    return sum;                                                                                                        \
  }                                                                                                                    \
  LT_CLONES static T squares_block_##S(const T *v, T shift, int64_t n) {                                               \
    T sum = 0;                                                                                                         \
    _Pragma("omp simd reduction(+ : sum)") for (int64_t i = 0; i < n; i++) sum += (v[i] - shift) * (v[i] - shift);     \
    return sum;                                                                                                        \
  }                                                                                                                    \
  LT_CLONES static T dot_block_##S(const T *a, const T *b, int64_t n) {                                                \
    T sum = 0;                                                                                                         \
    _Pragma("omp simd reduction(+ : sum)") for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];                         \
    return sum;                                                                                                        \
  }                                                                                                                    \
  double lt_line_exp_##S(T *out, const T *v, T shift, int64_t n) {                                                     \
    BLOCKS(exp_block_##S(out + at, v + at, shift, m), sum_block_##S(out + at, m))                                      \
  }                                                                                                                    \
  double lt_line_sum_exp_##S(const T *v, T shift, int64_t n) {                                                         \
    T e[LT_BLOCK];                                                                                                     \
    BLOCKS(exp_block_##S(e, v + at, shift, m), sum_block_##S(e, m))                                                    \
  }                                                                                                                    \
  double lt_line_sum_##S(const T *v, int64_t n) { BLOCKS((void)0, sum_block_##S(v + at, m)) }                          \
  double lt_line_squares_##S(const T *v, T shift, int64_t n) { BLOCKS((void)0, squares_block_##S(v + at, shift, m)) }  \
  double lt_line_dot_##S(const T *a, const T *b, int64_t n) { BLOCKS((void)0, dot_block_##S(a + at, b + at, m)) }
#define BLOCKS(PREPARE, TERM)                                                                                          \
  double total = 0;                                                                                                    \
  for (int64_t at = 0, m; at < n; at += m) {                                                                           \
    m = n - at < LT_BLOCK ? n - at : LT_BLOCK;                                                                         \
    PREPARE;                                                                                                           \
    total += (double)TERM;                                                                                             \
  }                                                                                                                    \
  return total;
LOOPS(float, f32, lt_exp_f32)
LOOPS(double, f64, exp)
