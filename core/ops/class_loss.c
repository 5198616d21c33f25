/* Losses of class scores and class ids: nll_loss of log probabilities, cross_entropy of logits (log-softmax inside).
 * Scores are [classes], [n, classes] or [n, classes, d1, ...], ids the same without the class dim. Ids are all checked
 * before anything is written. Rows whose id is ignore_index do not take part: no loss, no gradient, not counted. */
#include "line.h"
#include "loss.h"
#include <math.h>
#include <stdio.h>

enum { IGNORE, REDUCTION, NORMALIZE }; /* attr.i */

typedef struct rows { /* one line of classes for each id */
  int64_t n, classes, bytes;
  int64_t *ids;   /* [n]; -1: takes no part */
  double *weight; /* [classes] */
  double *loss;   /* [n]; backward: what each row's gradient is multiplied by */
  double smoothing, total_weight, divisor;
  bool log_inside; /* logits; else log probabilities */
} rows;

static int class_dim(const lt_tensor *x) { return x->ndim > 1; }

static int check_shapes(const lt_args *c, int first) {
  const lt_tensor *x = c->in[first], *t = c->in[first + 1], *w = c->in[first + 2];
  int64_t shape[LT_MAX_DIMS];
  int ndim = 0;
  LT_TRY(lt_need_float(c, first));
  LT_TRY(lt_need_ids(c, first + 1));
  if (x->ndim == 0)
    return lt_fail(LT_ERR_SHAPE, "%s: input is a number; it must be [classes], [n, classes] or [n, classes, d1, ...]",
                   c->op->name);
  for (int d = 0; d < x->ndim; d++)
    if (d != class_dim(x)) shape[ndim++] = x->shape[d];
  if (t->ndim != ndim || memcmp(t->shape, shape, (size_t)ndim * sizeof *shape) != 0)
    return lt_fail(LT_ERR_SHAPE,
                   "%s: input is %s, so target must be %s, one class id for each line of dim %d; it is %s", c->op->name,
                   lt_shape_text(x), lt_dims_text(ndim, shape), class_dim(x) + 1, lt_shape_text(t));
  if (w && (w->ndim != 1 || w->shape[0] != x->shape[class_dim(x)]))
    return lt_fail(LT_ERR_SHAPE, "%s: weight is %s; it must be [%lld], one for each class", c->op->name,
                   lt_shape_text(w), (long long)x->shape[class_dim(x)]);
  return LT_OK;
}
static int class_loss_shape(lt_args *c) {
  const lt_tensor *x = c->in[0], *t = c->in[1];
  LT_TRY(check_shapes(c, 0));
  return lt_out(c, 0, lt_loss_dtype(x->dtype), c->attr->i[REDUCTION] == LT_LOSS_NONE ? t->ndim : 0, t->shape);
}
static int cross_entropy_shape(lt_args *c) {
  double s = c->attr->f[0];
  if (!(s >= 0 && s <= 1))
    return lt_fail(LT_ERR_ARGUMENT, "%s: label_smoothing is %g; it must be from 0 to 1", c->op->name, s);
  return class_loss_shape(c);
}

/* ---- rows: checked ids, weights, divisor ---- */
static int check_ids(const lt_args *c, const lt_tensor *t, rows *r) {
  int64_t ignore = c->attr->i[IGNORE];
  for (int64_t i = 0; i < r->n; i++) {
    int64_t id = r->ids[i];
    if (id == ignore)
      r->ids[i] = -1;
    else if (id < 0 || id >= r->classes) {
      char where[256] = "";
      int64_t rest = i, at[LT_MAX_DIMS], used = 0;
      for (int d = t->ndim - 1; d >= 0; d--) at[d] = rest % t->shape[d] + 1, rest /= t->shape[d];
      for (int d = 0; d < t->ndim; d++)
        used += snprintf(where + used, sizeof where - (size_t)used, "%s%lld", d ? ", " : " at row ", (long long)at[d]);
      return lt_fail(LT_ERR_RANGE,
                     "%s: class id %lld%s; legal are 0 to %lld, and ignore_index %lld for rows that take no part",
                     c->op->name, (long long)id, where, (long long)r->classes - 1, (long long)ignore);
    }
  }
  return LT_OK;
}
static void close_rows(rows *r) { lt_free(r->ids, r->bytes); }
static int open_rows(const lt_args *c, int first, bool log_inside, rows *r) {
  const lt_tensor *x = c->in[first], *w = c->in[first + 2];
  lt_tensor *ids;
  *r = (rows){.n = c->in[first + 1]->n,
              .classes = x->shape[class_dim(x)],
              .smoothing = log_inside ? c->attr->f[0] : 0,
              .log_inside = log_inside};
  LT_TRY(lt_contiguous(c->in[first + 1], &ids));
  r->bytes = (2 * r->n + r->classes) * 8;
  r->ids = lt_alloc(r->bytes);
  if (!r->ids) {
    lt_tensor_release(ids);
    return LT_ERR_MEMORY;
  }
  r->loss = (double *)(r->ids + r->n);
  r->weight = r->loss + r->n;
  lt_load_line(r->ids, LT_INT64, lt_ptr(ids), ids->dtype, 1, r->n);
  lt_tensor_release(ids);
  int status = check_ids(c, c->in[first + 1], r);
  if (status < 0) {
    close_rows(r);
    return status;
  }
  for (int64_t k = 0; k < r->classes; k++) r->weight[k] = 1;
  if (w) lt_load_line(r->weight, LT_FLOAT64, lt_ptr(w), w->dtype, w->stride[0], r->classes);
  for (int64_t k = 0; k < r->classes; k++) r->total_weight += r->weight[k];
  bool by_weight = c->attr->i[NORMALIZE];
  if (c->attr->i[REDUCTION] == LT_LOSS_MEAN)
    for (int64_t i = 0; i < r->n; i++) r->divisor += r->ids[i] < 0 ? 0 : by_weight ? r->weight[r->ids[i]] : 1;
  else
    r->divisor = 1;
  return LT_OK;
}

