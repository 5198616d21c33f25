/* Exact AUC by rank sum, ties counting half. Negatives and positives are kept apart, as integers that sort like their
 * scores, so that two radix sorts and one walk give the sum in whole numbers; with weights, ties are ordered by weight,
 * so that the value is a function of the set of rows and not of their order or of how states were merged.
 * Beyond its memory budget a state turns into a histogram (auc_histogram.c), for good, and its value says so. */
#include "metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct side {
  uint64_t *key;
  double *weight; /* only when the state is weighted */
  int64_t n, room;
} side;

struct lt_auc {
  int64_t budget;
  side side[2]; /* negatives, positives */
  bool weighted, sorted;
  lt_auc_histogram *histogram; /* not NULL: the sides are empty for good */
};

static int no_memory(void) {
  return lt_fail(LT_ERR_MEMORY, "auc: out of memory; give a smaller budget and get a histogram");
}

/* ---- storage ---- */

int lt_auc_new(int64_t budget, lt_auc **out) {
  if (!(*out = calloc(1, sizeof **out))) return no_memory();
  (*out)->budget = budget;
  return LT_OK;
}

void lt_auc_reset(lt_auc *a) {
  for (int c = 0; c < 2; c++) {
    free(a->side[c].key);
    free(a->side[c].weight);
  }
  free(a->histogram);
  *a = (lt_auc){.budget = a->budget};
}

void lt_auc_free(lt_auc *a) {
  if (!a) return;
  lt_auc_reset(a);
  free(a);
}

static int make_room(side *s, int64_t more, bool weighted) {
  if (s->n + more > s->room) {
    int64_t room = s->n + more + s->room / 2 + 1024;
    uint64_t *key = realloc(s->key, (size_t)room * sizeof *key);
    if (!key) return no_memory();
    s->key = key;
    if (s->weight) {
      double *weight = realloc(s->weight, (size_t)room * sizeof *weight);
      if (!weight) return no_memory();
      s->weight = weight;
    }
    s->room = room;
  }
  if (weighted && !s->weight) {
    if (!(s->weight = malloc((size_t)s->room * sizeof *s->weight + 1))) return no_memory();
    for (int64_t i = 0; i < s->n; i++) s->weight[i] = 1;
  }
  return LT_OK;
}

/* Moves the rows into bins. */
static int turn_into_histogram(lt_auc *a) {
  if (a->histogram) return LT_OK;
  lt_auc_histogram *h = calloc(1, sizeof *h);
  if (!h) return no_memory();
  for (int c = 0; c < 2; c++) {
    const side *s = &a->side[c];
    for (int64_t i = 0; i < s->n; i++) {
      double score = lt_key_score(s->key[i]);
      int status =
          lt_auc_histogram_update(h, &score, LT_FLOAT64, &c, LT_INT32, s->weight ? &s->weight[i] : NULL, LT_FLOAT64, 1);
      if (status < 0) {
        free(h);
        return status;
      }
    }
  }
  lt_auc_reset(a);
  a->histogram = h;
  return LT_OK;
}

/* Room for so many more rows of each class, or a histogram when the budget does not allow them. */
static int admit(lt_auc *a, const int64_t more[2], bool weighted) {
  bool with_weights = a->weighted || weighted;
  int64_t rows = a->side[0].n + a->side[1].n + more[0] + more[1];
  if (a->histogram || rows > a->budget / (with_weights ? 32 : 16)) return turn_into_histogram(a); /* half: to sort */
  for (int c = 0; c < 2; c++) LT_TRY(make_room(&a->side[c], more[c], with_weights));
  a->weighted = with_weights;
  a->sorted = false;
  return LT_OK;
}

static void append(side *s, uint64_t key, double weight) {
  if (s->weight) s->weight[s->n] = weight;
  s->key[s->n++] = key;
}

