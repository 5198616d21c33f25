/* Operators that draw random numbers. Element i of a result is made of word i of the call's stream (words 2 i and 2 i +
 * 1 for float64 and ids): it does not depend on threads, and a part of a tensor can be drawn by itself. Each call takes
 * the next stream of the generator; lt.manual_seed starts again from the first. */
#include "../random.h"
#include "elementwise.h"
#include "keys.h"
#include "stage.h"

/* n elements from their words, as doubles or, for ids, int64. */
typedef void (*maker)(const lt_args *c, const uint32_t *words, int64_t n, void *out);
enum { CHUNK = 8192 };

static bool wide(const lt_args *c) { return c->out[0]->dtype == LT_FLOAT64 || c->out[0]->dtype == LT_INT64; }

static int draw(lt_args *c, maker make) {
  lt_tensor *o;
  LT_TRY(lt_stage(c, 0, &o));
  int64_t n = o->n, each = wide(c) ? 2 : 1, size = lt_dtype_size(o->dtype), seed = c->attr->i[LT_SEED],
          call = c->attr->i[LT_CALL];
  char *out = lt_ptr(o);
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(n * 16))
  for (int64_t chunk = 0; chunk < n; chunk += CHUNK)
    for (int64_t at = chunk; at < n && at < chunk + CHUNK; at += LT_BLOCK) {
      int64_t m = n - at < LT_BLOCK ? n - at : LT_BLOCK;
      uint32_t words[2 * LT_BLOCK];
      union {
        double f[LT_BLOCK];
        int64_t i[LT_BLOCK];
      } values;
      lt_random_words(seed, call, at * each, m * each, words);
      make(c, words, m, &values);
      lt_store_block(out + at * size, o->dtype, 1, &values, o->dtype == LT_INT64 ? LT_INT64 : LT_FLOAT64, m);
    }
  return lt_unstage(c, 0, o, LT_OK);
}

static int new_float(lt_args *c) {
  int dtype = (int)c->attr->i[0];
  if (dtype < 0 || !lt_is_float(dtype))
    return lt_fail(LT_ERR_DTYPE,
                   "%s: %s cannot hold the fractions drawn; ask for a floating type (randint draws whole numbers)",
                   c->op->name, lt_dtype_name(dtype));
  return lt_out_listed(c, dtype);
}
static int like_input(lt_args *c) {
  LT_TRY(lt_need_float(c, 0));
  return lt_out_like(c, 0, c->in[0]);
}
static void no_dependence(lt_back *b) { (void)b; }

/* ---- uniform: as many bits as the dtype's fraction holds, so that 1 is never reached by rounding ---- */
static void unit(const lt_args *c, const uint32_t *words, int64_t n, double *out) {
  static const int bits[] = {[LT_FLOAT32] = 24, [LT_BFLOAT16] = 8, [LT_FLOAT16] = 11};
  int dtype = c->out[0]->dtype;
  if (dtype == LT_FLOAT64)
    for (int64_t i = 0; i < n; i++) out[i] = lt_unit64(lt_word_pair(words, i));
  else
    for (int64_t i = 0; i < n; i++) out[i] = lt_unit32(words[i], bits[dtype]);
}
static void make_rand(const lt_args *c, const uint32_t *words, int64_t n, void *out) { unit(c, words, n, out); }
static int rand_cpu(lt_args *c) { return draw(c, make_rand); }
const lt_op lt_op_rand = {.name = "rand",
                          .signature = "rand(shape: ints, dtype: dtype = float32)",
                          .doc = "Uniform random numbers, 0 <= x < 1.",
                          .flags = LT_OP_RANDOM | LT_OP_NO_GRADIENT | LT_OP_NO_METHOD,
                          .shape = new_float,
                          .cpu = rand_cpu};

static void make_uniform(const lt_args *c, const uint32_t *words, int64_t n, void *out) {
  double *v = out, low = c->attr->f[0], width = c->attr->f[1] - low;
  unit(c, words, n, v);
  for (int64_t i = 0; i < n; i++) v[i] = low + v[i] * width;
}
static int uniform_shape(lt_args *c) {
  double low = c->attr->f[0], high = c->attr->f[1];
  if (!(low <= high) || !isfinite(high - low))
    return lt_fail(LT_ERR_ARGUMENT, "uniform: from %g to %g; low must not be above high, and both be finite", low,
                   high);
  return like_input(c);
}
static int uniform_cpu(lt_args *c) { return draw(c, make_uniform); }
const lt_op lt_op_uniform = {
    .name = "uniform",
    .signature = "uniform(x, low: number = 0, high: number = 1)",
    .doc = "Uniform random numbers from low up to high in the shape and dtype of x; x:uniform_(low, high) fills x.",
    .flags = LT_OP_RANDOM | LT_OP_INPLACE | LT_OP_NO_GRADIENT,
    .shape = uniform_shape,
    .cpu = uniform_cpu,
    .backward = no_dependence};