/* ---- forward: loss = (1 - s) w[id] (top - x[id]) + s / classes * sum(w (top - x)), top = log sum e^x or 0 ---- */
#define FORWARD(T, S)                                                                                                  \
  static double smooth_##S(const rows *r, const T *x, double top) {                                                    \
    double sum = 0;                                                                                                    \
    for (int64_t k = 0; k < r->classes; k++) sum += r->weight[k] * (top - (double)x[k]);                               \
    return sum;                                                                                                        \
  }                                                                                                                    \
  static void loss_line_##S(int64_t line, int64_t n, void *out, const void *const *in, const void *context) {          \
    const rows *r = context;                                                                                           \
    const T *x = in[0];                                                                                                \
    int64_t id = r->ids[line];                                                                                         \
    double top = 0;                                                                                                    \
    (void)out;                                                                                                         \
    r->loss[line] = 0;                                                                                                 \
    if (id < 0) return;                                                                                                \
    if (r->log_inside) {                                                                                               \
      T largest = lt_line_max_##S(x, n);                                                                               \
      top = (double)largest + log(lt_line_sum_exp_##S(x, largest, n));                                                 \
    }                                                                                                                  \
    r->loss[line] = (1 - r->smoothing) * r->weight[id] * (top - (double)x[id]);                                        \
    if (r->smoothing > 0) r->loss[line] += r->smoothing / (double)n * smooth_##S(r, x, top);                           \
  }
FORWARD(float, f32)
FORWARD(double, f64)

static int class_loss(lt_args *c, bool log_inside) {
  rows r;
  lt_tensor *o = c->out[0];
  LT_TRY(open_rows(c, 0, log_inside, &r));
  int kind = lt_float_kind(c->in[0]->dtype);
  lt_lines l = {.in = {c->in[0]},
                .n_in = 1,
                .kind = kind,
                .dim = class_dim(c->in[0]),
                .f = kind == LT_FLOAT32 ? loss_line_f32 : loss_line_f64,
                .context = &r};
  int status = lt_lines_run(&l);
  if (status >= 0 && c->attr->i[REDUCTION] == LT_LOSS_NONE)
    lt_put_doubles(c, 0, r.loss);
  else if (status >= 0) {
    double sum = lt_line_sum_f64(r.loss, r.n);
    lt_store_double(lt_ptr(o), o->dtype, 0, r.divisor != 0 ? sum / r.divisor : 0);
  }
  close_rows(&r);
  return status;
}

/* ---- backward ---- */
#define BACKWARD(T, S)                                                                                                 \
  LT_CLONES static void scale_##S(T *dx, double by, int64_t n) {                                                       \
    const T f = (T)by;                                                                                                 \
    for (int64_t k = 0; k < n; k++) dx[k] *= f;                                                                        \
  }                                                                                                                    \
  static void slope_line_##S(int64_t line, int64_t n, void *out, const void *const *in, const void *context) {         \
    const rows *r = context;                                                                                           \
    const T *x = in[0];                                                                                                \
    T *dx = out;                                                                                                       \
    int64_t id = r->ids[line];                                                                                         \
    double g = r->loss[line], hit = (1 - r->smoothing), each = r->smoothing / (double)n;                               \
    if (id < 0 || !r->log_inside) {                                                                                    \
      for (int64_t k = 0; k < n; k++) dx[k] = 0;                                                                       \
      if (id >= 0) dx[id] = (T)(-g * r->weight[id]);                                                                   \
      return;                                                                                                          \
    }                                                                                                                  \
    double sum = lt_line_exp_##S(dx, x, lt_line_max_##S(x, n), n);                                                     \
    scale_##S(dx, g *(hit * r->weight[id] + each * r->total_weight) / sum, n);                                         \
    dx[id] -= (T)(g * hit * r->weight[id]);                                                                            \
    if (each > 0)                                                                                                      \
      for (int64_t k = 0; k < n; k++) dx[k] -= (T)(g * each * r->weight[k]);                                           \
  }
