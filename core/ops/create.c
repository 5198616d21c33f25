/* Operators that make tensors out of numbers, and zero/fill, which write over one. */
#include "../op.h"
#include <math.h>

static int list_shape(lt_args *c, int dtype) {
  if (dtype < 0 || dtype >= LT_DTYPE_COUNT)
    return lt_fail(LT_ERR_DTYPE, "%s: there is no dtype %d", c->op->name, dtype);
  if (c->attr->n_list > LT_MAX_DIMS)
    return lt_fail(LT_ERR_SHAPE, "%s: %d dims asked for; a tensor has at most %d", c->op->name, c->attr->n_list,
                   LT_MAX_DIMS);
  for (int d = 0; d < c->attr->n_list; d++)
    if (c->attr->list[d] < 0)
      return lt_fail(LT_ERR_SHAPE, "%s: size %lld of dim %d is negative", c->op->name, (long long)c->attr->list[d],
                     d + 1);
  return lt_out(c, 0, dtype, c->attr->n_list, c->attr->list);
}
static int shaped(lt_args *c) { return list_shape(c, (int)c->attr->i[0]); }

/* Writes one value into every element; views are written row by row of their last dim. */
static int fill_with(lt_tensor *o, double value) {
  int64_t size = lt_dtype_size(o->dtype), one[1];
  if (o->n == 0) return LT_OK;
  lt_store_double(one, o->dtype, 0, value);
  if (lt_tensor_is_contiguous(o)) {
    char *p = lt_ptr(o);
    if (value == 0 && !signbit(value)) {
      memset(p, 0, (size_t)(o->n * size));
      return LT_OK;
    }
    memcpy(p, one, (size_t)size);
    for (int64_t done = size, all = o->n * size; done < all;) { /* doubling copies */
      int64_t n = done < all - done ? done : all - done;
      memcpy(p + done, p, (size_t)n);
      done += n;
    }
    return LT_OK;
  }
  int64_t at[LT_MAX_DIMS] = {0};
  for (int64_t i = 0; i < o->n; i++) {
    int64_t offset = 0;
    for (int d = 0; d < o->ndim; d++) offset += at[d] * o->stride[d];
    memcpy((char *)lt_ptr(o) + offset * size, one, (size_t)size);
    for (int d = o->ndim - 1; d >= 0 && ++at[d] == o->shape[d]; d--) at[d] = 0;
  }
  return LT_OK;
}

/* Any bytes are numbers, but a truth value is 0 or 1. */
static int empty_cpu(lt_args *c) { return c->out[0]->dtype == LT_BOOL ? fill_with(c->out[0], 0) : LT_OK; }
const lt_op lt_op_empty = {.name = "empty",
                           .signature = "empty(shape: ints, dtype: dtype = float32)",
                           .doc = "A tensor whose values are not set.",
                           .flags = LT_OP_NO_GRADIENT | LT_OP_NO_METHOD,
                           .shape = shaped,
                           .cpu = empty_cpu};

static int zeros_cpu(lt_args *c) { return fill_with(c->out[0], 0); }
const lt_op lt_op_zeros = {.name = "zeros",
                           .signature = "zeros(shape: ints, dtype: dtype = float32)",
                           .doc = "A tensor of zeros.",
                           .flags = LT_OP_NO_GRADIENT | LT_OP_NO_METHOD,
                           .shape = shaped,
                           .cpu = zeros_cpu};

static int full_cpu(lt_args *c) { return fill_with(c->out[0], c->attr->f[0]); }
const lt_op lt_op_full = {.name = "full",
                          .signature = "full(shape: ints, value: number, dtype: dtype = float32)",
                          .doc = "A tensor whose every element is the value.",
                          .flags = LT_OP_NO_GRADIENT | LT_OP_NO_METHOD,
                          .shape = shaped,
                          .cpu = full_cpu};

static const double MOST_STEPS = (double)((int64_t)1 << 46); /* as tensor.c has it; beyond it a cast could overflow */

