/* Copies and dtype conversion: one walk over strides that loads in one dtype and stores in another. */
#include "elementwise.h"

static void same_f32(int64_t n, void *out, const void *const *in, const lt_attr *attr) {
  (void)attr;
  memcpy(out, in[0], (size_t)n * 4);
}
static void same_64(int64_t n, void *out, const void *const *in, const lt_attr *attr) {
  (void)attr;
  memcpy(out, in[0], (size_t)n * 8);
}

/* Input 0 into the output, whatever their dtypes and strides. Whole numbers never pass through a float. */
static int convert_cpu(lt_args *c) {
  int from = c->in[0]->dtype, to = c->out[0]->dtype;
  if (!lt_is_float(from) && !lt_is_float(to)) return lt_elementwise_run(c, LT_INT64, same_64, false);
  bool narrow = (from == LT_FLOAT32 || from == LT_BFLOAT16 || from == LT_FLOAT16) &&
                (to == LT_FLOAT32 || to == LT_BFLOAT16 || to == LT_FLOAT16);
  if (narrow) return lt_elementwise_run(c, LT_FLOAT32, same_f32, false);
  return lt_elementwise_run(c, LT_FLOAT64, same_64, false);
}

static void convert_rule(lt_back *b) { lt_give(b, 0, b->grad[0]); } /* the engine takes the input's dtype */

static int clone_shape(lt_args *c) {
  return lt_out(c, 0, c->bound ? c->out[0]->dtype : c->in[0]->dtype, c->in[0]->ndim, c->in[0]->shape);
}
static int clone_cpu(lt_args *c) {
  const lt_tensor *x = c->in[0], *o = c->out[0];
  if (x->dtype == o->dtype && !c->accumulate && lt_tensor_is_contiguous(x) && lt_tensor_is_contiguous(o) &&
      x->n < 65536) {
    memcpy(lt_ptr(o), lt_ptr(x), (size_t)(x->n * lt_dtype_size(x->dtype)));
    return LT_OK;
  }
  return convert_cpu(c);
}
const lt_op lt_op_clone = {.name = "clone",
                           .signature = "clone(x)",
                           .doc = "A contiguous copy of x with memory of its own.",
                           .flags = LT_OP_ACCUMULATE,
                           .shape = clone_shape,
                           .cpu = clone_cpu,
                           .backward = convert_rule};

/* x itself (a view) when there is nothing to convert. */
static int to_shape(lt_args *c) {
  int dtype = (int)c->attr->i[0];
  lt_tensor *x = c->in[0];
  if (dtype < 0 || dtype >= LT_DTYPE_COUNT) return lt_fail(LT_ERR_DTYPE, "to: there is no dtype %d", dtype);
  if (x->dtype == dtype && !c->bound) return lt_out_view(c, 0, x, x->ndim, x->shape, x->stride, x->offset);
  return lt_out(c, 0, dtype, x->ndim, x->shape);
}
const lt_op lt_op_to = {
    .name = "to",
    .signature = "to(x, dtype: dtype)",
    .doc = "x in another dtype; a view of x when it has that dtype already. Floats become whole numbers by "
           "dropping the fraction.",
    .flags = LT_OP_VIEW,
    .shape = to_shape,
    .cpu = convert_cpu,
    .backward = convert_rule};

/* copy(x, source): the source broadcast to x's shape and converted to its dtype; x:copy_(source) writes it into x. */
static int copy_shape(lt_args *c) {
  const lt_tensor *x = c->in[0];
  int64_t shape[LT_MAX_DIMS];
  int ndim;
  LT_TRY(lt_broadcast(c, 0, 1, &ndim, shape));
  if (ndim != x->ndim || memcmp(shape, x->shape, (size_t)ndim * sizeof *shape) != 0)
    return lt_fail(LT_ERR_SHAPE, "copy: the source is %s and does not broadcast to %s", lt_shape_text(c->in[1]),
                   lt_shape_text(x));
  return lt_out(c, 0, x->dtype, ndim, shape);
}
static int copy_cpu(lt_args *c) {
  lt_tensor *in[] = {c->in[1]};
  lt_args one = *c;
  one.in = in;
  one.n_in = 1;
  return convert_cpu(&one);
}
static void copy_rule(lt_back *b) { lt_give(b, 1, b->grad[0]); }
const lt_op lt_op_copy = {
    .name = "copy",
    .signature = "copy(x, source: operand)",
    .doc = "The source in the shape and dtype of x; x:copy_(source) writes it into x. Safe when both share memory.",
    .flags = LT_OP_INPLACE,
    .shape = copy_shape,
    .cpu = copy_cpu,
    .backward = copy_rule};