BACKWARD(float, f32)
BACKWARD(double, f64)

/* grad, input, target, weight */
static int class_slope_shape(lt_args *c) {
  LT_TRY(check_shapes(c, 1));
  return lt_out_like(c, 0, c->in[1]);
}
static int class_slope(lt_args *c, bool log_inside) {
  rows r;
  lt_tensor *g;
  LT_TRY(open_rows(c, 1, log_inside, &r));
  int status = lt_contiguous(c->in[0], &g), kind = lt_float_kind(c->in[1]->dtype);
  if (status >= 0) {
    if (c->attr->i[REDUCTION] == LT_LOSS_NONE)
      lt_load_line(r.loss, LT_FLOAT64, lt_ptr(g), g->dtype, 1, r.n);
    else
      for (int64_t i = 0; i < r.n; i++)
        r.loss[i] = r.divisor != 0 ? lt_load_double(lt_ptr(g), g->dtype, 0) / r.divisor : 0;
    lt_tensor_release(g);
    lt_lines l = {.out = c->out[0],
                  .in = {c->in[1]},
                  .n_in = 1,
                  .kind = kind,
                  .dim = class_dim(c->in[1]),
                  .f = kind == LT_FLOAT32 ? slope_line_f32 : slope_line_f64,
                  .context = &r};
    status = lt_lines_run(&l);
  }
  close_rows(&r);
  return status;
}
static void no_rule(lt_back *b) {
  b->status = lt_fail(LT_ERR_STATE, "%s: it has no rule; graphs of gradients are made of plain operators", b->op->name);
}

/* ---- rules: for a graph, the same as mathematics. hit is one where the class is the id of a row that takes part ----
 */
static lt_tensor *as_float(lt_back *b, lt_tensor *t) {
  lt_attr to = {.i = {lt_loss_dtype(b->edge[0].dtype)}};
  return LT_DO_ATTR(b, to, &to, t);
}
static lt_tensor *number(lt_back *b, double v) { return lt_number(b, v, lt_loss_dtype(b->edge[0].dtype)); }
static void graph_rule(lt_back *b, bool log_inside) {
  const lt_edge *e = &b->edge[0];
  int dim = e->ndim > 1;
  double classes = (double)e->shape[dim], s = log_inside ? b->attr->f[0] : 0;
  lt_attr count = {.f = {0, classes - 1, 1}, .i = {LT_INT64}}, column = {.n_list = e->ndim}, at = {.i = {dim}},
          keep = {.n_list = 1, .list = {dim}, .i = {1}};
  for (int d = 0; d < e->ndim; d++) column.list[d] = d == dim ? e->shape[d] : 1;
  lt_tensor *ids = LT_DO_ATTR(b, unsqueeze, &at, b->in[1]),
            *w = b->in[2] ? as_float(b, LT_DO_ATTR(b, reshape, &column, b->in[2])) : number(b, 1);
  lt_tensor *part = as_float(b, LT_DO(b, ne, ids, lt_number(b, (double)b->attr->i[IGNORE], LT_INT64)));
  lt_tensor *here = LT_DO(b, eq, LT_DO_ATTR(b, reshape, &column, lt_do(b, LT_OP_arange, &count, 0, NULL)), ids);
  lt_tensor *hit = LT_DO(b, mul, LT_DO(b, mul, as_float(b, here), part), w),
            *hit_weight = LT_DO_ATTR(b, sum, &keep, hit);
  lt_tensor *g = b->attr->i[REDUCTION] == LT_LOSS_NONE ? LT_DO_ATTR(b, unsqueeze, &at, b->grad[0]) : b->grad[0];
  if (b->attr->i[REDUCTION] == LT_LOSS_MEAN) {
    lt_tensor *sum = LT_DO(b, sum, b->attr->i[NORMALIZE] ? hit_weight : part);
    g = LT_DO(b, div, g, LT_DO(b, where, LT_DO(b, eq, sum, number(b, 0)), number(b, 1), sum));
  }
  lt_tensor *slope = LT_DO(b, neg, hit);
  if (log_inside) {
    lt_tensor *p = LT_DO_ATTR(b, softmax, &at, b->in[0]);
    lt_tensor *ones = LT_DO(b, add, LT_DO(b, zero, b->in[0]), number(b, 1)),
              *smooth = LT_DO(b, mul, LT_DO(b, mul, ones, w), part);
    lt_tensor *each = LT_DO(b, sub, LT_DO(b, mul, p, LT_DO_ATTR(b, sum, &keep, smooth)), smooth);
    slope = LT_DO(b, mul, LT_DO(b, sub, LT_DO(b, mul, p, hit_weight), hit), number(b, 1 - s));
    if (s > 0) slope = LT_DO(b, add, slope, LT_DO(b, mul, each, number(b, s / classes)));
  }
  LT_GRAD(b, 0, mul, g, slope);
}
static void class_rule(lt_back *b, bool log_inside, int fused) {
  lt_tensor *in[] = {b->grad[0], b->in[0], b->in[1], b->in[2]};
  if (lt_wants(b, 2)) {
    b->status = lt_fail(LT_ERR_STATE, "%s: class weights get no gradient; pass weight:detach()", b->op->name);
    return;
  }
  if (!lt_wants(b, 0)) return;
  if (lt_grad_enabled())
    graph_rule(b, log_inside);
  else
    lt_grad_by(b, 0, fused, b->attr, 4, in);
}

