/* Recording: a node ties an operator's outputs to its inputs and saves what the rule reads. Releasing never recurses: a
 * chain of a million nodes dies through a list. */
#include "autograd.h"

#include <math.h>

static _Atomic int64_t next_seq = 1;
static _Thread_local bool grad_off;
bool lt_anomaly_on;

bool lt_recording(void) { return !grad_off; }
bool lt_grad_enabled(void) { return !grad_off; }
bool lt_grad_enable(bool on) {
  bool was = !grad_off;
  grad_off = !on;
  return was;
}
void lt_anomaly(bool on) { lt_anomaly_on = on; }

/* Does the operator have arguments besides tensors? Its signature tells; most elementwise ones have none, and their
 * nodes are smaller by a third. */
static bool takes_attributes(const lt_args *c) {
  static _Atomic int8_t known[LT_OP_COUNT]; /* 0: not looked yet, 1: no, 2: yes */
  int8_t answer = atomic_load_explicit(&known[c->id], memory_order_relaxed);
  if (answer) return answer == 2;
  answer = c->op->flags & LT_OP_RANDOM ? 2 : 1; /* a random one keeps its stream there */
  for (const char *at = strchr(c->op->signature, ':'); at; at = strchr(at + 1, ':'))
    if (strncmp(at, ": tensor", 8) != 0 && strncmp(at, ": operand", 9) != 0) answer = 2;
  atomic_store_explicit(&known[c->id], answer, memory_order_relaxed);
  return answer == 2;
}

/* Bytes of the attributes that are in use; the list stands last. */
int64_t lt_attr_bytes(const lt_attr *attr) {
  return (int64_t)offsetof(lt_attr, list) + attr->n_list * (int64_t)sizeof *attr->list;
}

lt_node *lt_node_new(const lt_op *op, int id, int n_in, int n_out, int n_saved, const lt_attr *attr) {
  lt_node *n;
  int64_t edges = (int64_t)sizeof *n, saved = edges + n_in * (int64_t)sizeof(lt_edge);
  int64_t attributes = saved + n_saved * (int64_t)sizeof(lt_saved),
          bytes = attributes + (attr ? lt_attr_bytes(attr) : 0);
  n = lt_alloc(bytes);
  if (!n) return NULL;
  memset(n, 0, sizeof *n);
  n->edges = (lt_edge *)((char *)n + edges);
  n->saved = (lt_saved *)((char *)n + saved);
  if (attr) n->attr = memcpy((char *)n + attributes, attr, (size_t)lt_attr_bytes(attr));
  n->refs = 1;
  n->op = op;
  n->id = id;
  n->n_in = (int16_t)n_in;
  n->n_out = (int16_t)n_out;
  n->bytes = bytes;
  n->seq = atomic_fetch_add_explicit(&next_seq, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&lt_live_nodes, 1, memory_order_relaxed);
  return n;
}

void lt_edge_to(lt_edge *e, lt_tensor *t) {
  e->node = NULL;
  e->leaf = NULL;
  if (!t) {
    e->ndim = 0;
    return;
  }
  e->dtype = t->dtype;
  e->ndim = t->ndim;
  memcpy(e->shape, t->shape, t->ndim * sizeof *t->shape);
  if (!t->requires_grad) return;
  e->out_index = (int16_t)t->out_index;
  if (t->node)
    e->node = lt_node_retain(t->node);
  else
    e->leaf = lt_tensor_retain(t);
}