int lt_auc_update(lt_auc *a, const void *scores, int score_dtype, const void *labels, int label_dtype,
                  const void *weights, int weight_dtype, int64_t n) {
  metric_rows rows = {"auc", "score", scores, labels, weights, score_dtype, label_dtype, weight_dtype, false, n};
  int64_t more[2] = {0, 0};
  bool weighted = false;
  metric_block b;
  LT_TRY(lt_metric_check(&rows));
  for (int64_t at = 0; lt_metric_load(&rows, at, &b), b.n > 0; at += b.n) {
    for (int i = 0; i < b.n; i++) {
      more[b.label[i] == 1] += b.weight[i] > 0;
      weighted = weighted || (b.weight[i] != 1 && b.weight[i] != 0);
    }
  }
  LT_TRY(admit(a, more, weighted));
  if (a->histogram)
    return lt_auc_histogram_update(a->histogram, scores, score_dtype, labels, label_dtype, weights, weight_dtype, n);
  for (int64_t at = 0; lt_metric_load(&rows, at, &b), b.n > 0; at += b.n)
    for (int i = 0; i < b.n; i++)
      if (b.weight[i] > 0) append(&a->side[b.label[i] == 1], lt_score_key(b.score[i]), b.weight[i]);
  return LT_OK;
}

int lt_auc_merge(lt_auc *a, const lt_auc *other) {
  if (other->histogram) {
    LT_TRY(turn_into_histogram(a));
    lt_auc_histogram_merge(a->histogram, other->histogram);
    return LT_OK;
  }
  int64_t more[2] = {other->side[0].n, other->side[1].n};
  LT_TRY(admit(a, more, other->weighted));
  for (int c = 0; c < 2; c++) {
    const side *s = &other->side[c];
    for (int64_t i = 0; i < more[c]; i++) {
      double weight = s->weight ? s->weight[i] : 1, score = lt_key_score(s->key[i]);
      if (!a->histogram)
        append(&a->side[c], s->key[i], weight);
      else
        LT_TRY(lt_auc_histogram_update(a->histogram, &score, LT_FLOAT64, &c, LT_INT32, &weight, LT_FLOAT64, 1));
    }
  }
  return LT_OK;
}

/* ---- value ---- */

static int sort_side(side *s) {
  if (!s->weight) return lt_metric_sort(s->key, NULL, s->n);
  /* weights are >= 0, so their bits sort like them */
  LT_TRY(lt_metric_sort((uint64_t *)s->weight, s->key, s->n));
  return lt_metric_sort(s->key, (uint64_t *)s->weight, s->n);
}

static void walk_counts(const side *n, const side *p, lt_auc_value *out) {
  unsigned __int128 twice = 0; /* pairs won count 2, ties 1 */
  for (int64_t i = 0, j = 0; j < p->n;) {
    uint64_t key = p->key[j];
    int64_t first = j, tied;
    while (j < p->n && p->key[j] == key) j++;
    while (i < n->n && n->key[i] < key) i++;
    for (tied = i; tied < n->n && n->key[tied] == key;) tied++;
    twice += (unsigned __int128)(uint64_t)(j - first) * (uint64_t)(i + tied);
    i = tied;
  }
  out->negative = (double)n->n;
  out->positive = (double)p->n;
  out->auc = (double)twice / (2 * out->negative * out->positive);
}

static void walk_weights(const side *n, const side *p, lt_auc_value *out) {
  long double below = 0, positive = 0, won = 0;
  int64_t i = 0;
  for (int64_t j = 0; j < p->n;) {
    uint64_t key = p->key[j];
    long double mine = 0, tied = 0;
    while (j < p->n && p->key[j] == key) mine += p->weight[j++];
    while (i < n->n && n->key[i] < key) below += n->weight[i++];
    while (i < n->n && n->key[i] == key) tied += n->weight[i++];
    won += mine * (below + tied / 2);
    below += tied;
    positive += mine;
  }
  while (i < n->n) below += n->weight[i++];
  out->negative = (double)below;
  out->positive = (double)positive;
  out->auc = (double)(won / (below * positive));
}

int lt_auc_result(lt_auc *a, lt_auc_value *out) {
  if (a->histogram) {
    lt_auc_histogram_value(a->histogram, out);
    return LT_OK;
  }
  if (!a->sorted)
    for (int c = 0; c < 2; c++) LT_TRY(sort_side(&a->side[c]));
  a->sorted = true;
  *out = (lt_auc_value){.rows = a->side[0].n + a->side[1].n, .exact = true};
  if (a->weighted)
    walk_weights(&a->side[0], &a->side[1], out);
  else
    walk_counts(&a->side[0], &a->side[1], out);
  out->defined = a->side[0].n > 0 && a->side[1].n > 0;
  if (!out->defined) out->auc = out->bound = NAN;
  return LT_OK;
}