/* ---- normal: the quantile of a uniform number, one number in for one out ---- */
static void open_unit(const lt_args *c, const uint32_t *words, int64_t n, double *out) {
  if (c->out[0]->dtype == LT_FLOAT64)
    for (int64_t i = 0; i < n; i++) out[i] = lt_open64(lt_word_pair(words, i));
  else
    for (int64_t i = 0; i < n; i++) out[i] = lt_open32(words[i]);
}
LT_CLONES static void middle_quantiles(const double *p, int64_t n, double *z) {
  for (int64_t i = 0; i < n; i++) z[i] = lt_quantile_middle(p[i]);
}
/* lt_normal_quantile of each, the part without branches for all of them first. */
static void quantiles(const double *p, int64_t n, double *z) {
  middle_quantiles(p, n, z);
  for (int64_t i = 0; i < n; i++)
    if (!lt_quantile_is_middle(p[i])) z[i] = lt_quantile_tail(p[i]);
}
static void make_randn(const lt_args *c, const uint32_t *words, int64_t n, void *out) {
  double p[LT_BLOCK] = {0};
  open_unit(c, words, n, p);
  quantiles(p, n, out);
}
static int randn_cpu(lt_args *c) { return draw(c, make_randn); }
const lt_op lt_op_randn = {.name = "randn",
                           .signature = "randn(shape: ints, dtype: dtype = float32)",
                           .doc = "Random numbers of the normal distribution with mean 0 and deviation 1.",
                           .flags = LT_OP_RANDOM | LT_OP_NO_GRADIENT | LT_OP_NO_METHOD,
                           .shape = new_float,
                           .cpu = randn_cpu};

static void make_normal(const lt_args *c, const uint32_t *words, int64_t n, void *out) {
  double *v = out, mean = c->attr->f[0], std = c->attr->f[1];
  make_randn(c, words, n, v);
  for (int64_t i = 0; i < n; i++) v[i] = mean + std * v[i];
}
static int check_std(lt_args *c) {
  if (!(c->attr->f[1] >= 0))
    return lt_fail(LT_ERR_ARGUMENT, "%s: std is %g; a deviation must not be negative", c->op->name, c->attr->f[1]);
  return like_input(c);
}
static int normal_cpu(lt_args *c) { return draw(c, make_normal); }
const lt_op lt_op_normal = {
    .name = "normal",
    .signature = "normal(x, mean: number = 0, std: number = 1)",
    .doc = "Random numbers of a normal distribution in the shape and dtype of x; x:normal_(mean, std) fills x.",
    .flags = LT_OP_RANDOM | LT_OP_INPLACE | LT_OP_NO_GRADIENT,
    .shape = check_std,
    .cpu = normal_cpu,
    .backward = no_dependence};

/* f = { mean, std, low, high }. Uniform between the two bounds' probabilities, then the quantile; bounds right of the
 * mean are mirrored, because probabilities near 1 have no digits left. */
