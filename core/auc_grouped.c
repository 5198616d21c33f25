/* Grouped AUC, as the recommender literature reports it: the AUC inside each group (a user), averaged with the group's
 * number of rows as weight; groups of one class have no AUC and stay out of both sums. Rows are ordered by group and
 * score through two stable sorts of row numbers. */
#include "metrics.h"

#include "tensor.h"

#include <math.h>
#include <stdlib.h>

/* Pairs won of one group, twice; rows [first, last) are sorted by score. */
static double group_auc(const double *score, const uint8_t *label, int64_t first, int64_t last, bool *defined) {
  int64_t below = 0, positive = 0;
  unsigned __int128 twice = 0;
  for (int64_t i = first; i < last;) {
    int64_t p = 0, n = 0, tie = i;
    for (; i < last && score[i] == score[tie]; i++) *(label[i] ? &p : &n) += 1;
    twice += (unsigned __int128)(uint64_t)p * (uint64_t)(2 * below + n);
    below += n;
    positive += p;
  }
  *defined = below > 0 && positive > 0;
  return (double)twice / (2.0 * (double)below * (double)positive);
}

/* Row numbers in order of group, then score. key: scratch, [n]. */
static int order_rows(const metric_rows *rows, const void *groups, int group_dtype, uint64_t *key, uint64_t *order) {
  metric_block b;
  for (int64_t at = 0; lt_metric_load(rows, at, &b), b.n > 0; at += b.n) {
    for (int i = 0; i < b.n; i++) {
      key[at + i] = lt_score_key(b.score[i]);
      order[at + i] = (uint64_t)(at + i);
    }
  }
  LT_TRY(lt_metric_sort(key, order, rows->n));
  for (int64_t i = 0; i < rows->n; i++) /* the sign bit turned: negative ids before the others */
    key[i] = (uint64_t)lt_load_int(groups, group_dtype, (int64_t)order[i]) ^ 1ULL << 63;
  return lt_metric_sort(key, order, rows->n);
}

int lt_auc_grouped(const void *scores, int score_dtype, const void *labels, int label_dtype, const void *groups,
                   int group_dtype, int64_t n, lt_auc_group_value *out) {
  metric_rows rows = {"grouped auc", "score", scores, labels, NULL, score_dtype, label_dtype, 0, false, n};
  if (group_dtype != LT_INT64 && group_dtype != LT_INT32)
    return lt_fail(LT_ERR_DTYPE, "grouped auc: groups are %s; they must be int64 or int32 ids",
                   lt_dtype_name(group_dtype));
  LT_TRY(lt_metric_check(&rows));
  *out = (lt_auc_group_value){0};
  uint64_t *group = malloc((size_t)n * sizeof *group + 1), *order = malloc((size_t)n * sizeof *order + 1);
  double *score = malloc((size_t)n * sizeof *score + 1);
  uint8_t *label = malloc((size_t)n + 1);
  int status = group && order && score && label
                   ? order_rows(&rows, groups, group_dtype, group, order)
                   : lt_fail(LT_ERR_MEMORY, "grouped auc: out of memory for %lld rows", (long long)n);
  for (int64_t i = 0; status == LT_OK && i < n; i++) {
    double y;
    lt_metric_widen(&score[i], scores, score_dtype, (int64_t)order[i], 1);
    lt_metric_widen(&y, labels, label_dtype, (int64_t)order[i], 1);
    label[i] = y == 1;
  }
  double sum = 0;
  for (int64_t i = 0, first; status == LT_OK && i < n;) {
    bool defined;
    for (first = i; i < n && group[i] == group[first]; i++) {}
    double auc = group_auc(score, label, first, i, &defined);
    out->skipped += !defined;
    if (!defined) continue;
    sum += (double)(i - first) * auc;
    out->groups++;
    out->rows += i - first;
  }
  out->defined = out->groups > 0;
  out->auc = out->defined ? sum / (double)out->rows : NAN;
  free(group);
  free(order);
  free(score);
  free(label);
  return status;
}
