/* Running one node's rule: saved values are checked and handed over, the words that rules are written in (op.h), and
 * where gradients go: broadcasting is undone once for all rules, several uses are summed, a plain leaf's bucket is
 * written directly. */
#include "backward.h"

/* ---- distributing gradients ---- */

static int add_to(const lt_backward *b, lt_tensor **slot, lt_tensor *g) {
  if (!*slot) {
    *slot = lt_tensor_retain(g);
    return LT_OK;
  }
  lt_tensor *in[] = {*slot, g}, *sum;
  bool own =
      atomic_load(&(*slot)->refs) == 1 && atomic_load(&(*slot)->storage->refs) == 1; /* no view of it elsewhere */
  if (!creates_graph(b) && own && !(*slot)->is_view && lt_tensor_is_contiguous(*slot))
    return lt_run_into(LT_OP_add, in, 2, NULL, *slot, false);
  LT_TRY(lt_run(LT_OP_add, in, 2, NULL, &sum, 1));
  lt_tensor_release(*slot);
  *slot = sum;
  return LT_OK;
}

pending_leaf *pending_of(lt_backward *b, lt_tensor *leaf) {
  for (int i = 0; i < b->n_pending; i++)
    if (b->pending[i].leaf == leaf) return &b->pending[i];
  return NULL;
}

static int deliver_to_leaf(lt_backward *b, lt_tensor *leaf, lt_tensor *g) {
  pending_leaf *p = pending_of(b, leaf);
  if (p) return add_to(b, &p->grad, g);
  if (b->n_wanted) return LT_OK; /* lt.grad leaves other leaves alone */
  return lt_leaf_add(leaf, g);
}

/* Undoes broadcasting and takes the input's dtype. Gives one reference. */
static int fit(const lt_edge *e, lt_tensor *g, lt_tensor **out) {
  lt_tensor *x = lt_tensor_retain(g), *y;
  if (x->ndim != e->ndim || memcmp(x->shape, e->shape, e->ndim * sizeof *e->shape) != 0) {
    lt_attr attr = {.n_list = e->ndim};
    memcpy(attr.list, e->shape, e->ndim * sizeof *e->shape);
    int status = lt_run(LT_OP_sum_to, &x, 1, &attr, &y, 1);
    lt_tensor_release(x);
    LT_TRY(status);
    x = y;
  }
  if (x->dtype != e->dtype) {
    lt_attr attr = {.i = {e->dtype}};
    int status = lt_run(LT_OP_to, &x, 1, &attr, &y, 1);
    lt_tensor_release(x);
    LT_TRY(status);
    x = y;
  }
  *out = x;
  return LT_OK;
}

int distribute(lt_backward *b, const lt_edge *e, lt_tensor *g) {
  lt_tensor *x;
  record *r = e->node ? record_of(b, e->node) : NULL;
  if (!r && !e->leaf) return LT_OK; /* pruned */
  LT_TRY(fit(e, g, &x));
  int status = r ? add_to(b, &r->grad[e->out_index], x) : deliver_to_leaf(b, e->leaf, x);
  lt_tensor_release(x);
  return status;
}

/* ---- the words of rules ---- */

bool lt_wants(const lt_back *b, int i) {
  const lt_edge *e = &b->edge[i];
  if (i >= b->n_in || (!e->node && !e->leaf) || b->status < 0) return false;
  if (i < 64 && b->record->done >> i & 1) return false;
  if (e->leaf) return !b->pass->n_wanted || pending_of(b->pass, e->leaf);
  return !b->pass->n_wanted || record_of(b->pass, e->node);
}

static void done(lt_back *b, int i) {
  if (i < 64 && b->status >= 0) b->record->done |= 1ull << i;
}

static lt_tensor *keep_temporary(lt_back *b, lt_tensor *t) {
  if (b->n_temporary == (int)(sizeof b->temporary / sizeof *b->temporary)) {
    b->status = lt_fail(LT_ERR_STATE, "%s: its gradient rule makes too many temporaries", b->op->name);
    lt_tensor_release(t);
    return NULL;
  }
  return b->temporary[b->n_temporary++] = t;
}

lt_tensor *lt_do(lt_back *b, int id, const lt_attr *attr, int n_in, lt_tensor *const *in) {
  lt_tensor *out = NULL;
  if (b->status < 0) return NULL;
  b->status = lt_run(id, in, n_in, attr, &out, 1);
  return b->status < 0 ? NULL : keep_temporary(b, out);
}

lt_tensor *lt_do_n(lt_back *b, int id, const lt_attr *attr, int n_in, lt_tensor *const *in, int n_out,
                   lt_tensor **out) {
  for (int k = 0; k < n_out; k++) out[k] = NULL;
  if (b->status < 0) return NULL;
  b->status = lt_run(id, in, n_in, attr, out, n_out);
  for (int k = 0; k < n_out && b->status >= 0; k++) keep_temporary(b, out[k]);
  return b->status < 0 ? NULL : out[0];
}

lt_tensor *lt_number(lt_back *b, double value, int dtype) {
  lt_tensor *t = NULL;
  if (b->status < 0) return NULL;
  b->status = lt_tensor_scalar(value, dtype, &t);
  return b->status < 0 ? NULL : keep_temporary(b, t);
}

void lt_give(lt_back *b, int i, lt_tensor *grad) {
  if (!lt_wants(b, i) || !grad) return;
  b->status = distribute(b->pass, &b->edge[i], grad);
  done(b, i);
}

/* Has the result of this call the input's shape and dtype? Elementwise operators broadcast and promote; rules name
 * other operators only where they fit. */
