/* linear: activation(x w^T + b) in one pass over the result. The activations are those whose slope can be read off
 * their result, so nothing but the result is kept; their slope and the bias gradient are one operator,
 * activation_backward. */
#include "../gemm.h"
#include "elementwise.h"
#include "stage.h"

enum { NONE, RELU, LEAKY_RELU, SIGMOID, TANH }; /* the order of the signature */
#define ACTIVATIONS "activation: none|relu|leaky_relu|sigmoid|tanh = none, slope: number = 0.01"

static int activation_of(const lt_attr *a) { return (int)a->i[0]; }

static int linear_shape(lt_args *c) {
  const lt_tensor *x = c->in[0], *w = c->in[1], *b = c->in[2];
  int64_t shape[LT_MAX_DIMS];
  for (int i = 0; i < 2; i++) LT_TRY(lt_need_float(c, i));
  if (x->ndim == 0)
    return lt_fail(LT_ERR_SHAPE, "linear: x is a number; it must be [..., in]: reshape it to {1} first");
  if (w->ndim != 2) return lt_fail(LT_ERR_SHAPE, "linear: w is %s; it must be [out, in]", lt_shape_text(w));
  if (x->dtype != w->dtype)
    return lt_fail(LT_ERR_DTYPE, "linear: x is %s and w is %s; both must have one dtype: convert with x:to(\"%s\")",
                   lt_dtype_name(x->dtype), lt_dtype_name(w->dtype), lt_dtype_name(w->dtype));
  if (x->shape[x->ndim - 1] != w->shape[1])
    return lt_fail(LT_ERR_SHAPE,
                   "linear: x is %s and w is %s; the last dim of x (%lld) must equal the columns of w (%lld)",
                   lt_shape_text(x), lt_shape_text(w), (long long)x->shape[x->ndim - 1], (long long)w->shape[1]);
  if (b && (b->ndim != 1 || b->shape[0] != w->shape[0]))
    return lt_fail(LT_ERR_SHAPE, "linear: b is %s and w is %s; b must be [%lld], a number for each row of w",
                   lt_shape_text(b), lt_shape_text(w), (long long)w->shape[0]);
  if (b && b->dtype != w->dtype && !(b->dtype == LT_FLOAT32 && lt_dtype_size(w->dtype) == 2))
    return lt_fail(LT_ERR_DTYPE, "linear: b is %s and w is %s; both must have one dtype: convert with b:to(\"%s\")",
                   lt_dtype_name(b->dtype), lt_dtype_name(w->dtype), lt_dtype_name(w->dtype));
  if (activation_of(c->attr) == LEAKY_RELU && !(c->attr->f[0] >= 0))
    return lt_fail(LT_ERR_ARGUMENT, "linear: slope is %g; it must be 0 or more, as the gradient is read off the result",
                   c->attr->f[0]);
  memcpy(shape, x->shape, sizeof shape);
  shape[x->ndim - 1] = w->shape[0];
  return lt_out(c, 0, x->dtype, x->ndim, shape);
}

/* The distance of rows when all dims but the last line up as one, else -1. */
static int64_t row_stride(const lt_tensor *t) {
  int64_t stride = 0, rows = 1;
  for (int d = t->ndim - 2; d >= 0; d--) {
    if (t->shape[d] == 1) continue;
    if (rows == 1)
      stride = t->stride[d];
    else if (t->stride[d] != stride * rows)
      return -1;
    rows *= t->shape[d];
  }
  return stride;
}

static int run_product(const lt_args *c, const lt_tensor *x, lt_tensor *out) {
  const lt_tensor *w = c->in[1], *b = c->in[2];
  int activation = activation_of(c->attr);
  lt_gemm g = {.dtype = x->dtype, .c_dtype = x->dtype, .batch = 1, .n = w->shape[0], .k = w->shape[1]};
  g.m = 1;
  for (int d = 0; d < x->ndim - 1; d++) g.m *= x->shape[d];
  g.a = lt_ptr(x), g.a_row = row_stride(x), g.a_col = x->stride[x->ndim - 1];
  g.b = lt_ptr(w), g.b_row = w->stride[1], g.b_col = w->stride[0];
  g.c = lt_ptr(out), g.c_row = row_stride(out);
  g.bias = b ? lt_ptr(b) : NULL;
  g.bias_dtype = b ? b->dtype : x->dtype;
  g.activation = activation == RELU ? LT_GEMM_RELU : activation == LEAKY_RELU ? LT_GEMM_LEAKY : LT_GEMM_NONE;
  g.slope = c->attr->f[0];
  LT_TRY(lt_gemm_run(&g));
  if (activation != SIGMOID && activation != TANH) return LT_OK;
  return lt_run_into(activation == SIGMOID ? LT_OP_sigmoid : LT_OP_tanh, &out, 1, NULL, out, false);
}

