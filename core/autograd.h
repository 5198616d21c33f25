/* The graph of recorded operations: nodes, what they save, and leaves with their gradients. */
#pragma once
#include "op.h"

typedef struct lt_saved {
  lt_tensor *t;
  int64_t version; /* of the storage when it was saved */
} lt_saved;

typedef struct lt_hook {
  int64_t function;
  int16_t out_index;
} lt_hook;

struct lt_node {
  _Atomic int32_t refs;
  const lt_op *op; /* NULL: a function of the script */
  int32_t id;      /* of the operator */
  int16_t n_in, n_out, n_saved_in, n_saved_out, n_hooks;
  bool spent;       /* saved values were released by a backward pass */
  int64_t seq;      /* creation order is a topological order */
  int64_t function; /* the script function's number, when op is NULL */
  int64_t bytes;
  lt_node *next_dead; /* chain of nodes being released: nothing recurses */
  lt_hook *hooks;
  lt_saved *saved; /* [n_saved_in + n_saved_out], in the order of the keep mask */
  lt_edge *edges;  /* [n_in] */
  lt_attr *attr;   /* only the part that is in use: up to list[n_list]; rules get a whole copy; NULL: none */
};

struct lt_leaf {
  lt_tensor *grad;          /* dense gradient so far */
  lt_tensor *rows, *values; /* or only some rows of it: unique rows ascending [u], sums [u, ...] */
  bool borrowed;            /* others may hold `grad` too: it must not be written */
  lt_tensor *bound;         /* where the dense gradient must be written (a view of an arena) */
  lt_hook *hooks;
  int n_hooks;
};

const char *lt_op_name(int id);
bool lt_recording(void);
int lt_node_prepare(const lt_args *c, lt_node **out); /* a node for this call: all that can fail */
void lt_node_attach(const lt_args *c, lt_node *n); /* after the kernel: ties the outputs to it, takes the reference */
static inline bool lt_view_is_stale(const lt_tensor *t) {
  return t->rewrites != atomic_load_explicit(&t->storage->rewrites, memory_order_relaxed);
}
lt_node *lt_node_new(const lt_op *op, int id, int n_in, int n_out, int n_saved, const lt_attr *attr);
int64_t lt_attr_bytes(const lt_attr *attr);
void lt_edge_to(lt_edge *e, lt_tensor *t);
void lt_node_release(lt_node *n);
static inline lt_node *lt_node_retain(lt_node *n) {
  atomic_fetch_add_explicit(&n->refs, 1, memory_order_relaxed);
  return n;
}
void lt_node_spend(lt_node *n);              /* drops the saved values */
int lt_leaf_of(lt_tensor *t, lt_leaf **out); /* makes it when missing */
void lt_leaf_free(lt_leaf *leaf);
void lt_leaf_clear(lt_leaf *leaf);                 /* forgets the gradient, keeps hooks and the bound buffer */
int lt_leaf_add(lt_tensor *leaf, lt_tensor *grad); /* adds a dense gradient of the leaf's shape, or borrows it */
int lt_leaf_settle(lt_tensor *leaf);               /* the gradient becomes the leaf's own; a copy if others hold it */
int lt_leaf_add_rows(lt_tensor *leaf, lt_tensor *rows, lt_tensor *values);
void lt_function_dropped(int64_t function);
extern bool lt_anomaly_on;
int lt_check_finite(const lt_args *c);