#define HOW "reduction: mean|sum|none = mean, normalize: count|weights = count"
#define HOW_DOC                                                                                                        \
  "Ids are int32 or int64 from 0; rows with ignore_index take no part. The mean divides by the number of rows that "   \
  "take part; class weights "                                                                                          \
  "multiply, and with normalize = \"weights\" the mean divides by their sum, as PyTorch does. Nothing taking part "    \
  "gives 0."

/* ---- nll_loss ---- */
static int nll_cpu(lt_args *c) { return class_loss(c, false); }
static int nll_slope_cpu(lt_args *c) { return class_slope(c, false); }
static void nll_rule(lt_back *b) { class_rule(b, false, LT_OP_nll_loss_backward); }
const lt_op lt_op_nll_loss = {.name = "nll_loss",
                              .signature =
                                  "nll_loss(input, target, weight: tensor?, ignore_index: int = -100, " HOW ")",
                              .doc = "Minus the log probability, input [n, classes], of each target id. " HOW_DOC,
                              .shape = class_loss_shape,
                              .cpu = nll_cpu,
                              .backward = nll_rule,
                              .keep = LT_IN(0) | LT_IN(1) | LT_IN(2)};
const lt_op lt_op_nll_loss_backward = {.name = "nll_loss_backward",
                                       .signature =
                                           "nll_loss_backward(grad, input, target, weight: tensor?, ignore_index: int, "
                                           "reduction: mean|sum|none, normalize: count|weights)",
                                       .doc = "Gradient of nll_loss with respect to its input.",
                                       .flags = LT_OP_HIDDEN,
                                       .shape = class_slope_shape,
                                       .cpu = nll_slope_cpu,
                                       .backward = no_rule};

/* ---- cross_entropy ---- */
static int cross_entropy_cpu(lt_args *c) { return class_loss(c, true); }
static int cross_entropy_slope_cpu(lt_args *c) { return class_slope(c, true); }
static void cross_entropy_rule(lt_back *b) { class_rule(b, true, LT_OP_cross_entropy_backward); }
const lt_op lt_op_cross_entropy = {
    .name = "cross_entropy",
    .signature =
        "cross_entropy(input, target, weight: tensor?, ignore_index: int = -100, label_smoothing: number = 0, " HOW ")",
    .doc = "Cross entropy of logits, input [n, classes], and class ids; the softmax is inside. label_smoothing s gives "
           "every class s / classes "
           "of the target and the id's class 1 - s more. " HOW_DOC,
    .shape = cross_entropy_shape,
    .cpu = cross_entropy_cpu,
    .backward = cross_entropy_rule,
    .keep = LT_IN(0) | LT_IN(1) | LT_IN(2)};
const lt_op lt_op_cross_entropy_backward = {
    .name = "cross_entropy_backward",
    .signature = "cross_entropy_backward(grad, input, target, weight: tensor?, ignore_index: int, label_smoothing: "
                 "number, reduction: mean|sum|none, normalize: count|weights)",
    .doc = "Gradient of cross_entropy with respect to its input.",
    .flags = LT_OP_HIDDEN,
    .shape = class_slope_shape,
    .cpu = cross_entropy_slope_cpu,
    .backward = no_rule};
