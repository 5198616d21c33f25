/* Rates of matrix products, for benchmarks: ours, and oneDNN's with b as it lies or packed before. They set the
 * yardstick of a model's speed, so oneDNN runs as well as it can: on all threads, its packing not counted. */
#include "onednn.h"
#include "tensor.h"

#include <stdlib.h>

typedef struct trial {
  lt_gemm g;
  onednn_product *product; /* NULL: ours */
  void *packed, *scratch;
  int64_t bytes[5]; /* a, b, c, packed, scratch */
} trial;

static void *new_matrix(int dtype, int64_t elements, int64_t *bytes) {
  *bytes = elements * lt_dtype_size(dtype);
  void *data = lt_alloc(*bytes);
  for (int64_t i = 0; data && i < elements; i++)
    lt_store_double(data, dtype, i, (double)(i * 7919 % 1999 - 999) / 1000);
  return data;
}

static int prepare(trial *t, int how, int dtype, bool a_transposed, bool b_transposed) {
  lt_gemm *g = &t->g;
  g->dtype = g->c_dtype = dtype;
  g->batch = 1;
  g->a_row = a_transposed ? 1 : g->k, g->a_col = a_transposed ? g->m : 1;
  g->b_row = b_transposed ? 1 : g->n, g->b_col = b_transposed ? g->k : 1;
  g->c_row = g->n;
  g->a = new_matrix(dtype, g->m * g->k, &t->bytes[0]);
  g->b = new_matrix(dtype, g->k * g->n, &t->bytes[1]);
  g->c = new_matrix(dtype, g->m * g->n, &t->bytes[2]);
  if (!g->a || !g->b || !g->c) return LT_ERR_MEMORY;
  if (how == LT_RATE_OURS) return LT_OK;
  onednn_shape s = {.dtype = dtype,
                    .c_dtype = dtype,
                    .bias_dtype = -1,
                    .m = g->m,
                    .n = g->n,
                    .k = g->k,
                    .a_row = g->a_row,
                    .a_col = g->a_col,
                    .b_row = g->b_row,
                    .b_col = g->b_col,
                    .c_row = g->c_row,
                    .packed = how == LT_RATE_ONEDNN_PACKED,
                    .threads = lt_threads()};
  LT_TRY(onednn_get(&s, NULL, &t->product));
  t->bytes[3] = onednn_packed_bytes(t->product);
  t->bytes[4] = onednn_scratch_bytes(t->product);
  if (t->bytes[3] && !(t->packed = lt_alloc(t->bytes[3]))) return LT_ERR_MEMORY;
  if (t->bytes[4] && !(t->scratch = lt_alloc(t->bytes[4]))) return LT_ERR_MEMORY;
  return t->packed ? onednn_pack(t->product, g->b, t->packed) : LT_OK;
}

static int run_once(const trial *t) {
  if (!t->product) return lt_gemm_run(&t->g);
  return onednn_run(t->product, t->g.a, t->packed ? t->packed : t->g.b, NULL, t->g.c, t->scratch);
}

static int by_value(const void *x, const void *y) {
  double a = *(const double *)x, b = *(const double *)y;
  return a < b ? -1 : a > b;
}

/* The median time of one product over about `seconds`; small products are timed in groups of a millisecond. */
static int measure(const trial *t, double seconds, double *out) {
  enum { MOST = 4096 };
  static _Thread_local double times[MOST];
  double start = lt_clock(), once;
  int count = 0, group = 1;
  for (int i = 0; i < 2; i++) LT_TRY(run_once(t)); /* the first warms the caches and wakes the threads */
  once = (lt_clock() - start) / 2;
  if (once < 1e-3) group = (int)(1e-3 / (once > 1e-8 ? once : 1e-8)) + 1;
  start = lt_clock();
  do {
    double from = lt_clock();
    for (int i = 0; i < group; i++) LT_TRY(run_once(t));
    times[count++] = (lt_clock() - from) / group;
  } while (count < MOST && lt_clock() - start < seconds);
  qsort(times, (size_t)count, sizeof *times, by_value);
  *out = times[count / 2];
  return LT_OK;
}

int lt_gemm_rate(int how, int dtype, int64_t m, int64_t n, int64_t k, bool a_transposed, bool b_transposed,
                 double seconds, double *out) {
  bool ours = how == LT_RATE_OURS;
  if (m < 1 || n < 1 || k < 1)
    return lt_fail(LT_ERR_SHAPE, "gemm_rate: m, n, k are %lld, %lld, %lld; each must be at least 1", (long long)m,
                   (long long)n, (long long)k);
  if (how < LT_RATE_OURS || how > LT_RATE_ONEDNN_PACKED)
    return lt_fail(LT_ERR_ARGUMENT, "gemm_rate: there is no way number %d; the ways are 0 to 2", how);
  if (dtype != LT_FLOAT32 && dtype != LT_BFLOAT16 && !(ours && lt_is_float(dtype)))
    return lt_fail(LT_ERR_DTYPE, "gemm_rate: %s; oneDNN multiplies float32 and bfloat16", lt_dtype_name(dtype));
  trial t = {.g = {.m = m, .n = n, .k = k}};
  double time = 0;
  int status = prepare(&t, how, dtype, a_transposed, b_transposed);
  if (status >= 0) status = measure(&t, seconds, &time);
  *out = status >= 0 ? 2.0 * (double)m * (double)n * (double)k / time : 0;
  onednn_release(t.product);
  void *blocks[] = {(void *)(uintptr_t)t.g.a, (void *)(uintptr_t)t.g.b, t.g.c, t.packed, t.scratch};
  for (int i = 0; i < 5; i++) lt_free(blocks[i], t.bytes[i]);
  return status;
}
