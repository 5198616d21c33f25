/* The backward pass: an object that is stepped. It visits the reachable nodes by falling sequence number, which is a
 * topological order, runs each rule, sums what several uses contribute, undoes broadcasting once for all rules, and
 * frees saved values as it goes. Nothing recurses, and a step that fails for memory can be repeated: an input that got
 * its gradient is marked done, so nothing is added twice. */
#include "backward.h"

/* ---- steps ---- */

static int ask(lt_backward *b, int request, int64_t number, int64_t *function, int n, lt_tensor *const *grads,
               int *n_grads) {
  b->request = request;
  b->n_ask = n;
  for (int i = 0; i < n; i++) b->ask[i] = grads[i];
  *function = number;
  *n_grads = n;
  return request;
}

static int capture(lt_backward *b, const record *r) {
  for (int w = 0; w < b->n_wanted; w++)
    if (b->wanted[w].t->node == r->node && r->grad[b->wanted[w].t->out_index] && !b->wanted[w].grad)
      b->wanted[w].grad = lt_tensor_retain(r->grad[b->wanted[w].t->out_index]);
  return LT_OK;
}

static int finish_node(lt_backward *b, record *r) {
  for (int k = 0; k < r->node->n_out; k++) {
    lt_tensor_release(r->grad[k]);
    r->grad[k] = NULL;
  }
  for (int i = 0; i < r->node->n_in && !creates_graph(b); i++)
    if (r->node->edges[i].leaf) LT_TRY(lt_leaf_settle(r->node->edges[i].leaf));
  if (!(b->flags & LT_BACKWARD_RETAIN)) lt_node_spend(r->node);
  lt_node *n = r->node;
  r->node = NULL;
  lt_node_release(n);
  b->at++;
  return LT_OK;
}

static int step_node(lt_backward *b, int64_t *function, int *n_grads) {
  record *r = &b->records[b->at];
  lt_node *n = r->node;
  bool used = false;
  for (int k = 0; k < n->n_out; k++) used = used || r->grad[k];
  if (!used) return finish_node(b, r);
  while (r->hooks_done < n->n_hooks) {
    lt_hook h = n->hooks[r->hooks_done++];
    if (h.function && r->grad[h.out_index])
      return ask(b, LT_REQUEST_HOOK, h.function, function, 1, &r->grad[h.out_index], n_grads);
  }
  capture(b, r);
  if (!n->op) {
    if (!r->asked) {
      r->asked = true;
      return ask(b, LT_REQUEST_FUNCTION, n->function, function, n->n_out, r->grad, n_grads);
    }
  } else {
    int status = run_rule(b, r);
    if (status < 0) return status;
  }
  LT_TRY(finish_node(b, r));
  return lt_gc_due() ? LT_REQUEST_COLLECT : LT_OK;
}

/* Leaves with hooks, and the leaves that lt.grad asks for, get their complete sums at the end. */
static int step_pending(lt_backward *b, int64_t *function, int *n_grads) {
  pending_leaf *p = &b->pending[b->pending_at];
  lt_leaf *leaf = p->leaf->leaf;
  while (p->grad && leaf && p->hooks_done < leaf->n_hooks) {
    lt_hook h = leaf->hooks[p->hooks_done++];
    if (h.function) return ask(b, LT_REQUEST_HOOK, h.function, function, 1, &p->grad, n_grads);
  }
  if (p->grad && p->wanted) {
    for (int w = 0; w < b->n_wanted; w++)
      if (b->wanted[w].t == p->leaf) b->wanted[w].grad = lt_tensor_retain(p->grad);
  } else if (p->grad) {
    bool was = lt_grad_enable(creates_graph(b));
    int status = lt_leaf_add(p->leaf, p->grad);
    lt_grad_enable(was);
    LT_TRY(status);
  }
  lt_tensor_release(p->grad);
  p->grad = NULL;
  if (!creates_graph(b)) LT_TRY(lt_leaf_settle(p->leaf));
  b->pending_at++;
  return LT_OK;
}

/* ---- the public object ---- */

static int add_pending(lt_backward *b, lt_tensor *leaf, bool is_wanted_leaf) {
  if (pending_of(b, leaf)) return LT_OK;
  if (b->n_pending == b->pending_capacity) {
    int bigger = b->pending_capacity ? b->pending_capacity * 2 : 8;
    pending_leaf *p = lt_alloc(bigger * (int64_t)sizeof *p);
    if (!p) return LT_ERR_MEMORY;
    if (b->n_pending) memcpy(p, b->pending, (size_t)b->n_pending * sizeof *p);
    lt_free(b->pending, b->pending_capacity * (int64_t)sizeof *p);
    b->pending = p;
    b->pending_capacity = bigger;
  }
  b->pending[b->n_pending++] = (pending_leaf){.leaf = lt_tensor_retain(leaf), .wanted = is_wanted_leaf};
  return LT_OK;
}

