/* Batch normalisation of [n, channels] and [n, channels, ...]: batch_norm by the batch's own statistics, which it also
 * gives (the Lua layer keeps the running ones), batch_norm_eval by given ones. The statistics are the rows' of this
 * call, so under data parallelism each shard has its own (ghost batch norm). Sums are double, in an order that the
 * shape fixes. */
#include "line.h"
#include "loss.h"
#include <math.h>

enum { WANT_X = 1, WANT_WEIGHT = 2, WANT_BIAS = 4 };

/* ---- shape ---- */
static int check_channels(const lt_args *c, int x_at, int first, const char *const *names) {
  const lt_tensor *x = c->in[x_at];
  LT_TRY(lt_need_float(c, x_at));
  if (x->ndim < 2)
    return lt_fail(LT_ERR_SHAPE, "%s: the tensor is %s; it must be [n, channels] or [n, channels, ...]", c->op->name,
                   lt_shape_text(x));
  for (int i = first; i < c->n_in; i++) {
    const lt_tensor *t = c->in[i];
    if (t && (t->ndim != 1 || t->shape[0] != x->shape[1]))
      return lt_fail(LT_ERR_SHAPE, "%s: %s is %s; the tensor is %s, so it must be [%lld], one for each channel",
                     c->op->name, names[i - first], lt_shape_text(t), lt_shape_text(x), (long long)x->shape[1]);
  }
  if (!(c->attr->f[0] >= 0))
    return lt_fail(LT_ERR_ARGUMENT, "%s: eps is %g; it must be 0 or more", c->op->name, c->attr->f[0]);
  return LT_OK;
}
static int64_t per_channel(const lt_tensor *x) { return x->shape[1] ? x->n / x->shape[1] : x->shape[0]; }

static int batch_norm_shape(lt_args *c) {
  static const char *const names[] = {"weight", "bias"};
  const lt_tensor *x = c->in[0];
  LT_TRY(check_channels(c, 0, 1, names));
  if (per_channel(x) < 2)
    return lt_fail(LT_ERR_SHAPE,
                   "batch_norm: %s has %lld value%s for each channel, and a spread needs 2; train with more rows, or "
                   "use the running statistics (eval)",
                   lt_shape_text(x), (long long)per_channel(x), per_channel(x) == 1 ? "" : "s");
  LT_TRY(lt_out_like(c, 0, x));
  LT_TRY(lt_out(c, 1, lt_loss_dtype(x->dtype), 1, &x->shape[1]));
  return lt_out(c, 2, lt_loss_dtype(x->dtype), 1, &x->shape[1]);
}
static int batch_norm_eval_shape(lt_args *c) {
  static const char *const names[] = {"mean", "var", "weight", "bias"};
  LT_TRY(check_channels(c, 0, 1, names));
  return lt_out_like(c, 0, c->in[0]);
}

/* ---- lines: rows of channels for [n, channels], else runs of one channel ---- */
typedef struct job {
  int64_t channels, inner, chunk, bytes;
  double eps;
  double *mean, *scale, *weight, *bias; /* [channels]; scale: 1 / sqrt(var + eps) */
  double *sums;             /* backward: [chunks or lines, 2, channels or 1]: of g and of g times the normalised x */
  double *mean_g, *mean_gh; /* [channels] */
  void *a, *b, *m;          /* of the computing type, [channels]: y = (x - m) a + b */
  char *memory;
} job;

/* Headers and references of operands as lines. */
typedef struct view {
  lt_tensor *held, lines;
} view;
static int as_lines(lt_tensor *t, view *v) {
  if (t->ndim == 2) {
    v->held = lt_tensor_retain(t);
    v->lines = *t;
    return LT_OK;
  }
  LT_TRY(lt_contiguous(t, &v->held));
  v->lines = lt_flat(v->held, t->shape[0] && t->shape[1] ? t->n / (t->shape[0] * t->shape[1]) : 0);
  return LT_OK;
}

