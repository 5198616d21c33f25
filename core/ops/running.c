/* Running sums and products along a dim. Gradients sweep each line from the other end and never divide, so zeros are no
 * trouble. Floats run in double; whole numbers give int64. */
#include "line.h"

static int running_shape(lt_args *c) {
  int64_t dim;
  LT_TRY(lt_line_dim(c, &dim));
  return lt_out(c, 0, lt_is_float(c->in[0]->dtype) ? c->in[0]->dtype : LT_INT64, c->in[0]->ndim, c->in[0]->shape);
}
static int run(lt_args *c, lt_line real, lt_line whole) {
  bool is_float = lt_is_float(c->in[0]->dtype), backwards = c->attr->i[1];
  lt_lines l = {.out = c->out[0],
                .in = {c->in[0]},
                .n_in = 1,
                .kind = is_float ? LT_FLOAT64 : LT_INT64,
                .dim = c->attr->i[0],
                .f = is_float ? real : whole,
                .context = &backwards};
  return lt_lines_run(&l);
}

#define RUNNING(NAME, T, START, STEP)                                                                                  \
  static void NAME(int64_t line, int64_t n, void *out, const void *const *in, const void *context) {                   \
    const bool backwards = *(const bool *)context;                                                                     \
    const T *xs = in[0];                                                                                               \
    T *ys = out, s = START;                                                                                            \
    (void)line;                                                                                                        \
    for (int64_t k = 0; k < n; k++) {                                                                                  \
      const int64_t i = backwards ? n - 1 - k : k;                                                                     \
      const T x = xs[i];                                                                                               \
      ys[i] = s = STEP;                                                                                                \
    }                                                                                                                  \
  }
RUNNING(sum_real, double, 0, s + x)
RUNNING(sum_whole, int64_t, 0, (int64_t)((uint64_t)s + (uint64_t)x))
RUNNING(product_real, double, 1, s *x)
RUNNING(product_whole, int64_t, 1, (int64_t)((uint64_t)s *(uint64_t)x))

/* ---- cumsum ---- */
static int cumsum_cpu(lt_args *c) { return run(c, sum_real, sum_whole); }
static void cumsum_rule(lt_back *b) {
  lt_attr other_way = *b->attr;
  other_way.i[1] = !b->attr->i[1];
  LT_GRAD_ATTR(b, 0, cumsum, &other_way, b->grad[0]);
}
const lt_op lt_op_cumsum = {
    .name = "cumsum",
    .signature = "cumsum(x, dim: dim, reverse: bool = false)",
    .doc = "Running sum along the dim, from the last position when reverse; whole numbers give int64.",
    .shape = running_shape,
    .cpu = cumsum_cpu,
    .backward = cumsum_rule};

/* ---- cumprod ---- */
static int cumprod_cpu(lt_args *c) { return run(c, product_real, product_whole); }
static void cumprod_rule(lt_back *b) { LT_GRAD_ATTR(b, 0, cumprod_backward, b->attr, b->grad[0], b->in[0]); }
const lt_op lt_op_cumprod = {
    .name = "cumprod",
    .signature = "cumprod(x, dim: dim, reverse: bool = false)",
    .doc = "Running product along the dim, from the last position when reverse; whole numbers give int64.",
    .shape = running_shape,
    .cpu = cumprod_cpu,
    .backward = cumprod_rule,
    .keep = LT_IN(0)};

/* dx[k] = (x[0] ... x[k-1]) S[k] with S[k] = g[k] + x[k+1] S[k+1]: what x[k] multiplies, before and after it. */
static void cumprod_slope(int64_t line, int64_t n, void *out, const void *const *in, const void *context) {
  (void)line;
  const bool backwards = *(const bool *)context;
  const double *g = in[0], *x = in[1];
  double *dx = out, after = 0, before = 1;
  for (int64_t k = n - 1; k >= 0; k--) {
    const int64_t i = backwards ? n - 1 - k : k, next = backwards ? i - 1 : i + 1;
    dx[i] = after = g[i] + (k + 1 < n ? x[next] * after : 0);
  }
  for (int64_t k = 0; k < n; k++) {
    const int64_t i = backwards ? n - 1 - k : k;
    dx[i] *= before;
    before *= x[i];
  }
}
static int cumprod_backward_cpu(lt_args *c) {
  bool backwards = c->attr->i[1];
  lt_lines l = {.out = c->out[0],
                .in = {c->in[0], c->in[1]},
                .n_in = 2,
                .kind = LT_FLOAT64,
                .dim = c->attr->i[0],
                .f = cumprod_slope,
                .context = &backwards};
  return lt_lines_run(&l);
}
static void no_second(lt_back *b) {
  b->status = lt_fail(LT_ERR_STATE, "%s: the second derivative has no rule; take the gradient without create_graph",
                      b->op->name);
}
const lt_op lt_op_cumprod_backward = {.name = "cumprod_backward",
                                      .signature = "cumprod_backward(grad, x, dim: dim, reverse: bool)",
                                      .doc = "Gradient of cumprod.",
                                      .flags = LT_OP_HIDDEN,
                                      .shape = running_shape,
                                      .cpu = cumprod_backward_cpu,
                                      .backward = no_second};

/* ---- prod_others: each element replaced by the product of the others of its line ---- */
static void others_line(int64_t line, int64_t n, void *out, const void *const *in, const void *context) {
  (void)line, (void)context;
  const double *x = in[0];
  double *y = out, before = 1, after = 1;
  for (int64_t i = 0; i < n; i++) {
    y[i] = before;
    before *= x[i];
  }
  for (int64_t i = n - 1; i >= 0; i--) {
    y[i] *= after;
    after *= x[i];
  }
}
static int prod_others_cpu(lt_args *c) {
  lt_lines l = {
      .out = c->out[0], .in = {c->in[0]}, .n_in = 1, .kind = LT_FLOAT64, .dim = c->attr->i[0], .f = others_line};
  return lt_lines_run(&l);
}
const lt_op lt_op_prod_others = {.name = "prod_others",
                                 .signature = "prod_others(x, dim: dim)",
                                 .doc = "Each element replaced by the product of the others along the dim.",
                                 .flags = LT_OP_HIDDEN,
                                 .shape = running_shape,
                                 .cpu = prod_others_cpu,
                                 .backward = no_second};
