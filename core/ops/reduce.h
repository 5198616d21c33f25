/* What reductions share: which dims go, the order in which elements are met, the shape of the result.
 * A reduction operator's attributes: list = the dims (0-based; none: all), i[0] = keepdim. */
#pragma once
#include "../op.h"

typedef struct lt_reduction {
  int ndim, n_kept; /* kept dims first, then reduced ones, both in the input's order, merged where they line up */
  int64_t shape[LT_MAX_DIMS], stride[LT_MAX_DIMS];
  int64_t n_out, n_reduced;
} lt_reduction;

int lt_reduced_shape(lt_args *c, int dtype);          /* makes output 0; checks the dims */
int lt_reduced_shape_k(lt_args *c, int k, int dtype); /* the same for output k */
int lt_reduction_plan(const lt_args *c, lt_reduction *r);
void lt_reduction_of(const lt_tensor *x, const bool *reduce, lt_reduction *r);
int64_t lt_reduction_start(const lt_tensor *x, const lt_reduction *r,
                           int64_t i);                       /* element offset of result i's first input */
int64_t lt_reduction_step(const lt_reduction *r, int64_t m); /* offset of run m: all reduced dims but the last */
int64_t lt_offset_of(const lt_tensor *t, int64_t i);         /* offset of its i-th element in row-major order */
lt_tensor *lt_reduced_expand(lt_back *b, lt_tensor *g);      /* a rule's way back: g stretched to input 0's shape */
