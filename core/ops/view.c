/* Shape operators that share memory: reshape (a copy where strides forbid a view), expand, permute, slice, select,
 * squeeze, unsqueeze, diagonal. Their gradients are shape operators again. Dims reach C 0-based; the Lua side has
 * turned the user's 1-based and negative ones and checked their range. */
#include "../op.h"

static lt_attr listed(const lt_edge *e) {
  lt_attr a = {.n_list = e->ndim};
  memcpy(a.list, e->shape, sizeof e->shape);
  return a;
}

/* ---- reshape ---- */

/* Strides that show x in the new shape without a copy, by matching groups of dims with equal products. */
static bool view_strides(const lt_tensor *x, int ndim, const int64_t *shape, int64_t *stride) {
  if (x->n == 0 || lt_tensor_is_contiguous(x)) {
    lt_contiguous_strides(ndim, shape, stride);
    return true;
  }
  int from = 0, to = 0;
  while (from < x->ndim || to < ndim) {
    int64_t a = from < x->ndim ? x->shape[from] : 1, b = to < ndim ? shape[to] : 1;
    int first = from, begin = to;
    while (a != b) {
      if (a < b)
        a *= x->shape[++from];
      else
        b *= shape[++to];
    }
    int last = from < x->ndim ? from : x->ndim - 1, end = to < ndim ? to : ndim - 1;
    for (int d = first, next; d < last; d = next) { /* the group must line up inside, sizes of 1 aside */
      for (next = d + 1; next <= last && x->shape[next] == 1; next++) continue;
      if (next > last) break;
      if (x->shape[d] != 1 && x->stride[d] != x->stride[next] * x->shape[next]) return false;
    }
    int64_t step = 1;
    for (int d = last; d >= first; d--)
      if (x->shape[d] != 1) {
        step = x->stride[d];
        break;
      }
    for (int d = end; d >= begin; d--) {
      stride[d] = step;
      step *= shape[d];
    }
    from = last + 1;
    to = end + 1;
  }
  return true;
}

static int reshape_shape(lt_args *c) {
  lt_tensor *x = c->in[0];
  const lt_attr *a = c->attr;
  int64_t shape[LT_MAX_DIMS], stride[LT_MAX_DIMS], known = 1;
  int unknown = -1, n = a->n_list;
  if (n > LT_MAX_DIMS)
    return lt_fail(LT_ERR_SHAPE, "reshape: %d dims asked for; a tensor has at most %d", n, LT_MAX_DIMS);
  for (int d = 0; d < n; d++) {
    shape[d] = a->list[d];
    if (shape[d] == -1 && unknown >= 0)
      return lt_fail(LT_ERR_SHAPE, "reshape: only one size can be -1 (worked out); dims %d and %d are", unknown + 1,
                     d + 1);
    if (shape[d] == -1)
      unknown = d;
    else if (shape[d] < 0)
      return lt_fail(LT_ERR_SHAPE, "reshape: size %lld of dim %d is negative", (long long)shape[d], d + 1);
    else if (__builtin_mul_overflow(known, shape[d], &known))
      known = -1;
  }
  if (unknown >= 0 && known > 0 && x->n % known == 0)
    shape[unknown] = x->n / known;
  else if (unknown >= 0 || known != x->n)
    return lt_fail(LT_ERR_SHAPE, "reshape: %s has %lld elements and cannot become %s", lt_shape_text(x),
                   (long long)x->n, lt_dims_text(n, a->list));
  if (!c->bound && view_strides(x, n, shape, stride)) return lt_out_view(c, 0, x, n, shape, stride, x->offset);
  return lt_out(c, 0, x->dtype, n, shape);
}
/* Reached when no view is possible: the copy is x in row-major order. */
static int reshape_cpu(lt_args *c) {
  lt_tensor same_shape = *c->out[0]; /* the result's memory under x's shape */
  same_shape.ndim = c->in[0]->ndim;
  memcpy(same_shape.shape, c->in[0]->shape, sizeof same_shape.shape);
  lt_contiguous_strides(same_shape.ndim, same_shape.shape, same_shape.stride);
  lt_args copy = *c;
  copy.out[0] = &same_shape;
  return lt_op_at(LT_OP_clone)->cpu(&copy);
}
static void reshape_rule(lt_back *b) {
  lt_attr a = listed(&b->edge[0]);
  LT_GRAD_ATTR(b, 0, reshape, &a, b->grad[0]);
}
const lt_op lt_op_reshape = {
    .name = "reshape",
    .signature = "reshape(x, shape: ints)",
    .doc = "x in another shape with the same elements in row-major order; one size may be -1. A view where "
           "strides allow, else a copy.",
    .flags = LT_OP_VIEW,
    .shape = reshape_shape,
    .cpu = reshape_cpu,
    .backward = reshape_rule};

