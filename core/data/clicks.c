/* Synthetic clicks: an endless log of which any row can be computed from (seed, row) alone, so that threads, shards and
 * ranks agree. Popularity is Zipf-like: id = floor(size^u) - 1 with u uniform. Labels come from a hidden factorisation
 * machine whose weights are hashes of (seed, field, id), smaller for rarer ids, so that a model can learn most of it
 * from a few hundred thousand rows: a linear model finds a part, FM and DeepFM the rest. */
#include "frame.h"
#include "ordered.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { FACTORS = 4, MAX_FIELDS = 1024, SAMPLE = 4096, CHUNK = 16384 };
static const double linear_deviation = 0.8, pair_deviation = 1.4, positives = 0.25; /* of the logit; of the labels */

typedef struct clicks {
  lt_clicks_options o;
  int32_t fields;
  int64_t size[MAX_FIELDS];
  double log_size[MAX_FIELDS]; /* of the ids that rows use */
  uint64_t row_key, weight_key[MAX_FIELDS];
  double linear, pairs, bias; /* the label's logit is bias + linear * (sum of weights) + pairs * (sum of products) */
} clicks;

void lt_clicks_defaults(lt_clicks_options *out) {
  *out = (lt_clicks_options){
      .rows = 1000000, .values = 2000000, .small_fields = 13, .small_values = 100, .large_fields = 26};
}

static double uniform(uint64_t bits) { return (double)(bits >> 11) * 0x1p-53; }
static float centred(uint64_t bits16) { return (float)(bits16 & 0xffff) * 0x1p-15f - 1 + 0x1p-16f; }

/* Half as much weight squared from octave to octave of ids beyond 64. */
static float strength(int32_t id) {
  static const float by_octave[] = {1,       0.7071f, 0.5f,    0.3536f, 0.25f,   0.1768f, 0.125f,  0.0884f, 0.0625f,
                                    0.0442f, 0.0313f, 0.0221f, 0.0156f, 0.0110f, 0.0078f, 0.0055f, 0.0039f};
  int octave = id < 64 ? 0 : 26 - __builtin_clz((uint32_t)id);
  return by_octave[octave < 16 ? octave : 16];
}

/* One row: its ids [fields], the sum of its hidden weights and of the products of its hidden factors. */
static void make_row(const clicks *g, int64_t row, int32_t *ids, double *linear, double *pairs) {
  uint64_t key = lt_mix64(g->row_key + (uint64_t)row * 0x9e3779b97f4a7c15ULL);
  float sum[FACTORS] = {0}, square = 0, weight = 0;
  for (int32_t f = 0; f < g->fields; f++) {
    double u = uniform(lt_mix64(key + (uint64_t)(f + 1) * 0xd1342543de82ef95ULL));
    int32_t id = (int32_t)exp(u * g->log_size[f]) - 1;
    uint64_t bits = lt_mix64(g->weight_key[f] + (uint64_t)id * 0x9e3779b97f4a7c15ULL);
    float scale = strength(id);
    weight += scale * centred(lt_mix64(bits + 1));
    for (int k = 0; k < FACTORS; k++) {
      float v = scale * centred(bits >> 16 * k);
      sum[k] += v, square += v * v;
    }
    ids[f] = id + g->o.reserved;
  }
  float products = -square;
  for (int k = 0; k < FACTORS; k++) products += sum[k] * sum[k];
  *linear = (double)weight, *pairs = (double)(0.5f * products);
}

static double probability(double logit) { return 1 / (1 + exp(-logit)); }

static double deviation(const double *x, int n) {
  double sum = 0, square = 0;
  for (int i = 0; i < n; i++) sum += x[i], square += x[i] * x[i];
  double variance = square / n - sum / n * (sum / n);
  return variance > 0 ? sqrt(variance) : 1;
}

/* The factors and the bias that give the logit its deviations and the labels their share of positives, from rows that
 * no log begins with. */
static int calibrate(clicks *g) {
  int32_t ids[MAX_FIELDS];
  double *linear = malloc(2 * SAMPLE * sizeof *linear), *pairs = linear + SAMPLE, low = -60, high = 60;
  if (!linear) return lt_fail(LT_ERR_MEMORY, "clicks: no memory");
  for (int i = 0; i < SAMPLE; i++) make_row(g, INT64_MAX - i, ids, &linear[i], &pairs[i]);
  g->linear = linear_deviation / deviation(linear, SAMPLE);
  g->pairs = pair_deviation / deviation(pairs, SAMPLE);
  for (int step = 0; step < 60; step++) {
    double mid = (low + high) / 2, mean = 0;
    for (int i = 0; i < SAMPLE; i++) mean += probability(mid + g->linear * linear[i] + g->pairs * pairs[i]) / SAMPLE;
    if (mean < positives)
      low = mid;
    else
      high = mid;
  }
  g->bias = low;
  free(linear);
  return LT_OK;
}