/* Outputs are saved as aliases without history, else node and output would hold each other. */
int lt_node_prepare(const lt_args *c, lt_node **out) {
  uint32_t keep = c->op->keep, reads = c->op->reads ? c->op->reads(c) : keep;
  uint32_t ins = keep & ((1u << (c->n_in < 16 ? c->n_in : 16)) - 1), outs = keep >> 16 & ((1u << c->n_out) - 1);
  int n_in = __builtin_popcount(ins), n_out = __builtin_popcount(outs);
  lt_node *n = lt_node_new(c->op, c->id, c->n_in, c->n_out, n_in + n_out, takes_attributes(c) ? c->attr : NULL);
  if (!n) return LT_ERR_MEMORY;
  n->n_saved_in = (int16_t)n_in;
  n->n_saved_out = (int16_t)n_out;
  for (int i = 0; i < c->n_in; i++) lt_edge_to(&n->edges[i], c->in[i]);
  int at = 0, status = LT_OK;
  for (int i = 0; i < n_in + n_out; i++) n->saved[i].t = NULL;
  for (; ins; ins &= ins - 1, at++) {
    int i = __builtin_ctz(ins);
    if (!c->in[i] || !(reads & LT_IN(i))) continue;
    if (c->bound && c->in[i]->storage == c->out[0]->storage)
      status = lt_fail(LT_ERR_STATE,
                       "%s_: the gradient rule of %s reads the value that would be overwritten; use %s without the "
                       "underscore",
                       c->op->name, c->op->name, c->op->name);
    else
      n->saved[at].t = lt_tensor_retain(c->in[i]);
  }
  for (; outs && status >= 0; outs &= outs - 1, at++) {
    int i = __builtin_ctz(outs);
    if (reads & LT_OUT(i)) status = lt_tensor_alias(c->out[i], &n->saved[at].t);
  }
  if (status < 0) {
    lt_node_release(n);
    return status;
  }
  *out = n;
  return LT_OK;
}

void lt_node_attach(const lt_args *c, lt_node *n) {
  for (int i = 0; i < n->n_saved_in + n->n_saved_out; i++) {
    lt_saved *s = &n->saved[i];
    if (s->t) s->version = atomic_load_explicit(&s->t->storage->version, memory_order_relaxed);
  }
  if (c->bound) atomic_fetch_add_explicit(&c->out[0]->storage->rewrites, 1, memory_order_relaxed);
  for (int k = 0; k < c->n_out; k++) {
    lt_tensor *o = c->out[k];
    if (!lt_is_float(o->dtype)) continue;
    lt_node *old = o->node;
    o->node = lt_node_retain(n);
    o->out_index = k;
    o->requires_grad = true;
    if (old) lt_node_release(old);
  }
  lt_node_release(n);
}

/* ---- function numbers whose owner is gone, for the script side to forget ---- */

static int64_t dropped[256];
static int n_dropped;
static int64_t *overflow;
static int n_overflow, overflow_capacity;

void lt_function_dropped(int64_t function) {
  lt_pool_lock();
  if (n_dropped < 256)
    dropped[n_dropped++] = function;
  else {
    if (n_overflow == overflow_capacity) {
      int bigger = overflow_capacity ? overflow_capacity * 2 : 1024;
      int64_t *p = lt_alloc(bigger * (int64_t)sizeof *p);
      if (p) {
        memcpy(p, overflow, (size_t)n_overflow * sizeof *p);
        lt_free(overflow, overflow_capacity * (int64_t)sizeof *p);
        overflow = p;
        overflow_capacity = bigger;
      }
    }
    if (n_overflow < overflow_capacity) overflow[n_overflow++] = function;
  }
  lt_pool_unlock();
}

int lt_functions_dropped(int64_t *out, int capacity) {
  lt_pool_lock();
  int n = 0;
  while (n < capacity && n_overflow) out[n++] = overflow[--n_overflow];
  while (n < capacity && n_dropped) out[n++] = dropped[--n_dropped];
  lt_pool_unlock();
  return n;
}

/* ---- releasing ---- */

void lt_node_spend(lt_node *n) {
  n->spent = true;
  for (int i = 0; i < n->n_saved_in + n->n_saved_out; i++) {
    lt_tensor *t = n->saved[i].t;
    n->saved[i].t = NULL;
    lt_tensor_release(t);
  }
  if (!n->op && n->function) lt_function_dropped(n->function); /* what it holds may hold this node */
  n->function = 0;
}

void lt_node_release(lt_node *n) {
  static _Thread_local lt_node *dead;
  static _Thread_local bool draining;
  if (atomic_fetch_sub_explicit(&n->refs, 1, memory_order_acq_rel) != 1) return;
  n->next_dead = dead;
  dead = n;
  if (draining) return;
  draining = true;
  while (dead) {
    n = dead;
    dead = n->next_dead;
    lt_node_spend(n);
    for (int i = 0; i < n->n_in; i++) {
      if (n->edges[i].node) lt_node_release(n->edges[i].node);
      lt_tensor_release(n->edges[i].leaf);
    }

    for (int i = 0; i < n->n_hooks; i++) lt_function_dropped(n->hooks[i].function);
    if (n->hooks) lt_free(n->hooks, n->n_hooks * (int64_t)sizeof *n->hooks);
    atomic_fetch_sub_explicit(&lt_live_nodes, 1, memory_order_relaxed);
    lt_free(n, n->bytes);
  }
  draining = false;
}