static int channel_numbers(lt_tensor *t, double *to, int64_t n, double otherwise) {
  for (int64_t i = 0; i < n; i++) to[i] = otherwise;
  if (t) lt_load_line(to, LT_FLOAT64, lt_ptr(t), t->dtype, t->stride[0], n);
  return LT_OK;
}
static int open_job(const lt_args *c, const lt_tensor *x, lt_tensor *w, lt_tensor *bias, int64_t n_sums, job *j) {
  int64_t n = x->shape[1];
  *j = (job){.channels = n,
             .inner = x->shape[0] && n ? x->n / (x->shape[0] * n) : 0,
             .eps = c->attr->f[0],
             .bytes = (9 * n + n_sums) * 8};
  j->memory = lt_alloc(j->bytes);
  if (!j->memory) return LT_ERR_MEMORY;
  memset(j->memory, 0, (size_t)j->bytes);
  double *at = (double *)j->memory;
  j->mean = at, j->scale = at + n, j->weight = at + 2 * n, j->bias = at + 3 * n, j->mean_g = at + 4 * n,
  j->mean_gh = at + 5 * n;
  j->a = at + 6 * n, j->b = at + 7 * n, j->m = at + 8 * n, j->sums = at + 9 * n;
  channel_numbers(w, j->weight, n, 1);
  return channel_numbers(bias, j->bias, n, 0);
}
static void close_job(job *j) { lt_free(j->memory, j->bytes); }
static void to_kind(void *to, int kind, const double *from, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (kind == LT_FLOAT32)
      ((float *)to)[i] = (float)from[i];
    else
      ((double *)to)[i] = from[i];
}

/* ---- forward ---- */
#define FORWARD(T, S)                                                                                                  \
  LT_CLONES static void rows_##S(T *y, const T *x, const T *m, const T *a, const T *b, int64_t n) {                    \
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - m[i]) * a[i] + b[i];                                                \
  }                                                                                                                    \
  LT_CLONES static void run_##S(T *y, const T *x, T m, T a, T b, int64_t n) {                                          \
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - m) * a + b;                                                         \
  }                                                                                                                    \
  static void forward_rows_##S(int64_t line, int64_t n, void *out, const void *const *in, const void *context) {       \
    const job *j = context;                                                                                            \
    (void)line;                                                                                                        \
    rows_##S(out, in[0], j->m, j->a, j->b, n);                                                                         \
  }                                                                                                                    \
  static void forward_run_##S(int64_t line, int64_t n, void *out, const void *const *in, const void *context) {        \
    const job *j = context;                                                                                            \
    int64_t k = line % j->channels;                                                                                    \
    run_##S(out, in[0], ((T *)j->m)[k], ((T *)j->a)[k], ((T *)j->b)[k], n);                                            \
  }
FORWARD(float, f32)
FORWARD(double, f64)

static int normalise(lt_args *c, job *j) {
  lt_tensor *x = c->in[0], *o = c->out[0], *result = o;
  int kind = lt_float_kind(x->dtype), status = LT_OK;
  view from = {0}, to = {0};
  if (x->n == 0) return LT_OK;
  for (int64_t k = 0; k < j->channels; k++) j->mean_g[k] = j->weight[k] * j->scale[k]; /* a place to work in */
  to_kind(j->a, kind, j->mean_g, j->channels);
  to_kind(j->b, kind, j->bias, j->channels);
  to_kind(j->m, kind, j->mean, j->channels);
  if (x->ndim > 2 && !lt_tensor_is_contiguous(o)) status = lt_tensor_like(o, &result);
  if (status >= 0) status = as_lines(x, &from);
  if (status >= 0) status = as_lines(result, &to);
  if (status >= 0) {
    bool rows = x->ndim == 2;
    lt_line f32 = rows ? forward_rows_f32 : forward_run_f32, f64 = rows ? forward_rows_f64 : forward_run_f64;
    lt_lines l = {.out = &to.lines,
                  .in = {&from.lines},
                  .n_in = 1,
                  .kind = kind,
                  .dim = 1,
                  .f = kind == LT_FLOAT32 ? f32 : f64,
                  .context = j};
    status = lt_lines_run(&l);
  }
  if (status >= 0 && result != o) status = lt_run_into(LT_OP_clone, &result, 1, NULL, o, false);
  lt_tensor_release(from.held);
  lt_tensor_release(to.held);
  if (result != o) lt_tensor_release(result);
  return status;
}