int lt_auc_exact(const void *scores, int score_dtype, const void *labels, int label_dtype, const void *weights,
                 int weight_dtype, int64_t n, lt_auc_value *out) {
  lt_auc *a;
  LT_TRY(lt_auc_new(INT64_MAX, &a));
  int status = lt_auc_update(a, scores, score_dtype, labels, label_dtype, weights, weight_dtype, n);
  if (status == LT_OK) status = lt_auc_result(a, out);
  lt_auc_free(a);
  return status;
}

/* ---- a state as bytes: counts, then keys and weights of each side, or the histogram ---- */

typedef struct packed {
  uint64_t mark; /* "ltr-auc1" */
  int64_t n[2], weighted, histogram;
} packed;

static const uint64_t mark = 0x316375612d72746cULL;

int64_t lt_auc_packed_bytes(const lt_auc *a) {
  if (a->histogram) return (int64_t)(sizeof(packed) + sizeof *a->histogram);
  return (int64_t)sizeof(packed) + (a->side[0].n + a->side[1].n) * (a->weighted ? 16 : 8);
}

void lt_auc_pack(const lt_auc *a, void *out) {
  packed head = {mark, {a->side[0].n, a->side[1].n}, a->weighted, a->histogram != NULL};
  char *to = (char *)out + sizeof head;
  memcpy(out, &head, sizeof head);
  if (a->histogram) memcpy(to, a->histogram, sizeof *a->histogram);
  for (int c = 0; c < 2; c++) {
    size_t bytes = (size_t)a->side[c].n * 8;
    if (bytes) memcpy(to, a->side[c].key, bytes);
    to += bytes;
    if (a->weighted && bytes) memcpy(to, a->side[c].weight, bytes);
    to += a->weighted ? bytes : 0;
  }
}

/* One side of a packed state as a state of its own, checked. */
static int unpack_side(const char **from, side *s, int64_t n, bool weighted) {
  size_t bytes = (size_t)n * 8;
  LT_TRY(make_room(s, n, weighted));
  if (bytes) memcpy(s->key, *from, bytes);
  *from += bytes;
  if (weighted && bytes) memcpy(s->weight, *from, bytes);
  *from += weighted ? bytes : 0;
  s->n = n;
  for (int64_t i = 0; i < n; i++)
    if (isnan(lt_key_score(s->key[i])) || (weighted && !(s->weight[i] > 0 && isfinite(s->weight[i]))))
      return lt_fail(LT_ERR_FORMAT, "auc: the packed state is damaged: row %lld is no score and weight",
                     (long long)i + 1);
  return LT_OK;
}

static int unpack(lt_auc *a, const void *from, int64_t bytes) {
  packed head = {0};
  const char *at = (const char *)from + sizeof head;
  if (bytes >= (int64_t)sizeof head) memcpy(&head, from, sizeof head);
  if (head.mark != mark) return lt_fail(LT_ERR_FORMAT, "auc: %lld bytes that are no packed state", (long long)bytes);
  int64_t row = head.weighted ? 16 : 8, held = bytes - (int64_t)sizeof head;
  bool fits = !(head.histogram && (head.n[0] || head.n[1])) && head.n[0] >= 0 && head.n[1] >= 0 &&
              head.n[0] <= held / row && head.n[1] <= held / row - head.n[0];
  if (!fits || held != (head.n[0] + head.n[1]) * row + (head.histogram ? (int64_t)sizeof(lt_auc_histogram) : 0))
    return lt_fail(LT_ERR_FORMAT, "auc: the packed state of %lld bytes is cut short or too long", (long long)bytes);
  if (head.histogram) {
    if (!(a->histogram = malloc(sizeof *a->histogram))) return no_memory();
    memcpy(a->histogram, at, sizeof *a->histogram);
    for (int i = 0; i < 2 * LT_AUC_BINS; i++) {
      double sum = a->histogram->side[i / LT_AUC_BINS][i % LT_AUC_BINS];
      if (!(sum >= 0 && isfinite(sum)))
        return lt_fail(LT_ERR_FORMAT, "auc: the packed state is damaged: bin %d is no sum of weights", i);
    }
    return LT_OK;
  }
  a->weighted = head.weighted != 0;
  for (int c = 0; c < 2; c++) LT_TRY(unpack_side(&at, &a->side[c], head.n[c], a->weighted));
  return LT_OK;
}

int lt_auc_merge_packed(lt_auc *a, const void *from, int64_t bytes) {
  lt_auc other = {0};
  int status = unpack(&other, from, bytes);
  if (status == LT_OK) status = lt_auc_merge(a, &other);
  lt_auc_reset(&other);
  return status;
}
