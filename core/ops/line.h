/* Operators that work along one dim (softmax, running sums) see their operands line by line: each line contiguous and
 * in the computing type, whatever the strides and dtypes are. Also the loops over such lines that several families
 * share. */
#pragma once
#include "elementwise.h"

/* in: a line of each input, out: the line of the output (NULL without one); n elements each. Lines are numbered in row
 * order of the other dims. */
typedef void (*lt_line)(int64_t line, int64_t n, void *out, const void *const *in, const void *context);

enum { LT_LINE_MOST = 4 };
typedef struct lt_lines {
  const lt_tensor *out, *in[LT_LINE_MOST]; /* one shape; out may be NULL */
  int n_in, kind;                          /* kind: LT_FLOAT32, LT_FLOAT64 or LT_INT64, the type lines come in */
  int64_t dim;
  lt_line f;
  const void *context;
  int64_t chunk; /* lines that one thread takes in order, so that they may share a sum; 0: lt_line_chunk() */
} lt_lines;
int lt_lines_run(const lt_lines *l);
int64_t lt_line_chunk(int64_t n);                 /* lines of n elements that are worth a chunk */
lt_tensor lt_flat(const lt_tensor *t, int64_t n); /* a header over a contiguous tensor: [lines, n] */
int lt_line_dim(const lt_args *c, int64_t *dim);  /* attr.i[0], checked against input 0; 0 for a number */
static inline int lt_float_kind(int dtype) { return dtype == LT_FLOAT64 ? LT_FLOAT64 : LT_FLOAT32; }

/* Loads and stores that take any length; lt_load_block's 16-bit floats come in blocks. */
void lt_load_line(void *out, int kind, const void *in, int dtype, int64_t stride, int64_t n);
void lt_store_line(void *out, int dtype, int64_t stride, const void *in, int kind, int64_t n);

/* Loops whose sums are double, in an order fixed by n alone. */
float lt_line_max_f32(const float *v, int64_t n);
double lt_line_max_f64(const double *v, int64_t n);
double lt_line_exp_f32(float *out, const float *v, float shift, int64_t n); /* out = e^(v - shift); gives its sum */
double lt_line_exp_f64(double *out, const double *v, double shift, int64_t n);
double lt_line_sum_exp_f32(const float *v, float shift, int64_t n); /* the sum alone */
double lt_line_sum_exp_f64(const double *v, double shift, int64_t n);
double lt_line_sum_f32(const float *v, int64_t n);
double lt_line_sum_f64(const double *v, int64_t n);
double lt_line_squares_f32(const float *v, float shift, int64_t n); /* sum of (v - shift)^2 */
double lt_line_squares_f64(const double *v, double shift, int64_t n);
double lt_line_dot_f32(const float *a, const float *b, int64_t n);
double lt_line_dot_f64(const double *a, const double *b, int64_t n);
