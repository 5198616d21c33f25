/* Losses of an input and a target of one shape, element by element: bce_with_logits, mse, l1, huber, kl_div. One pass
 * gives the gradient of the input; gradients of the other operands, and graphs of gradients, are mathematics on
 * operators. A loss of nothing is 0. Sums are made in float64, in an order that depends on the shape alone. */
#include "elementwise.h"
#include "loss.h"
#include <tgmath.h>

typedef struct loss_loops {
  lt_loop f32, f64, slope_f32, slope_f64;
} loss_loops;
enum { INPUT, TARGET, WEIGHT, POS_WEIGHT };

/* ---- loops: x input, t target, w weight, p weight of positives, d = x - t ---- */
#define LOOPS(NAME, T, S, VALUE, SLOPE)                                                                                \
  LT_CLONES static void NAME##_##S(int64_t n, void *out, const void *const *in, const lt_attr *attr) {                 \
    const T *xs = in[0], *ts = in[1], *ws = in[2], *ps = in[3], delta = (T)attr->f[0];                                 \
    T *ys = out;                                                                                                       \
    (void)ws, (void)ps, (void)delta;                                                                                   \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      const T x = xs[i], t = ts[i], d = x - t;                                                                         \
      (void)d;                                                                                                         \
      ys[i] = VALUE;                                                                                                   \
    }                                                                                                                  \
  }                                                                                                                    \
  LT_CLONES static void NAME##_slope_##S(int64_t n, void *out, const void *const *in, const lt_attr *attr) {           \
    const T *gs = in[0], *xs = in[1], *ts = in[2], *ws = in[3], *ps = in[4], delta = (T)attr->f[0],                    \
            scale = (T)attr->f[3];                                                                                     \
    T *ys = out;                                                                                                       \
    (void)ws, (void)ps, (void)delta;                                                                                   \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      const T x = xs[i], t = ts[i], d = x - t;                                                                         \
      (void)x, (void)t, (void)d;                                                                                       \
      ys[i] = gs[i] * scale * (SLOPE);                                                                                 \
    }                                                                                                                  \
  }
#define LOSS(NAME, VALUE, SLOPE)                                                                                       \
  LOOPS(NAME, float, f32, VALUE, SLOPE)                                                                                \
  LOOPS(NAME, double, f64, VALUE, SLOPE)                                                                               \
  static const loss_loops NAME##_loops = {NAME##_f32, NAME##_f64, NAME##_slope_f32, NAME##_slope_f64};

#define SIGMOID(x) ((x) < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-(x))))
#define SOFTPLUS(x) (log1p(exp(-fabs(x))) + ((x) > 0 ? (x) : 0)) /* log(1 + e^x) */
LOSS(bce_plain, SOFTPLUS(x) - x * t, SIGMOID(x) - t)
LOSS(bce, ws[i] * ((1 - t) * x + (1 + (ps[i] - 1) * t) * SOFTPLUS(-x)),
     ws[i] * ((1 - t) - (1 + (ps[i] - 1) * t) * SIGMOID(-x)))
LOSS(mse, d *d, 2 * d)
LOSS(l1, fabs(d), d > 0 ? 1 : d < 0 ? -1 : d)
LOSS(huber, fabs(d) <= delta ? d * d / 2 : delta * (fabs(d) - delta / 2), d > delta ? delta : d < -delta ? -delta : d)
LOSS(kl, t > 0 ? t * (log(t) - x) : t < 0 ? NAN : t, -t)
LOSS(kl_log, exp(t) * (t - x), -exp(t))

