/* The norm of all gradients together, for clipping: squares added in double, in chunks of fixed size whose sums are
 * added in order, so that neither threads nor the way tensors share the work show in it. */
#include "step.h"
#include <math.h>

enum { CHUNK = 8192 };
typedef struct part {
  lt_tensor *t;
  int64_t first;
} part; /* its chunks begin at `first` */

static int take_parts(const lt_handle *const *grads, int n, part *parts) {
  int64_t chunks = 0;
  for (int i = 0; i < n; i++) {
    lt_tensor *g;
    LT_TRY(lt_resolve(grads[i], &g));
    if (g->dtype != LT_FLOAT32 && g->dtype != LT_FLOAT64)
      return lt_fail(LT_ERR_DTYPE, "grad_norm: gradient %d is %s; it must be float32 or float64", i + 1,
                     lt_dtype_name(g->dtype));
    LT_TRY(lt_contiguous(g, &parts[i].t));
    parts[i].first = chunks;
    chunks += (g->n + CHUNK - 1) / CHUNK;
  }
  parts[n].first = chunks;
  return LT_OK;
}

static double chunk_sum(const part *parts, int n, int64_t chunk) {
  int low = 0, high = n - 1; /* the last part that begins at or before this chunk */
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (parts[middle].first <= chunk)
      low = middle;
    else
      high = middle - 1;
  }
  const lt_tensor *t = parts[low].t;
  int64_t at = (chunk - parts[low].first) * CHUNK, rest = t->n - at;
  return lt_sum_squares((const char *)lt_ptr(t) + at * lt_dtype_size(t->dtype), t->dtype, rest < CHUNK ? rest : CHUNK);
}

int lt_grad_norm(const lt_handle *const *grads, int n, double *out) {
  double total = 0, *sums = NULL;
  int64_t bytes = (n + 1) * (int64_t)sizeof(part), chunks = 0;
  part *parts = lt_alloc(bytes);
  if (!parts) return LT_ERR_MEMORY;
  memset(parts, 0, (size_t)bytes);
  int status = take_parts(grads, n, parts);
  if (status >= 0) {
    chunks = parts[n].first;
    sums = lt_alloc((chunks + 1) * (int64_t)sizeof *sums);
    if (!sums) status = LT_ERR_MEMORY;
  }
  if (status >= 0) {
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(chunks *CHUNK))
    for (int64_t k = 0; k < chunks; k++) sums[k] = chunk_sum(parts, n, k);
    for (int64_t k = 0; k < chunks; k++) total += sums[k];
    lt_free(sums, (chunks + 1) * (int64_t)sizeof *sums);
    *out = lt_plain_nan(sqrt(total));
  }
  for (int i = 0; i < n; i++) lt_tensor_release(parts[i].t);
  lt_free(parts, bytes);
  return status;
}
