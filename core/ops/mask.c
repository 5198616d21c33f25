/* masked_fill: an elementwise operator of x and a mask with the value in its attributes. */
#include "elementwise.h"

#include <math.h>

#define LOOP(name, T)                                                                                                  \
  LT_CLONES static void name(int64_t n, void *out, const void *const *in, const lt_attr *attr) {                       \
    const T *x = in[0], *mask = in[1], value = (T)attr->f[0];                                                          \
    T *y = out;                                                                                                        \
    for (int64_t i = 0; i < n; i++) y[i] = mask[i] != 0 ? value : x[i];                                                \
  }
LOOP(fill_f32, float)
LOOP(fill_f64, double)
LOOP(fill_i64, int64_t)

static int masked_fill_shape(lt_args *c) {
  int64_t shape[LT_MAX_DIMS];
  int ndim, dtype = c->in[0]->dtype;
  double v = c->attr->f[0];
  LT_TRY(lt_need_dtype(c, 1, LT_BOOL));
  LT_TRY(lt_broadcast(c, 0, 1, &ndim, shape));
  if (!lt_is_float(dtype) && (v != floor(v) || fabs(v) > 0x1p53))
    return lt_fail(LT_ERR_ARGUMENT, "masked_fill: the value %.17g cannot be held by a tensor of %s", v,
                   lt_dtype_name(dtype));
  if ((dtype == LT_UINT8 && (v < 0 || v > 255)) || (dtype == LT_INT32 && (v < INT32_MIN || v > INT32_MAX)) ||
      (dtype == LT_BOOL && v != 0 && v != 1))
    return lt_fail(LT_ERR_ARGUMENT, "masked_fill: the value %.17g is outside the range of %s", v, lt_dtype_name(dtype));
  return lt_out(c, 0, dtype, ndim, shape);
}
static int masked_fill_cpu(lt_args *c) {
  if (c->in[0]->dtype == LT_FLOAT64) return lt_elementwise_run(c, LT_FLOAT64, fill_f64, false);
  if (lt_is_float(c->in[0]->dtype)) return lt_elementwise_run(c, LT_FLOAT32, fill_f32, false);
  return lt_elementwise_run(c, LT_INT64, fill_i64, false);
}
static void masked_fill_rule(lt_back *b) {
  lt_attr zero = {.f = {0}};
  LT_GRAD_ATTR(b, 0, masked_fill, &zero, b->grad[0], b->in[1]);
}
const lt_op lt_op_masked_fill = {.name = "masked_fill",
                                 .signature = "masked_fill(x, mask, value: number)",
                                 .doc = "x with the value where the mask (bool) is true; both broadcast.",
                                 .flags = LT_OP_ELEMENTWISE | LT_OP_INPLACE | LT_OP_ACCUMULATE,
                                 .shape = masked_fill_shape,
                                 .cpu = masked_fill_cpu,
                                 .backward = masked_fill_rule,
                                 .keep = LT_IN(1)};
