/* Operators on selected rows (positions of the first dim): the pieces of sparse gradients. Row ids are 0-based. */
#include "stage.h"

#include <omp.h>

static int check_rows_shape(const lt_args *c, int i) {
  const lt_tensor *r = c->in[i];
  if (r->ndim != 1)
    return lt_fail(LT_ERR_SHAPE, "%s: the row ids are %s; they must be one dim", c->op->name, lt_shape_text(r));
  return lt_need_ids(c, i);
}

static int check_values(const lt_args *c, int rows, int values) {
  const lt_tensor *x = c->in[0], *r = c->in[rows], *v = c->in[values];
  if (x->ndim < 1 || v->ndim != x->ndim || v->shape[0] != r->n ||
      memcmp(v->shape + 1, x->shape + 1, (size_t)(x->ndim - 1) * sizeof *x->shape) != 0)
    return lt_fail(LT_ERR_SHAPE, "%s: %lld row ids and values of shape %s do not fit a tensor of shape %s", c->op->name,
                   (long long)r->n, lt_shape_text(v), lt_shape_text(x));
  if (v->dtype != x->dtype)
    return lt_fail(LT_ERR_DTYPE, "%s: the values are %s and the tensor %s; they must agree", c->op->name,
                   lt_dtype_name(v->dtype), lt_dtype_name(x->dtype));
  return LT_OK;
}

/* ---- index_add(x, rows, values): x with values[k] added to row rows[k], in the order of k ---- */
static int index_add_shape(lt_args *c) {
  LT_TRY(check_rows_shape(c, 1));
  LT_TRY(check_values(c, 1, 2));
  return lt_out_like(c, 0, c->in[0]);
}

/* Rows of `width` elements. Threads share the columns of wide rows, the rows of narrow ones; either way each element is
 * added to in the order of k. */
typedef struct row_sum {
  void *to;
  const void *from, *ids;
  int id_dtype;
  int64_t n, width;
} row_sum;
enum { AHEAD = 8 }; /* rows fetched before their turn: they lie anywhere */
#define ADD_ROWS(T)                                                                                                    \
  static void add_rows_##T(const row_sum *s, int64_t first, int64_t last, int64_t owner, int64_t owners) {             \
    for (int64_t k = 0; k < s->n; k++) {                                                                               \
      int64_t id = lt_id_at(s->ids, s->id_dtype, k);                                                                   \
      if (owners > 1 && id % owners != owner) continue;                                                                \
      if (k + AHEAD < s->n) __builtin_prefetch((T *)s->to + lt_id_at(s->ids, s->id_dtype, k + AHEAD) * s->width, 1);   \
      T *to = (T *)s->to + id * s->width;                                                                              \
      const T *from = (const T *)s->from + k * s->width;                                                               \
      for (int64_t j = first; j < last; j++) to[j] += from[j];                                                         \
    }                                                                                                                  \
  }
ADD_ROWS(float)
ADD_ROWS(double)
ADD_ROWS(uint64_t) /* whole numbers wrap round */
ADD_ROWS(uint32_t)
ADD_ROWS(uint8_t)

typedef void (*row_adder)(const row_sum *, int64_t, int64_t, int64_t, int64_t);
static row_adder adder_of(int dtype) {
  switch (dtype) {
  case LT_FLOAT32: return add_rows_float;
  case LT_FLOAT64: return add_rows_double;
  case LT_INT64: return add_rows_uint64_t;
  case LT_INT32: return add_rows_uint32_t;
  case LT_UINT8: return add_rows_uint8_t;
  default: return NULL;
  }
}

static void add_contiguous(const row_sum *s, row_adder add) {
  int threads = lt_threads_for(s->n * s->width);
  bool wide = s->width >= 32 * threads;
#pragma omp parallel num_threads(threads)
  {
    int64_t t = omp_get_thread_num(), all = omp_get_num_threads(), part = (s->width + all - 1) / all;
    int64_t last = (t + 1) * part < s->width ? (t + 1) * part : s->width;
    if (wide)
      add(s, t * part, last, 0, 1);
    else
      add(s, 0, s->width, t, all);
  }
}