/* ---- expand ---- */
static int expand_shape(lt_args *c) {
  lt_tensor *x = c->in[0];
  const lt_attr *a = c->attr;
  int64_t shape[LT_MAX_DIMS], stride[LT_MAX_DIMS];
  int lead = a->n_list - x->ndim;
  if (lead < 0 || a->n_list > LT_MAX_DIMS)
    return lt_fail(LT_ERR_SHAPE, "expand: %s cannot become %s; the new shape needs %d to %d dims", lt_shape_text(x),
                   lt_dims_text(a->n_list, a->list), x->ndim, LT_MAX_DIMS);
  for (int d = 0; d < a->n_list; d++) {
    int64_t size = d < lead ? 1 : x->shape[d - lead], want = a->list[d] == -1 ? size : a->list[d];
    if (want < 0 || (size != want && size != 1))
      return lt_fail(LT_ERR_SHAPE,
                     "expand: %s cannot become %s; size %lld of dim %d can only stay or, being 1, be repeated",
                     lt_shape_text(x), lt_dims_text(a->n_list, a->list), (long long)size, d - lead + 1);
    shape[d] = want;
    stride[d] = d < lead || size != want ? 0 : x->stride[d - lead];
  }
  return lt_out_view(c, 0, x, a->n_list, shape, stride, x->offset);
}
static void expand_rule(lt_back *b) { lt_give(b, 0, b->grad[0]); } /* the engine sums what was repeated */
const lt_op lt_op_expand = {.name = "expand",
                            .signature = "expand(x, shape: ints)",
                            .doc = "A view that repeats dims of size 1 (and adds dims in front); -1 keeps a size.",
                            .flags = LT_OP_VIEW,
                            .shape = expand_shape,
                            .backward = expand_rule};

/* ---- permute ---- */
static int permute_shape(lt_args *c) {
  lt_tensor *x = c->in[0];
  const lt_attr *a = c->attr;
  int64_t shape[LT_MAX_DIMS], stride[LT_MAX_DIMS];
  unsigned seen = 0;
  if (a->n_list != x->ndim)
    return lt_fail(LT_ERR_ARGUMENT, "permute: %d dims given; %s has %d", a->n_list, lt_shape_text(x), x->ndim);
  for (int d = 0; d < x->ndim; d++) {
    int64_t from = a->list[d];
    if (from < 0 || from >= x->ndim || seen >> from & 1)
      return lt_fail(LT_ERR_ARGUMENT, "permute: dim %lld is %s; each of 1 to %d must appear once", (long long)from + 1,
                     from < 0 || from >= x->ndim ? "out of range" : "given twice", x->ndim);
    seen |= 1u << from;
    shape[d] = x->shape[from];
    stride[d] = x->stride[from];
  }
  return lt_out_view(c, 0, x, x->ndim, shape, stride, x->offset);
}
static void permute_rule(lt_back *b) {
  lt_attr back = {.n_list = b->attr->n_list};
  for (int d = 0; d < back.n_list; d++) back.list[b->attr->list[d]] = d;
  LT_GRAD_ATTR(b, 0, permute, &back, b->grad[0]);
}
const lt_op lt_op_permute = {.name = "permute",
                             .signature = "permute(x, dims: dims)",
                             .doc = "A view with the dims in another order: dim d of the result is dim dims[d] of x.",
                             .flags = LT_OP_VIEW,
                             .shape = permute_shape,
                             .backward = permute_rule};

static int transpose_shape(lt_args *c) {
  lt_tensor *x = c->in[0];
  int64_t shape[LT_MAX_DIMS], stride[LT_MAX_DIMS], p = c->attr->i[0], q = c->attr->i[1];
  memcpy(shape, x->shape, sizeof shape);
  memcpy(stride, x->stride, sizeof stride);
  shape[p] = x->shape[q], shape[q] = x->shape[p];
  stride[p] = x->stride[q], stride[q] = x->stride[p];
  return lt_out_view(c, 0, x, x->ndim, shape, stride, x->offset);
}
static void transpose_rule(lt_back *b) { LT_GRAD_ATTR(b, 0, transpose, b->attr, b->grad[0]); }
const lt_op lt_op_transpose = {.name = "transpose",
                               .signature = "transpose(x, dim1: dim = -2, dim2: dim = -1)",
                               .doc = "A view with two dims exchanged; the last two unless given.",
                               .flags = LT_OP_VIEW,
                               .shape = transpose_shape,
                               .backward = transpose_rule};

