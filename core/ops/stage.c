/* Staging of outputs and the checks that operators on dims and ids share; see the header. */
#include "stage.h"

#include <stdarg.h>
#include <stdio.h>

int lt_stage(lt_args *c, int k, lt_tensor **out) {
  lt_tensor *o = c->out[k];
  bool adds = k == 0 && c->accumulate;
  if (!adds && lt_tensor_is_contiguous(o)) {
    *out = lt_tensor_retain(o);
    return LT_OK;
  }
  return lt_tensor_like(o, out);
}

int lt_unstage(lt_args *c, int k, lt_tensor *staged, int status) {
  if (status >= 0 && staged != c->out[k])
    status = lt_run_into(LT_OP_clone, &staged, 1, NULL, c->out[k], k == 0 && c->accumulate);
  lt_tensor_release(staged);
  return status;
}

int lt_out_sized(lt_args *c, int k, int ndim, const int64_t *shape) {
  int dtype = c->out[k]->dtype;
  if (!(k == 0 && c->bound)) {
    lt_tensor_release(c->out[k]);
    c->out[k] = NULL;
  }
  return lt_out(c, k, dtype, ndim, shape);
}

int lt_out_listed(lt_args *c, int dtype) {
  const lt_attr *a = c->attr;
  if (a->n_list > LT_MAX_DIMS)
    return lt_fail(LT_ERR_SHAPE, "%s: %d dims asked for; a tensor has at most %d", c->op->name, a->n_list, LT_MAX_DIMS);
  for (int d = 0; d < a->n_list; d++)
    if (a->list[d] < 0)
      return lt_fail(LT_ERR_SHAPE, "%s: size %lld of dim %d is negative", c->op->name, (long long)a->list[d], d + 1);
  return lt_out(c, 0, dtype, a->n_list, a->list);
}
int lt_check_dim(const lt_args *c, const lt_tensor *x, int64_t dim) {
  if (dim >= 0 && dim < x->ndim) return LT_OK;
  if (x->ndim == 0)
    return lt_fail(LT_ERR_RANGE, "%s: the tensor is a number and has no dims; reshape it to {1} first", c->op->name);
  return lt_fail(LT_ERR_RANGE, "%s: dim %lld; the tensor is %s, so dims are 1 to %d", c->op->name, (long long)dim + 1,
                 lt_shape_text(x), x->ndim);
}

/* "5", or "[2, 3]": where element i of a tensor is, counted from 1. */
static const char *position_text(const lt_tensor *t, int64_t i) {
  int64_t at[LT_MAX_DIMS];
  static _Thread_local char one[24];
  for (int d = t->ndim - 1; d >= 0; d--) {
    at[d] = i % t->shape[d] + 1;
    i /= t->shape[d];
  }
  if (t->ndim > 1) return lt_dims_text(t->ndim, at);
  snprintf(one, sizeof one, "%lld", (long long)(t->ndim ? at[0] : 1));
  return one;
}

int lt_check_ids(const lt_args *c, const lt_tensor *ids, int64_t limit, const char *what, ...) {
  const void *data = lt_ptr(ids);
  int64_t n = ids->n, bad = 0;
  if (ids->dtype == LT_INT64) {
    const int64_t *v = data;
#pragma omp parallel for schedule(static) reduction(| : bad) num_threads(lt_threads_for(n))
    for (int64_t i = 0; i < n; i++) bad |= v[i] < 0 || v[i] >= limit;
  } else {
    const int32_t *v = data;
#pragma omp parallel for schedule(static) reduction(| : bad) num_threads(lt_threads_for(n))
    for (int64_t i = 0; i < n; i++) bad |= v[i] < 0 || v[i] >= limit;
  }
  if (!bad) return LT_OK;
  int64_t i = 0, id;
  while (id = lt_id_at(data, ids->dtype, i), id >= 0 && id < limit) i++;
  char text[160];
  va_list args;
  va_start(args, what);
  vsnprintf(text, sizeof text, what, args);
  va_end(args);
  if (limit <= 0)
    return lt_fail(LT_ERR_RANGE, "%s: id %lld at position %s; %s is empty, so no id is legal", c->op->name,
                   (long long)id, position_text(ids, i), text);
  return lt_fail(LT_ERR_RANGE, "%s: id %lld at position %s; legal ids are 0 to %lld (%s)", c->op->name, (long long)id,
                 position_text(ids, i), (long long)limit - 1, text);
}

lt_split lt_split_at(const lt_tensor *x, int64_t dim) {
  lt_split s = {1, x->ndim ? x->shape[dim] : 1, 1};
  for (int d = 0; d < dim; d++) s.outer *= x->shape[d];
  for (int d = (int)dim + 1; d < x->ndim; d++) s.inner *= x->shape[d];
  return s;
}
