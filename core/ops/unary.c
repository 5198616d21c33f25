/* Elementwise operators of one input, made from unary.def: for each function NAME the operators NAME, NAME_backward
 * (gradient times slope) and NAME_curvature (for second derivatives). Loops are over contiguous blocks. */
#include "elementwise.h"
#include <tgmath.h>

#define TWO_OVER_ROOT_PI (T)1.1283791670955126
#define SELU_SCALE 1.0507009873554804934
#define SELU_ALPHA 1.6732632423543772848

/* ---- helpers that exist for float and double ---- */
#define HELPERS(T, suffix)                                                                                             \
  static inline T softplus_##suffix(T x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }                        \
  static inline T sigmoid_##suffix(T x) {                                                                              \
    T e = exp(-fabs(x));                                                                                               \
    return x < 0 ? e / (1 + e) : 1 / (1 + e);                                                                          \
  }                                                                                                                    \
  static inline T gauss_##suffix(T x) { return (T)0.5 * erfc(-x * (T)0.70710678118654752); }                           \
  static inline T bell_##suffix(T x) { return (T)0.39894228040143268 * exp((T)-0.5 * x * x); }                         \
  static inline T gelu_inner_##suffix(T x) { return tanh((T)0.79788456080286536 * (x + (T)0.044715 * x * x * x)); }    \
  static inline T gelu_tanh_##suffix(T x) { return (T)0.5 * x * (1 + gelu_inner_##suffix(x)); }                        \
  static inline T gelu_tanh_slope_##suffix(T x) {                                                                      \
    T t = gelu_inner_##suffix(x), u = (T)0.79788456080286536 * (1 + (T)0.134145 * x * x);                              \
    return (T)0.5 * (1 + t) + (T)0.5 * x * (1 - t * t) * u;                                                            \
  }                                                                                                                    \
  static inline T gelu_tanh_curvature_##suffix(T x) {                                                                  \
    T t = gelu_inner_##suffix(x), u = (T)0.79788456080286536 * (1 + (T)0.134145 * x * x);                              \
    T du = (T)0.79788456080286536 * (T)0.26829 * x, s = 1 - t * t;                                                     \
    return s * u + (T)0.5 * x * (s * du - 2 * t * s * u * u);                                                          \
  }                                                                                                                    \
  static inline T mish_slope_##suffix(T x) {                                                                           \
    T t = tanh(softplus_##suffix(x)), g = sigmoid_##suffix(x);                                                         \
    return t + x * (1 - t * t) * g;                                                                                    \
  }                                                                                                                    \
  static inline T mish_curvature_##suffix(T x) {                                                                       \
    T t = tanh(softplus_##suffix(x)), g = sigmoid_##suffix(x), d = (1 - t * t) * g;                                    \
    return 2 * d + x * ((1 - t * t) * g * (1 - g) - 2 * t * d * g);                                                    \
  }
HELPERS(float, float)
HELPERS(double, double)
static inline float minus_float(float x) { return -x; }
static inline double minus_double(double x) { return -x; }
static inline int64_t minus_int(int64_t x) { return lt_wrap_sub(0, x); }
static inline float times_float(float a, float b) { return a * b; }
static inline double times_double(double a, double b) { return a * b; }
#define lt_minus(x) _Generic((x), float : minus_float, int64_t : minus_int, default : minus_double)(x)
#define lt_times(a, b) _Generic((a), float : times_float, int64_t : lt_wrap_mul, default : times_double)(a, b)
#define CHOOSE(f, x) _Generic((x), float : f##_float, default : f##_double)(x)
#define lt_softplus(x) CHOOSE(softplus, x)
#define lt_sigmoid(x) CHOOSE(sigmoid, x)
#define lt_gauss(x) CHOOSE(gauss, x)
#define lt_bell(x) CHOOSE(bell, x)
#define lt_gelu_tanh(x) CHOOSE(gelu_tanh, x)
#define lt_gelu_tanh_slope(x) CHOOSE(gelu_tanh_slope, x)
#define lt_gelu_tanh_curvature(x) CHOOSE(gelu_tanh_curvature, x)
#define lt_mish_slope(x) CHOOSE(mish_slope, x)
#define lt_mish_curvature(x) CHOOSE(mish_curvature, x)
#define lt_tanh(x) tanh(x)

