/* Leaves: tensors that a gradient is asked for, and that gradient. It is dense, or for tables some rows of it; a dense
 * contribution makes rows dense. The first dense gradient is borrowed from the rule that made it and becomes the leaf's
 * own when the rule is done: a temporary needs no copy. A bound buffer (part of an optimizer's arena) is where the
 * dense gradient must live.
 */
#include "autograd.h"

int lt_leaf_of(lt_tensor *t, lt_leaf **out) {
  if (!t->leaf) {
    lt_leaf *leaf = lt_alloc(sizeof *leaf);
    if (!leaf) return LT_ERR_MEMORY;
    *leaf = (lt_leaf){0};
    t->leaf = leaf;
  }
  *out = t->leaf;
  return LT_OK;
}

void lt_leaf_clear(lt_leaf *leaf) {
  lt_tensor_release(leaf->grad);
  lt_tensor_release(leaf->rows);
  lt_tensor_release(leaf->values);
  leaf->grad = leaf->rows = leaf->values = NULL;
  leaf->borrowed = false;
}

void lt_leaf_free(lt_leaf *leaf) {
  lt_leaf_clear(leaf);
  lt_tensor_release(leaf->bound);
  for (int i = 0; i < leaf->n_hooks; i++) lt_function_dropped(leaf->hooks[i].function);
  if (leaf->hooks) lt_free(leaf->hooks, leaf->n_hooks * (int64_t)sizeof *leaf->hooks);
  lt_free(leaf, sizeof *leaf);
}

/* Rows become dense: zeros of the leaf's shape with the sums added in row order. */
static int densify(lt_tensor *t, lt_leaf *leaf) {
  lt_tensor *dense = lt_tensor_retain(leaf->bound), *in[3];
  if (!dense) LT_TRY(lt_tensor_new(t->storage->backend, t->dtype, t->ndim, t->shape, &dense));
  lt_attr attr = {.device = t->storage->backend->index};
  int status = lt_run_into(LT_OP_zero, &dense, 1, &attr, dense, false);
  in[0] = dense;
  in[1] = leaf->rows;
  in[2] = leaf->values;
  if (status >= 0) status = lt_run_into(LT_OP_index_add, in, 3, &attr, dense, false);
  if (status < 0) {
    lt_tensor_release(dense);
    return status;
  }
  lt_leaf_clear(leaf);
  leaf->grad = dense;
  return LT_OK;
}

static int copy_grad(lt_leaf *leaf) {
  lt_tensor *own;
  bool was = lt_grad_enable(false);
  int status = lt_run(LT_OP_clone, &leaf->grad, 1, NULL, &own, 1);
  lt_grad_enable(was);
  LT_TRY(status);
  lt_tensor_release(leaf->grad);
  leaf->grad = own;
  leaf->borrowed = false;
  return LT_OK;
}

int lt_leaf_settle(lt_tensor *t) {
  lt_leaf *leaf = t->leaf;
  if (!leaf || !leaf->borrowed) return LT_OK;
  lt_tensor *g = leaf->grad;
  bool own = atomic_load(&g->refs) == 1 && atomic_load(&g->storage->refs) == 1 && !g->requires_grad &&
             lt_tensor_is_contiguous(g) && g->storage->bytes == g->n * lt_size_of(g->dtype);
  if (!own) return copy_grad(leaf);
  g->is_view = leaf->borrowed = false;
  return LT_OK;
}

int lt_leaf_add(lt_tensor *t, lt_tensor *grad) {
  lt_leaf *leaf;
  LT_TRY(lt_leaf_of(t, &leaf));
  if (leaf->rows) LT_TRY(densify(t, leaf));
  if (leaf->grad && !lt_recording() && !leaf->borrowed) {
    lt_tensor *in[] = {leaf->grad, grad};
    return lt_run_into(LT_OP_add, in, 2, NULL, leaf->grad, false);
  }
  if (leaf->grad) { /* a gradient that is itself differentiable, or that others hold */
    lt_tensor *in[] = {leaf->grad, grad}, *sum;
    LT_TRY(lt_run(LT_OP_add, in, 2, NULL, &sum, 1));
    lt_tensor_release(leaf->grad);
    leaf->grad = sum;
    leaf->borrowed = true;
    return LT_OK;
  }
  if (leaf->bound && !lt_recording()) {
    LT_TRY(lt_run_into(LT_OP_clone, &grad, 1, NULL, leaf->bound, false));
    leaf->grad = lt_tensor_retain(leaf->bound);
    return LT_OK;
  }
  leaf->grad = lt_tensor_retain(grad);
  leaf->borrowed = true;
  return LT_OK;
}

int lt_leaf_add_rows(lt_tensor *t, lt_tensor *rows, lt_tensor *values) {
  lt_leaf *leaf;
  LT_TRY(lt_leaf_of(t, &leaf));
  if (leaf->grad) {
    if (leaf->borrowed) LT_TRY(copy_grad(leaf));
    lt_tensor *in[] = {leaf->grad, rows, values};
    return lt_run_into(LT_OP_index_add, in, 3, NULL, leaf->grad, false);
  }
  if (!leaf->rows) {
    leaf->rows = lt_tensor_retain(rows);
    leaf->values = lt_tensor_retain(values);
    return LT_OK;
  }
  lt_tensor *in[] = {leaf->rows, leaf->values, rows, values}, *merged[2];
  LT_TRY(lt_run(LT_OP_merge_rows, in, 4, NULL, merged, 2));
  lt_tensor_release(leaf->rows);
  lt_tensor_release(leaf->values);
  leaf->rows = merged[0];
  leaf->values = merged[1];
  return LT_OK;
}

