/* Operators on the matrices of the last two dims: triangles, and diagonals both ways. `diagonal` counts diagonals: 0
 * the main one, positive above, negative below. */
#include "stage.h"

/* ---- tril, triu ---- */
static int triangle_shape(lt_args *c) {
  if (c->in[0]->ndim < 2)
    return lt_fail(LT_ERR_SHAPE, "%s: the tensor is %s; it must have rows and columns (two dims or more)", c->op->name,
                   lt_shape_text(c->in[0]));
  return lt_out_like(c, 0, c->in[0]);
}
static int triangle(lt_args *c, bool lower) {
  lt_tensor *x, *out;
  LT_TRY(lt_contiguous(c->in[0], &x));
  int status = lt_stage(c, 0, &out);
  if (status >= 0) {
    int64_t columns = x->shape[x->ndim - 1], rows = x->shape[x->ndim - 2], size = lt_dtype_size(x->dtype),
            k = c->attr->i[0];
    int64_t all = columns ? x->n / columns : 0;
    const char *from = lt_ptr(x);
    char *to = lt_ptr(out);
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(x->n))
    for (int64_t r = 0; r < all; r++) {
      int64_t edge = r % rows + k + lower; /* the first column beyond (lower) or within (upper) the triangle */
      edge = edge < 0 ? 0 : edge > columns ? columns : edge;
      int64_t first = lower ? 0 : edge, last = lower ? edge : columns, row = r * columns;
      if (to != from) memcpy(to + (row + first) * size, from + (row + first) * size, (size_t)((last - first) * size));
      memset(to + row * size, 0, (size_t)(first * size));
      memset(to + (row + last) * size, 0, (size_t)((columns - last) * size));
    }
    status = lt_unstage(c, 0, out, status);
  }
  lt_tensor_release(x);
  return status;
}
static int tril_cpu(lt_args *c) { return triangle(c, true); }
static int triu_cpu(lt_args *c) { return triangle(c, false); }
static void tril_rule(lt_back *b) { LT_GRAD_ATTR(b, 0, tril, b->attr, b->grad[0]); }
static void triu_rule(lt_back *b) { LT_GRAD_ATTR(b, 0, triu, b->attr, b->grad[0]); }
const lt_op lt_op_tril = {
    .name = "tril",
    .signature = "tril(x, diagonal: int = 0)",
    .doc = "The lower triangle of each matrix, zeros above the diagonal (0 the main one, 1 the one above it).",
    .flags = LT_OP_INPLACE,
    .shape = triangle_shape,
    .cpu = tril_cpu,
    .backward = tril_rule};
const lt_op lt_op_triu = {
    .name = "triu",
    .signature = "triu(x, diagonal: int = 0)",
    .doc = "The upper triangle of each matrix, zeros below the diagonal (0 the main one, 1 the one above it).",
    .flags = LT_OP_INPLACE,
    .shape = triangle_shape,
    .cpu = triu_cpu,
    .backward = triu_rule};

/* ---- diagonal: a view. i = { diagonal, dim1, dim2 }; the diagonal becomes the last dim ---- */

/* Where the k-th diagonal of dims p (rows) and q (columns) lies in a tensor of x's shape and strides. */
static void diagonal_of(const lt_tensor *x, int64_t k, int64_t p, int64_t q, int64_t *shape, int64_t *stride,
                        int64_t *offset) {
  int64_t rows = x->shape[p] - (k < 0 ? -k : 0), columns = x->shape[q] - (k > 0 ? k : 0),
          n = rows < columns ? rows : columns;
  int to = 0;
  for (int d = 0; d < x->ndim; d++)
    if (d != p && d != q) shape[to] = x->shape[d], stride[to++] = x->stride[d];
  shape[to] = n > 0 ? n : 0;
  stride[to] = x->stride[p] + x->stride[q];
  *offset = x->offset + (n <= 0 ? 0 : k < 0 ? -k * x->stride[p] : k * x->stride[q]);
}
static int diagonal_shape(lt_args *c) {
  lt_tensor *x = c->in[0];
  int64_t shape[LT_MAX_DIMS], stride[LT_MAX_DIMS], offset, p = c->attr->i[1], q = c->attr->i[2];
  if (x->ndim < 2)
    return lt_fail(LT_ERR_SHAPE, "diagonal: the tensor is %s; it must have two dims or more", lt_shape_text(x));
  LT_TRY(lt_check_dim(c, x, p));
  LT_TRY(lt_check_dim(c, x, q));
  if (p == q) return lt_fail(LT_ERR_ARGUMENT, "diagonal: both dims are %lld; they must differ", (long long)p + 1);
  diagonal_of(x, c->attr->i[0], p, q, shape, stride, &offset);
  return lt_out_view(c, 0, x, x->ndim - 1, shape, stride, offset);
}
static void diagonal_rule(lt_back *b) {
  lt_attr back = *b->attr;
  back.n_list = b->edge[0].ndim;
  memcpy(back.list, b->edge[0].shape, sizeof b->edge[0].shape);
  LT_GRAD_ATTR(b, 0, diagonal_backward, &back, b->grad[0]);
}
const lt_op lt_op_diagonal = {
    .name = "diagonal",
    .signature = "diagonal(x, diagonal: int = 0, dim1: dim = -2, dim2: dim = -1)",
    .doc = "A view of one diagonal of two dims (rows dim1, columns dim2), as the last dim of the result.",
    .flags = LT_OP_VIEW,
    .shape = diagonal_shape,
    .backward = diagonal_rule};

