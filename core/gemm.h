/* Matrix products on raw pointers: c = activation(a b + bias), or c += a b. The operators (ops/matmul.c, ops/linear.c)
 * describe a product by strides and never copy a transposed view; the rest is decided here from shape, strides and
 * dtype alone. The bits of c depend neither on the number of threads nor on what ran before. */
#pragma once
#include "error.h"

typedef enum lt_gemm_activation { LT_GEMM_NONE, LT_GEMM_RELU, LT_GEMM_LEAKY } lt_gemm_activation;

/* Strides count elements. A batch stride of 0 repeats a matrix for the whole batch. */
typedef struct lt_gemm {
  int dtype;   /* of a and b: float32, float64, bfloat16, float16, int64 */
  int c_dtype; /* the same, or float32 for bfloat16 and float16 */
  int64_t batch, m, n, k;
  const void *a; /* [batch, m, k] */
  int64_t a_batch, a_row, a_col;
  const void *b; /* [batch, k, n] */
  int64_t b_batch, b_row, b_col;
  void *c; /* [batch, m, n], columns side by side */
  int64_t c_batch, c_row;
  const void *bias; /* [n] of bias_dtype, or NULL */
  int bias_dtype;   /* c_dtype, or float32 */
  int activation;
  double slope;    /* of LT_GEMM_LEAKY */
  bool accumulate; /* c += a b, with the bits of a b made apart and then added; excludes bias and activation */
  uint64_t b_id;   /* names the contents of b for all time, so that a packed copy may be kept; 0: don't keep one */
  uint64_t b_version;
} lt_gemm;

int lt_gemm_run(const lt_gemm *g);
