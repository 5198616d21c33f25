/* What lookups share: checked ids, the distinct rows they name, and sums of gradients by row.
 * A lookup has n places; place p reads one row. For a table of several fields, places are [batch, fields] and field f's
 * ids count from its own first row. */
#pragma once
#include "../op.h"

typedef struct lt_lookup {
  const void *ids;             /* [batch, fields] int32 or int64, contiguous */
  bool wide;                   /* int64 */
  int64_t batch, fields;       /* plain lookups: n places of one field */
  const int64_t *first, *size; /* [fields] first row and rows of each field */
  int64_t padding;             /* an id (of each field) that gets no gradient; -1: none */
} lt_lookup;

typedef struct lt_segment {
  uint32_t first, end;
} lt_segment;

typedef struct lt_unique {
  int64_t n, n_rows;   /* places; distinct rows */
  uint64_t *sorted;    /* [n] row << 32 | place, ascending: places of one row stand in their order */
  lt_segment *segment; /* [n_rows] where a row's places are in `sorted` */
  void *block;
  int64_t bytes;
} lt_unique;

/* The first place, in order, whose id is not legal; -1: all are. */
int64_t lt_lookup_check(const lt_lookup *l);
static inline int64_t lt_lookup_id(const lt_lookup *l, int64_t place) {
  return l->wide ? ((const int64_t *)l->ids)[place] : ((const int32_t *)l->ids)[place];
}

/* rows: [n] or longer, gets the distinct rows, ascending. The result is one and the same for any number of threads. */
int lt_unique_rows(const lt_lookup *l, int64_t *rows, lt_unique *out);
void lt_unique_free(lt_unique *u);

/* values[row] = [sum of x + fm (S - e), sum of linear] over the row's places, added in their order.
 * All are float32 or float64 and contiguous, or NULL where there is none. */
typedef struct lt_row_sums {
  const lt_unique *unique;
  int64_t fields, dim, width; /* width: dim, or dim + 1 with the linear column */
  const void *x;              /* [n, dim] gradient of what was read */
  const void *linear, *fm;    /* [batch] gradients of the linear sum and of the interaction term */
  const void *e, *sums;       /* with fm: [n, dim] what was read, and [batch, dim] S, its sum over fields */
  void *values;               /* [n_rows, width] */
} lt_row_sums;
void lt_row_sums_run(const lt_row_sums *job, int dtype);

/* Kernels that write rows one after the other take no strided output. */
static inline int lt_need_whole_out(const lt_args *c) {
  if (!c->bound || lt_tensor_is_contiguous(c->out[0])) return LT_OK;
  return lt_fail(LT_ERR_SHAPE, "%s: the result cannot be written into a strided view; give a contiguous tensor",
                 c->op->name);
}