static int seed(lt_backward *b, const lt_handle *root, const lt_handle *grad) {
  lt_tensor *t, *g = NULL;
  LT_TRY(lt_resolve(root, &t));
  if (!t->requires_grad)
    return lt_fail(LT_ERR_STATE,
                   "backward: the tensor %s has no gradient history; none of its inputs requires a gradient, or it "
                   "was made inside lt.no_grad",
                   lt_shape_text(t));
  if (t->is_view && t->node && lt_view_is_stale(t))
    return lt_fail(LT_ERR_STATE,
                   "backward: the tensor %s is a view taken before its base was written in place by %s_; take the view "
                   "again after the write",
                   lt_shape_text(t), lt_op_name(t->storage->writer - 1));
  if (grad && grad->t_) {
    LT_TRY(lt_resolve(grad, &g));
    if (!lt_same_shape(t, g))
      return lt_fail(LT_ERR_SHAPE, "backward: the tensor is %s and its gradient %s; they must agree", lt_shape_text(t),
                     lt_shape_text(g));
    lt_tensor_retain(g);
  } else {
    if (t->n != 1)
      return lt_fail(LT_ERR_SHAPE,
                     "backward: the tensor is %s; only a single number can start without a gradient: sum it, or pass { "
                     "grad = ... }",
                     lt_shape_text(t));
    lt_attr attr = {.n_list = t->ndim, .i = {t->dtype}, .f = {1}, .device = t->storage->backend->index};
    memcpy(attr.list, t->shape, t->ndim * sizeof *t->shape);
    LT_TRY(lt_run(LT_OP_full, NULL, 0, &attr, &g, 1));
  }
  lt_edge e;
  memset(&e, 0, sizeof e);
  lt_edge_to(&e, t);
  int status = distribute(b, &e, g);
  lt_tensor_release(g);
  if (e.leaf && status >= 0) status = lt_leaf_settle(e.leaf);
  if (e.node) lt_node_release(e.node);
  lt_tensor_release(e.leaf);
  return status;
}

static int prepare(lt_backward *b, const lt_handle *const *roots, const lt_handle *const *grads, int n_roots,
                   const lt_handle *const *wrt, int n_wrt) {
  lt_tensor *t;
  b->capacity = 64;
  b->records = lt_alloc(b->capacity * (int64_t)sizeof *b->records);
  if (!b->records) return LT_ERR_MEMORY;
  LT_TRY(reach_prepare(b, 128));
  if (n_wrt) {
    b->wanted = lt_alloc(n_wrt * (int64_t)sizeof *b->wanted);
    if (!b->wanted) return LT_ERR_MEMORY;
  }
  for (int i = 0; i < n_wrt; i++) {
    LT_TRY(lt_resolve(wrt[i], &t));
    if (!t->requires_grad)
      return lt_fail(LT_ERR_STATE, "grad: input %d requires no gradient; call x:requires_grad_() before using it",
                     i + 1);
    b->wanted[b->n_wanted++] = (wanted){.t = lt_tensor_retain(t)};
    if (!t->node) LT_TRY(add_pending(b, t, true));
  }
  for (int i = 0; i < n_roots; i++) {
    LT_TRY(lt_resolve(roots[i], &t));
    if (t->node) LT_TRY(reach_node(b, t->node));
  }
  LT_TRY(reach_all(b));
  if (!b->n_wanted)
    for (int r = 0; r < b->n_records; r++)
      for (int i = 0; i < b->records[r].node->n_in; i++) {
        lt_tensor *leaf = b->records[r].node->edges[i].leaf;
        if (leaf && leaf->leaf && leaf->leaf->n_hooks) LT_TRY(add_pending(b, leaf, false));
      }
  bool was = lt_grad_enable(false);
  int status = LT_OK;
  for (int i = 0; i < n_roots && status >= 0; i++) status = seed(b, roots[i], grads ? grads[i] : NULL);
  lt_grad_enable(was);
  return status;
}

int lt_backward_new(const lt_handle *const *roots, const lt_handle *const *grads, int n_roots,
                    const lt_handle *const *wrt, int n_wrt, int flags, lt_backward **out) {
  lt_backward *b = lt_alloc(sizeof *b);
  if (!b) return LT_ERR_MEMORY;
  memset(b, 0, sizeof *b);
  b->flags = flags;
  int status = prepare(b, roots, grads, n_roots, wrt, n_wrt);
  if (status < 0)
    lt_backward_free(b);
  else
    *out = b;
  return status;
}