static void make_truncated(const lt_args *c, const uint32_t *words, int64_t n, void *out) {
  const double *f = c->attr->f, half = 0.70710678118654752440;
  double *v = out, p[LT_BLOCK] = {0}, a = (f[2] - f[0]) / f[1], z = (f[3] - f[0]) / f[1];
  bool mirrored = a > 0;
  if (mirrored) {
    double swap = -a;
    a = -z;
    z = swap;
  }
  double from = 0.5 * erfc(-a * half), to = 0.5 * erfc(-z * half);
  open_unit(c, words, n, p);
  for (int64_t i = 0; i < n; i++) p[i] = fmin(fmax(from + p[i] * (to - from), 0x1p-1021), 1 - 0x1p-53);
  quantiles(p, n, v);
  for (int64_t i = 0; i < n; i++) v[i] = fmin(fmax(f[0] + f[1] * (mirrored ? -v[i] : v[i]), f[2]), f[3]);
}
static int truncated_normal_shape(lt_args *c) {
  const double *f = c->attr->f;
  if (!(f[1] > 0) || !(f[2] < f[3]))
    return lt_fail(LT_ERR_ARGUMENT,
                   "truncated_normal: std is %g and the bounds %g and %g; std must be positive and low below high",
                   f[1], f[2], f[3]);
  if (erfc(fmax((f[2] - f[0]) / f[1], (f[0] - f[3]) / f[1]) * 0.70710678118654752440) < 1e-300)
    return lt_fail(
        LT_ERR_ARGUMENT,
        "truncated_normal: %g to %g is more than 37 deviations from the mean %g; there is nothing to draw from", f[2],
        f[3], f[0]);
  return like_input(c);
}
static int truncated_normal_cpu(lt_args *c) { return draw(c, make_truncated); }
const lt_op lt_op_truncated_normal = {
    .name = "truncated_normal",
    .signature = "truncated_normal(x, mean: number = 0, std: number = 1, low: number = -2, high: number = 2)",
    .doc = "Random numbers of a normal distribution between low and high (values, not deviations), in the "
           "shape and dtype of x; x:truncated_normal_(...) fills x.",
    .flags = LT_OP_RANDOM | LT_OP_INPLACE | LT_OP_NO_GRADIENT,
    .shape = truncated_normal_shape,
    .cpu = truncated_normal_cpu,
    .backward = no_dependence};

/* ---- whole numbers ---- */
static void make_randint(const lt_args *c, const uint32_t *words, int64_t n, void *out) {
  int64_t *v = out, low = c->attr->i[0];
  uint64_t range = (uint64_t)c->attr->i[1] - (uint64_t)low;
  for (int64_t i = 0; i < n; i++) v[i] = (int64_t)((uint64_t)low + lt_below(lt_word_pair(words, i), range));
}
static int randint_shape(lt_args *c) {
  if (c->attr->i[0] >= c->attr->i[1])
    return lt_fail(LT_ERR_ARGUMENT, "randint: from %lld up to %lld; high is not drawn itself and must be above low",
                   (long long)c->attr->i[0], (long long)c->attr->i[1]);
  return lt_out_listed(c, LT_INT64);
}
static int randint_cpu(lt_args *c) { return draw(c, make_randint); }
const lt_op lt_op_randint = {
    .name = "randint",
    .signature = "randint(low: int, high: int, shape: ints)",
    .doc = "Random int64, low <= x < high: as ids count from 0, randint(0, n, shape) draws from n of them.",
    .flags = LT_OP_RANDOM | LT_OP_NO_GRADIENT | LT_OP_NO_METHOD,
    .shape = randint_shape,
    .cpu = randint_cpu};

/* The order that sorting random keys gives: any device can do that, a shuffle in place could not be shared out. */
static int randperm_shape(lt_args *c) {
  if (c->attr->i[0] < 0)
    return lt_fail(LT_ERR_ARGUMENT, "randperm: %lld numbers; the count must not be negative", (long long)c->attr->i[0]);
  return lt_out(c, 0, LT_INT64, 1, c->attr->i);
}
static int randperm_cpu(lt_args *c) {
  lt_tensor *o;
  int64_t n = c->attr->i[0], bytes = (2 * n + 1) * (int64_t)sizeof(lt_ranked);
  lt_ranked *v = lt_alloc(bytes);
  if (!v) return LT_ERR_MEMORY;
  int status = lt_stage(c, 0, &o);
  if (status >= 0) {
    for (int64_t at = 0; at < n; at += LT_BLOCK) {
      uint32_t words[2 * LT_BLOCK];
      int64_t m = n - at < LT_BLOCK ? n - at : LT_BLOCK;
      lt_random_words(c->attr->i[LT_SEED], c->attr->i[LT_CALL], 2 * at, 2 * m, words);
      for (int64_t i = 0; i < m; i++) v[at + i] = (lt_ranked){lt_word_pair(words, i), at + i};
    }
    lt_sort_ranked(v, v + n, n);
    int64_t *out = lt_ptr(o);
    for (int64_t i = 0; i < n; i++) out[i] = v[i].at;
    status = lt_unstage(c, 0, o, status);
  }
  lt_free(v, bytes);
  return status;
}
const lt_op lt_op_randperm = {.name = "randperm",
                              .signature = "randperm(n: int)",
                              .doc = "The numbers 0 .. n - 1 (int64) in random order.",
                              .flags = LT_OP_RANDOM | LT_OP_NO_GRADIENT | LT_OP_NO_METHOD,
                              .shape = randperm_shape,
                              .cpu = randperm_cpu};
