/* The kernels of optimizer steps, for float and double, on each instruction set; see step_template.h.
 * Fused multiply-add is off here: a dense step and a sweep over table rows are vectorised differently, and only with
 * every operation rounded by itself are they bound to give the same bits. Steps wait for memory, so it costs nothing.
 */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off")
#endif
#include "step.h"
#include <math.h>

#define ELEM float
#define NAME(x) x##_f32
#define ROOT sqrtf
#include "step_template.h"
#undef ELEM
#undef NAME
#undef ROOT

#define ELEM double
#define NAME(x) x##_f64
#define ROOT sqrt
#include "step_template.h"

void lt_step_run(const lt_step_job *j, int64_t first, int64_t last) {
  if (j->dtype == LT_FLOAT64)
    walk_f64(j, first, last);
  else
    walk_f32(j, first, last);
}

/* ---- the norm: sixteen chains a chunk, so that the adder is kept busy in a fixed order ---- */
enum { CHAINS = 16 };
#define SUM_SQUARES(name, T)                                                                                           \
  LT_CLONES static double name(const T *x, int64_t n) {                                                                \
    double sum[CHAINS] = {0}, total = 0;                                                                               \
    int64_t i = 0;                                                                                                     \
    for (; i + CHAINS <= n; i += CHAINS)                                                                               \
      for (int k = 0; k < CHAINS; k++) sum[k] += (double)x[i + k] * (double)x[i + k];                                  \
    for (int k = 0; i + k < n; k++) sum[k] += (double)x[i + k] * (double)x[i + k];                                     \
    for (int k = 0; k < CHAINS; k++) total += sum[k];                                                                  \
    return total;                                                                                                      \
  }
SUM_SQUARES(sum_squares_f32, float)
SUM_SQUARES(sum_squares_f64, double)

double lt_sum_squares(const void *x, int dtype, int64_t n) {
  return dtype == LT_FLOAT64 ? sum_squares_f64(x, n) : sum_squares_f32(x, n);
}