/* ---- slice: positions first..last of one dim, both included, as users count them (0-based here) ---- */
static int slice_shape(lt_args *c) {
  lt_tensor *x = c->in[0];
  int64_t dim = c->attr->i[0], first = c->attr->i[1], last = c->attr->i[2], step = c->attr->i[3];
  int64_t size = x->shape[dim], shape[LT_MAX_DIMS], stride[LT_MAX_DIMS];
  int64_t from = first < 0 ? first + size : first - 1, to = last < 0 ? last + size : last - 1;
  if (step < 1)
    return lt_fail(LT_ERR_ARGUMENT, "slice: the step is %lld; it must be at least 1 (flip() turns a dim round)",
                   (long long)step);
  bool empty = to == from - 1 && from >= 0 && from <= size;
  if (!empty && (first == 0 || last == 0 || from < 0 || from >= size || to < from || to >= size))
    return lt_fail(LT_ERR_RANGE,
                   "slice: positions %lld to %lld of dim %lld; legal are 1 to %lld, or -%lld to -1 from the end",
                   (long long)first, (long long)last, (long long)dim + 1, (long long)size, (long long)size);
  memcpy(shape, x->shape, sizeof shape);
  memcpy(stride, x->stride, sizeof stride);
  shape[dim] = empty ? 0 : (to - from) / step + 1;
  stride[dim] *= step;
  return lt_out_view(c, 0, x, x->ndim, shape, stride, x->offset + (empty ? 0 : from * x->stride[dim]));
}
static void slice_rule(lt_back *b) {
  lt_attr a = *b->attr;
  a.n_list = b->edge[0].ndim;
  memcpy(a.list, b->edge[0].shape, sizeof b->edge[0].shape);
  LT_GRAD_ATTR(b, 0, slice_backward, &a, b->grad[0]);
}
const lt_op lt_op_slice = {.name = "slice",
                           .signature = "slice(x, dim: dim, first: int, last: int = -1, step: int = 1)",
                           .doc =
                               "A view of positions first to last (both included; negative from the end) of one dim.",
                           .flags = LT_OP_VIEW,
                           .shape = slice_shape,
                           .backward = slice_rule};

/* The slice's gradient inside zeros of the whole: list = shape of x, i = the slice's own attributes. */
static int slice_backward_shape(lt_args *c) { return lt_out(c, 0, c->in[0]->dtype, c->attr->n_list, c->attr->list); }
static int slice_backward_cpu(lt_args *c) {
  lt_tensor *o = c->out[0];
  int64_t dim = c->attr->i[0], first = c->attr->i[1], step = c->attr->i[3];
  int64_t from = first < 0 ? first + o->shape[dim] : first - 1;
  lt_args part = *c;
  lt_tensor window = *o;
  if (!c->accumulate) LT_TRY(lt_run_into(LT_OP_zero, &o, 1, NULL, o, false));
  if (c->in[0]->n == 0) return LT_OK;
  memcpy(window.shape, c->in[0]->shape, sizeof window.shape);
  window.n = c->in[0]->n;
  window.stride[dim] *= step;
  window.offset += from * o->stride[dim];
  part.out[0] = &window;
  return lt_op_at(LT_OP_clone)->cpu(&part);
}
static void slice_backward_rule(lt_back *b) { LT_GRAD_ATTR(b, 0, slice, b->attr, b->grad[0]); }
const lt_op lt_op_slice_backward = {.name = "slice_backward",
                                    .signature =
                                        "slice_backward(grad, dim: dim, first: int, last: int, step: int, shape: ints)",
                                    .doc = "Zeros of the shape with grad at the slice.",
                                    .flags = LT_OP_HIDDEN | LT_OP_ACCUMULATE,
                                    .shape = slice_backward_shape,
                                    .cpu = slice_backward_cpu,
                                    .backward = slice_backward_rule};