int lt_backward_next(lt_backward *b, int64_t *function, int *n_grads) {
  b->request = 0;
  bool was = lt_grad_enable(creates_graph(b)); /* the engine's own sums are recorded like the rules */
  int status = LT_OK;
  while (status == LT_OK && b->at < b->n_records) {
    if (lt_interrupted())
      status = lt_fail(LT_ERR_INTERRUPT, "interrupted");
    else
      status = step_node(b, function, n_grads);
  }
  while (status == LT_OK && b->pending_at < b->n_pending) status = step_pending(b, function, n_grads);
  lt_grad_enable(was);
  return status;
}

int lt_backward_grad(lt_backward *b, int i, lt_handle *out) {
  *out = (lt_handle){.gen_ = 0};
  if (i < 0 || i >= b->n_ask || !b->ask[i]) return LT_OK;
  lt_scope_link(b->ask[i], NULL);
  lt_own(lt_tensor_retain(b->ask[i]), out);
  return LT_OK;
}

int lt_backward_give(lt_backward *b, int i, const lt_handle *grad) {
  lt_tensor *g;
  LT_TRY(lt_resolve(grad, &g));
  if (b->request == LT_REQUEST_HOOK) { /* replaces the gradient that the hook saw */
    lt_tensor **slot;
    if (b->at < b->n_records) {
      record *r = &b->records[b->at];
      slot = &r->grad[r->node->hooks[r->hooks_done - 1].out_index];
    } else
      slot = &b->pending[b->pending_at].grad;
    if (!lt_same_shape(*slot, g) || (*slot)->dtype != g->dtype)
      return lt_fail(LT_ERR_SHAPE, "hook: the gradient is %s %s and the hook returned %s %s; they must agree",
                     lt_shape_text(*slot), lt_dtype_name((*slot)->dtype), lt_shape_text(g), lt_dtype_name(g->dtype));
    lt_tensor_retain(g);
    lt_tensor_release(*slot);
    *slot = g;
    return LT_OK;
  }
  if (b->request != LT_REQUEST_FUNCTION) return lt_fail(LT_ERR_STATE, "backward: no script function is being asked");
  lt_node *n = b->records[b->at].node;
  if (i < 0 || i >= n->n_in)
    return lt_fail(LT_ERR_RANGE, "function: gradient %d given; the function has %d inputs", i + 1, n->n_in);
  if (!n->edges[i].node && !n->edges[i].leaf) return LT_OK;
  if (g->ndim != n->edges[i].ndim || memcmp(g->shape, n->edges[i].shape, g->ndim * sizeof *g->shape) != 0)
    return lt_fail(LT_ERR_SHAPE, "function: input %d is %s and the gradient given for it %s; they must agree", i + 1,
                   lt_dims_text(n->edges[i].ndim, n->edges[i].shape), lt_shape_text(g));
  bool was = lt_grad_enable(creates_graph(b));
  int status = distribute(b, &n->edges[i], g);
  lt_grad_enable(was);
  return status;
}

int lt_backward_result(lt_backward *b, int i, lt_handle *out) {
  *out = (lt_handle){.gen_ = 0};
  if (i < 0 || i >= b->n_wanted || !b->wanted[i].grad) return LT_OK;
  lt_scope_link(b->wanted[i].grad, NULL);
  lt_own(lt_tensor_retain(b->wanted[i].grad), out);
  return LT_OK;
}

int64_t lt_backward_at(const lt_backward *b) {
  return b->at < b->n_records && b->records[b->at].node ? b->records[b->at].node->seq : 0;
}

void lt_backward_free(lt_backward *b) {
  for (int64_t i = 0; b->grads && i < b->n_grads; i++) lt_tensor_release(b->grads[i]);
  for (int r = 0; r < b->n_records; r++)
    if (b->records[r].node) lt_node_release(b->records[r].node);
  for (int i = 0; i < b->n_wanted; i++) {
    lt_tensor_release(b->wanted[i].t);
    lt_tensor_release(b->wanted[i].grad);
  }
  for (int i = 0; i < b->n_pending; i++) {
    lt_tensor_release(b->pending[i].leaf);
    lt_tensor_release(b->pending[i].grad);
  }
  if (b->grads) lt_free(b->grads, (b->n_grads + 1) * (int64_t)sizeof *b->grads);
  if (b->slot) lt_free(b->slot, b->slots * (int64_t)sizeof *b->slot);
  if (b->records) lt_free(b->records, b->capacity * (int64_t)sizeof *b->records);
  if (b->wanted) lt_free(b->wanted, b->n_wanted * (int64_t)sizeof *b->wanted);
  if (b->pending) lt_free(b->pending, b->pending_capacity * (int64_t)sizeof *b->pending);
  lt_free(b, sizeof *b);
}
