/* Between step.c, which checks and plans optimizer steps, and step_kernels.c, which computes them. */
#pragma once
#include "op.h"

enum lt_step_kernel {
  LT_STEP_PLAIN, /* gradient descent without memory */
  LT_STEP_MOMENTUM,
  LT_STEP_LOOK_AHEAD, /* Nesterov's momentum */
  LT_STEP_DENSE_ADAM,
  LT_STEP_LAZY_ADAM,
  LT_STEP_SUM_SQUARES /* Adagrad */
};
enum lt_step_walk { LT_WALK_DENSE, LT_WALK_LAZY, LT_WALK_SWEEP };

typedef struct lt_step_numbers { /* computed in double once, rounded to the element type in the kernel */
  double scale, l2, keep, lr;    /* keep: 1 - lr * decoupled decay; lr is negative, bias corrections included */
  double momentum, undamped, beta2, rest1, rest2, root2, eps; /* rest1 = 1 - beta1, root2 = sqrt(1 - beta2^step) */
} lt_step_numbers;

typedef struct lt_step_job {
  int dtype, kernel, walk;
  void *p, *a, *b; /* parameter; first and second state (the parameter itself where there is none) */
  const void *g;
  int64_t rows, width, tail;                  /* dense: `rows` runs of `width` elements, the last of `tail` */
  int64_t p_pitch, a_pitch, b_pitch, g_pitch; /* elements from run to run */
  const void *ids;                            /* [n_ids] ascending: table rows that have a gradient */
  int64_t n_ids;
  bool wide_ids; /* int64, else int32 */
  lt_step_numbers touched, untouched;
} lt_step_job;

double lt_sum_squares(const void *x, int dtype, int64_t n);          /* float32 or float64, contiguous */
void lt_step_run(const lt_step_job *j, int64_t first, int64_t last); /* runs, table rows, or places in ids */