static int batch_norm_cpu(lt_args *c) {
  const lt_tensor *x = c->in[0];
  job j;
  lt_reduction r;
  bool reduce[LT_MAX_DIMS];
  LT_TRY(open_job(c, x, c->in[1], c->in[2], 0, &j));
  for (int d = 0; d < x->ndim; d++) reduce[d] = d != 1;
  lt_reduction_of(x, reduce, &r);
  double n = (double)r.n_reduced, *var = j.mean_gh;
  int status = lt_fold_run(x, &r, &lt_fold_sum, NULL, 0, j.mean);
  for (int64_t k = 0; k < j.channels; k++) j.mean[k] /= n;
  if (status >= 0) status = lt_fold_run(x, &r, &lt_fold_squares, j.mean, 0, var);
  for (int64_t k = 0; k < j.channels; k++) {
    var[k] /= n;
    j.scale[k] = 1 / sqrt(var[k] + j.eps);
  }
  if (status >= 0) {
    lt_put_doubles(c, 1, j.mean);
    lt_put_doubles(c, 2, var);
    status = normalise(c, &j);
  }
  close_job(&j);
  return status;
}
static int batch_norm_eval_cpu(lt_args *c) {
  job j;
  LT_TRY(open_job(c, c->in[0], c->in[3], c->in[4], 0, &j));
  channel_numbers(c->in[1], j.mean, j.channels, 0);
  channel_numbers(c->in[2], j.scale, j.channels, 1);
  for (int64_t k = 0; k < j.channels; k++) j.scale[k] = 1 / sqrt(j.scale[k] + j.eps);
  int status = normalise(c, &j);
  close_job(&j);
  return status;
}

/* ---- backward: grad, x, weight, mean, var; attr.i[0] says which outputs are wanted. Gives dx, dweight, dbias ---- */
static int batch_norm_backward_shape(lt_args *c) {
  const lt_tensor *x = c->in[1];
  if (c->attr->i[0] & WANT_X) LT_TRY(lt_out_like(c, 0, x));
  if (c->attr->i[0] & WANT_WEIGHT) LT_TRY(lt_out(c, 1, lt_loss_dtype(x->dtype), 1, &x->shape[1]));
  if (c->attr->i[0] & WANT_BIAS) LT_TRY(lt_out(c, 2, lt_loss_dtype(x->dtype), 1, &x->shape[1]));
  return LT_OK;
}

/* First the sums of g and g h, h the normalised x; then dx = weight scale (g - mean(g) - h mean(g h)). */
#define BACKWARD(T, S)                                                                                                 \
  LT_CLONES static void sum_rows_##S(double *g_sum, double *gh_sum, const T *g, const T *x, const T *m, const T *s,    \
                                     int64_t n) {                                                                      \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      g_sum[i] += (double)g[i];                                                                                        \
      gh_sum[i] += (double)(g[i] * ((x[i] - m[i]) * s[i]));                                                            \
    }                                                                                                                  \
  }                                                                                                                    \
  LT_CLONES static T sum_run_##S(const T *g, const T *x, T m, T s, int64_t n) {                                        \
    T sum = 0;                                                                                                         \
    _Pragma("omp simd reduction(+ : sum)") for (int64_t i = 0; i < n; i++) sum += g[i] * ((x[i] - m) * s);             \
    return sum;                                                                                                        \
  }                                                                                                                    \
  LT_CLONES static void slope_rows_##S(T *dx, const T *g, const T *x, const job *j, int64_t n) {                       \
    const T *m = j->m, *s = j->a, *wide = j->b;                                                                        \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      const T a = (T)j->mean_g[i], b = (T)j->mean_gh[i];                                                               \
      dx[i] = wide[i] * (g[i] - a - (x[i] - m[i]) * s[i] * b);                                                         \
    }                                                                                                                  \
  }                                                                                                                    \
  LT_CLONES static void slope_run_##S(T *dx, const T *g, const T *x, T m, T s, T wide, T a, T b, int64_t n) {          \
    for (int64_t i = 0; i < n; i++) dx[i] = wide * (g[i] - a - (x[i] - m) * s * b);                                    \
  }                                                                                                                    \
  static void sums_of_rows_##S(int64_t line, int64_t n, void *out, const void *const *in, const void *context) {       \
    const job *j = context;                                                                                            \
    double *to = j->sums + line / j->chunk * 2 * n;                                                                    \
    (void)out;                                                                                                         \
    sum_rows_##S(to, to + n, in[0], in[1], j->m, j->a, n);                                                             \
  }                                                                                                                    \
  static void sums_of_run_##S(int64_t line, int64_t n, void *out, const void *const *in, const void *context) {        \
    const job *j = context;                                                                                            \
    const T *g = in[0], *x = in[1], m = ((T *)j->m)[line % j->channels], s = ((T *)j->a)[line % j->channels];          \
    double *to = j->sums + 2 * line;                                                                                   \
    (void)out;                                                                                                         \
    to[0] = lt_line_sum_##S(g, n);                                                                                     \
    to[1] = 0;                                                                                                         \
    for (int64_t at = 0; at < n; at += LT_BLOCK)                                                                       \
      to[1] += (double)sum_run_##S(g + at, x + at, m, s, n - at < LT_BLOCK ? n - at : LT_BLOCK);                       \
  }                                                                                                                    \
  static void slope_of_rows_##S(int64_t line, int64_t n, void *out, const void *const *in, const void *context) {      \
    (void)line;                                                                                                        \
    slope_rows_##S(out, in[0], in[1], context, n);                                                                     \
  }                                                                                                                    \
  static void slope_of_run_##S(int64_t line, int64_t n, void *out, const void *const *in, const void *context) {       \
    const job *j = context;                                                                                            \
    int64_t k = line % j->channels;                                                                                    \
    slope_run_##S(out, in[0], in[1], ((T *)j->m)[k], ((T *)j->a)[k], ((T *)j->b)[k], (T)j->mean_g[k],                  \
                  (T)j->mean_gh[k], n);                                                                                \
  }
