/* layer_norm over the last dims, row by row, and its fused gradient. The gradient computes each row's mean and
 * deviation again instead of keeping them: the row is read anyway. Sums over rows are double, per fixed chunk of rows,
 * added in order. */
#include "line.h"
#include "loss.h"
#include <math.h>

enum { WANT_X = 1, WANT_WEIGHT = 2, WANT_BIAS = 4 };

/* ---- shape ---- */
static int trailing_dims(const lt_args *c, const lt_tensor *x, const lt_tensor *w, const lt_tensor *bias, int *dims) {
  int64_t asked = c->attr->i[0];
  int given = w ? w->ndim : bias ? bias->ndim : asked ? (int)asked : 1;
  if (asked < 0 || asked > x->ndim || given > x->ndim || given < 1)
    return lt_fail(LT_ERR_SHAPE,
                   "layer_norm: the last %lld dims are to be normalised and the tensor is %s; 1 to %d are possible",
                   (long long)(asked ? asked : given), lt_shape_text(x), x->ndim);
  if (asked && asked != given)
    return lt_fail(LT_ERR_SHAPE, "layer_norm: dims is %lld and %s is %s; leave dims out, or give a %s of as many dims",
                   (long long)asked, w ? "weight" : "bias", lt_shape_text(w ? w : bias), w ? "weight" : "bias");
  for (int k = 0; k < 2; k++) {
    const lt_tensor *t = k ? bias : w;
    if (t && (t->ndim != given || memcmp(t->shape, x->shape + x->ndim - given, (size_t)given * sizeof *t->shape) != 0))
      return lt_fail(LT_ERR_SHAPE,
                     "layer_norm: %s is %s and the tensor %s; %s must have the shape of its last dims, %s",
                     k ? "bias" : "weight", lt_shape_text(t), lt_shape_text(x), k ? "bias" : "weight",
                     lt_dims_text(given, x->shape + x->ndim - given));
  }
  *dims = given;
  return LT_OK;
}
static int layer_norm_shape(lt_args *c) {
  int dims;
  LT_TRY(lt_need_float(c, 0));
  if (!(c->attr->f[0] >= 0))
    return lt_fail(LT_ERR_ARGUMENT, "layer_norm: eps is %g; it must be 0 or more", c->attr->f[0]);
  LT_TRY(trailing_dims(c, c->in[0], c->in[1], c->in[2], &dims));
  return lt_out_like(c, 0, c->in[0]);
}
static int64_t line_length(const lt_tensor *x, int dims) {
  int64_t n = 1;
  for (int d = x->ndim - dims; d < x->ndim; d++) n *= x->shape[d];
  return n;
}

/* ---- operands: lines of n elements, whatever the dims and strides ---- */
typedef struct job {
  lt_tensor *x, *g, *dx; /* contiguous where lines span several dims; references */
  lt_tensor lines[3];    /* headers [rows, n] */
  int64_t n, chunk, bytes;
  double eps;
  void *weight, *bias;             /* [n] of the computing type, or NULL */
  double *weight_sums, *bias_sums; /* [chunks, n], or NULL */
  char *memory;
} job;

static int put_line(const lt_tensor *t, int kind, int64_t n, void *to) {
  lt_tensor *c = (lt_tensor *)t, *flat;
  LT_TRY(lt_contiguous(c, &flat));
  lt_load_line(to, kind, lt_ptr(flat), flat->dtype, 1, n);
  lt_tensor_release(flat);
  return LT_OK;
}
/* One dim keeps its strides; several are one line only when contiguous. */
static int as_lines(lt_tensor *t, int dims, int64_t n, lt_tensor **held, lt_tensor *lines) {
  if (dims == 1 && t->ndim <= 2) {
    *held = lt_tensor_retain(t);
    *lines = *t;
    if (t->ndim == 1) {
      lines->ndim = 2;
      lines->shape[0] = 1, lines->stride[0] = 0;
      lines->shape[1] = t->shape[0], lines->stride[1] = t->stride[0];
    }
    return LT_OK;
  }
  LT_TRY(lt_contiguous(t, held));
  *lines = lt_flat(*held, n);
  return LT_OK;
}