/* ---- what scripts ask ---- */

bool lt_requires_grad(const lt_handle *h) {
  lt_tensor *t;
  return lt_resolve(h, &t) == LT_OK && t->requires_grad;
}
bool lt_is_leaf(const lt_handle *h) {
  lt_tensor *t;
  return lt_resolve(h, &t) == LT_OK && !t->node;
}
int64_t lt_node_seq(const lt_handle *h) {
  lt_tensor *t;
  return lt_resolve(h, &t) == LT_OK && t->node ? t->node->seq : 0;
}

int lt_set_requires_grad(const lt_handle *h, bool on) {
  lt_tensor *t;
  LT_TRY(lt_resolve(h, &t));
  if (t->node)
    return lt_fail(LT_ERR_STATE,
                   "requires_grad: only a leaf can be told; this tensor is the result of %s: use x:detach()",
                   lt_op_name(t->op));
  if (on && !lt_is_float(t->dtype))
    return lt_fail(LT_ERR_DTYPE, "requires_grad: the tensor is %s; only floating types have gradients",
                   lt_dtype_name(t->dtype));
  t->requires_grad = on;
  return LT_OK;
}

static int hand_out(lt_tensor *g, lt_tensor *leaf, lt_handle *out) {
  if (!g) {
    *out = (lt_handle){.gen_ = 0};
    return LT_OK;
  }
  lt_scope_link(g, leaf);
  lt_own(lt_tensor_retain(g), out);
  return LT_OK;
}

int lt_grad(const lt_handle *h, lt_handle *out) {
  lt_tensor *t;
  LT_TRY(lt_resolve(h, &t));
  return hand_out(t->leaf ? t->leaf->grad : NULL, t, out);
}

int lt_grad_dense(const lt_handle *h, lt_handle *out) {
  lt_tensor *t;
  LT_TRY(lt_resolve(h, &t));
  if (t->leaf && t->leaf->rows) LT_TRY(densify(t, t->leaf));
  return hand_out(t->leaf ? t->leaf->grad : NULL, t, out);
}

int lt_grad_rows(const lt_handle *h, lt_handle *rows, lt_handle *values) {
  lt_tensor *t;
  LT_TRY(lt_resolve(h, &t));
  LT_TRY(hand_out(t->leaf ? t->leaf->rows : NULL, t, rows));
  return hand_out(t->leaf ? t->leaf->values : NULL, t, values);
}

int lt_set_grad(const lt_handle *h, const lt_handle *grad) {
  lt_tensor *t, *g = NULL;
  lt_leaf *leaf;
  LT_TRY(lt_resolve(h, &t));
  if (!grad) {
    if (t->leaf) lt_leaf_clear(t->leaf);
    return LT_OK;
  }
  LT_TRY(lt_resolve(grad, &g));
  if (!lt_same_shape(t, g) || t->dtype != g->dtype)
    return lt_fail(LT_ERR_SHAPE, "set_grad: the tensor is %s %s and the gradient %s %s; they must agree",
                   lt_shape_text(t), lt_dtype_name(t->dtype), lt_shape_text(g), lt_dtype_name(g->dtype));
  LT_TRY(lt_leaf_of(t, &leaf));
  lt_tensor_retain(g);
  lt_leaf_clear(leaf);
  leaf->grad = g;
  return LT_OK;
}

int lt_set_grad_rows(const lt_handle *h, const lt_handle *rows, const lt_handle *values) {
  lt_tensor *t, *r, *v;
  lt_leaf *leaf;
  LT_TRY(lt_resolve(h, &t));
  LT_TRY(lt_resolve(rows, &r));
  LT_TRY(lt_resolve(values, &v));
  if (v->ndim != t->ndim || r->ndim != 1 || v->shape[0] != r->shape[0] || v->dtype != t->dtype ||
      memcmp(v->shape + 1, t->shape + 1, (size_t)(t->ndim - 1) * sizeof *t->shape) != 0)
    return lt_fail(LT_ERR_SHAPE, "set_grad_rows: rows %s and values %s do not fit a tensor of shape %s",
                   lt_shape_text(r), lt_shape_text(v), lt_shape_text(t));
  LT_TRY(lt_leaf_of(t, &leaf));
  lt_tensor_retain(r);
  lt_tensor_retain(v);
  lt_leaf_clear(leaf);
  leaf->rows = r;
  leaf->values = v;
  return LT_OK;
}

int lt_bind_grad(const lt_handle *h, const lt_handle *buffer) {
  lt_tensor *t, *b;
  lt_leaf *leaf;
  LT_TRY(lt_resolve(h, &t));
  LT_TRY(lt_resolve(buffer, &b));
  if (!lt_same_shape(t, b) || t->dtype != b->dtype || !lt_tensor_is_contiguous(b))
    return lt_fail(LT_ERR_SHAPE, "bind_grad: the tensor is %s and the buffer %s; they must agree and be contiguous",
                   lt_shape_text(t), lt_shape_text(b));
  LT_TRY(lt_leaf_of(t, &leaf));
  lt_tensor_release(leaf->bound);
  leaf->bound = lt_tensor_retain(b);
  return LT_OK;
}
