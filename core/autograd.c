/* The backward pass: an object that is stepped. It visits the reachable nodes by falling sequence number, which is a
 * topological order, runs each rule, sums what several uses contribute, undoes broadcasting once for all rules, and
 * frees saved values as it goes. Nothing recurses, and a step that fails for memory can be repeated: an input that got
 * its gradient is marked done, so nothing is added twice. */
#include "autograd.h"

#include <stdlib.h>

typedef struct lt_record {
  lt_node *node;
  lt_tensor **grad; /* [n_out] */
  uint64_t done;    /* inputs served (the first 64; operators with more inputs are served in one go) */
  int32_t hooks_done;
  bool asked; /* a script function has been asked for */
} record;

typedef struct pending_leaf {
  lt_tensor *leaf, *grad;
  int32_t hooks_done;
  bool wanted;
} pending_leaf;

typedef struct wanted { /* lt.grad: an input whose gradient is the result */
  lt_tensor *t;
  lt_tensor *grad;
} wanted;

struct lt_backward {
  int flags, n_records, capacity, at, n_wanted, n_pending, pending_capacity, pending_at;
  record *records; /* by falling sequence */
  int32_t *slot;   /* hash of sequence number -> record */
  int64_t slots;
  lt_tensor **grads; /* storage behind record.grad */
  int64_t n_grads;
  wanted *wanted;
  pending_leaf *pending;      /* leaves with hooks or wanted: their sums are handed over at the end */
  lt_tensor *ask[LT_MAX_OUT]; /* of the request that is out */
  int n_ask;
  int request;
};

/* ---- collecting the reachable nodes ---- */

static record *find(const lt_backward *b, const lt_node *n) {
  for (int64_t i = n->seq & (b->slots - 1);; i = (i + 1) & (b->slots - 1)) {
    if (b->slot[i] < 0) return NULL;
    if (b->records[b->slot[i]].node == n) return &b->records[b->slot[i]];
  }
}

static int rehash(lt_backward *b, int64_t slots) {
  int32_t *slot = lt_alloc(slots * (int64_t)sizeof *slot);
  if (!slot) return LT_ERR_MEMORY;
  memset(slot, 0xff, (size_t)slots * sizeof *slot);
  for (int r = 0; r < b->n_records; r++) {
    int64_t i = b->records[r].node->seq & (slots - 1);
    while (slot[i] >= 0) i = (i + 1) & (slots - 1);
    slot[i] = r;
  }
  if (b->slot) lt_free(b->slot, b->slots * (int64_t)sizeof *slot);
  b->slot = slot;
  b->slots = slots;
  return LT_OK;
}

static int reach(lt_backward *b, lt_node *n) {
  if (find(b, n)) return LT_OK;
  if (n->spent)
    return lt_fail(
        LT_ERR_STATE,
        "backward: the graph of %s was freed by an earlier backward pass; pass { retain_graph = true } to the first",
        lt_op_name(n->id));
  if (b->n_records == b->capacity) {
    int bigger = b->capacity * 2;
    record *r = lt_alloc(bigger * (int64_t)sizeof *r);
    if (!r) return LT_ERR_MEMORY;
    memcpy(r, b->records, (size_t)b->n_records * sizeof *r);
    lt_free(b->records, b->capacity * (int64_t)sizeof *r);
    b->records = r;
    b->capacity = bigger;
  }
  b->records[b->n_records++] = (record){.node = lt_node_retain(n)};
  if (b->n_records * 2 > b->slots) return rehash(b, b->slots * 4);
  int64_t i = n->seq & (b->slots - 1);
  while (b->slot[i] >= 0) i = (i + 1) & (b->slots - 1);
  b->slot[i] = b->n_records - 1;
  return LT_OK;
}

static int falling(const void *x, const void *y) {
  int64_t a = ((const record *)x)->node->seq, b = ((const record *)y)->node->seq;
  return a < b ? 1 : a > b ? -1 : 0;
}

static bool is_wanted(const lt_backward *b, const lt_node *n) {
  for (int i = 0; i < b->n_wanted; i++)
    if (b->wanted[i].t->node == n) return true;
  return false;
}

/* lt.grad visits only nodes that lead to what is asked for. Records are in falling order; leads is per record. */
static int prune(lt_backward *b) {
  bool *leads = lt_alloc(b->n_records + 1);
  if (!leads) return LT_ERR_MEMORY;
  for (int r = b->n_records - 1; r >= 0; r--) {
    lt_node *n = b->records[r].node;
    leads[r] = is_wanted(b, n);
    for (int i = 0; i < n->n_in && !leads[r]; i++) {
      if (n->edges[i].node) {
        record *e = find(b, n->edges[i].node);
        leads[r] = e && leads[e - b->records];
      }
      for (int w = 0; w < b->n_wanted && n->edges[i].leaf && !leads[r]; w++)
        leads[r] = b->wanted[w].t == n->edges[i].leaf;
    }
  }
  int kept = 0, size = b->n_records;
  for (int r = 0; r < size; r++) {
    if (leads[r])
      b->records[kept++] = b->records[r];
    else
      lt_node_release(b->records[r].node);
  }
  lt_free(leads, size + 1);
  b->n_records = kept;
  return rehash(b, b->slots);
}

static int collect(lt_backward *b) {
  /* the records double as the queue: each is expanded once */
  for (int r = 0; r < b->n_records; r++)
    for (int i = 0; i < b->records[r].node->n_in; i++)
      if (b->records[r].node->edges[i].node) LT_TRY(reach(b, b->records[r].node->edges[i].node));
  qsort(b->records, (size_t)b->n_records, sizeof *b->records, falling);
  LT_TRY(rehash(b, b->slots));
  if (b->n_wanted) LT_TRY(prune(b));
  for (int r = 0; r < b->n_records; r++) b->n_grads += b->records[r].node->n_out;
  b->grads = lt_alloc((b->n_grads + 1) * (int64_t)sizeof *b->grads);
  if (!b->grads) return LT_ERR_MEMORY;
  memset(b->grads, 0, (size_t)(b->n_grads + 1) * sizeof *b->grads);
  int64_t at = 0;
  for (int r = 0; r < b->n_records; r++) {
    b->records[r].grad = b->grads + at;
    at += b->records[r].node->n_out;
  }
  return LT_OK;
}

/* ---- distributing gradients ---- */

static bool creates_graph(const lt_backward *b) { return b->flags & LT_BACKWARD_CREATE_GRAPH; }

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

static pending_leaf *pending_of(lt_backward *b, lt_tensor *leaf) {
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

static int distribute(lt_backward *b, const lt_edge *e, lt_tensor *g) {
  lt_tensor *x;
  record *r = e->node ? find(b, e->node) : NULL;
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
  return !b->pass->n_wanted || find(b->pass, e->node);
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

static int run_rule(lt_backward *b, record *r) {
  enum { STACK_IN = 16 };
  lt_node *n = r->node;
  lt_tensor *in[STACK_IN] = {0}, *out[LT_MAX_OUT] = {0};
  lt_back rule;
  lt_attr attr = {0};
  memcpy(&attr, n->attr, (size_t)lt_attr_bytes(n->attr));
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
  LT_TRY(rehash(b, 128));
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
    if (t->node) LT_TRY(reach(b, t->node));
  }
  LT_TRY(collect(b));
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