static int plan(const lt_clicks_options *o, clicks *g) {
  *g = (clicks){.o = *o, .fields = o->small_fields + o->large_fields};
  if (o->rows < 0 || o->first_row < 0)
    return lt_fail(LT_ERR_ARGUMENT, "clicks: %lld rows from %lld; give numbers from 0 up", (long long)o->rows,
                   (long long)o->first_row);
  if (o->small_fields < 0 || o->large_fields < 0 || g->fields < 1 || g->fields > MAX_FIELDS)
    return lt_fail(LT_ERR_ARGUMENT, "clicks: %d small and %d large fields; give 1 to %d in all", o->small_fields,
                   o->large_fields, MAX_FIELDS);
  if (o->reserved < 0 || o->threads < 0 || o->threads > 256)
    return lt_fail(LT_ERR_ARGUMENT, "clicks: %d reserved ids and %d threads; give 0 or more", o->reserved, o->threads);
  int64_t rest = o->values - (int64_t)o->small_fields * o->small_values;
  for (int32_t f = 0; f < g->fields; f++) {
    int32_t large = f - o->small_fields;
    g->size[f] = large < 0 ? o->small_values : rest / o->large_fields + (large < rest % o->large_fields);
    if (g->size[f] <= o->reserved || g->size[f] > INT32_MAX)
      return lt_fail(LT_ERR_ARGUMENT, "clicks: values = %lld leaves field %d with %lld ids; each needs %d or more",
                     (long long)o->values, f + 1, (long long)g->size[f], o->reserved + 1);
    g->log_size[f] = log((double)(g->size[f] - o->reserved));
    g->weight_key[f] = lt_mix64(lt_mix64((uint64_t)o->seed + 0x8cb92ba72f3d8dd7ULL) + (uint64_t)f);
  }
  if (o->large_fields == 0 && rest != 0)
    return lt_fail(LT_ERR_ARGUMENT, "clicks: values = %lld, but %d fields of %d have %lld; give large_fields the rest",
                   (long long)o->values, o->small_fields, o->small_values, (long long)(o->values - rest));
  g->row_key = lt_mix64((uint64_t)o->seed ^ 0x2545f4914f6cdd1dULL);
  return calibrate(g);
}

typedef struct share {
  const clicks *g;
  lt_frame *f;
  int64_t begin, end;
  pthread_t thread;
  int started;
} share;

static void *make_share(void *argument) {
  share *s = argument;
  const clicks *g = s->g;
  for (int64_t row = s->begin; row < s->end; row++) {
    char *record = (char *)s->f->records->data + row * s->f->stride;
    int64_t at = g->o.first_row + row;
    double linear, pairs;
    make_row(g, at, (int32_t *)(record + s->f->columns[1].offset), &linear, &pairs);
    double logit = g->bias + g->linear * linear + g->pairs * pairs;
    double draw =
        uniform(lt_mix64(lt_mix64(g->row_key + (uint64_t)at * 0x9e3779b97f4a7c15ULL) ^ 0x1d8e4e27c47d124fULL));
    *(float *)(record + s->f->columns[0].offset) = draw < probability(logit) ? 1.0f : 0.0f;
    if (row % CHUNK == 0 && lt_interrupted()) break;
  }
  return NULL;
}

static int make_rows(const clicks *g, lt_frame *f) {
  int threads = g->o.threads > 1 ? g->o.threads : 1;
  share *shares = calloc((size_t)threads, sizeof *shares);
  if (!shares) return lt_fail(LT_ERR_MEMORY, "clicks: no memory for %d threads", threads);
  for (int i = 0; i < threads; i++) {
    share *s = &shares[i];
    *s = (share){.g = g, .f = f, .begin = f->rows * i / threads, .end = f->rows * (i + 1) / threads};
    s->started = i > 0 && lt_thread_start(&s->thread, make_share, s) == 0;
  }
  for (int i = 0; i < threads; i++)
    if (!shares[i].started) make_share(&shares[i]); /* the first, and those that got no thread */
  for (int i = 0; i < threads; i++)
    if (shares[i].started) pthread_join(shares[i].thread, NULL);
  free(shares);
  return lt_interrupted() ? lt_fail(LT_ERR_INTERRUPT, "clicks: interrupted") : LT_OK;
}

int lt_clicks_make(const lt_clicks_options *options, int64_t *sizes, lt_frame **out) {
  clicks *g = malloc(sizeof *g);
  lt_frame_column *columns = calloc(MAX_FIELDS + 1, sizeof *columns);
  char(*names)[16] = calloc(MAX_FIELDS + 1, sizeof *names);
  lt_frame *f = NULL;
  int status = g && columns && names ? plan(options, g) : lt_fail(LT_ERR_MEMORY, "clicks: no memory");
  if (status == LT_OK) {
    columns[0] = (lt_frame_column){.name = "label", .dtype = LT_FLOAT32};
    for (int32_t i = 0; i < g->fields; i++) {
      snprintf(names[i], sizeof names[i], "C%d", i + 1);
      columns[i + 1] = (lt_frame_column){.name = names[i], .dtype = LT_INT32};
      sizes[i] = g->size[i];
    }
    status = lt_frame_new(columns, g->fields + 1, options->rows, &f);
  }
  if (status == LT_OK) status = make_rows(g, f);
  free(g), free(columns), free(names);
  if (status < 0) return lt_frame_release(f), status;
  *out = f;
  return LT_OK;
}
