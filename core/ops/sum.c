/* Sums over dims, and sum_to, which undoes broadcasting. They are folds (fold.h): floats are added in double, whole
 * numbers in int64, in an order that the shape alone decides. */
#include "fold.h"

static int sum_reduction(lt_args *c, const lt_tensor *x, const lt_reduction *r) {
  lt_tensor *o = c->out[0];
  int64_t bytes = r->n_out * 8;
  void *v = lt_alloc(bytes);
  if (!v) return LT_ERR_MEMORY;
  bool whole = !lt_is_float(x->dtype);
  int status = whole ? lt_fold_run_int(x, r, &lt_fold_int_sum, v) : lt_fold_run(x, r, &lt_fold_sum, NULL, 0, v);
  for (int64_t i = 0; i < r->n_out && c->accumulate && status >= 0; i++) {
    if (whole)
      ((int64_t *)v)[i] += lt_load_int(lt_ptr(o), o->dtype, lt_offset_of(o, i));
    else
      ((double *)v)[i] += lt_load_double(lt_ptr(o), o->dtype, lt_offset_of(o, i));
  }
  if (status >= 0 && whole)
    lt_put_ints(c, 0, v);
  else if (status >= 0)
    lt_put_doubles(c, 0, v);
  lt_free(v, bytes);
  return status;
}

/* ---- sum ---- */
static int sum_shape(lt_args *c) {
  int dtype = lt_is_float(c->in[0]->dtype) ? c->in[0]->dtype : LT_INT64;
  return lt_reduced_shape(c, dtype);
}
static int sum_cpu(lt_args *c) {
  lt_reduction r;
  LT_TRY(lt_reduction_plan(c, &r));
  return sum_reduction(c, c->in[0], &r);
}
static void sum_rule(lt_back *b) { lt_give(b, 0, lt_reduced_expand(b, b->grad[0])); }
const lt_op lt_op_sum = {.name = "sum",
                         .signature = "sum(x, dims: dims = nil, keepdim: bool = false)",
                         .doc = "Sum over the given dims (all when nil); whole numbers give int64.",
                         .flags = LT_OP_ACCUMULATE,
                         .shape = sum_shape,
                         .cpu = sum_cpu,
                         .backward = sum_rule};

/* ---- sum_to(x, shape): the dims that broadcasting shape would have stretched are summed ---- */
static int sum_to_shape(lt_args *c) {
  const lt_tensor *x = c->in[0];
  int ndim = c->attr->n_list, lead = x->ndim - ndim;
  bool fits = lead >= 0;
  for (int d = 0; d < ndim && fits; d++) fits = c->attr->list[d] == 1 || c->attr->list[d] == x->shape[d + lead];
  if (!fits)
    return lt_fail(LT_ERR_SHAPE, "sum_to: %s does not come from broadcasting %s", lt_shape_text(x),
                   lt_dims_text(ndim < LT_MAX_DIMS ? ndim : LT_MAX_DIMS, c->attr->list));
  return lt_out(c, 0, x->dtype, ndim, c->attr->list);
}
static int sum_to_cpu(lt_args *c) {
  const lt_tensor *x = c->in[0], *o = c->out[0];
  bool reduce[LT_MAX_DIMS];
  int lead = x->ndim - o->ndim;
  for (int d = 0; d < x->ndim; d++) reduce[d] = d < lead || (o->shape[d - lead] == 1 && x->shape[d] != 1);
  lt_reduction r;
  lt_reduction_of(x, reduce, &r);
  return sum_reduction(c, x, &r);
}
static void sum_to_rule(lt_back *b) {
  lt_attr attr = {.n_list = b->edge[0].ndim};
  memcpy(attr.list, b->edge[0].shape, sizeof b->edge[0].shape);
  LT_GRAD_ATTR(b, 0, expand, &attr, b->grad[0]);
}
const lt_op lt_op_sum_to = {.name = "sum_to",
                            .signature = "sum_to(x, shape: ints)",
                            .doc = "Sums the dims that broadcasting from shape would have stretched.",
                            .flags = LT_OP_ACCUMULATE,
                            .shape = sum_to_shape,
                            .cpu = sum_to_cpu,
                            .backward = sum_to_rule};
