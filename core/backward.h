/* What the files of the backward pass share: the pass itself and its records. autograd.c steps it, reach.c finds the
 * nodes, rule.c runs a node's rule and hands gradients on. */
#pragma once
#include "autograd.h"

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

static inline bool creates_graph(const lt_backward *b) { return b->flags & LT_BACKWARD_CREATE_GRAPH; }

/* reach.c */
record *record_of(const lt_backward *b, const lt_node *n); /* NULL: not part of this pass */
int reach_node(lt_backward *b, lt_node *n);                /* a root's node becomes part of it */
int reach_prepare(lt_backward *b, int64_t slots);          /* an empty table */
int reach_all(lt_backward *b);                             /* everything the roots were made from, in order, pruned */

/* rule.c */
pending_leaf *pending_of(lt_backward *b, lt_tensor *leaf);
int distribute(lt_backward *b, const lt_edge *e, lt_tensor *g); /* adds g to what the edge leads to */
int run_rule(lt_backward *b, record *r);
