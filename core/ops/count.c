/* Operators whose result counts or is counted: nonzero, masked_select and its way back, one_hot, bincount. Results
 * whose size depends on values are made by the kernel; shape() leaves a placeholder. */
#include "stage.h"

static bool is_set(const void *data, int dtype, int64_t i) {
  switch (dtype) {
  case LT_BOOL:
  case LT_UINT8: return ((const uint8_t *)data)[i] != 0;
  case LT_INT32: return ((const int32_t *)data)[i] != 0;
  case LT_INT64: return ((const int64_t *)data)[i] != 0;
  case LT_FLOAT32: return ((const float *)data)[i] != 0;
  default: return lt_load_double(data, dtype, i) != 0;
  }
}

/* The set elements of a contiguous mask: counts by chunk, then each chunk knows where its part begins. */
enum { CHUNK = 16384 };
static int64_t *chunk_starts(const lt_tensor *mask, int64_t *chunks, int64_t *total) {
  *chunks = (mask->n + CHUNK - 1) / CHUNK;
  int64_t *start = lt_alloc((*chunks + 1) * (int64_t)sizeof *start);
  if (!start) return NULL;
  const void *data = lt_ptr(mask);
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(mask->n))
  for (int64_t k = 0; k < *chunks; k++) {
    int64_t n = 0;
    for (int64_t i = k * CHUNK; i < mask->n && i < (k + 1) * CHUNK; i++) n += is_set(data, mask->dtype, i);
    start[k] = n;
  }
  *total = 0;
  for (int64_t k = 0; k < *chunks; k++) {
    int64_t n = start[k];
    start[k] = *total;
    *total += n;
  }
  return start;
}
static void starts_free(int64_t *start, int64_t chunks) { lt_free(start, (chunks + 1) * (int64_t)sizeof *start); }

/* ---- nonzero ---- */
static int nonzero_shape(lt_args *c) {
  int64_t shape[] = {0, c->in[0]->ndim};
  return lt_out(c, 0, LT_INT64, 2, shape);
}
static int nonzero_cpu(lt_args *c) {
  lt_tensor *x;
  int64_t chunks, total;
  LT_TRY(lt_contiguous(c->in[0], &x));
  int64_t *start = chunk_starts(x, &chunks, &total);
  int status = start ? lt_out_sized(c, 0, 2, (int64_t[]){total, x->ndim}) : LT_ERR_MEMORY;
  if (status >= 0) {
    int64_t *out = lt_ptr(c->out[0]);
    const void *data = lt_ptr(x);
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(x->n))
    for (int64_t k = 0; k < chunks; k++) {
      int64_t *to = out + start[k] * x->ndim, at[LT_MAX_DIMS], rest = k * CHUNK;
      for (int d = x->ndim - 1; d >= 0; d--) {
        at[d] = rest % x->shape[d];
        rest /= x->shape[d];
      }
      for (int64_t i = k * CHUNK; i < x->n && i < (k + 1) * CHUNK; i++) {
        if (is_set(data, x->dtype, i)) {
          for (int d = 0; d < x->ndim; d++) to[d] = at[d];
          to += x->ndim;
        }
        for (int d = x->ndim - 1; d >= 0 && ++at[d] == x->shape[d]; d--) at[d] = 0;
      }
    }
  }
  if (start) starts_free(start, chunks);
  lt_tensor_release(x);
  return status;
}
const lt_op lt_op_nonzero = {
    .name = "nonzero",
    .signature = "nonzero(x)",
    .doc = "Where x is not zero, in row-major order: int64 [found, dims], each row the 0-based ids of one element "
           "in every dim.",
    .flags = LT_OP_NO_GRADIENT,
    .shape = nonzero_shape,
    .cpu = nonzero_cpu};

