/* The entry of matrix products: takes the empty cases away and sends each dtype to its code. float32, float64 and int64
 * go to our own kernels, bfloat16 to oneDNN where the processor multiplies it, other 16-bit products through float32.
 * Shapes and dtypes were checked by the operators. */
#include "gemm_kernels.h"
#include "onednn.h"
#include "tensor.h"

#include <string.h>

/* A 16-bit operand as float32, laid out so that its own unit stride stays one. */
typedef struct widened {
  float *data;
  int64_t bytes, batch, row, col; /* strides */
} widened;

static void widen_run(int dtype, float *to, const uint16_t *from, int64_t n) {
  if (dtype == LT_BFLOAT16)
    lt_bf16_to_f32(to, from, n);
  else
    lt_f16_to_f32(to, from, n);
}

static int widen(int dtype, const void *from_, int64_t batch, int64_t rows, int64_t cols, int64_t batch_stride,
                 int64_t row_stride, int64_t col_stride, widened *out) {
  const uint16_t *from = from_;
  bool by_columns = row_stride == 1 && col_stride != 1;
  int64_t outer = by_columns ? cols : rows, inner = by_columns ? rows : cols;
  int64_t outer_stride = by_columns ? col_stride : row_stride, inner_stride = by_columns ? row_stride : col_stride;
  if (batch_stride == 0) batch = 1;
  out->bytes = batch * outer * inner * (int64_t)sizeof(float);
  out->data = lt_alloc(out->bytes);
  if (!out->data) return LT_ERR_MEMORY;
  out->batch = batch == 1 ? 0 : outer * inner;
  out->row = by_columns ? 1 : inner;
  out->col = by_columns ? inner : 1;
#pragma omp parallel for schedule(static) collapse(2) num_threads(outer *inner *batch < 32768 ? 1 : lt_threads())
  for (int64_t b = 0; b < batch; b++)
    for (int64_t i = 0; i < outer; i++) {
      const uint16_t *line = from + b * batch_stride + i * outer_stride;
      float *to = out->data + (b * outer + i) * inner;
      if (inner_stride == 1)
        widen_run(dtype, to, line, inner);
      else
        for (int64_t j = 0; j < inner; j++) widen_run(dtype, to + j, line + j * inner_stride, 1);
    }
  return LT_OK;
}

static void narrow_rows(const lt_gemm *g, const float *from) {
#pragma omp parallel for schedule(static) collapse(2) num_threads(g->batch * g->m * g->n < 32768 ? 1 : lt_threads())
  for (int64_t b = 0; b < g->batch; b++)
    for (int64_t i = 0; i < g->m; i++) {
      uint16_t *to = (uint16_t *)g->c + b * g->c_batch + i * g->c_row;
      const float *line = from + (b * g->m + i) * g->n;
      if (g->c_dtype == LT_BFLOAT16)
        lt_f32_to_bf16(to, line, g->n);
      else
        lt_f32_to_f16(to, line, g->n);
    }
}

static int run_through_float32(const lt_gemm *g) {
  lt_gemm f = *g;
  widened a = {0}, b = {0}, c = {0}, bias = {0};
  f.dtype = f.c_dtype = f.bias_dtype = LT_FLOAT32;
  int status = widen(g->dtype, g->a, g->batch, g->m, g->k, g->a_batch, g->a_row, g->a_col, &a);
  if (status >= 0) status = widen(g->dtype, g->b, g->batch, g->k, g->n, g->b_batch, g->b_row, g->b_col, &b);
  if (status >= 0 && g->bias && g->bias_dtype != LT_FLOAT32) {
    status = widen(g->bias_dtype, g->bias, 1, 1, g->n, 0, g->n, 1, &bias);
    f.bias = bias.data;
  }
  if (status >= 0 && g->c_dtype != LT_FLOAT32) {
    f.c_batch = g->m * g->n;
    f.c_row = g->n;
    if (g->accumulate)
      status = widen(g->c_dtype, g->c, g->batch, g->m, g->n, g->c_batch ? g->c_batch : 1, g->c_row, 1, &c);
    else {
      c.bytes = g->batch * g->m * g->n * (int64_t)sizeof(float);
      c.data = lt_alloc(c.bytes);
      if (!c.data) status = LT_ERR_MEMORY;
    }
    f.c = c.data;
  }
  if (status >= 0) {
    f.a = a.data, f.a_batch = a.batch, f.a_row = a.row, f.a_col = a.col;
    f.b = b.data, f.b_batch = b.batch, f.b_row = b.row, f.b_col = b.col;
    status = gemm_own(&f, gemm_kernels_float32());
  }
  if (status >= 0 && c.data) narrow_rows(g, c.data);
  lt_free(a.data, a.bytes);
  lt_free(b.data, b.bytes);
  lt_free(c.data, c.bytes);
  lt_free(bias.data, bias.bytes);
  return status;
}

/* A matrix whose rows or columns are runs of memory, which is what oneDNN takes. */
static bool rows_or_columns(int64_t row, int64_t col) { return (row == 1 && col > 0) || (col == 1 && row > 0); }

int lt_gemm_run(const lt_gemm *given) {
  static const double zero = 0; /* all dtypes write zero as zero bits */
  lt_gemm g = *given;
  if (g.batch == 0 || g.m == 0 || g.n == 0) return LT_OK;
  if (g.k == 0) { /* an empty sum is one step of zeros */
    if (g.accumulate) return LT_OK;
    g.k = 1;
    g.a = g.b = &zero;
    g.a_batch = g.a_row = g.a_col = g.b_batch = g.b_row = g.b_col = 0;
  }
  if (g.batch == 1) g.a_batch = g.b_batch = g.c_batch = 0;
  switch (g.dtype) {
  case LT_FLOAT32: return gemm_own(&g, gemm_kernels_float32());
  case LT_FLOAT64: return gemm_own(&g, gemm_kernels_float64());
  case LT_INT64: return gemm_own(&g, gemm_kernels_int64());
  case LT_BFLOAT16:
    if (rows_or_columns(g.a_row, g.a_col) && rows_or_columns(g.b_row, g.b_col) && onednn_has_bfloat16())
      return gemm_bfloat16(&g);
    return run_through_float32(&g);
  case LT_FLOAT16: return run_through_float32(&g);
  default:
    return lt_fail(LT_ERR_DTYPE, "matmul: no product of %s; convert with x:to(\"float32\")", lt_dtype_name(g.dtype));
  }
}
