/* bernoulli and multinomial: draws whose chances are in a tensor. Probabilities are read in float64; words of the
 * call's stream are counted by the place of the result or of the probability, see each. */
#include "../random.h"
#include "elementwise.h"
#include "keys.h"
#include "stage.h"

/* ---- bernoulli ---- */
static int bernoulli_shape(lt_args *c) {
  const lt_tensor *p = c->in[0];
  LT_TRY(lt_need_float(c, 0));
  if (c->attr->n_list == 0) return lt_out_like(c, 0, p);
  LT_TRY(lt_out_listed(c, p->dtype));
  const lt_tensor *o = c->out[0];
  bool fits = p->ndim <= o->ndim;
  for (int d = 0; d < p->ndim && fits; d++) fits = p->shape[d] == 1 || p->shape[d] == o->shape[o->ndim - p->ndim + d];
  if (fits) return LT_OK;
  return lt_fail(LT_ERR_SHAPE, "bernoulli: p is %s and does not broadcast to %s", lt_shape_text(p), lt_shape_text(o));
}
/* p broadcast to the result, in float64; one number stays one. */
static int spread_p(lt_args *c, lt_tensor **out) {
  lt_attr shape = {.n_list = c->out[0]->ndim}, dtype = {.i = {LT_FLOAT64}};
  lt_tensor *full = NULL, *converted = NULL, *p = c->in[0];
  memcpy(shape.list, c->out[0]->shape, sizeof c->out[0]->shape);
  int status = p->n == 1 ? LT_OK : lt_run(LT_OP_expand, &p, 1, &shape, &full, 1);
  if (status >= 0) status = lt_run(LT_OP_to, full ? &full : &p, 1, &dtype, &converted, 1);
  if (status >= 0) status = lt_contiguous(converted, out);
  lt_tensor_release(full);
  lt_tensor_release(converted);
  return status;
}
static int check_p(const lt_tensor *p) {
  const double *v = lt_ptr(p);
  for (int64_t i = 0; i < p->n; i++)
    if (!(v[i] >= 0 && v[i] <= 1))
      return lt_fail(LT_ERR_ARGUMENT, "bernoulli: p is %g at element %lld; probabilities are 0 to 1", v[i],
                     (long long)i + 1);
  return LT_OK;
}
static int bernoulli_cpu(lt_args *c) {
  lt_tensor *p, *o;
  LT_TRY(spread_p(c, &p));
  int status = check_p(p);
  if (status >= 0) status = lt_stage(c, 0, &o);
  if (status >= 0) {
    const double *v = lt_ptr(p);
    int64_t size = lt_dtype_size(o->dtype), step = p->n == 1 ? 0 : 1;
    char *out = lt_ptr(o);
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(o->n * 4))
    for (int64_t at = 0; at < o->n; at += LT_BLOCK) {
      int64_t m = o->n - at < LT_BLOCK ? o->n - at : LT_BLOCK;
      uint32_t words[LT_BLOCK];
      double drawn[LT_BLOCK];
      lt_random_words(c->attr->i[LT_SEED], c->attr->i[LT_CALL], at, m, words);
      for (int64_t i = 0; i < m; i++) drawn[i] = (double)words[i] * 0x1p-32 < v[(at + i) * step];
      lt_store_block(out + at * size, o->dtype, 1, drawn, LT_FLOAT64, m);
    }
    status = lt_unstage(c, 0, o, status);
  }
  lt_tensor_release(p);
  return status;
}
const lt_op lt_op_bernoulli = {
    .name = "bernoulli",
    .signature = "bernoulli(p: operand, shape: ints = nil)",
    .doc = "1 with probability p, else 0 (steps of 2^-32), for each element of p, or of the shape p broadcasts to.",
    .flags = LT_OP_RANDOM | LT_OP_NO_GRADIENT,
    .shape = bernoulli_shape,
    .cpu = bernoulli_cpu};

