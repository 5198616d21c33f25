/* Metrics that are sums: logloss, accuracy, calibration and normalized entropy of binary models in one pass, accuracy
 * of classifiers. From logits and in doubles: the sigmoid of a float32 saturates at a logit of 17, and its log is off
 * long before. One thread, one order: the values do not depend on the pool. AUC is in auc.c. */
#include "metrics.h"

#include "tensor.h"

#include <math.h>
#include <string.h>

/* ---- input ---- */

void lt_metric_widen(double *out, const void *data, int dtype, int64_t at, int64_t n) {
  if (dtype == LT_FLOAT64) {
    memcpy(out, (const double *)data + at, (size_t)n * sizeof *out);
  } else if (dtype == LT_FLOAT32) {
    for (int64_t i = 0; i < n; i++) out[i] = ((const float *)data)[at + i];
  } else if (dtype == LT_BFLOAT16 || dtype == LT_FLOAT16) {
    float wide[METRIC_BLOCK];
    for (int64_t done = 0, part; done < n; done += part) {
      part = n - done < METRIC_BLOCK ? n - done : METRIC_BLOCK;
      const uint16_t *from = (const uint16_t *)data + at + done;
      if (dtype == LT_BFLOAT16)
        lt_bf16_to_f32(wide, from, part);
      else
        lt_f16_to_f32(wide, from, part);
      for (int64_t i = 0; i < part; i++) out[done + i] = wide[i];
    }
  } else {
    for (int64_t i = 0; i < n; i++) out[i] = (double)lt_load_int(data, dtype, at + i);
  }
}

static void load_weights(const metric_rows *r, int64_t at, metric_block *b) {
  if (r->weights)
    lt_metric_widen(b->weight, r->weights, r->weight_dtype, at, b->n);
  else
    for (int i = 0; i < b->n; i++) b->weight[i] = 1;
}

void lt_metric_load(const metric_rows *r, int64_t at, metric_block *b) {
  b->n = (int)(r->n - at < METRIC_BLOCK ? r->n - at : METRIC_BLOCK);
  if (b->n <= 0) return;
  lt_metric_widen(b->score, r->scores, r->score_dtype, at, b->n);
  lt_metric_widen(b->label, r->labels, r->label_dtype, at, b->n);
  load_weights(r, at, b);
}

static int check_row(const metric_rows *r, const metric_block *b, int64_t at, int i) {
  double y = isnan(b->label[i]) ? NAN : b->label[i], w = isnan(b->weight[i]) ? NAN : b->weight[i]; /* never "-nan" */
  long long row = (long long)(at + i + 1);
  if (!(w >= 0 && w <= 1.7976931348623157e308))
    return lt_fail(LT_ERR_ARGUMENT, "%s: weight of row %lld is %g; weights must be finite and not negative", r->op, row,
                   w);
  if (w == 0) return LT_OK; /* padding takes no part */
  if (isnan(b->score[i]))
    return lt_fail(LT_ERR_ARGUMENT, "%s: %s of row %lld is nan; the model has diverged or was fed nan", r->op,
                   r->score_word, row);
  if (r->soft_labels && !(y >= 0 && y <= 1))
    return lt_fail(LT_ERR_ARGUMENT, "%s: label of row %lld is %g; labels must be from 0 to 1", r->op, row, y);
  if (!r->soft_labels && y != 0 && y != 1)
    return lt_fail(LT_ERR_ARGUMENT, "%s: label of row %lld is %g; labels must be 0 or 1", r->op, row, y);
  return LT_OK;
}

static int check_types(const char *op, const char *score_word, int score_dtype, int label_dtype, int weight_dtype) {
  if (score_dtype < 0 || score_dtype > LT_FLOAT16)
    return lt_fail(LT_ERR_DTYPE, "%s: %ss are %s; they must be floats", op, score_word, lt_dtype_name(score_dtype));
  int other = label_dtype < 0 || label_dtype >= LT_DTYPE_COUNT ? label_dtype : weight_dtype;
  if (other < 0 || other >= LT_DTYPE_COUNT)
    return lt_fail(LT_ERR_DTYPE, "%s: %d is no element type of labels or weights", op, other);
  return LT_OK;
}

int lt_metric_check(const metric_rows *r) {
  LT_TRY(check_types(r->op, r->score_word, r->score_dtype, r->label_dtype, r->weights ? r->weight_dtype : 0));
  metric_block b;
  for (int64_t at = 0; lt_metric_load(r, at, &b), b.n > 0; at += b.n)
    for (int i = 0; i < b.n; i++) LT_TRY(check_row(r, &b, at, i));
  return LT_OK;
}

void lt_metric_add(double *sum, double *low, double x) {
  double total = *sum + x;
  if (isfinite(total)) *low += fabs(*sum) >= fabs(x) ? (*sum - total) + x : (x - total) + *sum;
  *sum = total;
}

/* ---- binary models ---- */

