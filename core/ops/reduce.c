/* The plan that reductions share; see the header. */
#include "reduce.h"

static int reduced_dims(const lt_args *c, int ndim, bool *reduce) {
  const lt_attr *a = c->attr;
  for (int d = 0; d < ndim; d++) reduce[d] = a->n_list == 0;
  for (int k = 0; k < a->n_list; k++) {
    int64_t d = a->list[k];
    if (d < 0 || d >= ndim)
      return lt_fail(LT_ERR_RANGE, "%s: dim %lld; the tensor is %s, so dims are 1 to %d or -%d to -1", c->op->name,
                     (long long)d + 1, lt_shape_text(c->in[0]), ndim, ndim);
    if (reduce[d]) return lt_fail(LT_ERR_ARGUMENT, "%s: dim %lld is given twice", c->op->name, (long long)d + 1);
    reduce[d] = true;
  }
  return LT_OK;
}

int lt_reduced_shape_k(lt_args *c, int k, int dtype) {
  const lt_tensor *x = c->in[0];
  bool reduce[LT_MAX_DIMS];
  int64_t shape[LT_MAX_DIMS];
  int ndim = 0;
  LT_TRY(reduced_dims(c, x->ndim, reduce));
  for (int d = 0; d < x->ndim; d++)
    if (!reduce[d])
      shape[ndim++] = x->shape[d];
    else if (c->attr->i[0])
      shape[ndim++] = 1;
  return lt_out(c, k, dtype, ndim, shape);
}
int lt_reduced_shape(lt_args *c, int dtype) { return lt_reduced_shape_k(c, 0, dtype); }

static void append(lt_reduction *r, int first, const lt_tensor *x, int d) {
  int last = r->ndim - 1;
  if (x->shape[d] == 1) return;
  if (last >= first && r->stride[last] == x->stride[d] * x->shape[d]) { /* lines up: one longer dim */
    r->shape[last] *= x->shape[d];
    r->stride[last] = x->stride[d];
    return;
  }
  r->shape[r->ndim] = x->shape[d];
  r->stride[r->ndim++] = x->stride[d];
}

void lt_reduction_of(const lt_tensor *x, const bool *reduce, lt_reduction *r) {
  *r = (lt_reduction){.n_out = 1, .n_reduced = 1};
  for (int d = 0; d < x->ndim; d++)
    if (!reduce[d]) append(r, 0, x, d), r->n_out *= x->shape[d];
  r->n_kept = r->ndim;
  for (int d = 0; d < x->ndim; d++)
    if (reduce[d]) append(r, r->n_kept, x, d), r->n_reduced *= x->shape[d];
}

int lt_reduction_plan(const lt_args *c, lt_reduction *r) {
  bool reduce[LT_MAX_DIMS];
  LT_TRY(reduced_dims(c, c->in[0]->ndim, reduce));
  lt_reduction_of(c->in[0], reduce, r);
  return LT_OK;
}

int64_t lt_reduction_start(const lt_tensor *x, const lt_reduction *r, int64_t i) {
  int64_t at = x->offset;
  for (int d = r->n_kept - 1; d >= 0; d--) {
    at += i % r->shape[d] * r->stride[d];
    i /= r->shape[d];
  }
  return at;
}

int64_t lt_reduction_step(const lt_reduction *r, int64_t m) {
  int64_t at = 0;
  for (int d = r->ndim - 2; d >= r->n_kept; d--) {
    at += m % r->shape[d] * r->stride[d];
    m /= r->shape[d];
  }
  return at;
}

int64_t lt_offset_of(const lt_tensor *t, int64_t i) {
  int64_t at = 0;
  for (int d = t->ndim - 1; d >= 0; d--) {
    at += i % t->shape[d] * t->stride[d];
    i /= t->shape[d];
  }
  return at;
}

lt_tensor *lt_reduced_expand(lt_back *b, lt_tensor *g) {
  const lt_edge *e = &b->edge[0];
  lt_attr shape = {.n_list = e->ndim}, full = {.n_list = e->ndim};
  if (b->status < 0 || !g) return NULL;
  for (int d = 0; d < e->ndim; d++) {
    bool reduced = b->attr->n_list == 0;
    for (int k = 0; k < b->attr->n_list; k++) reduced = reduced || b->attr->list[k] == d;
    shape.list[d] = reduced ? 1 : e->shape[d];
    full.list[d] = e->shape[d];
  }
  return LT_DO_ATTR(b, expand, &full, LT_DO_ATTR(b, reshape, &shape, g));
}
