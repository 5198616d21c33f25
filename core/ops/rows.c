/* Operators on selected rows (positions of the first dim): the pieces of sparse gradients. Row ids are 0-based. */
#include "../op.h"

static int check_rows(const lt_args *c, int i, int64_t n_rows) {
  const lt_tensor *r = c->in[i];
  if (r->ndim != 1) return lt_fail(LT_ERR_SHAPE, "%s: the row ids are %s; they must be one dim", c->op->name, lt_shape_text(r));
  LT_TRY(lt_need_ids(c, i));
  for (int64_t k = 0; k < r->n; k++) {
    int64_t id = lt_load_int(lt_ptr(r), r->dtype, k * r->stride[0]);
    if (id < 0 || id >= n_rows)
      return lt_fail(LT_ERR_RANGE, "%s: id %lld at position %lld; legal ids are 0 to %lld", c->op->name, (long long)id, (long long)k + 1, (long long)n_rows - 1);
  }
  return LT_OK;
}

static int check_values(const lt_args *c, int rows, int values) {
  const lt_tensor *x = c->in[0], *r = c->in[rows], *v = c->in[values];
  if (x->ndim < 1 || v->ndim != x->ndim || v->shape[0] != r->n || memcmp(v->shape + 1, x->shape + 1, (size_t)(x->ndim - 1) * sizeof *x->shape) != 0)
    return lt_fail(LT_ERR_SHAPE, "%s: %lld row ids and values of shape %s do not fit a tensor of shape %s", c->op->name, (long long)r->n,
                   lt_shape_text(v), lt_shape_text(x));
  if (v->dtype != x->dtype) return lt_fail(LT_ERR_DTYPE, "%s: the values are %s and the tensor %s; they must agree", c->op->name, lt_dtype_name(v->dtype), lt_dtype_name(x->dtype));
  return LT_OK;
}

/* ---- index_add(x, rows, values): x with values[k] added to row rows[k], in the order of k ---- */
static int index_add_shape(lt_args *c) {
  LT_TRY(check_rows(c, 1, c->in[0]->ndim ? c->in[0]->shape[0] : 0));
  LT_TRY(check_values(c, 1, 2));
  return lt_out_like(c, 0, c->in[0]);
}
static int index_add_cpu(lt_args *c) {
  lt_tensor *x = c->in[0], *r = c->in[1], *o = c->out[0], *v, row_out, row_in;
  bool in_place = o->storage == x->storage && o->offset == x->offset;
  if (!in_place) LT_TRY(lt_run_into(LT_OP_clone, &x, 1, NULL, o, c->accumulate));
  v = c->in[2];
  row_out = *o;
  row_in = *v;
  row_out.ndim = row_in.ndim = (uint8_t)(o->ndim - 1);
  memmove(row_out.shape, o->shape + 1, (size_t)row_out.ndim * sizeof *o->shape);
  memmove(row_out.stride, o->stride + 1, (size_t)row_out.ndim * sizeof *o->shape);
  memmove(row_in.shape, v->shape + 1, (size_t)row_out.ndim * sizeof *o->shape);
  memmove(row_in.stride, v->stride + 1, (size_t)row_out.ndim * sizeof *o->shape);
  row_out.n = row_in.n = v->shape[0] ? v->n / v->shape[0] : 0;
  lt_tensor *in[] = {&row_in};
  lt_args one = *c;
  one.op = lt_op_at(LT_OP_clone);
  one.in = in;
  one.n_in = 1;
  one.out[0] = &row_out;
  one.accumulate = true;
  for (int64_t k = 0; k < r->n; k++) {
    row_out.offset = o->offset + lt_load_int(lt_ptr(r), r->dtype, k * r->stride[0]) * o->stride[0];
    row_in.offset = v->offset + k * v->stride[0];
    LT_TRY(one.op->cpu(&one));
  }
  return LT_OK;
}
static void index_add_rule(lt_back *b) {
  lt_give(b, 0, b->grad[0]);
  lt_attr dim = {.i = {0}};
  if (lt_wants(b, 2)) LT_GRAD_ATTR(b, 2, index_select, &dim, b->grad[0], b->in[1]);
}
const lt_op lt_op_index_add = {.name = "index_add", .signature = "index_add(x, rows, values)",
                               .doc = "x with values[k] added to row rows[k] (0-based ids); rows may repeat and are added in order.",
                               .flags = LT_OP_INPLACE, .shape = index_add_shape, .cpu = index_add_cpu, .backward = index_add_rule,
                               .keep = LT_IN(1)};