BACKWARD(float, f32)
BACKWARD(double, f64)

static void add_sums(job *j, bool rows, int64_t lines, int64_t chunks) {
  int64_t n = j->channels;
  if (rows)
    for (int64_t i = 0; i < chunks; i++)
      for (int64_t k = 0; k < n; k++)
        j->mean_g[k] += j->sums[2 * n * i + k], j->mean_gh[k] += j->sums[2 * n * i + n + k];
  else
    for (int64_t i = 0; i < lines; i++) j->mean_g[i % n] += j->sums[2 * i], j->mean_gh[i % n] += j->sums[2 * i + 1];
}
static int batch_norm_backward_cpu(lt_args *c) {
  const lt_tensor *x = c->in[1];
  bool rows = x->ndim == 2, f32 = lt_float_kind(x->dtype) == LT_FLOAT32;
  int64_t lines = rows ? x->shape[0] : x->shape[0] * x->shape[1], chunk = lt_line_chunk(x->shape[1]);
  if (chunk < 16) chunk = 16;
  int64_t chunks = (lines + chunk - 1) / chunk;
  job j;
  view g = {0}, v = {0}, dx = {0};
  LT_TRY(open_job(c, x, c->in[2], NULL, 2 * (rows ? chunks * x->shape[1] : lines), &j));
  j.chunk = chunk;
  channel_numbers(c->in[3], j.mean, j.channels, 0);
  channel_numbers(c->in[4], j.scale, j.channels, 1);
  for (int64_t k = 0; k < j.channels; k++) j.scale[k] = 1 / sqrt(j.scale[k] + j.eps);
  to_kind(j.m, f32 ? LT_FLOAT32 : LT_FLOAT64, j.mean, j.channels);
  to_kind(j.a, f32 ? LT_FLOAT32 : LT_FLOAT64, j.scale, j.channels);
  for (int64_t k = 0; k < j.channels; k++) j.weight[k] *= j.scale[k];
  to_kind(j.b, f32 ? LT_FLOAT32 : LT_FLOAT64, j.weight, j.channels);
  int status = as_lines(c->in[0], &g);
  if (status >= 0) status = as_lines(c->in[1], &v);
  if (status >= 0 && c->out[0]) status = as_lines(c->out[0], &dx);
  lt_lines l = {.in = {&g.lines, &v.lines},
                .n_in = 2,
                .kind = f32 ? LT_FLOAT32 : LT_FLOAT64,
                .dim = 1,
                .context = &j,
                .chunk = rows ? chunk : 0,
                .f = rows ? (f32 ? sums_of_rows_f32 : sums_of_rows_f64) : (f32 ? sums_of_run_f32 : sums_of_run_f64)};
  if (status >= 0) status = lt_lines_run(&l);
  if (status >= 0) {
    add_sums(&j, rows, lines, chunks);
    if (c->out[1]) lt_put_doubles(c, 1, j.mean_gh);
    if (c->out[2]) lt_put_doubles(c, 2, j.mean_g);
  }
  if (status >= 0 && c->out[0]) {
    for (int64_t k = 0; k < j.channels; k++)
      j.mean_g[k] /= (double)per_channel(x), j.mean_gh[k] /= (double)per_channel(x);
    l.out = &dx.lines;
    l.f = rows ? (f32 ? slope_of_rows_f32 : slope_of_rows_f64) : (f32 ? slope_of_run_f32 : slope_of_run_f64);
    status = lt_lines_run(&l);
  }
  lt_tensor_release(g.held);
  lt_tensor_release(v.held);
  lt_tensor_release(dx.held);
  close_job(&j);
  return status;
}