/* ---- forward ---- */
#define FORWARD(T, S)                                                                                                  \
  LT_CLONES static void apply_##S(T *y, const T *x, T mean, T scale, const T *w, const T *b, int64_t n) {              \
    if (w && b)                                                                                                        \
      for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale * w[i] + b[i];                                      \
    else if (w)                                                                                                        \
      for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale * w[i];                                             \
    else                                                                                                               \
      for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale + (b ? b[i] : 0);                                   \
  }                                                                                                                    \
  static T deviation_##S(const T *x, int64_t n, double eps, T *mean) { /* gives 1 / sqrt(var + eps) */                 \
    *mean = (T)(lt_line_sum_##S(x, n) / (double)n);                                                                    \
    return (T)(1 / sqrt(lt_line_squares_##S(x, *mean, n) / (double)n + eps));                                          \
  }                                                                                                                    \
  static void forward_##S(int64_t line, int64_t n, void *out, const void *const *in, const void *context) {            \
    const job *j = context;                                                                                            \
    T mean, scale = deviation_##S(in[0], n, j->eps, &mean);                                                            \
    (void)line;                                                                                                        \
    apply_##S(out, in[0], mean, scale, j->weight, j->bias, n);                                                         \
  }
FORWARD(float, f32)
FORWARD(double, f64)

/* dx = (u - mean(u) - h mean(u h)) / deviation, u = g w, h the normalised x; weight gets sum(g h), bias sum(g). */
#define BACKWARD(T, S)                                                                                                 \
  LT_CLONES static void sums_##S(double *ws, double *bs, const T *g, const T *x, T mean, T scale, int64_t n) {         \
    if (ws)                                                                                                            \
      for (int64_t i = 0; i < n; i++) ws[i] += (double)(g[i] * ((x[i] - mean) * scale));                               \
    if (bs)                                                                                                            \
      for (int64_t i = 0; i < n; i++) bs[i] += (double)g[i];                                                           \
  }                                                                                                                    \
  LT_CLONES static void slope_##S(T *dx, const T *g, const T *x, const T *w, T mean, T scale, int64_t n) {             \
    double sum = 0, dot = 0;                                                                                           \
    for (int64_t at = 0; at < n; at += LT_BLOCK) {                                                                     \
      int64_t end = n - at < LT_BLOCK ? n : at + LT_BLOCK;                                                             \
      T s = 0, d = 0;                                                                                                  \
      if (w) {                                                                                                         \
        _Pragma("omp simd reduction(+ : s, d)") for (int64_t i = at; i < end; i++) {                                   \
          const T u = g[i] * w[i];                                                                                     \
          s += u;                                                                                                      \
          d += u * ((x[i] - mean) * scale);                                                                            \
        }                                                                                                              \
      } else {                                                                                                         \
        _Pragma("omp simd reduction(+ : s, d)") for (int64_t i = at; i < end; i++) {                                   \
          s += g[i];                                                                                                   \
          d += g[i] * ((x[i] - mean) * scale);                                                                         \
        }                                                                                                              \
      }                                                                                                                \
      sum += (double)s;                                                                                                \
      dot += (double)d;                                                                                                \
    }                                                                                                                  \
    const T a = (T)(sum / (double)n), b = (T)(dot / (double)n);                                                        \
    if (w)                                                                                                             \
      for (int64_t i = 0; i < n; i++) dx[i] = scale * (g[i] * w[i] - a - (x[i] - mean) * scale * b);                   \
    else                                                                                                               \
      for (int64_t i = 0; i < n; i++) dx[i] = scale * (g[i] - a - (x[i] - mean) * scale * b);                          \
  }                                                                                                                    \
  static void backward_##S(int64_t line, int64_t n, void *out, const void *const *in, const void *context) {           \
    const job *j = context;                                                                                            \
    T mean, scale = deviation_##S(in[1], n, j->eps, &mean);                                                            \
    int64_t at = line / j->chunk * n;                                                                                  \
    double *ws = j->weight_sums ? j->weight_sums + at : NULL, *bs = j->bias_sums ? j->bias_sums + at : NULL;           \
    if (ws || bs) sums_##S(ws, bs, in[0], in[1], mean, scale, n);                                                      \
    if (out) slope_##S(out, in[0], in[1], j->weight, mean, scale, n);                                                  \
  }
BACKWARD(float, f32)
BACKWARD(double, f64)