/* ---- masked_select(x, mask), and back: list = shape of x ---- */
static int masked_select_shape(lt_args *c) {
  int64_t none = 0;
  LT_TRY(lt_need_dtype(c, 1, LT_BOOL));
  if (!lt_same_shape(c->in[0], c->in[1]))
    return lt_fail(LT_ERR_SHAPE,
                   "masked_select: the tensor is %s and the mask %s; they must agree (mask:expand(...) repeats it)",
                   lt_shape_text(c->in[0]), lt_shape_text(c->in[1]));
  return lt_out(c, 0, c->in[0]->dtype, 1, &none);
}
/* Moves between all elements of `full` and the packed elements where the mask is set. */
static void move_chunk(const uint8_t *set, int64_t n, void *full, void *packed, int64_t size, bool pack) {
  int64_t at = 0;
  LT_BY_SIZE(
      size, T *all = full; T *some = packed; for (int64_t i = 0; i < n; i++) {
        if (!set[i]) continue;
        if (pack)
          some[at++] = all[i];
        else
          all[i] = some[at++];
      })
}
static void move_masked(const lt_tensor *mask, int64_t chunks, const int64_t *start, char *full, char *packed,
                        int64_t size, bool pack) {
  const uint8_t *set = lt_ptr(mask);
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(mask->n))
  for (int64_t k = 0; k < chunks; k++) {
    int64_t first = k * CHUNK, n = mask->n - first < CHUNK ? mask->n - first : CHUNK;
    move_chunk(set + first, n, full + first * size, packed + start[k] * size, size, pack);
  }
}
static int masked_select_cpu(lt_args *c) {
  lt_tensor *x, *mask;
  int64_t chunks, total;
  LT_TRY(lt_contiguous(c->in[0], &x));
  int status = lt_contiguous(c->in[1], &mask);
  if (status >= 0) {
    int64_t *start = chunk_starts(mask, &chunks, &total);
    status = start ? lt_out_sized(c, 0, 1, &total) : LT_ERR_MEMORY;
    if (status >= 0) move_masked(mask, chunks, start, lt_ptr(x), lt_ptr(c->out[0]), lt_dtype_size(x->dtype), true);
    if (start) starts_free(start, chunks);
    lt_tensor_release(mask);
  }
  lt_tensor_release(x);
  return status;
}
static void masked_select_rule(lt_back *b) { LT_GRAD(b, 0, masked_select_backward, b->grad[0], b->in[1]); }
const lt_op lt_op_masked_select = {
    .name = "masked_select",
    .signature = "masked_select(x, mask)",
    .doc = "The elements of x where the mask (bool, same shape) is true, in row-major order.",
    .shape = masked_select_shape,
    .cpu = masked_select_cpu,
    .backward = masked_select_rule,
    .keep = LT_IN(1)};

static int masked_select_backward_shape(lt_args *c) {
  return lt_out(c, 0, c->in[0]->dtype, c->in[1]->ndim, c->in[1]->shape);
}
static int masked_select_backward_cpu(lt_args *c) {
  lt_tensor *grad, *mask, *out;
  int64_t chunks, total;
  LT_TRY(lt_contiguous(c->in[0], &grad));
  int status = lt_contiguous(c->in[1], &mask);
  if (status >= 0) {
    int64_t *start = chunk_starts(mask, &chunks, &total);
    status = start ? lt_stage(c, 0, &out) : LT_ERR_MEMORY;
    if (status >= 0) {
      memset(lt_ptr(out), 0, (size_t)(out->n * lt_dtype_size(out->dtype)));
      move_masked(mask, chunks, start, lt_ptr(out), lt_ptr(grad), lt_dtype_size(out->dtype), false);
      status = lt_unstage(c, 0, out, status);
    }
    if (start) starts_free(start, chunks);
    lt_tensor_release(mask);
  }
  lt_tensor_release(grad);
  return status;
}
static void masked_select_backward_rule(lt_back *b) { LT_GRAD(b, 0, masked_select, b->grad[0], b->in[1]); }
const lt_op lt_op_masked_select_backward = {.name = "masked_select_backward",
                                            .signature = "masked_select_backward(grad, mask)",
                                            .doc =
                                                "Zeros in the mask's shape with the elements of grad where it is true.",
                                            .flags = LT_OP_HIDDEN,
                                            .shape = masked_select_backward_shape,
                                            .cpu = masked_select_backward_cpu,
                                            .backward = masked_select_backward_rule,
                                            .keep = LT_IN(1)};

