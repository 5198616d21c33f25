/* Folds: the loops behind reductions other than sum. A fold has one number of state per result, a step that takes an
 * element in, and a merge; elements are met in an order that depends on the shape alone, never on the threads. Floats
 * fold in double, whole numbers in int64. */
#pragma once
#include "reduce.h"

/* center: one number per result, subtracted by the folds that say so; NULL: 0. */
typedef struct lt_fold {
  double start;
  double (*along)(double s, const double *v, int64_t n, double center, double p);
  double (*along_raw)(double s, const float *v, int64_t n, double center, double p);
  void (*across)(double *s, const double *v, int64_t n, const double *center, double p); /* v[j] into s[j] */
  void (*across_raw)(double *s, const float *v, int64_t n, const double *center, double p);
  double (*merge)(double a, double b);
} lt_fold;
typedef struct lt_fold_int { /* as above */
  int64_t start;
  int64_t (*along)(int64_t s, const int64_t *v, int64_t n, int64_t center, double p);
  int64_t (*along_raw)(int64_t s, const int32_t *v, int64_t n, int64_t center, double p);
  void (*across)(int64_t *s, const int64_t *v, int64_t n, const int64_t *center, double p);
  void (*across_raw)(int64_t *s, const int32_t *v, int64_t n, const int64_t *center, double p);
  int64_t (*merge)(int64_t a, int64_t b);
} lt_fold_int;

extern const lt_fold lt_fold_sum, lt_fold_product, lt_fold_count, /* count: of elements that are not 0 */
    lt_fold_squares, lt_fold_exponentials,                        /* of v - center */
    lt_fold_magnitudes, lt_fold_powers,                           /* |v|, |v|^p */
    lt_fold_largest, lt_fold_smallest, lt_fold_largest_magnitude; /* NaN wins */
extern const lt_fold_int lt_fold_int_sum, lt_fold_int_product, lt_fold_int_count, lt_fold_int_largest,
    lt_fold_int_smallest;

/* result: [r->n_out] */
int lt_fold_run(const lt_tensor *x, const lt_reduction *r, const lt_fold *f, const double *center, double p,
                double *result);
int lt_fold_run_int(const lt_tensor *x, const lt_reduction *r, const lt_fold_int *f, int64_t *result);

/* Writes output k of a call, whatever its dtype and strides, from contiguous numbers. */
void lt_put_doubles(const lt_args *c, int k, const double *from);
void lt_put_ints(const lt_args *c, int k, const int64_t *from);