/* ---- shape ---- */
static int loss_shape(lt_args *c) {
  const lt_tensor *x = c->in[INPUT], *t = c->in[TARGET];
  int64_t shape[LT_MAX_DIMS];
  int ndim;
  LT_TRY(lt_need_float(c, INPUT));
  if (!lt_same_shape(x, t))
    return lt_fail(LT_ERR_SHAPE, "%s: input is %s and target %s; the shapes must be equal: reshape one of them",
                   c->op->name, lt_shape_text(x), lt_shape_text(t));
  for (int i = WEIGHT; i < c->n_in; i++) {
    if (!c->in[i] || c->in[i]->ndim == 0) continue;
    LT_TRY(lt_broadcast(c, 0, i, &ndim, shape));
    if (ndim != x->ndim || memcmp(shape, x->shape, (size_t)ndim * sizeof *shape) != 0)
      return lt_fail(LT_ERR_SHAPE, "%s: %s is %s and does not broadcast to the input's %s", c->op->name,
                     i == WEIGHT ? "weight" : "pos_weight", lt_shape_text(c->in[i]), lt_shape_text(x));
  }
  bool none = c->attr->i[0] == LT_LOSS_NONE;
  return lt_out(c, 0, lt_loss_dtype(x->dtype), none ? x->ndim : 0, x->shape);
}
static int huber_shape(lt_args *c) {
  if (!(c->attr->f[0] > 0))
    return lt_fail(LT_ERR_ARGUMENT, "huber_loss: delta is %g; it must be above 0", c->attr->f[0]);
  return loss_shape(c);
}
static int kl_shape(lt_args *c) {
  if (c->attr->i[0] == LT_LOSS_BATCHMEAN && c->in[0]->ndim == 0)
    return lt_fail(LT_ERR_SHAPE,
                   "kl_div: the input is a number and has no batch to take the mean over; use reduction = \"sum\"");
  return loss_shape(c);
}
/* What a sum is multiplied by. */
static double scale_of(const lt_attr *attr, int64_t n, int64_t batch) {
  switch (attr->i[0]) {
  case LT_LOSS_MEAN: return n ? 1 / (double)n : 0;
  case LT_LOSS_BATCHMEAN: return batch ? 1 / (double)batch : 0;
  default: return 1;
  }
}

/* ---- kernels ---- */
static int kind_of(lt_tensor *const *in, int n) {
  for (int i = 0; i < n; i++)
    if (in[i] && in[i]->dtype == LT_FLOAT64) return LT_FLOAT64;
  return LT_FLOAT32;
}
/* The operands that a loop reads; weights that were not given are ones. */
static int operands(const lt_args *c, int n_in, lt_tensor **in, lt_tensor **one, bool weighted) {
  *one = NULL;
  memcpy(in, c->in, (size_t)n_in * sizeof *in);
  if (!weighted) return LT_OK;
  LT_TRY(lt_tensor_scalar(1, LT_FLOAT32, one));
  for (int i = n_in - 2; i < n_in; i++)
    if (!in[i]) in[i] = *one;
  return LT_OK;
}

static int loss_cpu(lt_args *c, const loss_loops *l, bool weighted) {
  lt_tensor *in[4], *one, *each = NULL, *o = c->out[0];
  int n_in = weighted ? 4 : 2, kind = kind_of(c->in, c->n_in);
  LT_TRY(operands(c, n_in, in, &one, weighted));
  lt_args map = *c;
  map.in = in;
  map.n_in = n_in;
  int status = LT_OK;
  if (c->attr->i[0] != LT_LOSS_NONE) {
    status = lt_tensor_new(c->backend, kind, c->in[0]->ndim, c->in[0]->shape, &each);
    map.out[0] = each;
  }
  if (status >= 0) status = lt_elementwise_run(&map, kind, kind == LT_FLOAT64 ? l->f64 : l->f32, false);
  if (each && status >= 0) {
    bool reduce[LT_MAX_DIMS];
    lt_reduction r;
    double sum = 0;
    for (int d = 0; d < each->ndim; d++) reduce[d] = true;
    lt_reduction_of(each, reduce, &r);
    status = lt_fold_run(each, &r, &lt_fold_sum, NULL, 0, &sum);
    lt_store_double(lt_ptr(o), o->dtype, 0, sum * scale_of(c->attr, each->n, each->ndim ? each->shape[0] : 1));
  }
  lt_tensor_release(each);
  lt_tensor_release(one);
  return status;
}

