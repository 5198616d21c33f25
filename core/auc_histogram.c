/* AUC of a running training: weights by class in 2^16 bins of the logit, a fixed size and therefore mergeable by
 * addition. Two rows of one bin count as a tie, which gives the error's bound: half the pairs that share a bin. The
 * logit and not the probability, because click probabilities crowd near 0. */
#include "metrics.h"

#include <math.h>

static int bin_of(double x) { /* of 2^-11 each, from -16 to 16 */
  double at = (x + 16) * 2048;
  return at <= 0 ? 0 : at >= LT_AUC_BINS - 1 ? LT_AUC_BINS - 1 : (int)at;
}

int lt_auc_histogram_update(lt_auc_histogram *h, const void *logits, int logit_dtype, const void *labels,
                            int label_dtype, const void *weights, int weight_dtype, int64_t n) {
  metric_rows rows = {"auc", "logit", logits, labels, weights, logit_dtype, label_dtype, weight_dtype, false, n};
  LT_TRY(lt_metric_check(&rows));
  metric_block b;
  for (int64_t at = 0; lt_metric_load(&rows, at, &b), b.n > 0; at += b.n) {
    for (int i = 0; i < b.n; i++) {
      if (b.weight[i] == 0) continue;
      h->side[b.label[i] == 1][bin_of(b.score[i])] += b.weight[i];
      h->rows++;
    }
  }
  return LT_OK;
}

void lt_auc_histogram_merge(lt_auc_histogram *h, const lt_auc_histogram *other) {
  for (int c = 0; c < 2; c++)
    for (int i = 0; i < LT_AUC_BINS; i++) h->side[c][i] += other->side[c][i];
  h->rows += other->rows;
}

void lt_auc_histogram_value(const lt_auc_histogram *h, lt_auc_value *out) {
  long double below = 0, positive = 0, won = 0, tied = 0; /* below: negatives of the bins so far */
  for (int i = 0; i < LT_AUC_BINS; i++) {
    long double n = h->side[0][i], p = h->side[1][i];
    won += p * below;
    tied += p * n;
    below += n;
    positive += p;
  }
  long double pairs = below * positive;
  *out = (lt_auc_value){.negative = (double)below, .positive = (double)positive, .rows = h->rows, .defined = pairs > 0};
  out->auc = out->defined ? (double)((won + tied / 2) / pairs) : NAN;
  out->bound = out->defined ? (double)(tied / 2 / pairs) : NAN;
  out->exact = tied == 0;
}