static int layer_norm_cpu(lt_args *c) {
  const lt_tensor *w = c->in[1], *bias = c->in[2];
  lt_tensor *o = c->out[0];
  job j = {.eps = c->attr->f[0]};
  int dims, kind = lt_float_kind(o->dtype);
  LT_TRY(trailing_dims(c, c->in[0], w, bias, &dims));
  if (o->n == 0) return LT_OK;
  j.n = line_length(c->in[0], dims);
  j.bytes = j.n * 16;
  j.memory = lt_alloc(j.bytes);
  if (!j.memory) return LT_ERR_MEMORY;
  if (w) j.weight = j.memory;
  if (bias) j.bias = j.memory + j.n * 8;
  int status = w ? put_line(w, kind, j.n, j.weight) : LT_OK;
  if (status >= 0 && bias) status = put_line(bias, kind, j.n, j.bias);
  if (status >= 0) status = as_lines(c->in[0], dims, j.n, &j.x, &j.lines[0]);
  bool direct = lt_tensor_is_contiguous(o) || (dims == 1 && o->ndim <= 2);
  if (status >= 0 && direct)
    status = as_lines(o, dims, j.n, &j.dx, &j.lines[1]);
  else if (status >= 0) {
    status = lt_tensor_like(o, &j.dx);
    if (status >= 0) j.lines[1] = lt_flat(j.dx, j.n);
  }
  if (status >= 0) {
    lt_lines l = {.out = &j.lines[1],
                  .in = {&j.lines[0]},
                  .n_in = 1,
                  .kind = kind,
                  .dim = 1,
                  .f = kind == LT_FLOAT32 ? forward_f32 : forward_f64,
                  .context = &j};
    status = lt_lines_run(&l);
  }
  if (status >= 0 && !direct) status = lt_run_into(LT_OP_clone, &j.dx, 1, NULL, o, false);
  lt_tensor_release(j.x);
  lt_tensor_release(j.dx);
  lt_free(j.memory, j.bytes);
  return status;
}

/* ---- backward: grad, x, weight; attr.i[0] the dims, i[1] which outputs are wanted. Gives dx, dweight, dbias ---- */
static int layer_norm_backward_shape(lt_args *c) {
  const lt_tensor *x = c->in[1];
  int dims = (int)c->attr->i[0], kind = lt_loss_dtype(x->dtype);
  if (c->attr->i[1] & WANT_X) LT_TRY(lt_out_like(c, 0, x));
  if (c->attr->i[1] & WANT_WEIGHT) LT_TRY(lt_out(c, 1, kind, dims, x->shape + x->ndim - dims));
  if (c->attr->i[1] & WANT_BIAS) LT_TRY(lt_out(c, 2, kind, dims, x->shape + x->ndim - dims));
  return LT_OK;
}
static void add_chunks(const lt_args *c, int k, double *sums, int64_t chunks, int64_t n) {
  for (int64_t i = 1; i < chunks; i++)
    for (int64_t e = 0; e < n; e++) sums[e] += sums[i * n + e];
  lt_put_doubles(c, k, sums);
}
static int layer_norm_backward_cpu(lt_args *c) {
  const lt_tensor *x = c->in[1], *w = c->in[2];
  int dims = (int)c->attr->i[0], kind = lt_float_kind(x->dtype);
  job j = {.eps = c->attr->f[0], .n = line_length(x, dims)};
  j.chunk = lt_line_chunk(j.n) < 16 ? 16 : lt_line_chunk(j.n); /* long rows share sums, or those would outgrow x */
  int64_t rows = j.n ? x->n / j.n : 0, chunks = rows ? (rows + j.chunk - 1) / j.chunk : 1, sums = chunks * j.n;
  bool want_weight = c->attr->i[1] & WANT_WEIGHT, want_bias = c->attr->i[1] & WANT_BIAS;
  j.bytes = (j.n + (want_weight + want_bias) * sums) * 8;
  j.memory = lt_alloc(j.bytes);
  if (!j.memory) return LT_ERR_MEMORY;
  memset(j.memory, 0, (size_t)j.bytes);
  if (w) j.weight = j.memory;
  if (want_weight) j.weight_sums = (double *)j.memory + j.n;
  if (want_bias) j.bias_sums = (double *)j.memory + j.n + want_weight * sums;
  int status = w ? put_line(w, kind, j.n, j.weight) : LT_OK;
  if (status >= 0) status = as_lines(c->in[0], dims, j.n, &j.g, &j.lines[0]);
  if (status >= 0) status = as_lines(c->in[1], dims, j.n, &j.x, &j.lines[1]);
  if (status >= 0 && c->out[0])
    status = as_lines(c->out[0], dims, j.n, &j.dx, &j.lines[2]); /* made here, so contiguous */
  if (status >= 0 && x->n) {
    lt_lines l = {.out = c->out[0] ? &j.lines[2] : NULL,
                  .in = {&j.lines[0], &j.lines[1]},
                  .n_in = 2,
                  .kind = kind,
                  .dim = 1,
                  .f = kind == LT_FLOAT32 ? backward_f32 : backward_f64,
                  .context = &j,
                  .chunk = j.chunk};
    status = lt_lines_run(&l);
  }
  if (status >= 0 && want_weight) add_chunks(c, 1, j.weight_sums, chunks, j.n);
  if (status >= 0 && want_bias) add_chunks(c, 2, j.bias_sums, chunks, j.n);
  lt_tensor_release(j.g);
  lt_tensor_release(j.x);
  lt_tensor_release(j.dx);
  lt_free(j.memory, j.bytes);
  return status;
}