/* ---- rules as mathematics; [channels] meets x as [1, channels, 1, ...] ---- */
static lt_tensor *column(lt_back *b, lt_tensor *t) {
  lt_attr shape = {.n_list = b->edge[0].ndim};
  for (int d = 0; d < shape.n_list; d++) shape.list[d] = d == 1 ? b->edge[0].shape[1] : 1;
  return LT_DO_ATTR(b, reshape, &shape, t);
}
static lt_attr over_rows(const lt_back *b, bool keep) {
  lt_attr a = {.i = {keep}};
  for (int d = 0; d < b->edge[0].ndim; d++)
    if (d != 1) a.list[a.n_list++] = d;
  return a;
}
static lt_tensor *number(lt_back *b, double v) { return lt_number(b, v, lt_loss_dtype(b->edge[0].dtype)); }

static void graph_rule(lt_back *b) {
  lt_tensor *g = b->grad[0], *x = b->in[0], *w = b->in[1];
  lt_attr keep = over_rows(b, true), drop = over_rows(b, false), full = {.n_list = b->edge[0].ndim};
  double n = b->edge[0].shape[0];
  for (int d = 2; d < b->edge[0].ndim; d++) n *= (double)b->edge[0].shape[d];
  memcpy(full.list, b->edge[0].shape, sizeof b->edge[0].shape);
  lt_tensor *centered = LT_DO(b, sub, x, LT_DO_ATTR(b, mean, &keep, x)), *dx = NULL;
  lt_tensor *scale = LT_DO(
      b, rsqrt, LT_DO(b, add, LT_DO_ATTR(b, mean, &keep, LT_DO(b, mul, centered, centered)), number(b, b->attr->f[0])));
  lt_tensor *hat = LT_DO(b, mul, centered, scale);
  if (g && lt_wants(b, 0)) {
    lt_tensor *along = LT_DO(b, mul, hat, LT_DO_ATTR(b, mean, &keep, LT_DO(b, mul, g, hat)));
    dx = LT_DO(b, mul, LT_DO(b, sub, LT_DO(b, sub, g, LT_DO_ATTR(b, mean, &keep, g)), along),
               w ? LT_DO(b, mul, column(b, w), scale) : scale);
  }
  if (b->grad[1] && lt_wants(b, 0)) { /* of the mean: 1 / n */
    lt_tensor *part = LT_DO_ATTR(b, expand, &full, LT_DO(b, mul, column(b, b->grad[1]), number(b, 1 / n)));
    dx = dx ? LT_DO(b, add, dx, part) : part;
  }
  if (b->grad[2] && lt_wants(b, 0)) { /* of the variance: 2 (x - mean) / n */
    lt_tensor *part = LT_DO(b, mul, centered, LT_DO(b, mul, column(b, b->grad[2]), number(b, 2 / n)));
    dx = dx ? LT_DO(b, add, dx, part) : part;
  }
  lt_give(b, 0, dx);
  if (g && lt_wants(b, 1)) LT_GRAD_ATTR(b, 1, sum, &drop, LT_DO(b, mul, g, hat));
  if (g && lt_wants(b, 2)) LT_GRAD_ATTR(b, 2, sum, &drop, g);
}
static void batch_norm_rule(lt_back *b) {
  lt_tensor *out[3];
  int64_t wanted =
      (lt_wants(b, 0) ? WANT_X : 0) | (lt_wants(b, 1) ? WANT_WEIGHT : 0) | (lt_wants(b, 2) ? WANT_BIAS : 0);
  if (!wanted) return;
  if (lt_grad_enabled() || !b->grad[0] || b->grad[1] || b->grad[2]) {
    graph_rule(b);
    return;
  }
  lt_attr attr = {.f = {b->attr->f[0]}, .i = {wanted}};
  lt_do_n(b, LT_OP_batch_norm_backward, &attr, 5, (lt_tensor *[]){b->grad[0], b->in[0], b->in[1], b->out[1], b->out[2]},
          3, out);
  for (int i = 0; i < 3; i++) lt_give(b, i, out[i]);
}
const lt_op lt_op_batch_norm = {
    .name = "batch_norm",
    .signature = "batch_norm(x, weight: tensor?, bias: tensor?, eps: number = 1e-5)",
    .n_out = 3,
    .doc = "(x - mean) / sqrt(var + eps) with each channel's statistics over the batch, times weight, plus bias (Ioffe "
           "and Szegedy 2015). x is [n, channels] or "
           "[n, channels, ...]. Gives the result, the means and the variances (divided by n, not n - 1).",
    .shape = batch_norm_shape,
    .cpu = batch_norm_cpu,
    .backward = batch_norm_rule,
    .keep = LT_IN(0) | LT_IN(1) | LT_OUT(1) | LT_OUT(2)};