/* ---- multinomial: i = { n, replacement } ---- */
static int multinomial_shape(lt_args *c) {
  const lt_tensor *p = c->in[0];
  int64_t n = c->attr->i[0], shape[] = {n, n};
  LT_TRY(lt_need_float(c, 0));
  if (p->ndim < 1 || p->ndim > 2)
    return lt_fail(LT_ERR_SHAPE, "multinomial: the probabilities are %s; they must be one row or a matrix of rows",
                   lt_shape_text(p));
  if (n < 0) return lt_fail(LT_ERR_ARGUMENT, "multinomial: %lld samples; the count must not be negative", (long long)n);
  if (p->ndim == 2) shape[0] = p->shape[0];
  return lt_out(c, 0, LT_INT64, p->ndim, shape);
}
static int check_row(const double *p, int64_t k, int64_t row, int64_t n, bool replacement) {
  double sum = 0;
  int64_t positive = 0;
  for (int64_t j = 0; j < k; j++) {
    if (!(p[j] >= 0) || isinf(p[j]))
      return lt_fail(LT_ERR_ARGUMENT,
                     "multinomial: probability %lld of row %lld is %g; it must be a finite number, 0 or more",
                     (long long)j + 1, (long long)row + 1, p[j]);
    sum += p[j];
    positive += p[j] > 0;
  }
  if (n > 0 && !(sum > 0))
    return lt_fail(LT_ERR_ARGUMENT,
                   "multinomial: the probabilities of row %lld sum to %g; at least one must be positive",
                   (long long)row + 1, sum);
  if (!replacement && positive < n)
    return lt_fail(LT_ERR_ARGUMENT,
                   "multinomial: %lld samples from row %lld, which has %lld positive probabilities; draw fewer, or "
                   "with { replacement = true }",
                   (long long)n, (long long)row + 1, (long long)positive);
  return LT_OK;
}
/* Inverse of the running sum; `sum` [k] is scratch. Sample s of row r uses words 2 (r n + s). */
static void with_replacement(const lt_attr *a, const double *p, int64_t k, int64_t row, double *sum, int64_t *out) {
  int64_t n = a->i[0], last = 0;
  double total = 0;
  for (int64_t j = 0; j < k; j++) {
    sum[j] = total += p[j];
    if (p[j] > 0) last = j;
  }
  for (int64_t s = 0; s < n; s++) {
    uint32_t words[2];
    lt_random_words(a->i[LT_SEED], a->i[LT_CALL], 2 * (row * n + s), 2, words);
    double target = lt_unit64(lt_word_pair(words, 0)) * total;
    int64_t low = 0, high = last;
    while (low < high) {
      int64_t middle = low + (high - low) / 2;
      if (sum[middle] > target)
        high = middle;
      else
        low = middle + 1;
    }
    out[s] = low;
  }
}
/* Exponential race: item j arrives after -log(u) / p; the first n arrivals, in order, are the sample. Item j of row r
 * uses words 2 (r k + j). */
static void without_replacement(const lt_attr *a, const double *p, int64_t k, int64_t row, lt_ranked *v, int64_t *out) {
  for (int64_t j = 0; j < k; j++) {
    uint32_t words[2];
    lt_random_words(a->i[LT_SEED], a->i[LT_CALL], 2 * (row * k + j), 2, words);
    double arrival = p[j] > 0 ? -lt_exact_log(lt_open64(lt_word_pair(words, 0))) / p[j] : INFINITY;
    lt_rank_line(&arrival, LT_FLOAT64, 1, 1, false, v + j);
    v[j].at = j;
  }
  lt_sort_ranked(v, v + k, k);
  for (int64_t s = 0; s < a->i[0]; s++) out[s] = v[s].at;
}
static int multinomial_cpu(lt_args *c) {
  lt_tensor *p, *o;
  lt_attr as64 = {.i = {LT_FLOAT64}};
  LT_TRY(lt_run(LT_OP_to, c->in, 1, &as64, &o, 1));
  int status = lt_contiguous(o, &p);
  lt_tensor_release(o);
  LT_TRY(status);
  int64_t k = p->shape[p->ndim - 1], rows = p->ndim == 2 ? p->shape[0] : 1, n = c->attr->i[0],
          bytes = (2 * k + 1) * (int64_t)sizeof(lt_ranked);
  lt_ranked *scratch = lt_alloc(bytes);
  status = scratch ? lt_stage(c, 0, &o) : LT_ERR_MEMORY;
  if (status >= 0) {
    for (int64_t r = 0; r < rows && status >= 0; r++) {
      const double *line = (const double *)lt_ptr(p) + r * k;
      status = check_row(line, k, r, n, c->attr->i[1]);
      int64_t *out = (int64_t *)lt_ptr(o) + r * n;
      if (status < 0 || n == 0) continue;
      if (c->attr->i[1])
        with_replacement(c->attr, line, k, r, (double *)scratch, out);
      else
        without_replacement(c->attr, line, k, r, scratch, out);
    }
    status = lt_unstage(c, 0, o, status);
  }
  if (scratch) lt_free(scratch, bytes);
  lt_tensor_release(p);
  return status;
}
const lt_op lt_op_multinomial = {
    .name = "multinomial",
    .signature = "multinomial(probabilities, n: int, replacement: bool = false)",
    .doc = "n ids (0-based, int64) drawn from each row in proportion to its entries, which need not sum to 1; "
           "without replacement in the order drawn.",
    .flags = LT_OP_RANDOM | LT_OP_NO_GRADIENT,
    .shape = multinomial_shape,
    .cpu = multinomial_cpu};
