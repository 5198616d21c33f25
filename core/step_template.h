/* The arithmetic of optimizer steps for one element type. Included by step_kernels.c, which defines
 *   ELEM               float or double
 *   NAME(x)            the suffix of names
 * Multiplications and additions are never fused (see there), so a row's bits are the same in a dense step, in a sweep
 * over a table and on every processor. No include guard: that is the point. */

typedef struct NAME(numbers) { /* of lt_step_numbers, in the computing type */
  ELEM scale, l2, keep, lr, momentum, undamped, beta2, rest1, rest2, root2, eps;
} NAME(numbers);

static inline NAME(numbers) NAME(numbers_of)(const lt_step_numbers *d) {
  return (NAME(numbers)){.scale = (ELEM)d->scale,
                         .l2 = (ELEM)d->l2,
                         .keep = (ELEM)d->keep,
                         .lr = (ELEM)d->lr,
                         .momentum = (ELEM)d->momentum,
                         .undamped = (ELEM)d->undamped,
                         .beta2 = (ELEM)d->beta2,
                         .rest1 = (ELEM)d->rest1,
                         .rest2 = (ELEM)d->rest2,
                         .root2 = (ELEM)d->root2,
                         .eps = (ELEM)d->eps};
}

/* p, a, b: parameter and state of n elements; g: their gradient, NULL: zero. */
static inline __attribute__((always_inline)) void NAME(update)(const int kernel, const bool has_grad, ELEM *restrict p,
                                                               ELEM *restrict a, ELEM *restrict b,
                                                               const ELEM *restrict g, int64_t n, NAME(numbers) c) {
  for (int64_t i = 0; i < n; i++) {
    ELEM x = p[i], d = (has_grad ? g[i] * c.scale : 0) + c.l2 * x;
    x *= c.keep;
    switch (kernel) {
    case LT_STEP_PLAIN: x += c.lr * d; break;
    case LT_STEP_MOMENTUM:
    case LT_STEP_LOOK_AHEAD:
      a[i] = a[i] * c.momentum + c.undamped * d;
      x += c.lr * (kernel == LT_STEP_MOMENTUM ? a[i] : d + c.momentum * a[i]);
      break;
    case LT_STEP_DENSE_ADAM: {
      /* torch.lerp changes its form at one half */
      ELEM m = c.rest1 < (ELEM)0.5 ? a[i] + c.rest1 * (d - a[i]) : d - (d - a[i]) * (1 - c.rest1);
      ELEM v = b[i] * c.beta2 + c.rest2 * d * d;
      a[i] = m;
      b[i] = v;
      x += c.lr * m / (ROOT(v) / c.root2 + c.eps);
      break;
    }
    case LT_STEP_LAZY_ADAM: { /* root2 is part of lr, hence eps is not divided by it: SparseAdam's formula */
      ELEM m = a[i] + (d - a[i]) * c.rest1, v = b[i] + (d * d - b[i]) * c.rest2;
      a[i] = m;
      b[i] = v;
      x += c.lr * (m / (ROOT(v) + c.eps));
      break;
    }
    case LT_STEP_SUM_SQUARES:
      b[i] += d * d;
      x += c.lr * d / (ROOT(b[i]) + c.eps);
      break;
    }
    p[i] = x;
  }
}

static inline __attribute__((always_inline)) void NAME(dense)(const int kernel, const lt_step_job *j, int64_t first,
                                                              int64_t last) {
  NAME(numbers) c = NAME(numbers_of)(&j->touched);
  for (int64_t r = first; r < last; r++) NAME(update)
  (kernel, true, (ELEM *)j->p + r * j->p_pitch, (ELEM *)j->a + r * j->a_pitch, (ELEM *)j->b + r * j->b_pitch,
   (const ELEM *)j->g + r * j->g_pitch, r == j->rows - 1 ? j->tail : j->width, c);
}

static inline int64_t NAME(row_at)(const lt_step_job *j, int64_t k) {
  return j->wide_ids ? ((const int64_t *)j->ids)[k] : ((const int32_t *)j->ids)[k];
}

static inline void NAME(prefetch)(const lt_step_job *j, int64_t row) {
  const ELEM *p = (const ELEM *)j->p + row * j->p_pitch, *a = (const ELEM *)j->a + row * j->a_pitch,
             *b = (const ELEM *)j->b + row * j->b_pitch;
  for (int64_t i = 0; i < j->width; i += 64 / (int64_t)sizeof(ELEM)) {
    __builtin_prefetch(p + i, 1);
    __builtin_prefetch(a + i, 1);
    __builtin_prefetch(b + i, 1);
  }
}

/* Rows first..last-1 of the gradient: table row ids[k] gets values[k]. */
static inline __attribute__((always_inline)) void NAME(lazy)(const int kernel, const lt_step_job *j, int64_t first,
                                                             int64_t last) {
  enum { AHEAD = 6 };
  NAME(numbers) c = NAME(numbers_of)(&j->touched);
  for (int64_t k = first; k < last; k++) {
    if (k + AHEAD < last) NAME(prefetch)(j, NAME(row_at)(j, k + AHEAD));
    int64_t r = NAME(row_at)(j, k);
    NAME(update)
    (kernel, true, (ELEM *)j->p + r * j->p_pitch, (ELEM *)j->a + r * j->a_pitch, (ELEM *)j->b + r * j->b_pitch,
     (const ELEM *)j->g + k * j->g_pitch, j->width, c);
  }
}

/* Rows first..last-1 of the table; k runs along the gradient's ascending rows. */
static inline __attribute__((always_inline)) void NAME(sweep)(const int kernel, const lt_step_job *j, int64_t first,
                                                              int64_t last) {
  NAME(numbers) touched = NAME(numbers_of)(&j->touched), other = NAME(numbers_of)(&j->untouched);
  int64_t low = 0, high = j->n_ids;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (NAME(row_at)(j, middle) < first)
      low = middle + 1;
    else
      high = middle;
  }
  for (int64_t r = first, k = low; r < last; r++) {
    ELEM *p = (ELEM *)j->p + r * j->p_pitch, *a = (ELEM *)j->a + r * j->a_pitch, *b = (ELEM *)j->b + r * j->b_pitch;
    if (k < j->n_ids && NAME(row_at)(j, k) == r)
      NAME(update)(kernel, true, p, a, b, (const ELEM *)j->g + k++ * j->g_pitch, j->width, touched);
    else
      NAME(update)(kernel, false, p, a, b, NULL, j->width, other);
  }
}

#define WALK(KERNEL)                                                                                                   \
  case KERNEL:                                                                                                         \
    if (j->walk == LT_WALK_DENSE)                                                                                      \
      NAME(dense)(KERNEL, j, first, last);                                                                             \
    else if (j->walk == LT_WALK_LAZY)                                                                                  \
      NAME(lazy)(KERNEL, j, first, last);                                                                              \
    else                                                                                                               \
      NAME(sweep)(KERNEL, j, first, last);                                                                             \
    break;
LT_CLONES static void NAME(walk)(const lt_step_job *j, int64_t first, int64_t last) {
  switch (j->kernel) {
    WALK(LT_STEP_PLAIN)
    WALK(LT_STEP_MOMENTUM)
    WALK(LT_STEP_LOOK_AHEAD)
    WALK(LT_STEP_DENSE_ADAM)
    WALK(LT_STEP_LAZY_ADAM)
    WALK(LT_STEP_SUM_SQUARES)
  }
}
#undef WALK