static void batch_norm_eval_rule(lt_back *b) {
  lt_tensor *g = b->grad[0], *x = b->in[0], *w = b->in[3];
  lt_attr drop = over_rows(b, false);
  lt_tensor *scale = LT_DO(b, rsqrt, LT_DO(b, add, column(b, b->in[2]), number(b, b->attr->f[0])));
  lt_tensor *slope = w ? LT_DO(b, mul, column(b, w), scale) : scale, *centered = LT_DO(b, sub, x, column(b, b->in[1]));
  lt_tensor *dx = LT_DO(b, mul, g, slope);
  lt_give(b, 0, dx);
  if (lt_wants(b, 1)) LT_GRAD(b, 1, neg, LT_DO_ATTR(b, sum, &drop, dx));
  if (lt_wants(b, 2)) { /* d scale / d var = -scale^3 / 2 */
    lt_tensor *half = LT_DO(b, mul, LT_DO(b, mul, scale, scale), number(b, -0.5));
    LT_GRAD_ATTR(b, 2, sum, &drop, LT_DO(b, mul, LT_DO(b, mul, dx, centered), half));
  }
  if (lt_wants(b, 3)) LT_GRAD_ATTR(b, 3, sum, &drop, LT_DO(b, mul, g, LT_DO(b, mul, centered, scale)));
  if (lt_wants(b, 4)) LT_GRAD_ATTR(b, 4, sum, &drop, g);
}
const lt_op lt_op_batch_norm_eval = {
    .name = "batch_norm_eval",
    .signature = "batch_norm_eval(x, mean, var, weight: tensor?, bias: tensor?, eps: number = 1e-5)",
    .doc = "(x - mean) / sqrt(var + eps) with given statistics of each channel, times weight, plus bias. x is [n, "
           "channels] or [n, channels, ...].",
    .shape = batch_norm_eval_shape,
    .cpu = batch_norm_eval_cpu,
    .backward = batch_norm_eval_rule,
    .keep = LT_IN(0) | LT_IN(1) | LT_IN(2) | LT_IN(3)};

static void no_rule(lt_back *b) {
  b->status = lt_fail(LT_ERR_STATE, "%s: it has no rule; graphs of gradients are made of plain operators", b->op->name);
}
const lt_op lt_op_batch_norm_backward = {
    .name = "batch_norm_backward",
    .signature = "batch_norm_backward(grad, x, weight: tensor?, mean, var, wanted: int, eps: number)",
    .n_out = 3,
    .doc = "Gradients of batch_norm with respect to x, weight and bias, those that are wanted.",
    .flags = LT_OP_HIDDEN,
    .shape = batch_norm_backward_shape,
    .cpu = batch_norm_backward_cpu,
    .backward = no_rule};