/* Any strides and dtypes: row by row through the copying kernel. */
static int add_any(lt_args *c, const lt_tensor *ids, lt_tensor *values) {
  lt_tensor *o = c->out[0], row_out = *o, row_in = *values, *in[] = {&row_in};
  lt_args one = *c;
  row_out.ndim = row_in.ndim = (uint8_t)(o->ndim - 1);
  memmove(row_out.shape, o->shape + 1, (size_t)row_out.ndim * sizeof *o->shape);
  memmove(row_out.stride, o->stride + 1, (size_t)row_out.ndim * sizeof *o->shape);
  memmove(row_in.shape, values->shape + 1, (size_t)row_out.ndim * sizeof *o->shape);
  memmove(row_in.stride, values->stride + 1, (size_t)row_out.ndim * sizeof *o->shape);
  row_out.n = row_in.n = values->shape[0] ? values->n / values->shape[0] : 0;
  one.op = lt_op_at(LT_OP_clone);
  one.in = in;
  one.n_in = 1;
  one.out[0] = &row_out;
  one.accumulate = true;
  for (int64_t k = 0; k < ids->n; k++) {
    row_out.offset = o->offset + lt_id_at(lt_ptr(ids), ids->dtype, k) * o->stride[0];
    row_in.offset = values->offset + k * values->stride[0];
    LT_TRY(one.op->cpu(&one));
  }
  return LT_OK;
}

static int index_add_cpu(lt_args *c) {
  lt_tensor *x = c->in[0], *o = c->out[0], *ids, *values;
  bool in_place = o->storage == x->storage && o->offset == x->offset;
  LT_TRY(lt_contiguous(c->in[1], &ids));
  int status = lt_check_ids(c, ids, x->shape[0], "rows of %s", lt_shape_text(x));
  if (status >= 0) status = lt_contiguous(c->in[2], &values);
  if (status >= 0) {
    if (!in_place) status = lt_run_into(LT_OP_clone, &x, 1, NULL, o, c->accumulate);
    row_adder add = adder_of(o->dtype);
    if (status >= 0 && add && lt_tensor_is_contiguous(o)) {
      row_sum s = {lt_ptr(o), lt_ptr(values), lt_ptr(ids), ids->dtype, ids->n, ids->n ? values->n / ids->n : 0};
      add_contiguous(&s, add);
    } else if (status >= 0)
      status = add_any(c, ids, values);
    lt_tensor_release(values);
  }
  lt_tensor_release(ids);
  return status;
}
static void index_add_rule(lt_back *b) {
  lt_give(b, 0, b->grad[0]);
  lt_attr dim = {.i = {0}};
  if (lt_wants(b, 2)) LT_GRAD_ATTR(b, 2, index_select, &dim, b->grad[0], b->in[1]);
}
const lt_op lt_op_index_add = {
    .name = "index_add",
    .signature = "index_add(x, rows, values)",
    .doc = "x with values[k] added to row rows[k] (0-based ids); rows may repeat and are added in order.",
    .flags = LT_OP_INPLACE,
    .shape = index_add_shape,
    .cpu = index_add_cpu,
    .backward = index_add_rule,
    .keep = LT_IN(1)};

/* ---- index_select(x, dim, ids): the chosen positions of one dim ---- */
static int index_select_shape(lt_args *c) {
  const lt_tensor *x = c->in[0];
  int64_t shape[LT_MAX_DIMS], dim = c->attr->i[0];
  LT_TRY(lt_check_dim(c, x, dim));
  LT_TRY(check_rows_shape(c, 1));
  memcpy(shape, x->shape, sizeof shape);
  shape[dim] = c->in[1]->n;
  return lt_out(c, 0, x->dtype, x->ndim, shape);
}

