/* Reductions that give numbers about a set: mean, var, std, norm, logsumexp, prod. Each is one or two folds and a
 * finish per result; var and logsumexp fold twice, about the mean and the maximum, so that large offsets cost no
 * digits. */
#include "elementwise.h"
#include "fold.h"
#include <math.h>

typedef struct work {
  lt_reduction r;
  double *v;
} work; /* v: [n_out], then as many again for a center */

static int start(const lt_args *c, work *w) {
  LT_TRY(lt_reduction_plan(c, &w->r));
  w->v = lt_alloc(2 * w->r.n_out * (int64_t)sizeof *w->v);
  return w->v ? LT_OK : LT_ERR_MEMORY;
}
static int finish(const lt_args *c, work *w, int status) {
  if (status >= 0) lt_put_doubles(c, 0, w->v);
  lt_free(w->v, 2 * w->r.n_out * (int64_t)sizeof *w->v);
  return status;
}
static int float_shape(lt_args *c) {
  LT_TRY(lt_need_float(c, 0));
  return lt_reduced_shape(c, c->in[0]->dtype);
}

/* ---- words of the rules ---- */
static bool is_reduced(const lt_back *b, int d) {
  bool given = b->attr->n_list == 0;
  for (int k = 0; k < b->attr->n_list; k++) given = given || b->attr->list[k] == d;
  return given;
}
static double count_of(const lt_back *b) {
  double n = 1;
  for (int d = 0; d < b->edge[0].ndim; d++)
    if (is_reduced(b, d)) n *= (double)b->edge[0].shape[d];
  return n;
}
static lt_attr keeping(const lt_back *b) { /* the same dims, kept with size 1 */
  lt_attr a = *b->attr;
  a.i[0] = 1;
  return a;
}
static lt_tensor *number(lt_back *b, double v) { return lt_number(b, v, b->edge[0].dtype); }
/* a / d, and 0 where d is 0; also the derivatives are 0 there. */
static lt_tensor *ratio(lt_back *b, lt_tensor *a, lt_tensor *d) {
  lt_tensor *none = LT_DO(b, eq, d, number(b, 0));
  return LT_DO(b, where, none, number(b, 0), LT_DO(b, div, a, LT_DO(b, where, none, number(b, 1), d)));
}

/* ---- mean ---- */
static int mean_shape(lt_args *c) {
  return lt_reduced_shape(c, lt_is_float(c->in[0]->dtype) ? c->in[0]->dtype : LT_FLOAT32);
}
static int mean_into(const lt_args *c, const work *w, double *to) {
  LT_TRY(lt_fold_run(c->in[0], &w->r, &lt_fold_sum, NULL, 0, to));
  for (int64_t i = 0; i < w->r.n_out; i++) to[i] /= (double)w->r.n_reduced;
  return LT_OK;
}
static int mean_cpu(lt_args *c) {
  work w;
  LT_TRY(start(c, &w));
  return finish(c, &w, mean_into(c, &w, w.v));
}
static void mean_rule(lt_back *b) {
  lt_give(b, 0, lt_reduced_expand(b, LT_DO(b, mul, b->grad[0], number(b, 1 / count_of(b)))));
}
const lt_op lt_op_mean = {.name = "mean",
                          .signature = "mean(x, dims: dims = nil, keepdim: bool = false)",
                          .doc = "Mean over the given dims (all when nil), added in float64; integers and bools give "
                                 "float32. The mean of nothing is NaN.",
                          .shape = mean_shape,
                          .cpu = mean_cpu,
                          .backward = mean_rule};

/* ---- var, std ---- */
static int var_shape(lt_args *c) {
  if (c->attr->i[1] < 0)
    return lt_fail(LT_ERR_ARGUMENT, "%s: correction is %lld; it must be 0 or more", c->op->name,
                   (long long)c->attr->i[1]);
  return float_shape(c);
}
static int var_into(const lt_args *c, const work *w) {
  double *mean = w->v + w->r.n_out, n = (double)w->r.n_reduced - (double)c->attr->i[1];
  LT_TRY(mean_into(c, w, mean));
  LT_TRY(lt_fold_run(c->in[0], &w->r, &lt_fold_squares, mean, 0, w->v));
  for (int64_t i = 0; i < w->r.n_out; i++) w->v[i] /= n > 0 ? n : 0;
  return LT_OK;
}
static int var_cpu(lt_args *c) {
  work w;
  LT_TRY(start(c, &w));
  return finish(c, &w, var_into(c, &w));
}
static int std_cpu(lt_args *c) {
  work w;
  LT_TRY(start(c, &w));
  int status = var_into(c, &w);
  for (int64_t i = 0; i < w.r.n_out && status >= 0; i++) w.v[i] = sqrt(w.v[i]);
  return finish(c, &w, status);
}
/* d var / dx = 2 (x - mean) / (n - correction); g is what that multiplies. */
static void spread_rule(lt_back *b, lt_tensor *g) {
  lt_attr keep = keeping(b);
  double n = count_of(b) - (double)b->attr->i[1];
  lt_tensor *centered = LT_DO(b, sub, b->in[0], LT_DO_ATTR(b, mean, &keep, b->in[0]));
  LT_GRAD(b, 0, mul, lt_reduced_expand(b, LT_DO(b, mul, g, number(b, 2 / (n > 0 ? n : 0)))), centered);
}
static void var_rule(lt_back *b) { spread_rule(b, b->grad[0]); }
static void std_rule(lt_back *b) { spread_rule(b, ratio(b, LT_DO(b, mul, b->grad[0], number(b, 0.5)), b->out[0])); }
const lt_op lt_op_var = {.name = "var",
                         .signature = "var(x, dims: dims = nil, keepdim: bool = false, correction: int = 1)",
                         .doc = "Variance over the given dims (all when nil), divided by n - correction: 1 for a "
                                "sample, 0 for a whole population. "
                                "NaN when nothing is left to divide by.",
                         .shape = var_shape,
                         .cpu = var_cpu,
                         .backward = var_rule,
                         .keep = LT_IN(0)};
