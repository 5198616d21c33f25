/* One pass of field_embedding over samples, for one element type. Included by field_embedding.c, which defines
 *   ELEM               float or double
 *   NAME(x)            the suffix of names
 * No include guard: that is the point. */

/* squares of more than 16 dims share sums */
#define CLEAR(T, CT)                                                                                                   \
  do {                                                                                                                 \
    AT(T, sum, k) = (T){0};                                                                                            \
    AT(T, square, k & 15) = (T){0};                                                                                    \
  } while (0)
#define MOVE(T, CT) AT(T, x, k) = AT(CT, row, k)
#define MOVE_AND_SUM(T, CT)                                                                                            \
  do {                                                                                                                 \
    T v = AT(CT, row, k);                                                                                              \
    AT(T, x, k) = v;                                                                                                   \
    AT(T, sum, k) += v;                                                                                                \
    AT(T, square, k & 15) += v * v;                                                                                    \
  } while (0)

/* Samples first..last-1, whose ids are known to be legal. While one sample is gathered, the next one's rows are on
 * their way. `dim` is a constant where this is inlined for the common widths: the sums of the interaction stay in
 * registers. */
static inline __attribute__((always_inline)) void NAME(gather)(const field_job *j, int64_t first, int64_t last,
                                                               const int64_t dim, const bool fm) {
  const lt_lookup *l = &j->lookup;
  const int64_t fields = l->fields, line = 64 / (int64_t)sizeof(ELEM);
  const ELEM *table = j->table;
  ELEM *linear = j->linear, *term = j->term;
  for (int64_t s = first; s < last; s++) {
    ELEM own[2][16],
        *sum = dim <= 16 ? own[0]
               : j->sums ? (ELEM *)j->sums + s * dim
                         : NULL,
        *square = own[1], weights = 0;
    ELEM *x = (ELEM *)j->x + s * fields * dim;
    if (s + 1 < last)
      for (int64_t f = 0; f < fields; f++) {
        const ELEM *soon = table + (l->first[f] + lt_lookup_id(l, (s + 1) * fields + f)) * j->pitch;
        for (int64_t k = 0; k <= dim; k += line) __builtin_prefetch(soon + k);
      }
    if (fm) BY_EIGHT(CLEAR);
    for (int64_t f = 0; f < fields; f++, x += dim) {
      const ELEM *row = table + (l->first[f] + lt_lookup_id(l, s * fields + f)) * j->pitch;
      if (fm)
        BY_EIGHT(MOVE_AND_SUM);
      else
        BY_EIGHT(MOVE);
      if (linear) weights += row[dim];
    }
    if (linear) linear[s] = weights;
    if (!fm) continue;
    ELEM both = 0, squares = 0;
    for (int64_t k = 0; k < dim; k++) both += sum[k] * sum[k];
    for (int64_t k = 0; k < dim && k < 16; k++) squares += square[k];
    term[s] = (ELEM)0.5 * (both - squares);
    if (sum == own[0]) memcpy((ELEM *)j->sums + s * dim, sum, (size_t)dim * sizeof(ELEM));
  }
}
#undef CLEAR
#undef MOVE
#undef MOVE_AND_SUM

LT_CLONES static void NAME(gather_range)(const field_job *j, int64_t first, int64_t last) {
#define CASE(DIM, dim)                                                                                                 \
  case DIM:                                                                                                            \
    if (j->term)                                                                                                       \
      NAME(gather)(j, first, last, dim, true);                                                                         \
    else                                                                                                               \
      NAME(gather)(j, first, last, dim, false);                                                                        \
    break;
  switch (j->dim) {
    CASE(8, 8)
    CASE(10, 10)
    CASE(16, 16)
  default:
    if (j->term)
      NAME(gather)(j, first, last, j->dim, true);
    else
      NAME(gather)(j, first, last, j->dim, false);
  }
#undef CASE
}