/* Are the dims behind dim side by side? Then a chosen position is one run of bytes, wherever it lies. */
static bool runs(const lt_tensor *x, int64_t dim) {
  int64_t step = 1;
  for (int d = x->ndim - 1; d > dim; d--) {
    if (x->shape[d] != 1 && x->stride[d] != step) return false;
    step *= x->shape[d];
  }
  return true;
}
static void select_runs(const lt_tensor *x, int64_t dim, const lt_tensor *ids, lt_tensor *out) {
  lt_split s = lt_split_at(x, dim);
  int64_t size = lt_dtype_size(x->dtype), bytes = s.inner * size, step = x->stride[dim] * size, n = ids->n;
  char *to = lt_ptr(out);
#pragma omp parallel for collapse(2) schedule(static) num_threads(lt_threads_for(out->n))
  for (int64_t o = 0; o < s.outer; o++)
    for (int64_t k = 0; k < n; k++) {
      int64_t at = 0, rest = o;
      for (int64_t d = dim - 1; d >= 0; d--) {
        at += rest % x->shape[d] * x->stride[d];
        rest /= x->shape[d];
      }
      const char *from = (const char *)lt_ptr(x) + at * size + lt_id_at(lt_ptr(ids), ids->dtype, k) * step;
      memcpy(to + (o * n + k) * bytes, from, (size_t)bytes);
    }
}
/* The chosen elements of the last dim, in blocks. */
static void select_elements(const lt_tensor *x, int64_t dim, const lt_tensor *ids, lt_tensor *out) {
  enum { BLOCK = 4096 };
  lt_split s = lt_split_at(x, dim);
  int64_t n = ids->n, size = lt_dtype_size(x->dtype);
  const void *at = lt_ptr(ids);
  const char *from = lt_ptr(x);
  char *to = lt_ptr(out);
#pragma omp parallel for collapse(2) schedule(static) num_threads(lt_threads_for(out->n))
  for (int64_t o = 0; o < s.outer; o++)
    for (int64_t first = 0; first < n; first += BLOCK) {
      int64_t last = first + BLOCK < n ? first + BLOCK : n;
      LT_BY_SIZE(size, const T *line = (const T *)from + o * s.length; T *chosen = (T *)to + o * n;
                 for (int64_t k = first; k < last; k++) chosen[k] = line[lt_id_at(at, ids->dtype, k)];)
    }
}
static int index_select_cpu(lt_args *c) {
  lt_tensor *x, *ids, *out;
  int64_t dim = c->attr->i[0];
  LT_TRY(lt_contiguous(c->in[1], &ids));
  int status =
      lt_check_ids(c, ids, c->in[0]->shape[dim], "dim %lld of %s", (long long)dim + 1, lt_shape_text(c->in[0]));
  bool direct = runs(c->in[0], dim);
  if (status >= 0) {
    if (direct)
      x = lt_tensor_retain(c->in[0]);
    else
      status = lt_contiguous(c->in[0], &x);
  }
  if (status >= 0) {
    status = lt_stage(c, 0, &out);
    if (status >= 0 && out->n > 0) {
      if (dim == x->ndim - 1 && lt_tensor_is_contiguous(x))
        select_elements(x, dim, ids, out);
      else
        select_runs(x, dim, ids, out);
    }
    if (status >= 0) status = lt_unstage(c, 0, out, status);
    lt_tensor_release(x);
  }
  lt_tensor_release(ids);
  return status;
}
static void index_select_rule(lt_back *b) {
  if (!lt_wants(b, 0)) return;
  int64_t dim = b->attr->i[0];
  lt_attr a = {.n_list = b->edge[0].ndim, .i = {b->edge[0].dtype}}, swap = {.i = {0, dim}};
  memcpy(a.list, b->edge[0].shape, sizeof b->edge[0].shape);
  a.list[0] = b->edge[0].shape[dim], a.list[dim] = b->edge[0].shape[0];
  lt_tensor *zeros = lt_do(b, LT_OP_zeros, &a, 0, NULL);
  LT_GRAD_ATTR(b, 0, transpose, &swap,
               LT_DO(b, index_add, zeros, b->in[1], LT_DO_ATTR(b, transpose, &swap, b->grad[0])));
}
const lt_op lt_op_index_select = {
    .name = "index_select",
    .signature = "index_select(x, dim: dim, ids)",
    .doc = "The positions of one dim that ids (0-based, int32 or int64) name, in their order.",
    .shape = index_select_shape,
    .cpu = index_select_cpu,
    .backward = index_select_rule,
    .keep = LT_IN(1)};

/* ---- merge_rows: two sparse gradients, each with unique ascending rows, into one ---- */
static int merge_rows_shape(lt_args *c) {
  const lt_tensor *ra = c->in[0], *va = c->in[1], *rb = c->in[2], *vb = c->in[3];
  int64_t rows = ra->n + rb->n, shape[LT_MAX_DIMS];
  if (ra->dtype != rb->dtype || va->dtype != vb->dtype || va->ndim != vb->ndim || va->ndim < 1 ||
      ra->n != va->shape[0] || rb->n != vb->shape[0] ||
      memcmp(va->shape + 1, vb->shape + 1, (size_t)(va->ndim - 1) * sizeof *shape) != 0)
    return lt_fail(LT_ERR_SHAPE, "merge_rows: rows %s with values %s and rows %s with values %s do not go together",
                   lt_shape_text(ra), lt_shape_text(va), lt_shape_text(rb), lt_shape_text(vb));
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
    int64_t na = in[0]->n, nb = in[2]->n, width = (na + nb ? values->n / (na + nb) : 0) * lt_dtype_size(values->dtype),
            u = 0;
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
        lt_args add = {.op = lt_op_at(LT_OP_add),
                       .id = LT_OP_add,
                       .n_in = 2,
                       .n_out = 1,
                       .in = pair,
                       .attr = c->attr,
                       .backend = c->backend};
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
const lt_op lt_op_merge_rows = {.name = "merge_rows",
                                .signature = "merge_rows(rows_a, values_a, rows_b, values_b)",
                                .n_out = 2,
                                .doc =
                                    "Two sparse gradients with unique ascending rows as one: rows [u], sums [u, ...].",
                                .flags = LT_OP_HIDDEN | LT_OP_NO_GRADIENT,
                                .shape = merge_rows_shape,
                                .cpu = merge_rows_cpu};