/* grad, input, target, weights: the gradient of the input. */
static int slope_shape(lt_args *c) { return lt_out_like(c, 0, c->in[1]); }
static int slope_cpu(lt_args *c, const loss_loops *l, bool weighted) {
  lt_tensor *in[5], *one;
  int n_in = weighted ? 5 : 3, kind = kind_of(c->in, c->n_in);
  LT_TRY(operands(c, n_in, in, &one, weighted));
  lt_attr attr = *c->attr;
  attr.f[3] = scale_of(&attr, c->in[1]->n, c->in[1]->ndim ? c->in[1]->shape[0] : 1);
  lt_args map = *c;
  map.in = in;
  map.n_in = n_in;
  map.attr = &attr;
  int status = lt_elementwise_run(&map, kind, kind == LT_FLOAT64 ? l->slope_f64 : l->slope_f32, false);
  lt_tensor_release(one);
  return status;
}

/* ---- rules ---- */
static lt_tensor *number(lt_back *b, double v) { return lt_number(b, v, lt_loss_dtype(b->edge[0].dtype)); }
static lt_tensor *scaled_grad(lt_back *b) {
  double scale = scale_of(b->attr, b->in[0]->n, b->edge[0].ndim ? b->edge[0].shape[0] : 1);
  return scale == 1 ? b->grad[0] : LT_DO(b, mul, b->grad[0], number(b, scale));
}
/* For losses of x - t: one gradient serves both, with opposite signs. */
static void difference_rule(lt_back *b, int fused, lt_tensor *(*slope)(lt_back *, lt_tensor *d)) {
  lt_tensor *dx;
  if (!lt_wants(b, 0) && !lt_wants(b, 1)) return;
  if (lt_grad_enabled())
    dx = LT_DO(b, mul, scaled_grad(b), slope(b, LT_DO(b, sub, b->in[0], b->in[1])));
  else if (!lt_wants(b, 1)) {
    lt_grad_by(b, 0, fused, b->attr, 3, (lt_tensor *[]){b->grad[0], b->in[0], b->in[1]});
    return;
  } else
    dx = lt_do(b, fused, b->attr, 3, (lt_tensor *[]){b->grad[0], b->in[0], b->in[1]});
  lt_give(b, 0, dx);
  if (lt_wants(b, 1)) LT_GRAD(b, 1, neg, dx);
}
static void no_rule(lt_back *b) {
  b->status = lt_fail(LT_ERR_STATE, "%s: it has no rule; graphs of gradients are made of plain operators", b->op->name);
}

#define DESCRIBE_BACKWARD(NAME, SIGNATURE, CPU)                                                                        \
  const lt_op lt_op_##NAME##_backward = {.name = #NAME "_backward",                                                    \
                                         .signature = #NAME "_backward(grad, " SIGNATURE ")",                          \
                                         .doc = "Gradient of " #NAME " with respect to its input.",                    \
                                         .flags = LT_OP_HIDDEN | LT_OP_ACCUMULATE,                                     \
                                         .shape = slope_shape,                                                         \
                                         .cpu = CPU,                                                                   \
                                         .backward = no_rule};
#define MEAN_SUM_NONE "reduction: mean|sum|none = mean"

/* ---- mse ---- */
static int mse_cpu(lt_args *c) { return loss_cpu(c, &mse_loops, false); }
static int mse_slope_cpu(lt_args *c) { return slope_cpu(c, &mse_loops, false); }
static lt_tensor *mse_slope(lt_back *b, lt_tensor *d) { return LT_DO(b, mul, d, number(b, 2)); }
static void mse_rule(lt_back *b) { difference_rule(b, LT_OP_mse_loss_backward, mse_slope); }
const lt_op lt_op_mse_loss = {
    .name = "mse_loss",
    .signature = "mse_loss(input, target, " MEAN_SUM_NONE ")",
    .doc = "Squared error (input - target)^2, averaged over all elements, summed, or one by one.",
    .shape = loss_shape,
    .cpu = mse_cpu,
    .backward = mse_rule,
    .keep = LT_IN(0) | LT_IN(1)};
DESCRIBE_BACKWARD(mse_loss, "input, target, reduction: mean|sum|none", mse_slope_cpu)

