/* Order as whole numbers: an element of any dtype becomes a 64-bit key whose unsigned order is the elements' order, NaN
 * above all, -0 equal to 0. So sorting, top k, unique and binary search exist once, for every dtype. */
#pragma once
#include "../op.h"

typedef struct lt_ranked {
  uint64_t key;
  int64_t at;
} lt_ranked; /* at: position in the line */

/* Keys of n elements, `stride` elements apart; descending: keys turned round. at counts from 0. */
void lt_rank_line(const void *data, int dtype, int64_t stride, int64_t n, bool descending, lt_ranked *out);
/* By key, equal keys in their order; `at` must rise. The result is in v, spare is scratch of the same size. */
void lt_sort_ranked(lt_ranked *v, lt_ranked *spare, int64_t n);
