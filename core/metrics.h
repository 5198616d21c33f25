/* What the metrics share: rows of scores, labels and weights of any type, checked and widened to doubles in blocks, so
 * that the loops behind are written once and a row that is refused is refused before any state has moved. */
#pragma once
#include "error.h"

enum { METRIC_BLOCK = 1024 };

typedef struct metric_rows {
  const char *op, *score_word;           /* for messages: "auc", "score" */
  const void *scores, *labels, *weights; /* weights NULL: 1 everywhere */
  int score_dtype, label_dtype, weight_dtype;
  bool soft_labels; /* 0 to 1 rather than 0 or 1 */
  int64_t n;
} metric_rows;

typedef struct metric_block {
  int n;
  double score[METRIC_BLOCK], label[METRIC_BLOCK], weight[METRIC_BLOCK];
} metric_block;

/* The types, then every row: no NaN score where the weight is above 0, labels and weights within their range. */
int lt_metric_check(const metric_rows *rows);
/* Rows at, at + 1, ... of rows that lt_metric_check has passed; n = 0 behind the last. */
void lt_metric_load(const metric_rows *rows, int64_t at, metric_block *out);
/* out[i] = data[at + i] as a double */
void lt_metric_widen(double *out, const void *data, int dtype, int64_t at, int64_t n);
/* sum += x, the rounding error into low (Neumaier): sums hardly depend on their order. */
void lt_metric_add(double *sum, double *low, double x);

/* ---- radix_sort.c ---- */
uint64_t lt_score_key(double score); /* orders like the score; -0 and 0 are one; no NaN */
double lt_key_score(uint64_t key);
int lt_metric_sort(uint64_t *key, uint64_t *other, int64_t n); /* by key, stable; other (or NULL) moves along */
