/* Sums over dims, and sum_to, which undoes broadcasting. Floats are added in double, whole numbers in int64, always in
 * the same order: rows of the result are independent, and a long sum is cut in fixed chunks whose totals are added in order. */
#include "elementwise.h"
#include "reduce.h"

static void load_row(double *to, const lt_tensor *x, int64_t offset, int64_t stride, int64_t n) {
  lt_load_block(to, LT_FLOAT64, (char *)x->storage->data + offset * lt_dtype_size(x->dtype), x->dtype, stride, n);
}

static double block_sum(const double *v, int64_t n) { /* four chains: the order is fixed, the adder is kept busy */
  double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) s0 += v[i], s1 += v[i + 1], s2 += v[i + 2], s3 += v[i + 3];
  for (; i < n; i++) s0 += v[i];
  return (s0 + s1) + (s2 + s3);
}

static double run_sum(const lt_tensor *x, int64_t offset, int64_t stride, int64_t n) {
  double block[LT_BLOCK], sum = 0;
  for (int64_t at = 0; at < n; at += LT_BLOCK) {
    int64_t m = n - at < LT_BLOCK ? n - at : LT_BLOCK;
    load_row(block, x, offset + at * stride, stride, m);
    sum += block_sum(block, m);
  }
  return sum;
}

static int64_t run_sum_int(const lt_tensor *x, int64_t offset, int64_t stride, int64_t n) {
  int64_t block[LT_BLOCK], sum = 0;
  for (int64_t at = 0; at < n; at += LT_BLOCK) {
    int64_t m = n - at < LT_BLOCK ? n - at : LT_BLOCK;
    lt_load_block(block, LT_INT64, (char *)x->storage->data + (offset + at * stride) * lt_dtype_size(x->dtype), x->dtype, stride, m);
    for (int64_t i = 0; i < m; i++) sum += block[i];
  }
  return sum;
}

static void put(lt_args *c, int64_t i, double value) {
  lt_tensor *o = c->out[0];
  int64_t at = lt_offset_of(o, i);
  if (c->accumulate) value += lt_load_double(lt_ptr(o), o->dtype, at);
  lt_store_double(lt_ptr(o), o->dtype, at, value);
}

/* Columns: the summed dim is the outer one of [rows, columns] and columns lie side by side. Rows are read in order, in
 * fixed chunks whose partial sums are added in order. */
enum { ROWS = 1024, COLUMNS = 256 };
static int sum_columns(lt_args *c, const lt_tensor *x, const lt_reduction *r) {
  int64_t rows = r->shape[r->n_kept], columns = r->shape[0], row_stride = r->stride[r->n_kept];
  int64_t chunks = (rows + ROWS - 1) / ROWS, blocks = (columns + COLUMNS - 1) / COLUMNS;
  double *partial = lt_alloc(chunks * columns * (int64_t)sizeof *partial);
  if (!partial) return LT_ERR_MEMORY;
#pragma omp parallel for collapse(2) schedule(static) num_threads(lt_threads_for(rows * columns))
  for (int64_t k = 0; k < chunks; k++)
    for (int64_t b = 0; b < blocks; b++) {
      double sum[COLUMNS] = {0}, line[COLUMNS];
      int64_t first = b * COLUMNS, m = columns - first < COLUMNS ? columns - first : COLUMNS;
      for (int64_t i = k * ROWS; i < rows && i < (k + 1) * ROWS; i++) {
        load_row(line, x, x->offset + i * row_stride + first, 1, m);
        for (int64_t j = 0; j < m; j++) sum[j] += line[j];
      }
      memcpy(partial + k * columns + first, sum, (size_t)m * sizeof *sum);
    }
  for (int64_t j = 0; j < columns; j++) {
    double sum = 0;
    for (int64_t k = 0; k < chunks; k++) sum += partial[k * columns + j];
    put(c, j, sum);
  }
  lt_free(partial, chunks * columns * (int64_t)sizeof *partial);
  return LT_OK;
}

/* One total of many elements in one run: chunks in parallel, totals in order. */
enum { LONG = 65536 };
static int sum_long(lt_args *c, const lt_tensor *x, const lt_reduction *r, int64_t i) {
  int64_t n = r->shape[r->n_kept], chunks = (n + LONG - 1) / LONG, stride = r->stride[r->n_kept];
  double *partial = lt_alloc(chunks * (int64_t)sizeof *partial), sum = 0;
  if (!partial) return LT_ERR_MEMORY;
  int64_t start = lt_reduction_start(x, r, i);
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(n))
  for (int64_t k = 0; k < chunks; k++)
    partial[k] = run_sum(x, start + k * LONG * stride, stride, n - k * LONG < LONG ? n - k * LONG : LONG);
  for (int64_t k = 0; k < chunks; k++) sum += partial[k];
  put(c, i, sum);
  lt_free(partial, chunks * (int64_t)sizeof *partial);
  return LT_OK;
}

