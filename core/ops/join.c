/* cat and stack. Contiguous inputs of the result's dtype are moved in blocks, a thread taking some rows of the result;
 * others go through the copying kernel, each into its window of the result. */
#include "stage.h"

/* The result for cat along dim, or, `stacks`, with a new dim at dim. */
static int join_shape(lt_args *c, int64_t dim, bool stacks) {
  const lt_tensor *first = c->in[0];
  int64_t shape[LT_MAX_DIMS], total = 0;
  int dtype = first->dtype, ndim = first->ndim;
  if (stacks && ndim == LT_MAX_DIMS)
    return lt_fail(LT_ERR_SHAPE, "stack: the tensors are %s, and one dim more is over the limit of %d",
                   lt_shape_text(first), LT_MAX_DIMS);
  if (stacks && (dim < 0 || dim > ndim))
    return lt_fail(LT_ERR_RANGE, "stack: dim %lld; the result has dims 1 to %d", (long long)dim + 1, ndim + 1);
  if (!stacks && ndim == 0)
    return lt_fail(LT_ERR_SHAPE, "cat: tensor 1 is a number and has no dim to join along; stack() makes one");
  if (!stacks) LT_TRY(lt_check_dim(c, first, dim));
  for (int k = 0; k < c->n_in; k++) {
    const lt_tensor *t = c->in[k];
    bool fits = t->ndim == ndim;
    for (int d = 0; d < ndim && fits; d++) fits = (!stacks && d == dim) || t->shape[d] == first->shape[d];
    if (!fits && stacks)
      return lt_fail(LT_ERR_SHAPE, "stack: tensor %d is %s and tensor 1 is %s; all must have one shape", k + 1,
                     lt_shape_text(t), lt_shape_text(first));
    if (!fits)
      return lt_fail(LT_ERR_SHAPE, "cat: tensor %d is %s and tensor 1 is %s; all sizes but that of dim %lld must agree",
                     k + 1, lt_shape_text(t), lt_shape_text(first), (long long)dim + 1);
    dtype = lt_promote(dtype, t->dtype);
    total += stacks ? 1 : t->shape[dim];
  }
  for (int d = 0, from = 0; d < ndim + stacks; d++)
    if (d == dim) {
      shape[d] = total;
      from += !stacks;
    } else
      shape[d] = first->shape[from++];
  return lt_out(c, 0, dtype, ndim + stacks, shape);
}

static int64_t length_of(const lt_tensor *t, int64_t dim, bool stacks) { return stacks ? 1 : t->shape[dim]; }

/* Small rows: [outer, all lengths x inner], input by input within a row. */
static void move_rows(lt_args *c, const lt_split *s, int64_t dim, bool stacks) {
  int64_t width = s->inner * lt_dtype_size(c->out[0]->dtype), row = s->length * width;
  char *to = lt_ptr(c->out[0]);
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(c->out[0]->n))
  for (int64_t o = 0; o < s->outer; o++) {
    char *at = to + o * row;
    for (int k = 0; k < c->n_in; k++) {
      int64_t bytes = length_of(c->in[k], dim, stacks) * width;
      memcpy(at, (const char *)lt_ptr(c->in[k]) + o * bytes, (size_t)bytes);
      at += bytes;
    }
  }
}

static int copy_windows(lt_args *c, int64_t dim, bool stacks) {
  int64_t at = 0;
  for (int k = 0; k < c->n_in; k++) {
    lt_tensor *x = c->in[k], window = *c->out[0];
    lt_args copy = *c;
    int64_t length = length_of(x, dim, stacks);
    window.offset += at * window.stride[dim];
    at += length;
    if (x->n == 0) continue;
    if (stacks) { /* the window is one position of the new dim, without it */
      window.ndim--;
      memmove(window.shape + dim, window.shape + dim + 1, (size_t)(window.ndim - dim) * sizeof *window.shape);
      memmove(window.stride + dim, window.stride + dim + 1, (size_t)(window.ndim - dim) * sizeof *window.stride);
    } else
      window.shape[dim] = length;
    window.n = x->n;
    copy.in = &x;
    copy.n_in = 1;
    copy.out[0] = &window;
    LT_TRY(lt_op_at(LT_OP_clone)->cpu(&copy));
  }
  return LT_OK;
}

static int join(lt_args *c, int64_t dim, bool stacks) {
  const lt_tensor *o = c->out[0];
  lt_split s = lt_split_at(o, dim);
  bool plain = lt_tensor_is_contiguous(o) && !c->accumulate && s.outer > 1 && o->n > 0;
  for (int k = 0; k < c->n_in && plain; k++) plain = c->in[k]->dtype == o->dtype && lt_tensor_is_contiguous(c->in[k]);
  if (!plain) return copy_windows(c, dim, stacks);
  move_rows(c, &s, dim, stacks);
  return LT_OK;
}

/* Each input's gradient is its part of the result's. */
static void cat_rule(lt_back *b) {
  int64_t dim = b->attr->i[0], at = 0;
  for (int k = 0; k < b->n_in; k++) {
    int64_t length = b->edge[k].shape[dim];
    lt_attr part = {.i = {dim, at + 1, at + length, 1}}; /* slice counts from 1 */
    if (lt_wants(b, k)) LT_GRAD_ATTR(b, k, slice, &part, b->grad[0]);
    at += length;
  }
}
static void stack_rule(lt_back *b) {
  for (int k = 0; k < b->n_in; k++) {
    lt_attr part = {.i = {b->attr->i[0], k + 1}};
    if (lt_wants(b, k)) LT_GRAD_ATTR(b, k, select, &part, b->grad[0]);
  }
}

static int cat_shape(lt_args *c) { return join_shape(c, c->attr->i[0], false); }
static int cat_cpu(lt_args *c) { return join(c, c->attr->i[0], false); }
const lt_op lt_op_cat = {
    .name = "cat",
    .signature = "cat(tensors: tensors, dim: dim = 1)",
    .doc = "The tensors one after the other along a dim; their other sizes must agree. Dtypes are promoted.",
    .flags = LT_OP_ACCUMULATE,
    .shape = cat_shape,
    .cpu = cat_cpu,
    .backward = cat_rule};

static int stack_shape(lt_args *c) { return join_shape(c, c->attr->i[0], true); }
static int stack_cpu(lt_args *c) { return join(c, c->attr->i[0], true); }
const lt_op lt_op_stack = {.name = "stack",
                           .signature = "stack(tensors: tensors, dim: newdim = 1)",
                           .doc = "Tensors of one shape as the positions of a new dim.",
                           .flags = LT_OP_ACCUMULATE,
                           .shape = stack_shape,
                           .cpu = stack_cpu,
                           .backward = stack_rule};