/* ---- select: one position of one dim, which goes ---- */
static int select_shape(lt_args *c) {
  lt_tensor *x = c->in[0];
  int64_t dim = c->attr->i[0], at = c->attr->i[1], size = x->shape[dim], shape[LT_MAX_DIMS], stride[LT_MAX_DIMS];
  if (at == 0 || at > size || at < -size)
    return lt_fail(LT_ERR_RANGE, "select: position %lld of dim %lld; legal are 1 to %lld, or -%lld to -1 from the end",
                   (long long)at, (long long)dim + 1, (long long)size, (long long)size);
  for (int d = 0, to = 0; d < x->ndim; d++)
    if (d != dim) shape[to] = x->shape[d], stride[to++] = x->stride[d];
  return lt_out_view(c, 0, x, x->ndim - 1, shape, stride, x->offset + (at < 0 ? at + size : at - 1) * x->stride[dim]);
}
static void select_rule(lt_back *b) {
  lt_attr back = {.i = {b->attr->i[0], b->attr->i[1], b->attr->i[1], 1}, .n_list = b->edge[0].ndim};
  memcpy(back.list, b->edge[0].shape, sizeof b->edge[0].shape);
  lt_attr dim = {.i = {b->attr->i[0]}};
  LT_GRAD_ATTR(b, 0, slice_backward, &back, LT_DO_ATTR(b, unsqueeze, &dim, b->grad[0]));
}
const lt_op lt_op_select = {.name = "select",
                            .signature = "select(x, dim: dim, position: int)",
                            .doc = "A view of one position of one dim, without that dim; x[i] selects from the first.",
                            .flags = LT_OP_VIEW,
                            .shape = select_shape,
                            .backward = select_rule};

/* ---- dims of size 1 ---- */
static int unsqueeze_shape(lt_args *c) {
  lt_tensor *x = c->in[0];
  int64_t dim = c->attr->i[0], shape[LT_MAX_DIMS], stride[LT_MAX_DIMS];
  if (x->ndim == LT_MAX_DIMS)
    return lt_fail(LT_ERR_SHAPE, "unsqueeze: %s has %d dims already, the most", lt_shape_text(x), LT_MAX_DIMS);
  for (int d = 0, from = 0; d <= x->ndim; d++) {
    shape[d] = d == dim ? 1 : x->shape[from];
    stride[d] = d == dim ? 1 : x->stride[from++];
  }
  return lt_out_view(c, 0, x, x->ndim + 1, shape, stride, x->offset);
}
const lt_op lt_op_unsqueeze = {.name = "unsqueeze",
                               .signature = "unsqueeze(x, dim: newdim)",
                               .doc = "A view with a dim of size 1 put in, so that it is dim `dim` of the result.",
                               .flags = LT_OP_VIEW,
                               .shape = unsqueeze_shape,
                               .backward = reshape_rule};

static int squeeze_shape(lt_args *c) {
  lt_tensor *x = c->in[0];
  const lt_attr *a = c->attr;
  int64_t shape[LT_MAX_DIMS], stride[LT_MAX_DIMS];
  int ndim = 0;
  for (int k = 0; k < a->n_list; k++)
    if (x->shape[a->list[k]] != 1)
      return lt_fail(LT_ERR_SHAPE, "squeeze: dim %lld of %s has size %lld; only a size of 1 can go",
                     (long long)a->list[k] + 1, lt_shape_text(x), (long long)x->shape[a->list[k]]);
  for (int d = 0; d < x->ndim; d++) {
    bool goes = x->shape[d] == 1 && a->n_list == 0;
    for (int k = 0; k < a->n_list; k++) goes = goes || a->list[k] == d;
    if (!goes) shape[ndim] = x->shape[d], stride[ndim++] = x->stride[d];
  }
  return lt_out_view(c, 0, x, ndim, shape, stride, x->offset);
}
const lt_op lt_op_squeeze = {.name = "squeeze",
                             .signature = "squeeze(x, dims: dims = nil)",
                             .doc = "A view without dims of size 1: the given ones, or all of them when nil.",
                             .flags = LT_OP_VIEW,
                             .shape = squeeze_shape,
                             .backward = reshape_rule};

static int detach_shape(lt_args *c) {
  return lt_out_view(c, 0, c->in[0], c->in[0]->ndim, c->in[0]->shape, c->in[0]->stride, c->in[0]->offset);
}
const lt_op lt_op_detach = {.name = "detach",
                            .signature = "detach(x)",
                            .doc = "A view of x without gradient history.",
                            .flags = LT_OP_VIEW | LT_OP_NO_GRADIENT,
                            .shape = detach_shape};