/* ---- index_select(x, dim, ids): the chosen positions of one dim ---- */
static int index_select_shape(lt_args *c) {
  const lt_tensor *x = c->in[0];
  int64_t shape[LT_MAX_DIMS], dim = c->attr->i[0];
  if (x->ndim == 0) return lt_fail(LT_ERR_SHAPE, "index_select: the tensor is a number; it has no dim to choose from");
  LT_TRY(check_rows(c, 1, x->shape[dim]));
  memcpy(shape, x->shape, sizeof shape);
  shape[dim] = c->in[1]->n;
  return lt_out(c, 0, x->dtype, x->ndim, shape);
}
static int index_select_cpu(lt_args *c) {
  lt_tensor *x, *o = c->out[0], *ids = c->in[1];
  int64_t dim = c->attr->i[0], outer = 1, inner = lt_dtype_size(o->dtype), n = ids->n;
  LT_TRY(lt_contiguous(c->in[0], &x));
  for (int d = 0; d < dim; d++) outer *= x->shape[d];
  for (int d = (int)dim + 1; d < x->ndim; d++) inner *= x->shape[d];
  const char *from = lt_ptr(x);
  char *to = lt_ptr(o);
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(o->n))
  for (int64_t i = 0; i < outer * n; i++) {
    int64_t id = lt_load_int(lt_ptr(ids), ids->dtype, i % n * ids->stride[0]);
    memcpy(to + i * inner, from + (i / n * x->shape[dim] + id) * inner, (size_t)inner);
  }
  lt_tensor_release(x);
  return LT_OK;
}
static void index_select_rule(lt_back *b) {
  if (!lt_wants(b, 0)) return;
  int64_t dim = b->attr->i[0];
  lt_attr a = {.n_list = b->edge[0].ndim, .i = {b->edge[0].dtype}}, swap = {.i = {0, dim}};
  memcpy(a.list, b->edge[0].shape, sizeof b->edge[0].shape);
  a.list[0] = b->edge[0].shape[dim], a.list[dim] = b->edge[0].shape[0];
  lt_tensor *zeros = lt_do(b, LT_OP_zeros, &a, 0, NULL);
  LT_GRAD_ATTR(b, 0, transpose, &swap, LT_DO(b, index_add, zeros, b->in[1], LT_DO_ATTR(b, transpose, &swap, b->grad[0])));
}
const lt_op lt_op_index_select = {.name = "index_select", .signature = "index_select(x, dim: dim, ids)",
                                  .doc = "The positions of one dim that ids (0-based, int32 or int64) name, in their order.",
                                  .shape = index_select_shape, .cpu = index_select_cpu, .backward = index_select_rule, .keep = LT_IN(1)};

/* ---- merge_rows: two sparse gradients, each with unique ascending rows, into one ---- */
static int merge_rows_shape(lt_args *c) {
  const lt_tensor *ra = c->in[0], *va = c->in[1], *rb = c->in[2], *vb = c->in[3];
  int64_t rows = ra->n + rb->n, shape[LT_MAX_DIMS];
  if (ra->dtype != rb->dtype || va->dtype != vb->dtype || va->ndim != vb->ndim || va->ndim < 1 || ra->n != va->shape[0] || rb->n != vb->shape[0] ||
      memcmp(va->shape + 1, vb->shape + 1, (size_t)(va->ndim - 1) * sizeof *shape) != 0)
    return lt_fail(LT_ERR_SHAPE, "merge_rows: rows %s with values %s and rows %s with values %s do not go together", lt_shape_text(ra),
                   lt_shape_text(va), lt_shape_text(rb), lt_shape_text(vb));
  memcpy(shape, va->shape, sizeof shape);
  shape[0] = rows;
  LT_TRY(lt_out(c, 0, ra->dtype, 1, &rows));
  return lt_out(c, 1, va->dtype, va->ndim, shape);
}
static int merge_rows_cpu(lt_args *c) {
  lt_tensor *in[4], *rows = c->out[0], *values = c->out[1];
  int n = 0, status = LT_OK;
  for (; n < 4 && status >= 0; n++) status = lt_contiguous(c->in[n], &in[n]);
  if (status < 0) n--;
  if (status >= 0) {
    int64_t na = in[0]->n, nb = in[2]->n, width = (na + nb ? values->n / (na + nb) : 0) * lt_dtype_size(values->dtype), u = 0;
    const char *va = lt_ptr(in[1]), *vb = lt_ptr(in[3]);
    char *to = lt_ptr(values);
    lt_tensor line = *values, other;
    line.ndim = 1;
    line.n = line.shape[0] = na + nb ? values->n / (na + nb) : 0;
    line.stride[0] = 1;
    for (int64_t i = 0, j = 0; i < na || j < nb; u++) {
      int64_t a = i < na ? lt_load_int(lt_ptr(in[0]), rows->dtype, i) : INT64_MAX;
      int64_t b = j < nb ? lt_load_int(lt_ptr(in[2]), rows->dtype, j) : INT64_MAX;
      lt_store_int(lt_ptr(rows), rows->dtype, u, a < b ? a : b);
      memcpy(to + u * width, a <= b ? va + i * width : vb + j * width, (size_t)width);
      if (a == b) { /* a's sum first, then b's */
        other = line;
        other.storage = in[3]->storage;
        other.offset = in[3]->offset + j * line.n;
        line.offset = values->offset + u * line.n;
        lt_tensor *pair[] = {&line, &other};
        lt_args add = {.op = lt_op_at(LT_OP_add), .id = LT_OP_add, .n_in = 2, .n_out = 1, .in = pair, .attr = c->attr, .backend = c->backend};
        add.out[0] = &line;
        status = add.op->cpu(&add);
      }
      i += a <= b;
      j += b <= a;
    }
    int64_t shape[LT_MAX_DIMS];
    memcpy(shape, values->shape, sizeof shape);
    shape[0] = u;
    lt_out_narrow(c, 0, 1, &u);
    lt_out_narrow(c, 1, values->ndim, shape);
  }
  while (n) lt_tensor_release(in[--n]);
  return status;
}
const lt_op lt_op_merge_rows = {.name = "merge_rows", .signature = "merge_rows(rows_a, values_a, rows_b, values_b)", .n_out = 2,
                                .doc = "Two sparse gradients with unique ascending rows as one: rows [u], sums [u, ...].",
                                .flags = LT_OP_HIDDEN | LT_OP_NO_GRADIENT, .shape = merge_rows_shape, .cpu = merge_rows_cpu};