/* ---- l1 ---- */
static int l1_cpu(lt_args *c) { return loss_cpu(c, &l1_loops, false); }
static int l1_slope_cpu(lt_args *c) { return slope_cpu(c, &l1_loops, false); }
static lt_tensor *l1_slope(lt_back *b, lt_tensor *d) { return LT_DO(b, sign, d); }
static void l1_rule(lt_back *b) { difference_rule(b, LT_OP_l1_loss_backward, l1_slope); }
const lt_op lt_op_l1_loss = {
    .name = "l1_loss",
    .signature = "l1_loss(input, target, " MEAN_SUM_NONE ")",
    .doc =
        "Absolute error |input - target|, averaged over all elements, summed, or one by one; the gradient at 0 is 0.",
    .shape = loss_shape,
    .cpu = l1_cpu,
    .backward = l1_rule,
    .keep = LT_IN(0) | LT_IN(1)};
DESCRIBE_BACKWARD(l1_loss, "input, target, reduction: mean|sum|none", l1_slope_cpu)

/* ---- huber ---- */
static int huber_cpu(lt_args *c) { return loss_cpu(c, &huber_loops, false); }
static int huber_slope_cpu(lt_args *c) { return slope_cpu(c, &huber_loops, false); }
static lt_tensor *huber_slope(lt_back *b, lt_tensor *d) {
  lt_attr held = {.f = {-b->attr->f[0], b->attr->f[0]}};
  return LT_DO_ATTR(b, clamp, &held, d);
}
static void huber_rule(lt_back *b) { difference_rule(b, LT_OP_huber_loss_backward, huber_slope); }
const lt_op lt_op_huber_loss = {
    .name = "huber_loss",
    .signature = "huber_loss(input, target, delta: number = 1, " MEAN_SUM_NONE ")",
    .doc = "d^2 / 2 where |d| is at most delta, delta (|d| - delta / 2) beyond, for d = input - target (Huber 1964).",
    .shape = huber_shape,
    .cpu = huber_cpu,
    .backward = huber_rule,
    .keep = LT_IN(0) | LT_IN(1)};
DESCRIBE_BACKWARD(huber_loss, "input, target, delta: number, reduction: mean|sum|none", huber_slope_cpu)

/* ---- kl_div ---- */
static int kl_cpu(lt_args *c) { return loss_cpu(c, c->attr->i[1] ? &kl_log_loops : &kl_loops, false); }
static int kl_slope_cpu(lt_args *c) { return slope_cpu(c, c->attr->i[1] ? &kl_log_loops : &kl_loops, false); }
static void kl_rule(lt_back *b) {
  lt_tensor *x = b->in[INPUT], *t = b->in[TARGET];
  bool logs = b->attr->i[1];
  if (lt_wants(b, INPUT) && !lt_grad_enabled()) LT_GRAD_ATTR(b, INPUT, kl_div_backward, b->attr, b->grad[0], x, t);
  if (!lt_wants(b, INPUT) && !lt_wants(b, TARGET)) return;
  lt_tensor *g = scaled_grad(b), *p = logs ? LT_DO(b, exp, t) : t;
  if (lt_wants(b, INPUT)) LT_GRAD(b, INPUT, neg, LT_DO(b, mul, g, p));
  if (lt_wants(b, TARGET) && logs) { /* e^t (t - x + 1) */
    LT_GRAD(b, TARGET, mul, LT_DO(b, mul, g, p), LT_DO(b, add, LT_DO(b, sub, t, x), number(b, 1)));
  } else if (lt_wants(b, TARGET)) { /* log t + 1 - x, 0 where t is 0 */
    lt_tensor *positive = LT_DO(b, gt, t, number(b, 0));
    lt_tensor *slope =
        LT_DO(b, sub, LT_DO(b, add, LT_DO(b, log, LT_DO(b, where, positive, t, number(b, 1))), number(b, 1)), x);
    LT_GRAD(b, TARGET, mul, g, LT_DO(b, where, positive, slope, number(b, 0)));
  }
}
const lt_op lt_op_kl_div = {
    .name = "kl_div",
    .signature = "kl_div(input, target, reduction: mean|sum|none|batchmean = mean, log_target: bool = false)",
    .doc = "Kullback-Leibler divergence target (log target - input) of log probabilities from probabilities (or their "
           "logarithms with log_target); "
           "0 where the target is 0. \"batchmean\" divides the sum by the size of the first dim, which is the "
           "divergence per row.",
    .shape = kl_shape,
    .cpu = kl_cpu,
    .backward = kl_rule,
    .keep = LT_IN(0) | LT_IN(1)};
