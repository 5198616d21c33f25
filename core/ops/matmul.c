/* matmul: 1-D, 2-D and broadcast batches of matrices, by PyTorch's rules. Transposed and sliced views go to the product
 * by their strides, without a copy. */
#include "../gemm.h"
#include "stage.h"

static const char *sizes_of(const lt_tensor *t, const char *many) { return t->ndim == 1 ? "elements" : many; }

static int check_dtypes(const lt_tensor *a, const lt_tensor *b) {
  if (a->dtype != b->dtype) {
    int wide = lt_promote(a->dtype, b->dtype);
    return lt_fail(LT_ERR_DTYPE, "matmul: a is %s and b is %s; both must have one dtype: convert with x:to(\"%s\")",
                   lt_dtype_name(a->dtype), lt_dtype_name(b->dtype), lt_dtype_name(wide));
  }
  if (lt_is_float(a->dtype) || a->dtype == LT_INT64) return LT_OK;
  return lt_fail(LT_ERR_DTYPE,
                 "matmul: a and b are %s; products take floating types and int64: convert with x:to(\"%s\")",
                 lt_dtype_name(a->dtype), a->dtype == LT_BOOL ? "float32" : "int64");
}

/* Dims in front of the last two, or of the last one where the operand is a vector. */
static int batch_dims(const lt_tensor *t) { return t->ndim > 2 ? t->ndim - 2 : 0; }

static int matmul_shape(lt_args *c) {
  const lt_tensor *a = c->in[0], *b = c->in[1];
  int64_t shape[LT_MAX_DIMS];
  if (a->ndim == 0 || b->ndim == 0)
    return lt_fail(LT_ERR_SHAPE, "matmul: %s is a number; both operands need at least 1 dim: multiply with a * b",
                   a->ndim == 0 ? "a" : "b");
  LT_TRY(check_dtypes(a, b));
  int64_t columns = a->shape[a->ndim - 1], rows = b->shape[b->ndim > 1 ? b->ndim - 2 : 0];
  if (columns != rows)
    return lt_fail(LT_ERR_SHAPE, "matmul: a is %s and b is %s; %s of a (%lld) must equal %s of b (%lld)",
                   lt_shape_text(a), lt_shape_text(b), sizes_of(a, "columns"), (long long)columns, sizes_of(b, "rows"),
                   (long long)rows);
  int na = batch_dims(a), nb = batch_dims(b), ndim = na > nb ? na : nb;
  for (int d = 0; d < ndim; d++) {
    int da = d - (ndim - na), db = d - (ndim - nb);
    int64_t sa = da < 0 ? 1 : a->shape[da], sb = db < 0 ? 1 : b->shape[db];
    if (sa != sb && sa != 1 && sb != 1)
      return lt_fail(LT_ERR_SHAPE, "matmul: a is %s and b is %s; their batch sizes %lld and %lld must be equal or 1",
                     lt_shape_text(a), lt_shape_text(b), (long long)sa, (long long)sb);
    shape[d] = sa == 1 ? sb : sa;
  }
  if (a->ndim > 1) shape[ndim++] = a->shape[a->ndim - 2];
  if (b->ndim > 1) shape[ndim++] = b->shape[b->ndim - 1];
  return lt_out(c, 0, a->dtype, ndim, shape);
}

/* The batch dims of all three operands, as few as their strides allow; a repeated matrix has stride 0. */
typedef struct batches {
  int ndim;
  int64_t shape[LT_MAX_DIMS], stride[3][LT_MAX_DIMS];
} batches;

static void collect_batches(const lt_tensor *const t[3], int ndim, batches *out) {
  out->ndim = 0;
  for (int d = 0; d < ndim; d++) {
    int64_t size = t[2]->shape[d], stride[3];
    if (size == 1) continue;
    for (int i = 0; i < 3; i++) {
      int own = d - (ndim - (i == 2 ? ndim : batch_dims(t[i])));
      stride[i] = own < 0 || t[i]->shape[own] == 1 ? 0 : t[i]->stride[own];
    }
    int last = out->ndim - 1;
    bool lines_up = last >= 0;
    for (int i = 0; i < 3 && lines_up; i++) lines_up = out->stride[i][last] == stride[i] * size;
    if (!lines_up) out->shape[last = out->ndim++] = 1;
    out->shape[last] *= size;
    for (int i = 0; i < 3; i++) out->stride[i][last] = stride[i];
  }
}

static int run_batches(const lt_tensor *a, const lt_tensor *b, const lt_tensor *out, bool accumulate) {
  const lt_tensor *t[3] = {a, b, out};
  bool rows = a->ndim > 1, columns = b->ndim > 1;
  int64_t size = lt_dtype_size(a->dtype);
  int last = out->ndim - 1;
  batches batch;
  collect_batches(t, out->ndim - rows - columns, &batch);
  lt_gemm g = {.dtype = a->dtype, .c_dtype = a->dtype, .batch = 1, .accumulate = accumulate};
  g.m = rows ? a->shape[a->ndim - 2] : 1;
  g.k = a->shape[a->ndim - 1];
  g.n = columns ? b->shape[b->ndim - 1] : 1;
  g.a_row = rows ? a->stride[a->ndim - 2] : 0;
  g.a_col = a->stride[a->ndim - 1];
  g.b_row = b->stride[columns ? b->ndim - 2 : 0];
  g.b_col = columns ? b->stride[b->ndim - 1] : 0;
  g.c_row = rows ? out->stride[last - columns] : 0;
  int inner = batch.ndim - 1;
  if (inner >= 0) {
    g.batch = batch.shape[inner];
    g.a_batch = batch.stride[0][inner];
    g.b_batch = batch.stride[1][inner];
    g.c_batch = batch.stride[2][inner];
  }
  int64_t turns = 1;
  for (int d = 0; d < inner; d++) turns *= batch.shape[d];
  for (int64_t turn = 0; turn < turns; turn++) {
    int64_t at[3] = {0}, left = turn;
    for (int d = inner - 1; d >= 0; d--) {
      for (int i = 0; i < 3; i++) at[i] += left % batch.shape[d] * batch.stride[i][d];
      left /= batch.shape[d];
    }
    g.a = (const char *)lt_ptr(a) + at[0] * size;
    g.b = (const char *)lt_ptr(b) + at[1] * size;
    g.c = (char *)lt_ptr(out) + at[2] * size;
    LT_TRY(lt_gemm_run(&g));
  }
  return LT_OK;
}

