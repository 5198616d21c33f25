/* What the blocked matrix product (gemm_own.c, gemm_blocked.c) asks of one element type on one instruction set. The
 * functions come from gemm_template.h, compiled once for each pair by gemm_float32.c, gemm_float64.c and gemm_int64.c;
 * a table holds them, chosen at run time by what the processor has. Every function adds the terms of an element of C in
 * the same order, whatever tile the element falls in: so the way threads share a product never shows in its bits. */
#pragma once
#include "gemm.h"

enum {
  GEMM_MAX_ROWS = 8,     /* the tallest tile of any table */
  GEMM_MAX_VECTORS = 3,  /* the widest tile, in vectors */
  GEMM_MAX_WIDTH = 48,   /* the widest tile, in elements */
  GEMM_ROW_COLUMNS = 512 /* columns that `row` takes at once */
};

/* What happens to a sum on its way to C: c = activation((add ? c : 0) + sum + bias). */
typedef struct gemm_finish {
  bool add;
  const void *bias; /* one for each column, or NULL */
  int activation;   /* lt_gemm_activation */
  double slope;
} gemm_finish;

/* c[rows, vectors * lanes] from k steps; element (row, step) of a is a[row * a_row + step * a_col], b is packed. */
typedef void gemm_tile(int64_t k, const void *a, int64_t a_row, int64_t a_col, const void *b, void *c, int64_t c_row,
                       const gemm_finish *finish);
/* Writes to[step * width + l] = from[l * lane_stride + step * step_stride] for l < lanes, zeros up to width. */
typedef void gemm_pack(void *to, int64_t width, int64_t lanes, int64_t k, const void *from, int64_t lane_stride,
                       int64_t step_stride);
/* c[m, n] where both a and b have their steps side by side: row i of a at a + i * a_row, column j of b at b + j *
 * b_col. */
typedef void gemm_dots(int64_t m, int64_t n, int64_t k, const void *a, int64_t a_row, const void *b, int64_t b_col,
                       void *c, int64_t c_row, const gemm_finish *finish);
/* c[1, n], n <= GEMM_ROW_COLUMNS, where b has its columns side by side: step p of b at b + p * b_row. */
typedef void gemm_row(int64_t n, int64_t k, const void *a, int64_t a_col, const void *b, int64_t b_row, void *c,
                      const gemm_finish *finish);

/* to[n] += from[n] */
typedef void gemm_add(int64_t n, void *to, const void *from);

typedef struct gemm_kernels {
  int size, lanes, rows;                /* bytes an element, elements a vector, rows of the tallest tile */
  gemm_tile *tile[GEMM_MAX_VECTORS][4]; /* [vectors - 1][0: `rows` rows, 1: 4, 2: 2, 3: 1 row] */
  gemm_pack *pack;
  gemm_dots *dots;
  gemm_row *row;
  gemm_add *add;
} gemm_kernels;

const gemm_kernels *gemm_kernels_float32(void);
const gemm_kernels *gemm_kernels_float64(void);
const gemm_kernels *gemm_kernels_int64(void);

/* Products whose a, b, c and bias all have the table's element type, with no size 0. */
int gemm_own(const lt_gemm *g, const gemm_kernels *kern); /* gemm_own.c: picks the form and the threads */
int gemm_tiles(const lt_gemm *g, const gemm_kernels *kern, int threads); /* gemm_blocked.c */