static int linear_cpu(lt_args *c) {
  lt_tensor *o = c->out[0], *x, *b = NULL, *out;
  if (o->n == 0) return LT_OK;
  if (row_stride(c->in[0]) < 0)
    LT_TRY(lt_contiguous(c->in[0], &x));
  else
    x = lt_tensor_retain(c->in[0]);
  lt_tensor *in[] = {x, c->in[1], c->in[2]};
  lt_args call = *c;
  call.in = in;
  int status = c->in[2] ? lt_contiguous(c->in[2], &b) : LT_OK;
  if (status >= 0) {
    in[2] = b;
    bool direct = row_stride(o) >= 0 && (o->stride[o->ndim - 1] == 1 || o->shape[o->ndim - 1] == 1);
    if (direct)
      status = run_product(&call, x, o);
    else {
      status = lt_stage(c, 0, &out);
      if (status >= 0) status = lt_unstage(c, 0, out, run_product(&call, x, out));
    }
  }
  lt_tensor_release(b);
  lt_tensor_release(x);
  return status;
}

static lt_tensor *as_rows(lt_back *b, lt_tensor *t) { /* [..., n] as [all, n] */
  if (!t || t->ndim == 2) return t;
  lt_attr shape = {.n_list = 2, .list = {1, t->shape[t->ndim - 1]}};
  for (int d = 0; d < t->ndim - 1; d++) shape.list[0] *= t->shape[d];
  return LT_DO_ATTR(b, reshape, &shape, t);
}

static void linear_rule(lt_back *b) {
  lt_tensor *g = b->grad[0];
  if (activation_of(b->attr) != NONE) {
    lt_tensor *in[] = {g, b->out[0]}, *both[2];
    g = lt_do_n(b, LT_OP_activation_backward, b->attr, 2, in, 2, both);
    lt_give(b, 2, both[1]);
  } else if (lt_wants(b, 2)) {
    lt_attr rows = {.n_list = 1, .list = {0}};
    LT_GRAD_ATTR(b, 2, sum, &rows, as_rows(b, g));
  }
  if (!g) return;
  if (lt_wants(b, 0)) LT_GRAD(b, 0, matmul, g, b->in[1]);
  if (lt_wants(b, 1)) {
    lt_attr swap = {.i = {0, 1}};
    lt_tensor *x = as_rows(b, b->in[0]), *rows = as_rows(b, g);
    if (x && rows) LT_GRAD(b, 1, matmul, LT_DO_ATTR(b, transpose, &swap, rows), x);
  }
}

/* x is read by w's gradient, w by x's, the result by the activation's slope. */
static uint32_t linear_reads(const lt_args *c) {
  return (c->in[1]->requires_grad ? LT_IN(0) : 0) | (c->in[0]->requires_grad ? LT_IN(1) : 0) |
         (activation_of(c->attr) != NONE ? LT_OUT(0) : 0);
}

const lt_op lt_op_linear = {
    .name = "linear",
    .signature = "linear(x, w, b: tensor?, " ACTIVATIONS ")",
    .doc = "activation(x w^T + b) over the last dim of x [..., in], with w [out, in] and b [out] or nil. slope is "
           "leaky_relu's.",
    .shape = linear_shape,
    .cpu = linear_cpu,
    .backward = linear_rule,
    .keep = LT_IN(0) | LT_IN(1) | LT_OUT(0),
    .reads = linear_reads};

/* ---- activation_backward: g times the slope at y, and the sums of its columns ---- */

enum { ROWS = 128, COLUMNS = LT_BLOCK }; /* rows are added within fixed chunks, whose sums are added in order */

static int activation_backward_shape(lt_args *c) {
  const lt_tensor *y = c->in[1];
  int64_t columns = y->ndim ? y->shape[y->ndim - 1] : 1;
  LT_TRY(lt_need_float(c, 0));
  LT_TRY(lt_need_dtype(c, 1, c->in[0]->dtype));
  if (y->ndim == 0 || !lt_same_shape(c->in[0], y))
    return lt_fail(LT_ERR_SHAPE, "activation_backward: grad is %s and y is %s; both must be [..., out]",
                   lt_shape_text(c->in[0]), lt_shape_text(y));
  LT_TRY(lt_out_like(c, 0, c->in[0]));
  return lt_out(c, 1, y->dtype, 1, &columns);
}

#define SLOPE(T, y)                                                                                                    \
  (activation == RELU         ? ((y) > 0 ? (T)1 : (T)0)                                                                \
   : activation == LEAKY_RELU ? ((y) > 0 ? (T)1 : slope)                                                               \
   : activation == SIGMOID    ? (y) * (1 - (y))                                                                        \
   : activation == TANH       ? 1 - (y) * (y)                                                                          \
                              : (T)1)
#define MASK_ROW(name, T)                                                                                              \
  LT_CLONES static void name(int64_t n, int activation, T slope, const T *restrict g, const T *restrict y,             \
                             T *restrict out, double *restrict sum) {                                                  \
    if (activation == RELU)                                                                                            \
      for (int64_t j = 0; j < n; j++) sum[j] += out[j] = y[j] > 0 ? g[j] : 0;                                          \
    else                                                                                                               \
      for (int64_t j = 0; j < n; j++) sum[j] += out[j] = g[j] * SLOPE(T, y[j]);                                        \
  }
