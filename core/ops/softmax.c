/* softmax and log_softmax along a dim, with fused gradients. Their gradient operators have rules written as
 * mathematics, so derivatives of any order work. 16-bit floats compute in float32. */
#include "line.h"
#include <math.h>

static int like_input(lt_args *c) {
  int64_t dim;
  LT_TRY(lt_need_float(c, 0));
  LT_TRY(lt_line_dim(c, &dim));
  return lt_out_like(c, 0, c->in[0]);
}

/* ---- lines ---- */
#define LINES(T, S)                                                                                                    \
  static void softmax_line_##S(int64_t line, int64_t n, void *out, const void *const *in, const void *context) {       \
    (void)line, (void)context;                                                                                         \
    T *y = out;                                                                                                        \
    T scale = (T)(1 / lt_line_exp_##S(y, in[0], lt_line_max_##S(in[0], n), n));                                        \
    for (int64_t i = 0; i < n; i++) y[i] *= scale;                                                                     \
  }                                                                                                                    \
  static void log_softmax_line_##S(int64_t line, int64_t n, void *out, const void *const *in, const void *context) {   \
    (void)line, (void)context;                                                                                         \
    const T *x = in[0];                                                                                                \
    T *y = out, top = lt_line_max_##S(x, n);                                                                           \
    T log_sum = (T)log(lt_line_sum_exp_##S(x, top, n));                                                                \
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - top) - log_sum;                                                     \
  }                                                                                                                    \
  static void softmax_slope_##S(int64_t line, int64_t n, void *out, const void *const *in, const void *context) {      \
    (void)line, (void)context;                                                                                         \
    const T *g = in[0], *y = in[1];                                                                                    \
    T *dx = out, dot = (T)lt_line_dot_##S(g, y, n);                                                                    \
    for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (g[i] - dot);                                                       \
  }                                                                                                                    \
  static void log_softmax_slope_##S(int64_t line, int64_t n, void *out, const void *const *in, const void *context) {  \
    (void)line, (void)context;                                                                                         \
    const T *g = in[0];                                                                                                \
    T *dx = out, sum = (T)lt_line_sum_##S(g, n);                                                                       \
    lt_line_exp_##S(dx, in[1], 0, n);                                                                                  \
    for (int64_t i = 0; i < n; i++) dx[i] = g[i] - dx[i] * sum;                                                        \
  }
LINES(float, f32)
LINES(double, f64)

static int run(lt_args *c, int n_in, lt_line f32, lt_line f64) {
  int kind = lt_float_kind(c->in[0]->dtype);
  lt_lines l = {.out = c->out[0],
                .in = {c->in[0], n_in > 1 ? c->in[1] : NULL},
                .n_in = n_in,
                .kind = kind,
                .dim = c->attr->i[0],
                .f = kind == LT_FLOAT32 ? f32 : f64};
  return lt_lines_run(&l);
}

/* ---- softmax ---- */
static int softmax_cpu(lt_args *c) { return run(c, 1, softmax_line_f32, softmax_line_f64); }
static void softmax_rule(lt_back *b) { LT_GRAD_ATTR(b, 0, softmax_backward, b->attr, b->grad[0], b->out[0]); }
const lt_op lt_op_softmax = {
    .name = "softmax",
    .signature = "softmax(x, dim: dim = -1)",
    .doc = "e^x divided by its sum along the dim; the largest x is subtracted first, so nothing overflows.",
    .shape = like_input,
    .cpu = softmax_cpu,
    .backward = softmax_rule,
    .keep = LT_OUT(0)};

static int log_softmax_cpu(lt_args *c) { return run(c, 1, log_softmax_line_f32, log_softmax_line_f64); }
static void log_softmax_rule(lt_back *b) { LT_GRAD_ATTR(b, 0, log_softmax_backward, b->attr, b->grad[0], b->out[0]); }
const lt_op lt_op_log_softmax = {.name = "log_softmax",
                                 .signature = "log_softmax(x, dim: dim = -1)",
                                 .doc = "Logarithm of softmax along the dim, without forming the softmax.",
                                 .shape = like_input,
                                 .cpu = log_softmax_cpu,
                                 .backward = log_softmax_rule,
                                 .keep = LT_OUT(0)};

/* ---- gradients; y is the forward result ---- */
static lt_tensor *line_sum(lt_back *b, lt_tensor *t) {
  lt_attr keep = {.n_list = t && t->ndim ? 1 : 0, .list = {b->attr->i[0]}, .i = {1}};
  return LT_DO_ATTR(b, sum, &keep, t);
}

static int softmax_backward_cpu(lt_args *c) { return run(c, 2, softmax_slope_f32, softmax_slope_f64); }
/* dx = y (g - sum(g y)); h is the gradient of dx. */
static void softmax_backward_rule(lt_back *b) {
  lt_tensor *h = b->grad[0], *g = b->in[0], *y = b->in[1];
  if (lt_wants(b, 0)) LT_GRAD_ATTR(b, 0, softmax_backward, b->attr, h, y);
  if (lt_wants(b, 1)) {
    lt_tensor *direct = LT_DO(b, mul, h, LT_DO(b, sub, g, line_sum(b, LT_DO(b, mul, g, y))));
    LT_GRAD(b, 1, sub, direct, LT_DO(b, mul, g, line_sum(b, LT_DO(b, mul, h, y))));
  }
}
const lt_op lt_op_softmax_backward = {.name = "softmax_backward",
                                      .signature = "softmax_backward(grad, y, dim: dim)",
                                      .doc = "Gradient of softmax from its result y.",
                                      .flags = LT_OP_HIDDEN,
                                      .shape = like_input,
                                      .cpu = softmax_backward_cpu,
                                      .backward = softmax_backward_rule,
                                      .keep = LT_IN(0) | LT_IN(1)};

static int log_softmax_backward_cpu(lt_args *c) { return run(c, 2, log_softmax_slope_f32, log_softmax_slope_f64); }
/* dx = g - e^y sum(g). */
static void log_softmax_backward_rule(lt_back *b) {
  lt_tensor *h = b->grad[0], *p = LT_DO(b, exp, b->in[1]);
  lt_tensor *hp = LT_DO(b, mul, h, p);
  if (lt_wants(b, 0)) LT_GRAD(b, 0, sub, h, line_sum(b, hp));
  if (lt_wants(b, 1)) LT_GRAD(b, 1, mul, LT_DO(b, neg, hp), line_sum(b, b->in[0]));
}
const lt_op lt_op_log_softmax_backward = {.name = "log_softmax_backward",
                                          .signature = "log_softmax_backward(grad, y, dim: dim)",
                                          .doc = "Gradient of log_softmax from its result y.",
                                          .flags = LT_OP_HIDDEN,
                                          .shape = like_input,
                                          .cpu = log_softmax_backward_cpu,
                                          .backward = log_softmax_backward_rule,
                                          .keep = LT_IN(0) | LT_IN(1)};