static void graph_rule(lt_back *b, int dims) {
  lt_tensor *g = b->grad[0], *x = b->in[0], *w = b->in[1],
            *eps = lt_number(b, b->attr->f[0], lt_loss_dtype(b->edge[0].dtype));
  lt_attr over = {.n_list = dims, .i = {1}};
  for (int k = 0; k < dims; k++) over.list[k] = b->edge[0].ndim - dims + k;
  lt_tensor *centered = LT_DO(b, sub, x, LT_DO_ATTR(b, mean, &over, x));
  lt_tensor *scale = LT_DO(b, rsqrt, LT_DO(b, add, LT_DO_ATTR(b, mean, &over, LT_DO(b, mul, centered, centered)), eps));
  lt_tensor *hat = LT_DO(b, mul, centered, scale);
  if (lt_wants(b, 0)) {
    lt_tensor *u = w ? LT_DO(b, mul, g, w) : g;
    lt_tensor *along = LT_DO(b, mul, hat, LT_DO_ATTR(b, mean, &over, LT_DO(b, mul, u, hat)));
    LT_GRAD(b, 0, mul, scale, LT_DO(b, sub, LT_DO(b, sub, u, LT_DO_ATTR(b, mean, &over, u)), along));
  }
  if (lt_wants(b, 1)) LT_GRAD(b, 1, mul, g, hat); /* the engine sums over the rows */
  if (lt_wants(b, 2)) lt_give(b, 2, g);
}
static void layer_norm_rule(lt_back *b) {
  lt_tensor *out[3];
  int64_t wanted =
      (lt_wants(b, 0) ? WANT_X : 0) | (lt_wants(b, 1) ? WANT_WEIGHT : 0) | (lt_wants(b, 2) ? WANT_BIAS : 0);
  int dims = b->in[1] ? b->in[1]->ndim : b->edge[2].ndim ? b->edge[2].ndim : b->attr->i[0] ? (int)b->attr->i[0] : 1;
  if (!wanted) return;
  if (lt_grad_enabled()) {
    graph_rule(b, dims);
    return;
  }
  lt_attr attr = {.f = {b->attr->f[0]}, .i = {dims, wanted}};
  lt_do_n(b, LT_OP_layer_norm_backward, &attr, 3, (lt_tensor *[]){b->grad[0], b->in[0], b->in[1]}, 3, out);
  for (int i = 0; i < 3; i++) lt_give(b, i, out[i]);
}
const lt_op lt_op_layer_norm = {.name = "layer_norm",
                                .signature =
                                    "layer_norm(x, weight: tensor?, bias: tensor?, dims: int = 0, eps: number = 1e-5)",
                                .doc = "(x - mean) / sqrt(var + eps) over the last dims, times weight, plus bias (Ba "
                                       "et al. 2016). How many dims follows from the weight's shape; "
                                       "without one, `dims` says it (0: one).",
                                .shape = layer_norm_shape,
                                .cpu = layer_norm_cpu,
                                .backward = layer_norm_rule,
                                .keep = LT_IN(0) | LT_IN(1)};

static void no_rule(lt_back *b) {
  b->status = lt_fail(LT_ERR_STATE, "%s: it has no rule; graphs of gradients are made of plain operators", b->op->name);
}
const lt_op lt_op_layer_norm_backward = {
    .name = "layer_norm_backward",
    .signature = "layer_norm_backward(grad, x, weight: tensor?, dims: int, wanted: int, eps: number)",
    .n_out = 3,
    .doc = "Gradients of layer_norm with respect to x, weight and bias, those that are wanted.",
    .flags = LT_OP_HIDDEN,
    .shape = layer_norm_backward_shape,
    .cpu = layer_norm_backward_cpu,
    .backward = no_rule};