DESCRIBE_BACKWARD(kl_div, "input, target, reduction: mean|sum|none|batchmean, log_target: bool", kl_slope_cpu)

/* ---- bce_with_logits ---- */
static bool is_weighted(lt_tensor *weight, lt_tensor *pos_weight) {
  return weight ||
         (pos_weight && !(pos_weight->is_scalar && lt_load_double(lt_ptr(pos_weight), pos_weight->dtype, 0) == 1));
}
static int bce_cpu(lt_args *c) {
  bool weighted = is_weighted(c->in[WEIGHT], c->in[POS_WEIGHT]);
  return loss_cpu(c, weighted ? &bce_loops : &bce_plain_loops, weighted);
}
static int bce_slope_cpu(lt_args *c) {
  bool weighted = is_weighted(c->in[1 + WEIGHT], c->in[1 + POS_WEIGHT]);
  return slope_cpu(c, weighted ? &bce_loops : &bce_plain_loops, weighted);
}
/* loss = w ((1 - t) x + l softplus(-x)) with l = 1 + (p - 1) t. */
static void bce_rule(lt_back *b) {
  lt_tensor *x = b->in[INPUT], *t = b->in[TARGET], *w = b->in[WEIGHT], *p = b->in[POS_WEIGHT];
  if (lt_wants(b, INPUT) && !lt_grad_enabled())
    LT_GRAD_ATTR(b, INPUT, bce_with_logits_backward, b->attr, b->grad[0], x, t, w, p);
  if (!lt_wants(b, INPUT) && !lt_wants(b, TARGET) && !lt_wants(b, WEIGHT) && !lt_wants(b, POS_WEIGHT)) return;
  lt_tensor *one = number(b, 1), *g = scaled_grad(b), *gw = w ? LT_DO(b, mul, g, w) : g, *minus = LT_DO(b, neg, x);
  lt_attr beta = {.f = {1}};
  lt_tensor *rest = LT_DO(b, sub, one, t), *extra = p ? LT_DO(b, sub, p, one) : number(b, 0);
  lt_tensor *l = LT_DO(b, add, LT_DO(b, mul, extra, t), one), *soft = LT_DO_ATTR(b, softplus, &beta, minus);
  if (lt_wants(b, INPUT)) LT_GRAD(b, INPUT, mul, gw, LT_DO(b, sub, rest, LT_DO(b, mul, l, LT_DO(b, sigmoid, minus))));
  if (lt_wants(b, TARGET)) LT_GRAD(b, TARGET, mul, gw, LT_DO(b, sub, LT_DO(b, mul, extra, soft), x));
  if (lt_wants(b, WEIGHT)) LT_GRAD(b, WEIGHT, mul, g, LT_DO(b, add, LT_DO(b, mul, rest, x), LT_DO(b, mul, l, soft)));
  if (lt_wants(b, POS_WEIGHT)) LT_GRAD(b, POS_WEIGHT, mul, gw, LT_DO(b, mul, t, soft));
}
const lt_op lt_op_bce_with_logits = {
    .name = "bce_with_logits",
    .signature = "bce_with_logits(input, target, weight: tensor?, pos_weight: operand = 1, " MEAN_SUM_NONE ")",
    .doc = "Binary cross entropy of logits and targets in [0, 1], computed without overflow. weight (of samples) and "
           "pos_weight (of positives) "
           "broadcast to the input and multiply; the mean divides by the number of elements.",
    .shape = loss_shape,
    .cpu = bce_cpu,
    .backward = bce_rule,
    .keep = LT_IN(0) | LT_IN(1) | LT_IN(2) | LT_IN(3)};
DESCRIBE_BACKWARD(bce_with_logits, "input, target, weight: tensor?, pos_weight: tensor?, reduction: mean|sum|none",
                  bce_slope_cpu)