MASK_ROW(mask_row_f32, float)
MASK_ROW(mask_row_f64, double)

static void mask_row(const lt_attr *a, int dtype, int64_t n, const char *g, const char *y, char *out, double *sum) {
  int activation = activation_of(a);
  if (dtype == LT_FLOAT64) {
    mask_row_f64(n, activation, a->f[0], (const double *)g, (const double *)y, (double *)out, sum);
    return;
  }
  if (dtype == LT_FLOAT32) {
    mask_row_f32(n, activation, (float)a->f[0], (const float *)g, (const float *)y, (float *)out, sum);
    return;
  }
  float wide[3][LT_BLOCK];
  lt_load_block(wide[0], LT_FLOAT32, g, dtype, 1, n);
  lt_load_block(wide[1], LT_FLOAT32, y, dtype, 1, n);
  mask_row_f32(n, activation, (float)a->f[0], wide[0], wide[1], wide[2], sum);
  lt_store_block(out, dtype, 1, wide[2], LT_FLOAT32, n);
}

static int mask_rows(lt_args *c, const lt_tensor *g, const lt_tensor *y, const lt_tensor *out) {
  lt_tensor *total = c->out[1];
  int64_t n = total->n, rows = n ? y->n / n : 0, chunks = (rows + ROWS - 1) / ROWS, size = lt_dtype_size(y->dtype);
  double *sums = lt_alloc((chunks + 1) * n * (int64_t)sizeof *sums); /* [chunks, n] */
  if (!sums) return LT_ERR_MEMORY;
  memset(sums, 0, (size_t)((chunks + 1) * n) * sizeof *sums);
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(rows *n))
  for (int64_t k = 0; k < chunks; k++)
    for (int64_t i = k * ROWS; i < rows && i < (k + 1) * ROWS; i++)
      for (int64_t j = 0; j < n; j += COLUMNS) {
        int64_t at = (i * n + j) * size;
        mask_row(c->attr, y->dtype, n - j < COLUMNS ? n - j : COLUMNS, (const char *)lt_ptr(g) + at,
                 (const char *)lt_ptr(y) + at, (char *)lt_ptr(out) + at, sums + k * n + j);
      }
  for (int64_t k = 1; k < chunks; k++)
    for (int64_t j = 0; j < n; j++) sums[j] += sums[k * n + j];
  for (int64_t j = 0; j < n; j++) lt_store_double(lt_ptr(total), total->dtype, j, sums[j]);
  lt_free(sums, (chunks + 1) * n * (int64_t)sizeof *sums);
  return LT_OK;
}

static int activation_backward_cpu(lt_args *c) {
  lt_tensor *g, *y = NULL, *out = NULL;
  LT_TRY(lt_contiguous(c->in[0], &g));
  int status = lt_contiguous(c->in[1], &y);
  if (status >= 0) status = lt_stage(c, 0, &out);
  if (status >= 0) status = lt_unstage(c, 0, out, mask_rows(c, g, y, out));
  lt_tensor_release(y);
  lt_tensor_release(g);
  return status;
}

/* h is what multiplies the masked gradient: its own gradient plus that of the sums, repeated for every row. */
static void activation_backward_rule(lt_back *b) {
  static const int slope_of[] = {0, LT_OP_relu_backward, LT_OP_leaky_relu_backward, LT_OP_sigmoid_backward,
                                 LT_OP_tanh_backward};
  int activation = activation_of(b->attr);
  lt_attr shape = {.n_list = b->edge[0].ndim};
  memcpy(shape.list, b->edge[0].shape, sizeof b->edge[0].shape);
  lt_tensor *h = b->grad[0];
  if (b->grad[1]) h = h ? LT_DO(b, add, h, b->grad[1]) : LT_DO_ATTR(b, expand, &shape, b->grad[1]);
  lt_attr slope = {.f = {b->attr->f[0]}};
  if (lt_wants(b, 0)) lt_grad_by(b, 0, slope_of[activation], &slope, 2, (lt_tensor *[]){h, b->in[1]});
  if (lt_wants(b, 1) && activation >= SIGMOID) { /* the slopes of the others are steps */
    int curvature = activation == SIGMOID ? LT_OP_sigmoid_curvature : LT_OP_tanh_curvature;
    LT_GRAD(b, 1, mul, LT_DO(b, mul, h, b->in[0]), lt_do(b, curvature, NULL, 1, &b->in[1]));
  }
}

const lt_op lt_op_activation_backward = {
    .name = "activation_backward",
    .signature = "activation_backward(grad, y, " ACTIVATIONS ")",
    .doc = "grad times the slope of the activation whose result is y, and the sums of its columns: the gradients of "
           "linear before its activation and of its bias.",
    .flags = LT_OP_HIDDEN,
    .n_out = 2,
    .shape = activation_backward_shape,
    .cpu = activation_backward_cpu,
    .backward = activation_backward_rule,
    .keep = LT_IN(0) | LT_IN(1)};