static int sum_reduction(lt_args *c, const lt_tensor *x, const lt_reduction *r) {
  bool whole = !lt_is_float(x->dtype);
  int64_t inner = r->ndim > r->n_kept ? r->shape[r->ndim - 1] : 1, stride = r->ndim > r->n_kept ? r->stride[r->ndim - 1] : 1;
  int64_t middle = r->n_reduced / (inner ? inner : 1);
  if (!whole && r->ndim == 2 && r->n_kept == 1 && r->stride[0] == 1 && r->shape[0] > 1) return sum_columns(c, x, r);
  if (!whole && middle == 1 && inner >= 2 * LONG && r->n_out < lt_threads()) {
    for (int64_t i = 0; i < r->n_out; i++) LT_TRY(sum_long(c, x, r, i));
    return LT_OK;
  }
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(r->n_out * r->n_reduced))
  for (int64_t i = 0; i < r->n_out; i++) {
    int64_t start = lt_reduction_start(x, r, i), total = 0;
    double sum = 0;
    for (int64_t m = 0; m < (r->n_reduced ? middle : 0); m++) {
      int64_t offset = start + lt_reduction_step(r, m);
      if (whole) total += run_sum_int(x, offset, stride, inner);
      else sum += run_sum(x, offset, stride, inner);
    }
    if (!whole) put(c, i, sum);
    else {
      lt_tensor *o = c->out[0];
      int64_t at = lt_offset_of(o, i);
      lt_store_int(lt_ptr(o), o->dtype, at, total + (c->accumulate ? lt_load_int(lt_ptr(o), o->dtype, at) : 0));
    }
  }
  return LT_OK;
}

/* ---- sum ---- */
static int sum_shape(lt_args *c) {
  int dtype = lt_is_float(c->in[0]->dtype) ? c->in[0]->dtype : LT_INT64;
  return lt_reduced_shape(c, dtype);
}
static int sum_cpu(lt_args *c) {
  lt_reduction r;
  LT_TRY(lt_reduction_plan(c, &r));
  return sum_reduction(c, c->in[0], &r);
}
static void sum_rule(lt_back *b) { lt_give(b, 0, lt_reduced_expand(b, b->grad[0])); }
const lt_op lt_op_sum = {.name = "sum", .signature = "sum(x, dims: dims = nil, keepdim: bool = false)",
                         .doc = "Sum over the given dims (all when nil); whole numbers give int64.",
                         .flags = LT_OP_ACCUMULATE, .shape = sum_shape, .cpu = sum_cpu, .backward = sum_rule};

/* ---- sum_to(x, shape): the dims that broadcasting shape would have stretched are summed ---- */
static int sum_to_shape(lt_args *c) { return lt_out(c, 0, c->in[0]->dtype, c->attr->n_list, c->attr->list); }
static int sum_to_cpu(lt_args *c) {
  const lt_tensor *x = c->in[0], *o = c->out[0];
  bool reduce[LT_MAX_DIMS];
  int lead = x->ndim - o->ndim;
  for (int d = 0; d < x->ndim; d++) {
    if (d >= lead && o->shape[d - lead] != 1 && o->shape[d - lead] != x->shape[d])
      return lt_fail(LT_ERR_SHAPE, "sum_to: %s does not come from broadcasting %s", lt_shape_text(x), lt_shape_text(o));
    reduce[d] = d < lead || (o->shape[d - lead] == 1 && x->shape[d] != 1);
  }
  lt_reduction r;
  lt_reduction_of(x, reduce, &r);
  return sum_reduction(c, x, &r);
}
static void sum_to_rule(lt_back *b) {
  lt_attr attr = {.n_list = b->edge[0].ndim};
  memcpy(attr.list, b->edge[0].shape, sizeof b->edge[0].shape);
  LT_GRAD_ATTR(b, 0, expand, &attr, b->grad[0]);
}
const lt_op lt_op_sum_to = {.name = "sum_to", .signature = "sum_to(x, shape: ints)",
                            .doc = "Sums the dims that broadcasting from shape would have stretched.",
                            .flags = LT_OP_ACCUMULATE, .shape = sum_to_shape, .cpu = sum_to_cpu, .backward = sum_to_rule};