/* ---- loops ---- */
/* One value at a time, of input `from` under the name `value`. */
#define LOOP_OVER(clones, name, CT, OUT, from, value, body)                                                            \
  clones static void name(int64_t n, void *out, const void *const *in, const lt_attr *attr) {                          \
    typedef CT T;                                                                                                      \
    const T *values = in[from];                                                                                        \
    OUT *ys = out;                                                                                                     \
    const double lo = attr->f[0], hi = attr->f[1];                                                                     \
    const T p = (T)lo, q = (T)hi;                                                                                      \
    (void)p, (void)q;                                                                                                  \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      const T value = values[i];                                                                                       \
      (void)value;                                                                                                     \
      ys[i] = (OUT)(body);                                                                                             \
    }                                                                                                                  \
  }
#define LOOP(name, CT, OUT, body) LOOP_OVER(LT_CLONES, name, CT, OUT, 0, x, body)
#define SLOPE_LOOP(name, CT, slope) LOOP_OVER(LT_CLONES, name, CT, T, 1, s, ((const T *)in[0])[i] * (T)(slope))
#define CURVATURE_LOOP(name, CT, curvature) LOOP_OVER(, name, CT, T, 0, s, curvature) /* rare: one body is enough */

static int bounded_shape(lt_args *c) {
  const double *f = c->attr->f;
  if (f[0] > f[1])
    return lt_fail(LT_ERR_ARGUMENT, "%s: low is %g and high is %g; low must not be above high", c->op->name, f[0],
                   f[1]);
  return lt_elementwise_shape(c);
}
#define SHAPE_FOR(NAME)                                                                                                \
  (LT_OP_##NAME == LT_OP_clamp || LT_OP_##NAME == LT_OP_hardtanh ? bounded_shape : lt_elementwise_shape)

/* ---- rules ---- */
static void third_derivative(lt_back *b) {
  b->status = lt_fail(LT_ERR_STATE, "%s: the third derivative has no rule; two are supported", b->op->name);
}
/* The hidden twins stand right behind their function in ops.def: NAME, NAME_backward, NAME_curvature. */
static void slope_rule(lt_back *b, int twin) {
  lt_tensor *in[] = {b->grad[0], b->op->keep & LT_IN(0) ? b->in[0] : b->out[0]};
  lt_grad_by(b, 0, twin, b->attr, 2, in);
}
static void curvature_rule(lt_back *b, int slope, int curvature) {
  lt_tensor *in[] = {b->grad[0], b->in[1]};
  lt_grad_by(b, 0, slope, b->attr, 2, in);
  if (lt_wants(b, 1))
    LT_GRAD(b, 1, mul, LT_DO(b, mul, b->grad[0], b->in[0]), lt_do(b, curvature, b->attr, 1, &b->in[1]));
}

#define X LT_IN(0)
#define Y LT_OUT(0)
#define DIFFERENTIABLE(NAME, PARAMS, S, FORMULA, SLOPE, CURVATURE, DOC, I64, RESULT)                                   \
  LOOP(NAME##_f32, float, float, FORMULA)                                                                              \
  LOOP(NAME##_f64, double, double, FORMULA)                                                                            \
  SLOPE_LOOP(NAME##_slope_f32, float, SLOPE)                                                                           \
  SLOPE_LOOP(NAME##_slope_f64, double, SLOPE)                                                                          \
  CURVATURE_LOOP(NAME##_curve_f32, float, CURVATURE)                                                                   \
  CURVATURE_LOOP(NAME##_curve_f64, double, CURVATURE)                                                                  \
  static const lt_loop_set NAME##_loops = {NAME##_f32, NAME##_f64, I64, RESULT};                                       \
  static const lt_loop_set NAME##_slope_loops = {NAME##_slope_f32, NAME##_slope_f64, NULL, LT_SAME};                   \
  static const lt_loop_set NAME##_curve_loops = {NAME##_curve_f32, NAME##_curve_f64, NULL, LT_SAME};                   \
  static void NAME##_rule(lt_back *b) { slope_rule(b, LT_OP_##NAME##_backward); }                                      \
  static void NAME##_second(lt_back *b) { curvature_rule(b, LT_OP_##NAME##_backward, LT_OP_##NAME##_curvature); }      \
  const lt_op lt_op_##NAME = {.name = #NAME,                                                                           \
                              .signature = #NAME "(x" PARAMS ")",                                                      \
                              .doc = DOC,                                                                              \
                              .flags = LT_OP_ELEMENTWISE | LT_OP_ACCUMULATE | LT_OP_INPLACE,                           \
                              .shape = SHAPE_FOR(NAME),                                                                \
                              .cpu = lt_elementwise_cpu,                                                               \
                              .backward = NAME##_rule,                                                                 \
                              .keep = S,                                                                               \
                              .table = &NAME##_loops};                                                                 \
  const lt_op lt_op_##NAME##_backward = {.name = #NAME "_backward",                                                    \
                                         .signature = #NAME "_backward(grad, s" PARAMS ")",                            \
                                         .doc = "Gradient times the slope of " #NAME ".",                              \
                                         .flags = LT_OP_ELEMENTWISE | LT_OP_ACCUMULATE | LT_OP_HIDDEN,                 \
                                         .shape = lt_elementwise_shape,                                                \
                                         .cpu = lt_elementwise_cpu,                                                    \
                                         .backward = NAME##_second,                                                    \
                                         .keep = LT_IN(0) | LT_IN(1),                                                  \
                                         .table = &NAME##_slope_loops};                                                \
  const lt_op lt_op_##NAME##_curvature = {.name = #NAME "_curvature",                                                  \
                                          .signature = #NAME "_curvature(s" PARAMS ")",                                \
                                          .doc = "Derivative of the slope of " #NAME ".",                              \
                                          .flags = LT_OP_ELEMENTWISE | LT_OP_ACCUMULATE | LT_OP_HIDDEN,                \
                                          .shape = lt_elementwise_shape,                                               \
                                          .cpu = lt_elementwise_cpu,                                                   \
                                          .backward = third_derivative,                                                \
                                          .table = &NAME##_curve_loops};

#define LT_FUNCTION(NAME, PARAMS, S, FORMULA, SLOPE, CURVATURE, DOC)                                                   \
  DIFFERENTIABLE(NAME, PARAMS, S, FORMULA, SLOPE, CURVATURE, DOC, NULL, LT_REAL)
#define LT_ARITHMETIC(NAME, PARAMS, S, FORMULA, SLOPE, CURVATURE, DOC)                                                 \
  LOOP(NAME##_i64, int64_t, int64_t, FORMULA)                                                                          \
  DIFFERENTIABLE(NAME, PARAMS, S, FORMULA, SLOPE, CURVATURE, DOC, NAME##_i64, LT_SAME)
#define WITHOUT_GRADIENT(NAME, OUT32, OUT64, RESULT, I64, FORMULA, DOC)                                                \
  LOOP(NAME##_f32, float, OUT32, FORMULA)                                                                              \
  LOOP(NAME##_f64, double, OUT64, FORMULA)                                                                             \
  static const lt_loop_set NAME##_loops = {NAME##_f32, NAME##_f64, I64, RESULT};                                       \
  const lt_op lt_op_##NAME = {.name = #NAME,                                                                           \
                              .signature = #NAME "(x)",                                                                \
                              .doc = DOC,                                                                              \
                              .flags = LT_OP_ELEMENTWISE | LT_OP_NO_GRADIENT |                                         \
                                       (RESULT == LT_SAME ? LT_OP_INPLACE | LT_OP_ACCUMULATE : 0),                     \
                              .shape = lt_elementwise_shape,                                                           \
                              .cpu = lt_elementwise_cpu,                                                               \
                              .table = &NAME##_loops};
#define LT_STEP(NAME, FORMULA, DOC)                                                                                    \
  static void NAME##_i64(int64_t n, void *out, const void *const *in, const lt_attr *attr);                            \
  WITHOUT_GRADIENT(NAME, float, double, LT_SAME, NAME##_i64, FORMULA, DOC)
#define LT_TEST(NAME, FORMULA, DOC)                                                                                    \
  LOOP(NAME##_i64, int64_t, uint8_t, FORMULA)                                                                          \
  WITHOUT_GRADIENT(NAME, uint8_t, uint8_t, LT_TRUTH, NAME##_i64, FORMULA, DOC)
#include "unary.def"

/* Of whole numbers only the sign is not the number itself. */
#define WHOLE_IS_ITSELF(NAME)                                                                                          \
  static void NAME##_i64(int64_t n, void *out, const void *const *in, const lt_attr *attr) {                           \
    (void)attr;                                                                                                        \
    memcpy(out, in[0], (size_t)n * sizeof(int64_t));                                                                   \
  }
WHOLE_IS_ITSELF(floor)
WHOLE_IS_ITSELF(ceil)
WHOLE_IS_ITSELF(round)
WHOLE_IS_ITSELF(trunc)
static void sign_i64(int64_t n, void *out, const void *const *in, const lt_attr *attr) {
  (void)attr;
  const int64_t *x = in[0];
  for (int64_t i = 0; i < n; i++) ((int64_t *)out)[i] = (x[i] > 0) - (x[i] < 0);
}