const lt_op lt_op_std = {.name = "std",
                         .signature = "std(x, dims: dims = nil, keepdim: bool = false, correction: int = 1)",
                         .doc = "Standard deviation, the root of var; its gradient is 0 where it is 0.",
                         .shape = var_shape,
                         .cpu = std_cpu,
                         .backward = std_rule,
                         .keep = LT_IN(0) | LT_OUT(0)};

/* ---- norm ---- */
static int norm_shape(lt_args *c) {
  if (!(c->attr->f[0] >= 0))
    return lt_fail(LT_ERR_ARGUMENT, "norm: p is %g; it must be 0 or more, or math.huge", c->attr->f[0]);
  return float_shape(c);
}
static int norm_cpu(lt_args *c) {
  work w;
  double p = c->attr->f[0];
  const lt_fold *f = p == 2     ? &lt_fold_squares
                     : p == 1   ? &lt_fold_magnitudes
                     : p == 0   ? &lt_fold_count
                     : isinf(p) ? &lt_fold_largest_magnitude
                                : &lt_fold_powers;
  LT_TRY(start(c, &w));
  int status = lt_fold_run(c->in[0], &w.r, f, NULL, p, w.v);
  for (int64_t i = 0; i < w.r.n_out && status >= 0; i++) {
    if (p == 2)
      w.v[i] = sqrt(w.v[i]);
    else if (f == &lt_fold_powers)
      w.v[i] = pow(w.v[i], 1 / p);
  }
  return finish(c, &w, status);
}
static void norm_rule(lt_back *b) {
  double p = b->attr->f[0];
  lt_tensor *g = b->grad[0], *x = b->in[0], *y = b->out[0];
  if (p == 2)
    LT_GRAD(b, 0, mul, lt_reduced_expand(b, ratio(b, g, y)), x);
  else if (p == 1)
    LT_GRAD(b, 0, mul, lt_reduced_expand(b, g), LT_DO(b, sign, x));
  else if (p == 0)
    LT_GRAD(b, 0, mul, lt_reduced_expand(b, g), LT_DO(b, zero, x));
  else if (isinf(p)) { /* elements of the largest magnitude share */
    lt_attr keep = keeping(b);
    lt_tensor *share = LT_DO(b, mul, LT_DO(b, sign, x), LT_DO(b, eq, LT_DO(b, abs, x), lt_reduced_expand(b, y)));
    lt_tensor *n = LT_DO_ATTR(b, sum, &keep, LT_DO(b, abs, share));
    LT_GRAD(b, 0, mul, lt_reduced_expand(b, g), ratio(b, share, n));
  } else { /* sign(x) (|x| / norm)^(p - 1) */
    lt_tensor *part = ratio(b, LT_DO(b, abs, x), lt_reduced_expand(b, y)), *none = LT_DO(b, eq, part, number(b, 0));
    lt_tensor *safe = LT_DO(b, where, none, number(b, 1), part);
    lt_tensor *slope = LT_DO(b, mul, LT_DO(b, sign, x), LT_DO(b, pow, safe, number(b, p - 1)));
    LT_GRAD(b, 0, mul, lt_reduced_expand(b, g), LT_DO(b, where, none, number(b, 0), slope));
  }
}
const lt_op lt_op_norm = {.name = "norm",
                          .signature = "norm(x, p: number = 2, dims: dims = nil, keepdim: bool = false)",
                          .doc = "p-norm (sum |x|^p)^(1/p) over the given dims (all when nil); p = math.huge: the "
                                 "largest |x|, p = 0: how many are not 0. "
                                 "The gradient at 0 is 0; the largest magnitudes share theirs.",
                          .shape = norm_shape,
                          .cpu = norm_cpu,
                          .backward = norm_rule,
                          .keep = LT_IN(0) | LT_OUT(0)};