/* ---- one_hot ---- */
static int one_hot_shape(lt_args *c) {
  const lt_tensor *ids = c->in[0];
  int64_t shape[LT_MAX_DIMS], classes = c->attr->i[0];
  LT_TRY(lt_need_ids(c, 0));
  if (ids->ndim == LT_MAX_DIMS)
    return lt_fail(LT_ERR_SHAPE, "one_hot: ids are %s, and one dim more is over the limit of %d", lt_shape_text(ids),
                   LT_MAX_DIMS);
  if (classes < 0)
    return lt_fail(LT_ERR_ARGUMENT, "one_hot: %lld classes; the count must not be negative", (long long)classes);
  memcpy(shape, ids->shape, sizeof shape);
  shape[ids->ndim] = classes;
  return lt_out(c, 0, LT_INT64, ids->ndim + 1, shape);
}
static int one_hot_cpu(lt_args *c) {
  lt_tensor *ids, *out;
  int64_t classes = c->attr->i[0];
  LT_TRY(lt_contiguous(c->in[0], &ids));
  int status = lt_check_ids(c, ids, classes, "%lld classes", (long long)classes);
  if (status >= 0) status = lt_stage(c, 0, &out);
  if (status >= 0) {
    int64_t *to = lt_ptr(out);
    memset(to, 0, (size_t)out->n * sizeof *to);
    for (int64_t i = 0; i < ids->n; i++) to[i * classes + lt_id_at(lt_ptr(ids), ids->dtype, i)] = 1;
    status = lt_unstage(c, 0, out, status);
  }
  lt_tensor_release(ids);
  return status;
}
const lt_op lt_op_one_hot = {.name = "one_hot",
                             .signature = "one_hot(ids, classes: int)",
                             .doc = "int64 with a last dim of that many classes: 1 at the id (0-based), 0 elsewhere.",
                             .flags = LT_OP_NO_GRADIENT,
                             .shape = one_hot_shape,
                             .cpu = one_hot_cpu};

/* ---- bincount ---- */
static int bincount_shape(lt_args *c) {
  const lt_tensor *ids = c->in[0], *weights = c->in[1];
  int64_t none = 0;
  LT_TRY(lt_need_ids(c, 0));
  if (ids->ndim != 1)
    return lt_fail(LT_ERR_SHAPE, "bincount: ids are %s; they must be one dim: x:flatten()", lt_shape_text(ids));
  if (weights) {
    LT_TRY(lt_need_float(c, 1));
    if (!lt_same_shape(ids, weights))
      return lt_fail(LT_ERR_SHAPE, "bincount: ids are %s and weights %s; they must agree", lt_shape_text(ids),
                     lt_shape_text(weights));
  }
  if (c->attr->i[0] < 0)
    return lt_fail(LT_ERR_ARGUMENT, "bincount: at least %lld bins; the number must not be negative",
                   (long long)c->attr->i[0]);
  return lt_out(c, 0, weights ? LT_FLOAT64 : LT_INT64, 1, &none);
}
static int bincount_cpu(lt_args *c) {
  lt_tensor *ids, *weights = c->in[1];
  int64_t bins = c->attr->i[0], limit = (int64_t)1 << 40; /* a wild id must not become a wild allocation */
  LT_TRY(lt_contiguous(c->in[0], &ids));
  int status = lt_check_ids(c, ids, limit, "bins");
  const void *data = lt_ptr(ids);
  for (int64_t i = 0; i < ids->n && status >= 0; i++) {
    int64_t id = lt_id_at(data, ids->dtype, i);
    if (id >= bins) bins = id + 1;
  }
  if (status >= 0) status = lt_out_sized(c, 0, 1, &bins);
  if (status >= 0) {
    void *out = lt_ptr(c->out[0]);
    memset(out, 0, (size_t)bins * 8);
    for (int64_t i = 0; i < ids->n; i++) {
      int64_t id = lt_id_at(data, ids->dtype, i);
      if (weights)
        ((double *)out)[id] += lt_load_double(lt_ptr(weights), weights->dtype, i * weights->stride[0]);
      else
        ((int64_t *)out)[id]++;
    }
  }
  lt_tensor_release(ids);
  return status;
}
const lt_op lt_op_bincount = {
    .name = "bincount",
    .signature = "bincount(ids, weights: tensor?, bins: int = 0)",
    .doc = "How often each id 0, 1, ... occurs (int64), or the sum of its weights (float64); at least so many bins.",
    .flags = LT_OP_NO_GRADIENT,
    .shape = bincount_shape,
    .cpu = bincount_cpu};