static int matmul_cpu(lt_args *c) {
  lt_tensor *o = c->out[0], *out;
  bool columns = c->in[1]->ndim > 1 && o->shape[o->ndim - 1] > 1;
  if (o->n == 0) return LT_OK;
  if (!columns || o->stride[o->ndim - 1] == 1) return run_batches(c->in[0], c->in[1], o, c->accumulate);
  LT_TRY(lt_stage(c, 0, &out));
  return lt_unstage(c, 0, out, run_batches(c->in[0], c->in[1], out, false));
}

/* ---- the rule ---- */

static lt_tensor *transposed(lt_back *b, lt_tensor *t) {
  if (!t) return NULL;
  lt_attr last_two = {.i = {t->ndim - 2, t->ndim - 1}};
  return LT_DO_ATTR(b, transpose, &last_two, t);
}
static lt_tensor *with_dim(lt_back *b, lt_tensor *t, int at) {
  lt_attr attr = {.i = {at}};
  return t ? LT_DO_ATTR(b, unsqueeze, &attr, t) : NULL;
}
/* [..., n] as [all, n]; a view where strides allow */
static lt_tensor *as_rows(lt_back *b, lt_tensor *t) {
  if (!t) return NULL;
  lt_attr shape = {.n_list = 2, .list = {1, t->shape[t->ndim - 1]}};
  for (int d = 0; d < t->ndim - 1; d++) shape.list[0] *= t->shape[d];
  return LT_DO_ATTR(b, reshape, &shape, t);
}
/* The gradient of input i is x y; where that has the input's shape it goes straight to its place. */
static void give_product(lt_back *b, int i, lt_tensor *x, lt_tensor *y) {
  const lt_edge *e = &b->edge[i];
  if (b->status < 0) return;
  bool same = x->ndim == e->ndim && y->ndim <= x->ndim && x->ndim >= 2;
  for (int d = 0; same && d < e->ndim - 2; d++) same = x->shape[d] == e->shape[d];
  if (same)
    LT_GRAD(b, i, matmul, x, y);
  else
    lt_give(b, i, LT_DO(b, matmul, x, y));
}

static void matmul_rule(lt_back *b) {
  lt_tensor *x = b->in[0], *y = b->in[1], *g = b->grad[0];
  int nx = b->edge[0].ndim, ny = b->edge[1].ndim;
  if (nx == 1 && ny == 1) { /* a dot product */
    if (lt_wants(b, 0)) LT_GRAD(b, 0, mul, g, y);
    if (lt_wants(b, 1)) LT_GRAD(b, 1, mul, g, x);
    return;
  }
  if (ny == 1) { /* [..., m] from [..., m, k] and [k] */
    if (lt_wants(b, 0)) LT_GRAD(b, 0, mul, with_dim(b, g, g->ndim), y);
    if (lt_wants(b, 1)) {
      lt_attr all = {.n_list = 1, .list = {g->n}};
      lt_give(b, 1, LT_DO(b, matmul, LT_DO_ATTR(b, reshape, &all, g), as_rows(b, x)));
    }
    return;
  }
  if (nx == 1) { /* [..., n] from [k] and [..., k, n] */
    lt_tensor *row = with_dim(b, g, g->ndim - 1);
    if (lt_wants(b, 0)) lt_give(b, 0, as_rows(b, LT_DO(b, matmul, row, transposed(b, y))));
    if (lt_wants(b, 1)) give_product(b, 1, with_dim(b, x, 1), row);
    return;
  }
  if (lt_wants(b, 0)) give_product(b, 0, g, transposed(b, y));
  if (!lt_wants(b, 1)) return;
  if (ny == 2 && nx > 2) { /* one matrix for the whole batch: one long sum instead of a batch of products */
    lt_tensor *rows = as_rows(b, x), *grads = as_rows(b, g);
    if (rows && grads) LT_GRAD(b, 1, matmul, transposed(b, rows), grads);
  } else
    give_product(b, 1, transposed(b, x), g);
}

const lt_op lt_op_matmul = {.name = "matmul",
                            .signature = "matmul(a, b)",
                            .doc = "Matrix product over the last two dims; dims in front are a batch and broadcast. A "
                                   "1-D operand is a row on the left, a column on the right, and its dim is dropped "
                                   "from the result. Transposed views are read in place.",
                            .flags = LT_OP_ACCUMULATE,
                            .shape = matmul_shape,
                            .cpu = matmul_cpu,
                            .backward = matmul_rule,
                            .keep = LT_IN(0) | LT_IN(1)};