int lt_binary_update(lt_binary_metrics *m, const void *logits, int logit_dtype, const void *labels, int label_dtype,
                     const void *weights, int weight_dtype, int64_t n) {
  metric_rows rows = {"metrics", "logit", logits, labels, weights, logit_dtype, label_dtype, weight_dtype, true, n};
  LT_TRY(lt_metric_check(&rows));
  metric_block b;
  for (int64_t at = 0; lt_metric_load(&rows, at, &b), b.n > 0; at += b.n) {
    for (int i = 0; i < b.n; i++) {
      double x = b.score[i], y = b.label[i], w = b.weight[i];
      if (w == 0) continue;
      /* softplus(x) = max(x, 0) + log1p(exp(-|x|)); a term with factor 0 is left out, since it may be 0 * inf */
      double e = exp(-fabs(x)), rest = log1p(e), loss = 0;
      if (y > 0) loss += y * ((x < 0 ? -x : 0) + rest);
      if (y < 1) loss += (1 - y) * ((x > 0 ? x : 0) + rest);
      m->rows++;
      m->weight += w;
      m->positive += w * y;
      m->correct += (x > 0) == (y > 0.5) ? w : 0;
      lt_metric_add(&m->loss, &m->loss_low, w * loss);
      lt_metric_add(&m->predicted, &m->predicted_low, w * (x < 0 ? e : 1) / (1 + e));
    }
  }
  return LT_OK;
}

void lt_binary_merge(lt_binary_metrics *m, const lt_binary_metrics *other) {
  m->rows += other->rows;
  m->weight += other->weight;
  m->positive += other->positive;
  m->correct += other->correct;
  lt_metric_add(&m->loss, &m->loss_low, other->loss);
  lt_metric_add(&m->predicted, &m->predicted_low, other->predicted);
  m->loss_low += other->loss_low;
  m->predicted_low += other->predicted_low;
}

static bool ratio(double a, double b, double *out) {
  *out = b > 0 ? a / b : NAN;
  return b > 0;
}

bool lt_binary_logloss(const lt_binary_metrics *m, double *out) { return ratio(m->loss + m->loss_low, m->weight, out); }

bool lt_binary_accuracy(const lt_binary_metrics *m, double *out) { return ratio(m->correct, m->weight, out); }

bool lt_binary_calibration(const lt_binary_metrics *m, double *out) {
  return ratio(m->predicted + m->predicted_low, m->positive, out);
}

bool lt_binary_entropy(const lt_binary_metrics *m, double *out) {
  double p = m->positive / m->weight, base = -(p * log(p) + (1 - p) * log1p(-p)), loss;
  bool defined = m->positive > 0 && m->positive < m->weight && lt_binary_logloss(m, &loss);
  *out = defined ? loss / base : NAN;
  return defined;
}

/* ---- classifiers ---- */

/* The first of the largest logits of a row; -1: one of them is nan. */
static int64_t largest(const void *logits, int dtype, int64_t start, int64_t classes) {
  double part[METRIC_BLOCK], best = -INFINITY;
  int64_t found = 0;
  for (int64_t done = 0, n; done < classes; done += n) {
    n = classes - done < METRIC_BLOCK ? classes - done : METRIC_BLOCK;
    lt_metric_widen(part, logits, dtype, start + done, n);
    for (int64_t c = 0; c < n; c++) {
      if (isnan(part[c])) return -1;
      if (part[c] > best) best = part[c], found = done + c;
    }
  }
  return found;
}

int lt_class_accuracy_update(lt_class_accuracy *m, const void *logits, int logit_dtype, int64_t n, int64_t classes,
                             int64_t row_stride, const void *labels, int label_dtype, int64_t ignore,
                             const void *weights, int weight_dtype) {
  LT_TRY(check_types("accuracy", "logit", logit_dtype, label_dtype, weights ? weight_dtype : 0));
  if (label_dtype != LT_INT64 && label_dtype != LT_INT32)
    return lt_fail(LT_ERR_DTYPE, "accuracy: labels are %s; class numbers must be int64 or int32",
                   lt_dtype_name(label_dtype));
  lt_class_accuracy sum = *m;
  for (int64_t row = 0; row < n; row++) {
    int64_t label = lt_load_int(labels, label_dtype, row);
    double w = 1;
    if (weights) lt_metric_widen(&w, weights, weight_dtype, row, 1);
    if (isnan(w)) w = NAN; /* never "-nan" */
    if (!(w >= 0 && w <= 1.7976931348623157e308))
      return lt_fail(LT_ERR_ARGUMENT, "accuracy: weight of row %lld is %g; weights must be finite and not negative",
                     (long long)row + 1, w);
    if (label == ignore || w == 0) continue;
    if (label < 0 || label >= classes)
      return lt_fail(LT_ERR_RANGE, "accuracy: label of row %lld is %lld; classes are 0 to %lld", (long long)row + 1,
                     (long long)label, (long long)classes - 1);
    int64_t found = largest(logits, logit_dtype, row * row_stride, classes);
    if (found < 0)
      return lt_fail(LT_ERR_ARGUMENT, "accuracy: a logit of row %lld is nan; the model has diverged or was fed nan",
                     (long long)row + 1);
    sum.rows++;
    sum.weight += w;
    sum.correct += found == label ? w : 0;
  }
  *m = sum;
  return LT_OK;
}

void lt_class_accuracy_merge(lt_class_accuracy *m, const lt_class_accuracy *other) {
  m->correct += other->correct;
  m->weight += other->weight;
  m->rows += other->rows;
}

bool lt_class_accuracy_value(const lt_class_accuracy *m, double *out) { return ratio(m->correct, m->weight, out); }