static bool fits_input(const lt_edge *e, const lt_op *op, int n_in, lt_tensor *const *in) {
  if (!(op->flags & LT_OP_ELEMENTWISE)) return true;
  int dtype = -1;
  for (int i = 0; i < n_in; i++) {
    if (!in[i]) return false;
    if (in[i]->ndim > e->ndim) return false;
    for (int d = 1; d <= in[i]->ndim; d++)
      if (in[i]->shape[in[i]->ndim - d] != 1 && in[i]->shape[in[i]->ndim - d] != e->shape[e->ndim - d]) return false;
    if (in[i]->dtype != LT_BOOL) dtype = dtype < 0 ? in[i]->dtype : lt_promote(dtype, in[i]->dtype);
  }
  return dtype == e->dtype;
}

/* A plain leaf takes the operator's result straight into its gradient: no temporary, no second pass over memory. */
void lt_grad_by(lt_back *b, int i, int id, const lt_attr *attr, int n_in, lt_tensor *const *in) {
  if (!lt_wants(b, i)) return;
  lt_tensor *leaf = b->edge[i].leaf;
  lt_leaf *l = leaf ? leaf->leaf : NULL;
  bool is_view = lt_op_at(id)->flags & LT_OP_VIEW; /* gives memory of its own, or nothing to write */
  if (l && !is_view && !l->rows && !l->borrowed && (l->grad || l->bound) && !creates_graph(b->pass) &&
      !pending_of(b->pass, leaf) && (!l->grad || lt_op_at(id)->flags & LT_OP_ACCUMULATE) &&
      fits_input(&b->edge[i], lt_op_at(id), n_in, in)) {
    bool accumulate = l->grad != NULL;
    b->status = lt_run_into(id, in, n_in, attr, accumulate ? l->grad : l->bound, accumulate);
    if (b->status >= 0 && !accumulate) l->grad = lt_tensor_retain(l->bound);
    done(b, i);
    return;
  }
  lt_tensor *g;
  b->status = lt_run(id, in, n_in, attr, &g, 1);
  if (b->status < 0) return;
  lt_give(b, i, g);
  lt_tensor_release(g);
}

void lt_give_rows(lt_back *b, int i, lt_tensor *rows, lt_tensor *values) {
  if (!lt_wants(b, i) || !rows || !values) return;
  const lt_edge *e = &b->edge[i];
  if (e->leaf && !b->pass->n_wanted && !pending_of(b->pass, e->leaf)) {
    b->status = lt_leaf_add_rows(e->leaf, rows, values);
    done(b, i);
    return;
  }
  lt_attr attr = {.n_list = e->ndim, .i = {e->dtype}};
  memcpy(attr.list, e->shape, e->ndim * sizeof *e->shape);
  lt_tensor *dense = lt_do(b, LT_OP_zeros, &attr, 0, NULL);
  lt_tensor *sum = b->status < 0 ? NULL : lt_do(b, LT_OP_index_add, NULL, 3, (lt_tensor *[]){dense, rows, values});
  lt_give(b, i, sum);
}

/* ---- one node ---- */

/* Saved values, checked for writes since. Saved outputs come back with their history when a graph is created. */
static int unpack(const lt_backward *b, lt_node *n, lt_tensor **in, lt_tensor **out) {
  int at = 0;
  for (int i = 0; i < 16; i++) {
    bool is_in = n->op->keep & LT_IN(i) && i < n->n_in;
    if (!is_in) continue;
    in[i] = n->saved[at++].t;
  }
  for (int i = 0; i < 16; i++)
    if (n->op->keep & LT_OUT(i) && i < n->n_out) {
      out[i] = n->saved[at++].t;
      if (out[i] && creates_graph(b) && !out[i]->node) {
        out[i]->requires_grad = true;
        out[i]->out_index = i;
        out[i]->node = lt_node_retain(n); /* undone in run_rule: a lasting tie would be a cycle */
      }
    }
  for (int i = 0; i < n->n_saved_in + n->n_saved_out; i++) {
    const lt_saved *s = &n->saved[i];
    if (!s->t || atomic_load(&s->t->storage->version) == s->version) continue;
    int writer = s->t->storage->writer;
    return lt_fail(
        LT_ERR_STATE,
        "backward: the gradient of %s needs a value that %s%s wrote over afterwards; use the operator without "
        "the underscore, or clone() the value first",
        n->op->name, writer ? lt_op_name(writer - 1) : "the script", writer ? "_" : "");
  }
  return LT_OK;
}

int run_rule(lt_backward *b, record *r) {
  enum { STACK_IN = 16 };
  lt_node *n = r->node;
  lt_tensor *in[STACK_IN] = {0}, *out[LT_MAX_OUT] = {0};
  lt_back rule;
  lt_attr attr = {0};
  if (n->attr) memcpy(&attr, n->attr, (size_t)lt_attr_bytes(n->attr));
  rule.op = n->op;
  rule.attr = &attr;
  rule.n_in = n->n_in;
  rule.n_out = n->n_out;
  rule.in = in;
  rule.out = out;
  rule.grad = r->grad;
  rule.edge = n->edges;
  rule.record = r;
  rule.pass = b;
  rule.n_temporary = 0;
  rule.status = unpack(b, n, in, out);
  bool was = lt_grad_enable(creates_graph(b));
  if (rule.status >= 0) n->op->backward(&rule);
  lt_grad_enable(was);
  while (rule.n_temporary) lt_tensor_release(rule.temporary[--rule.n_temporary]);
  for (int k = 0; k < LT_MAX_OUT; k++)
    if (out[k] && out[k]->node == n && creates_graph(b)) {
      out[k]->node = NULL;
      out[k]->requires_grad = false;
      lt_node_release(n);
    }
  return rule.status;
}
