/* Sums of gradients by row for one element type. Included by row_sums.c, which defines
 *   ELEM               float or double
 *   NAME(x)            the suffix of names
 * The rows that duplicates read are equal, so the sum over them of g (S - e) is (sum of g S) - e (sum of g): e is read
 * once a row. No include guard: that is the point. */

#define CLEAR(T, CT)                                                                                                   \
  AT(T, acc, k) = (T) { 0 }
#define ADD(T, CT) AT(T, acc, k) += AT(CT, g, k)
#define ADD_SCALED(T, CT) AT(T, acc, k) += w * AT(CT, sum, k)
#define FINISH(T, CT) AT(T, out, k) = AT(T, acc, k) - AT(CT, row, k) * total_weight
#define STORE(T, CT) AT(T, out, k) = AT(T, acc, k)

/* Rows first..last-1. `dim` is a constant where this is inlined for the common widths: sums then stay in registers. */
static inline __attribute__((always_inline)) void NAME(sum_rows)(const lt_row_sums *j, int64_t first, int64_t last,
                                                                 const int64_t dim, const bool fm) {
  enum { AHEAD = 16, NEXT = 8 };
  const lt_unique *u = j->unique;
  const uint64_t *sorted = u->sorted;
  const ELEM *x = j->x, *linear = j->linear, *weight = j->fm, *e = j->e, *sums = j->sums;
  const uint32_t fields = (uint32_t)j->fields;
  const int64_t n = u->n;
  for (int64_t r = first; r < last; r++) {
    ELEM local[16], *out = (ELEM *)j->values + r * j->width, *acc = dim <= 16 ? local : out;
    ELEM total_weight = 0, total_linear = 0;
    lt_segment s = u->segment[r];
    if (fm && r + NEXT < last) {
      const ELEM *soon = e + (int64_t)(uint32_t)sorted[u->segment[r + NEXT].first] * dim;
      __builtin_prefetch(soon);
      __builtin_prefetch(soon + dim - 1);
    }
    BY_EIGHT(CLEAR);
    for (int64_t i = s.first; i < s.end; i++) {
      const int64_t place = (uint32_t)sorted[i], sample = (uint32_t)place / fields;
      if (x) {
        if (i + AHEAD < n) {
          uintptr_t soon = (uintptr_t)x + (uint32_t)sorted[i + AHEAD] * (uintptr_t)dim * sizeof(ELEM);
          __builtin_prefetch((const void *)soon);
          __builtin_prefetch((const void *)(soon + (uintptr_t)(dim - 1) * sizeof(ELEM)));
        }
        const ELEM *g = x + place * dim;
        BY_EIGHT(ADD);
      }
      if (fm) {
        const ELEM w = weight[sample], *sum = sums + sample * dim;
        BY_EIGHT(ADD_SCALED);
        total_weight += w;
      }
      if (linear) total_linear += linear[sample];
    }
    if (fm) {
      const ELEM *row = e + (int64_t)(uint32_t)sorted[s.first] * dim;
      BY_EIGHT(FINISH);
    } else if (acc != out)
      BY_EIGHT(STORE);
    if (j->width > dim) out[dim] = total_linear;
  }
}

LT_CLONES static void NAME(sum_range)(const lt_row_sums *j, int64_t first, int64_t last) {
#define CASE(DIM, dim)                                                                                                 \
  case DIM:                                                                                                            \
    if (j->fm)                                                                                                         \
      NAME(sum_rows)(j, first, last, dim, true);                                                                       \
    else                                                                                                               \
      NAME(sum_rows)(j, first, last, dim, false);                                                                      \
    break;
  switch (j->dim) {
    CASE(8, 8)
    CASE(10, 10)
    CASE(16, 16)
  default:
    if (j->fm)
      NAME(sum_rows)(j, first, last, j->dim, true);
    else
      NAME(sum_rows)(j, first, last, j->dim, false);
  }
#undef CASE
}
#undef CLEAR
#undef ADD
#undef ADD_SCALED
#undef FINISH
#undef STORE