/* Writes input 0 onto the diagonal of zeros. */
static int embed(lt_args *c, int64_t k, int64_t p, int64_t q) {
  lt_tensor *out;
  LT_TRY(lt_stage(c, 0, &out));
  memset(lt_ptr(out), 0, (size_t)(out->n * lt_dtype_size(out->dtype)));
  int status = LT_OK;
  if (c->in[0]->n > 0) {
    lt_tensor line = *out;
    lt_args copy = *c;
    line.ndim--;
    diagonal_of(out, k, p, q, line.shape, line.stride, &line.offset);
    line.n = c->in[0]->n;
    copy.out[0] = &line;
    copy.accumulate = false;
    status = lt_op_at(LT_OP_clone)->cpu(&copy);
  }
  return lt_unstage(c, 0, out, status);
}
static int diagonal_backward_shape(lt_args *c) { return lt_out(c, 0, c->in[0]->dtype, c->attr->n_list, c->attr->list); }
static int diagonal_backward_cpu(lt_args *c) { return embed(c, c->attr->i[0], c->attr->i[1], c->attr->i[2]); }
static void diagonal_backward_rule(lt_back *b) { LT_GRAD_ATTR(b, 0, diagonal, b->attr, b->grad[0]); }
const lt_op lt_op_diagonal_backward = {.name = "diagonal_backward",
                                       .signature =
                                           "diagonal_backward(grad, diagonal: int, dim1: int, dim2: int, shape: ints)",
                                       .doc = "Zeros of the shape with grad on the diagonal.",
                                       .flags = LT_OP_HIDDEN,
                                       .shape = diagonal_backward_shape,
                                       .cpu = diagonal_backward_cpu,
                                       .backward = diagonal_backward_rule};

/* ---- diag_embed ---- */
static int diag_embed_shape(lt_args *c) {
  const lt_tensor *x = c->in[0];
  int64_t shape[LT_MAX_DIMS], k = c->attr->i[0], n;
  if (x->ndim == 0 || x->ndim == LT_MAX_DIMS)
    return lt_fail(LT_ERR_SHAPE, "diag_embed: the tensor is %s; it must have 1 to %d dims", lt_shape_text(x),
                   LT_MAX_DIMS - 1);
  memcpy(shape, x->shape, sizeof shape);
  n = x->shape[x->ndim - 1] + (k < 0 ? -k : k);
  shape[x->ndim - 1] = shape[x->ndim] = n;
  return lt_out(c, 0, x->dtype, x->ndim + 1, shape);
}
static int diag_embed_cpu(lt_args *c) { return embed(c, c->attr->i[0], c->in[0]->ndim - 1, c->in[0]->ndim); }
static void diag_embed_rule(lt_back *b) {
  lt_attr a = {.i = {b->attr->i[0], b->edge[0].ndim - 1, b->edge[0].ndim}};
  LT_GRAD_ATTR(b, 0, diagonal, &a, b->grad[0]);
}
const lt_op lt_op_diag_embed = {.name = "diag_embed",
                                .signature = "diag_embed(x, diagonal: int = 0)",
                                .doc = "Square matrices with the last dim of x on a diagonal and zeros elsewhere.",
                                .shape = diag_embed_shape,
                                .cpu = diag_embed_cpu,
                                .backward = diag_embed_rule};