static int arange_shape(lt_args *c) {
  double first = c->attr->f[0], last = c->attr->f[1], step = c->attr->f[2];
  if (step == 0 || !isfinite(first) || !isfinite(last) || !isfinite(step))
    return lt_fail(LT_ERR_ARGUMENT, "arange: from %g to %g by %g; the step must not be 0 and all must be finite", first,
                   last, step);
  double n = floor((last - first) / step + 1e-9) + 1;
  if (n > MOST_STEPS)
    return lt_fail(LT_ERR_ARGUMENT, "arange: from %g to %g by %g has %g numbers; no memory holds so many", first, last,
                   step, n);
  int64_t size = n > 0 ? (int64_t)n : 0;
  return lt_out(c, 0, (int)c->attr->i[0], 1, &size);
}
static int arange_cpu(lt_args *c) {
  lt_tensor *o = c->out[0];
  for (int64_t i = 0; i < o->n; i++)
    lt_store_double(lt_ptr(o), o->dtype, i * o->stride[0], c->attr->f[0] + (double)i * c->attr->f[2]);
  return LT_OK;
}
const lt_op lt_op_arange = {.name = "arange",
                            .signature =
                                "arange(first: number, last: number, step: number = 1, dtype: dtype = float32)",
                            .doc = "first, first + step, ... up to and including last, as a Lua for loop counts.",
                            .flags = LT_OP_NO_GRADIENT | LT_OP_NO_METHOD,
                            .shape = arange_shape,
                            .cpu = arange_cpu};

static int linspace_shape(lt_args *c) {
  int64_t n = c->attr->i[0];
  if (n < 0) return lt_fail(LT_ERR_ARGUMENT, "linspace: %lld steps; the count must not be negative", (long long)n);
  return lt_out(c, 0, (int)c->attr->i[1], 1, &n);
}
static int linspace_cpu(lt_args *c) {
  lt_tensor *o = c->out[0];
  double first = c->attr->f[0], last = c->attr->f[1], n = (double)(o->n - 1);
  for (int64_t i = 0; i < o->n; i++) { /* from the nearer end, so that both ends are exact */
    double step = n > 0 ? (last - first) / n : 0;
    lt_store_double(lt_ptr(o), o->dtype, i * o->stride[0],
                    i < o->n / 2 ? first + step * (double)i : last - step * (n - (double)i));
  }
  if (o->n == 1) lt_store_double(lt_ptr(o), o->dtype, 0, first);
  return LT_OK;
}
const lt_op lt_op_linspace = {.name = "linspace",
                              .signature = "linspace(first: number, last: number, steps: int, dtype: dtype = float32)",
                              .doc = "Evenly spaced numbers from first to last, both included.",
                              .flags = LT_OP_NO_GRADIENT | LT_OP_NO_METHOD,
                              .shape = linspace_shape,
                              .cpu = linspace_cpu};

static int eye_shape(lt_args *c) {
  int64_t shape[] = {c->attr->i[0], c->attr->i[1] < 0 ? c->attr->i[0] : c->attr->i[1]};
  if (shape[0] < 0) return lt_fail(LT_ERR_SHAPE, "eye: %lld rows; the count must not be negative", (long long)shape[0]);
  return lt_out(c, 0, (int)c->attr->i[2], 2, shape);
}
static int eye_cpu(lt_args *c) {
  lt_tensor *o = c->out[0];
  LT_TRY(fill_with(o, 0));
  for (int64_t i = 0; i < o->shape[0] && i < o->shape[1]; i++)
    lt_store_double(lt_ptr(o), o->dtype, i * (o->stride[0] + o->stride[1]), 1);
  return LT_OK;
}
const lt_op lt_op_eye = {.name = "eye",
                         .signature = "eye(rows: int, columns: int = -1, dtype: dtype = float32)",
                         .doc = "Ones on the diagonal, zeros elsewhere; square unless columns are given.",
                         .flags = LT_OP_NO_GRADIENT | LT_OP_NO_METHOD,
                         .shape = eye_shape,
                         .cpu = eye_cpu};

static int same(lt_args *c) { return lt_out_like(c, 0, c->in[0]); }
static int fill_cpu(lt_args *c) { return fill_with(c->out[0], c->attr->f[0]); }
static void no_dependence(lt_back *b) { (void)b; }
const lt_op lt_op_zero = {.name = "zero",
                          .signature = "zero(x)",
                          .doc = "Zeros in the shape of x; x:zero_() writes them into x.",
                          .flags = LT_OP_INPLACE | LT_OP_NO_GRADIENT,
                          .shape = same,
                          .cpu = zeros_cpu,
                          .backward = no_dependence};
const lt_op lt_op_fill = {.name = "fill",
                          .signature = "fill(x, value: number)",
                          .doc = "The value in the shape of x; x:fill_(v) writes it into x.",
                          .flags = LT_OP_INPLACE | LT_OP_NO_GRADIENT,
                          .shape = same,
                          .cpu = fill_cpu,
                          .backward = no_dependence};