/* ---- logsumexp ---- */
static int logsumexp_cpu(lt_args *c) {
  work w;
  LT_TRY(start(c, &w));
  double *top = w.v + w.r.n_out;
  int status = lt_fold_run(c->in[0], &w.r, &lt_fold_largest, NULL, 0, top);
  for (int64_t i = 0; i < w.r.n_out && status >= 0; i++)
    if (isinf(top[i])) top[i] = 0; /* inf - inf would be NaN */
  if (status >= 0) status = lt_fold_run(c->in[0], &w.r, &lt_fold_exponentials, top, 0, w.v);
  for (int64_t i = 0; i < w.r.n_out && status >= 0; i++) w.v[i] = log(w.v[i]) + top[i];
  return finish(c, &w, status);
}
static void logsumexp_rule(lt_back *b) {
  lt_tensor *y = b->out[0],
            *nothing = LT_DO(b, eq, y, number(b, -INFINITY)); /* all inputs -inf: no gradient, not NaN */
  lt_tensor *shift = LT_DO(b, where, nothing, number(b, 0), y);
  LT_GRAD(b, 0, mul, lt_reduced_expand(b, b->grad[0]),
          LT_DO(b, exp, LT_DO(b, sub, b->in[0], lt_reduced_expand(b, shift))));
}
const lt_op lt_op_logsumexp = {
    .name = "logsumexp",
    .signature = "logsumexp(x, dims: dims = nil, keepdim: bool = false)",
    .doc = "log(sum(e^x)) over the given dims (all when nil), without overflow. Of nothing: -inf.",
    .shape = float_shape,
    .cpu = logsumexp_cpu,
    .backward = logsumexp_rule,
    .keep = LT_IN(0) | LT_OUT(0)};

/* ---- prod ---- */
static int prod_shape(lt_args *c) {
  return lt_reduced_shape(c, lt_is_float(c->in[0]->dtype) ? c->in[0]->dtype : LT_INT64);
}
static int prod_cpu(lt_args *c) {
  work w;
  LT_TRY(start(c, &w));
  if (lt_is_float(c->in[0]->dtype)) return finish(c, &w, lt_fold_run(c->in[0], &w.r, &lt_fold_product, NULL, 0, w.v));
  int64_t *whole = (int64_t *)w.v;
  int status = lt_fold_run_int(c->in[0], &w.r, &lt_fold_int_product, whole);
  if (status >= 0) lt_put_ints(c, 0, whole);
  lt_free(w.v, 2 * w.r.n_out * (int64_t)sizeof *w.v);
  return status;
}
/* Each element's slope is the product of the others, without a division, so zeros are no trouble. The reduced dims come
 * last, as one: [kept..., n]. For a graph, row i of [kept..., n, n] is x with element i replaced by 1. */
static void prod_rule(lt_back *b) {
  const lt_edge *e = &b->edge[0];
  lt_attr last = {.n_list = e->ndim}, back = {.n_list = e->ndim}, flat = {.n_list = 0}, shape = {.n_list = e->ndim},
          one = {.n_list = 0};
  int64_t n = (int64_t)count_of(b);
  int at = 0;
  for (int reduced = 0; reduced < 2; reduced++)
    for (int d = 0; d < e->ndim; d++)
      if (is_reduced(b, d) == reduced) {
        back.list[d] = at;
        shape.list[at] = e->shape[d];
        last.list[at++] = d;
        if (!reduced) flat.list[flat.n_list++] = one.list[one.n_list++] = e->shape[d];
      }
  flat.list[flat.n_list++] = n;
  one.list[one.n_list++] = 1;
  lt_tensor *x = LT_DO_ATTR(b, reshape, &flat, LT_DO_ATTR(b, permute, &last, b->in[0])), *others;
  lt_tensor *g = LT_DO_ATTR(b, reshape, &one, b->grad[0]);
  if (lt_grad_enabled()) {
    if (flat.n_list == LT_MAX_DIMS) {
      b->status =
          lt_fail(LT_ERR_SHAPE,
                  "prod: the second derivative needs a tensor of at most %d dims after the reduced ones are joined",
                  LT_MAX_DIMS - 1);
      return;
    }
    lt_attr eye = {.i = {n, -1, LT_BOOL}}, row = {.i = {flat.n_list - 1}}, over = {.n_list = 1, .list = {flat.n_list}};
    lt_tensor *self = lt_do(b, LT_OP_eye, &eye, 0, NULL), *rows = LT_DO_ATTR(b, unsqueeze, &row, x);
    others = LT_DO_ATTR(b, prod, &over, LT_DO(b, where, self, number(b, 1), rows));
  } else {
    lt_attr dim = {.i = {flat.n_list - 1}};
    others = LT_DO_ATTR(b, prod_others, &dim, x);
  }
  lt_tensor *dx = LT_DO_ATTR(b, reshape, &shape, LT_DO(b, mul, g, others));
  lt_give(b, 0, LT_DO_ATTR(b, permute, &back, dx));
}
const lt_op lt_op_prod = {
    .name = "prod",
    .signature = "prod(x, dims: dims = nil, keepdim: bool = false)",
    .doc = "Product over the given dims (all when nil); whole numbers give int64. The product of nothing is 1.",
    .shape = prod_shape,
    .cpu = prod_cpu,
    .backward = prod_rule,
    .keep = LT_IN(0)};