/* ---- script functions and hooks ---- */

int lt_record(int64_t function, const lt_handle *const *in, int n_in, lt_handle *const *out, int n_out) {
  lt_tensor *t;
  bool wanted = false;
  for (int i = 0; i < n_in; i++) {
    LT_TRY(lt_resolve(in[i], &t));
    wanted = wanted || t->requires_grad;
  }
  for (int k = 0; k < n_out; k++) {
    LT_TRY(lt_resolve(out[k], &t));
    if (t->node || t->requires_grad)
      return lt_fail(LT_ERR_STATE,
                     "function: output %d already has a history; the forward function runs without recording", k + 1);
  }
  if (!wanted || grad_off) return LT_OK;
  lt_node *n = lt_node_new(NULL, -1, n_in, n_out, 0, NULL);
  if (!n) return LT_ERR_MEMORY;
  n->function = function;
  for (int i = 0; i < n_in; i++) lt_edge_to(&n->edges[i], in[i]->t_);
  for (int k = 0; k < n_out; k++) {
    t = out[k]->t_;
    if (!lt_is_float(t->dtype) || t->node) continue; /* t->node: given twice */
    t->node = lt_node_retain(n);
    t->out_index = k;
    t->requires_grad = true;
  }
  lt_node_release(n);
  return LT_GC_DUE; /* tells the caller that the function is held now */
}

int lt_add_hook(const lt_handle *h, int64_t function) {
  lt_tensor *t;
  lt_leaf *leaf = NULL;
  LT_TRY(lt_resolve(h, &t));
  if (!t->requires_grad)
    return lt_fail(LT_ERR_STATE, "hook: the tensor requires no gradient, so its hook would never be called");
  if (!t->node) LT_TRY(lt_leaf_of(t, &leaf));
  lt_hook *old = t->node ? t->node->hooks : leaf->hooks;
  int n = t->node ? t->node->n_hooks : leaf->n_hooks;
  lt_hook *hooks = lt_alloc((n + 1) * (int64_t)sizeof *hooks);
  if (!hooks) return LT_ERR_MEMORY;
  if (n) memcpy(hooks, old, (size_t)n * sizeof *hooks);
  hooks[n] = (lt_hook){function, (int16_t)t->out_index};
  lt_free(old, n * (int64_t)sizeof *hooks);
  if (t->node)
    t->node->hooks = hooks, t->node->n_hooks++;
  else
    leaf->hooks = hooks, leaf->n_hooks++;
  return LT_OK;
}

int lt_remove_hook(const lt_handle *h, int64_t function) {
  lt_tensor *t;
  LT_TRY(lt_resolve(h, &t));
  lt_hook *hooks = t->node ? t->node->hooks : t->leaf ? t->leaf->hooks : NULL;
  int n = t->node ? t->node->n_hooks : t->leaf ? t->leaf->n_hooks : 0;
  for (int i = 0; i < n; i++)
    if (hooks[i].function == function) hooks[i].function = 0; /* 0: skipped */
  return LT_OK;
}

/* ---- anomaly mode ---- */

int lt_check_finite(const lt_args *c) {
  for (int k = 0; k < c->n_out; k++) {
    lt_tensor *o = c->out[k], *flat;
    if (!o || !lt_is_float(o->dtype) || c->op->flags & LT_OP_VIEW) continue;
    LT_TRY(lt_contiguous(o, &flat));
    const void *data = lt_ptr(flat);
    int64_t bad = -1;
    for (int64_t i = 0; i < flat->n && bad < 0; i++)
      if (isnan(lt_load_double(data, flat->dtype, i))) bad = i;
    lt_tensor_release(flat);
    if (bad >= 0)
      return lt_fail(LT_ERR_STATE,
                     "%s: the result %s has a NaN at element %lld; look at its inputs (a log or division "
                     "of zero, an overflow, a learning rate too high)",
                     c->op->name, lt_shape_text(o), (long long)(bad + 1));
  }
  return LT_OK;
}
