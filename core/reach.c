/* Finding what a backward pass visits: the nodes reachable from the roots, by falling sequence number, which is a
 * topological order; for lt.grad only those that lead to what is asked for. A hash of sequence numbers finds a node's
 * record: numbers of one step are dense, so it is nearly perfect. */
#include "backward.h"

#include <stdlib.h>

record *record_of(const lt_backward *b, const lt_node *n) {
  for (int64_t i = n->seq & (b->slots - 1);; i = (i + 1) & (b->slots - 1)) {
    if (b->slot[i] < 0) return NULL;
    if (b->records[b->slot[i]].node == n) return &b->records[b->slot[i]];
  }
}

int reach_prepare(lt_backward *b, int64_t slots) {
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

int reach_node(lt_backward *b, lt_node *n) {
  if (record_of(b, n)) return LT_OK;
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
  if (b->n_records * 2 > b->slots) return reach_prepare(b, b->slots * 4);
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
        record *e = record_of(b, n->edges[i].node);
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
  return reach_prepare(b, b->slots);
}

int reach_all(lt_backward *b) {
  /* the records double as the queue: each is expanded once */
  for (int r = 0; r < b->n_records; r++)
    for (int i = 0; i < b->records[r].node->n_in; i++)
      if (b->records[r].node->edges[i].node) LT_TRY(reach_node(b, b->records[r].node->edges[i].node));
  qsort(b->records, (size_t)b->n_records, sizeof *b->records, falling);
  LT_TRY(reach_prepare(b, b->slots));
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
