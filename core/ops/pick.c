/* flip, tile and pad. All three are one idea: position j of dim d of the result comes from position map[d][j] of x, or,
 * where that is -1, from a constant. So there is one loop that picks and one that sends gradients back. */
#include "elementwise.h"
#include "stage.h"

typedef struct maps {
  int64_t *map[LT_MAX_DIMS];       /* [size of the result's dim] */
  int64_t total;                   /* numbers in all maps, one allocation */
  const lt_tensor *whole, *picked; /* x's side and the result's side */
} maps;

static int maps_start(maps *m, const lt_tensor *whole, const lt_tensor *picked) {
  *m = (maps){.whole = whole, .picked = picked, .total = 1};
  for (int d = 0; d < picked->ndim; d++) m->total += picked->shape[d];
  int64_t *at = lt_alloc(m->total * (int64_t)sizeof *at);
  if (!at) return LT_ERR_MEMORY;
  for (int d = 0; d < LT_MAX_DIMS; d++) {
    m->map[d] = at;
    if (d < picked->ndim) at += picked->shape[d];
  }
  return LT_OK;
}
static void maps_end(maps *m) { lt_free(m->map[0], m->total * (int64_t)sizeof *m->map[0]); }

/* Element offset in the whole of row r (all dims but the last) of the picked side; -1: the row is constant. */
static int64_t row_start(const maps *m, int64_t r) {
  int64_t at = 0;
  for (int d = m->picked->ndim - 2; d >= 0; d--) {
    int64_t from = m->map[d][r % m->picked->shape[d]];
    r /= m->picked->shape[d];
    if (from < 0) return -1;
    at += from * m->whole->stride[d];
  }
  return at;
}

/* A line of the last dim; from NULL: all of it is the constant. */
static void pick_line(void *line, const void *from, int64_t size, const int64_t *map, int64_t n, int64_t step,
                      const void *constant) {
  LT_BY_SIZE(size, T value; T *to = line; const T *x = from; memcpy(&value, constant, sizeof value);
             for (int64_t j = 0; j < n; j++) to[j] = x && map[j] >= 0 ? x[map[j] * step] : value;)
}

/* out (contiguous) = picked from the whole (any strides). */
static void pick(const maps *m, lt_tensor *out, double constant) {
  int last = out->ndim - 1;
  int64_t width = last < 0 ? 1 : out->shape[last], rows = width ? out->n / width : 0;
  int64_t step = last < 0 ? 1 : m->whole->stride[last], size = lt_dtype_size(out->dtype), single = 0, fill[1] = {0};
  const int64_t *map = last < 0 ? &single : m->map[last];
  const char *whole = lt_ptr(m->whole);
  char *to = lt_ptr(out);
  lt_store_double(fill, out->dtype, 0, constant);
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(out->n))
  for (int64_t r = 0; r < rows; r++) {
    int64_t start = row_start(m, r);
    pick_line(to + r * width * size, start < 0 ? NULL : whole + start * size, size, map, width, step, fill);
  }
}

/* grad (contiguous, on the picked side) added into out (contiguous, the whole), in row order. Leading dims whose map is
 * the identity separate the work, so threads share them. */
static void unpick(const maps *m, lt_tensor *out, const lt_tensor *grad) {
  int last = grad->ndim - 1, lead = 0;
  int64_t parts = 1, width = last < 0 ? 1 : grad->shape[last], rows = width ? grad->n / width : 0, single = 0;
  const int64_t *map = last < 0 ? &single : m->map[last];
  for (bool same = true; lead < last; lead++) {
    same = m->whole->shape[lead] == grad->shape[lead];
    for (int64_t j = 0; j < grad->shape[lead] && same; j++) same = m->map[lead][j] == j;
    if (!same) break;
    parts *= grad->shape[lead];
  }
  rows = parts ? rows / parts : 0;
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(grad->n))
  for (int64_t p = 0; p < parts; p++)
    for (int64_t r = p * rows; r < (p + 1) * rows; r++) {
      int64_t start = row_start(m, r);
      if (start < 0) continue;
      for (int64_t j = 0; j < width; j++) {
        int64_t at = start + map[j];
        if (map[j] < 0) continue;
        if (out->dtype == LT_FLOAT32)
          ((float *)lt_ptr(out))[at] += ((const float *)lt_ptr(grad))[r * width + j];
        else
          lt_store_double(lt_ptr(out), out->dtype, at,
                          lt_load_double(lt_ptr(out), out->dtype, at) +
                              lt_load_double(lt_ptr(grad), grad->dtype, r * width + j));
      }
    }
}

/* A kernel: fills the maps by `draw`, then picks. */
static int picked(lt_args *c, void (*draw)(const lt_args *, maps *), double constant) {
  lt_tensor *out;
  maps m;
  LT_TRY(lt_stage(c, 0, &out));
  int status = maps_start(&m, c->in[0], out);
  if (status >= 0) {
    draw(c, &m);
    pick(&m, out, constant);
    maps_end(&m);
  }
  return lt_unstage(c, 0, out, status);
}
/* The kernel of a gradient: zeros, then every element of grad is added to where it was picked. */
static int unpicked(lt_args *c, void (*draw)(const lt_args *, maps *)) {
  lt_tensor *out, *grad;
  maps m;
  LT_TRY(lt_contiguous(c->in[0], &grad));
  int status = lt_stage(c, 0, &out);
  if (status >= 0) {
    memset(lt_ptr(out), 0, (size_t)(out->n * lt_dtype_size(out->dtype)));
    status = maps_start(&m, out, grad);
    if (status >= 0) {
      draw(c, &m);
      unpick(&m, out, grad);
      maps_end(&m);
    }
    status = lt_unstage(c, 0, out, status);
  }
  lt_tensor_release(grad);
  return status;
}

/* ---- flip ---- */
static int flip_shape(lt_args *c) {
  unsigned seen = 0;
  for (int k = 0; k < c->attr->n_list; k++) {
    LT_TRY(lt_check_dim(c, c->in[0], c->attr->list[k]));
    if (seen >> c->attr->list[k] & 1)
      return lt_fail(LT_ERR_ARGUMENT, "flip: dim %lld is given twice", (long long)c->attr->list[k] + 1);
    seen |= 1u << c->attr->list[k];
  }
  return lt_out_like(c, 0, c->in[0]);
}
static void flip_maps(const lt_args *c, maps *m) {
  for (int d = 0; d < m->picked->ndim; d++) {
    bool turned = c->attr->n_list == 0;
    for (int k = 0; k < c->attr->n_list; k++) turned = turned || c->attr->list[k] == d;
    for (int64_t j = 0, n = m->picked->shape[d]; j < n; j++) m->map[d][j] = turned ? n - 1 - j : j;
  }
}
static int flip_cpu(lt_args *c) { return picked(c, flip_maps, 0); }
static void flip_rule(lt_back *b) { LT_GRAD_ATTR(b, 0, flip, b->attr, b->grad[0]); }
const lt_op lt_op_flip = {.name = "flip",
                          .signature = "flip(x, dims: dims = nil)",
                          .doc = "x with the order of positions turned round in the given dims (all when nil).",
                          .shape = flip_shape,
                          .cpu = flip_cpu,
                          .backward = flip_rule};

/* ---- tile ---- */
static int tile_shape(lt_args *c) {
  const lt_tensor *x = c->in[0];
  int64_t shape[LT_MAX_DIMS];
  int ndim = c->attr->n_list;
  if (ndim < x->ndim || ndim > LT_MAX_DIMS)
    return lt_fail(LT_ERR_SHAPE, "tile: %d repeats for %s; give one for each dim (more add dims in front, up to %d)",
                   ndim, lt_shape_text(x), LT_MAX_DIMS);
  for (int d = 0; d < ndim; d++) {
    int64_t size = d < ndim - x->ndim ? 1 : x->shape[d - ndim + x->ndim];
    if (c->attr->list[d] < 0)
      return lt_fail(LT_ERR_ARGUMENT, "tile: %lld repeats of dim %d; the count must not be negative",
                     (long long)c->attr->list[d], d + 1);
    if (__builtin_mul_overflow(size, c->attr->list[d], &shape[d]))
      return lt_fail(LT_ERR_SHAPE, "tile: dim %d would overflow", d + 1);
  }
  return lt_out(c, 0, x->dtype, ndim, shape);
}
static void tile_maps(const lt_args *c, maps *m) {
  (void)c;
  for (int d = 0; d < m->picked->ndim; d++)
    for (int64_t j = 0; j < m->picked->shape[d]; j++) m->map[d][j] = j % m->whole->shape[d];
}
/* x under the result's number of dims: sizes of 1 in front. */
static lt_tensor with_dims(const lt_tensor *x, int ndim) {
  lt_tensor t = *x;
  int lead = ndim - x->ndim;
  for (int d = 0; d < ndim; d++) {
    t.shape[d] = d < lead ? 1 : x->shape[d - lead];
    t.stride[d] = d < lead ? 0 : x->stride[d - lead];
  }
  t.ndim = (uint8_t)ndim;
  return t;
}
static int tile_cpu(lt_args *c) {
  lt_tensor x = with_dims(c->in[0], c->out[0]->ndim), *in = &x;
  lt_args lifted = *c;
  lifted.in = &in;
  return picked(&lifted, tile_maps, 0);
}
static void tile_rule(lt_back *b) {
  lt_attr back = {.n_list = b->edge[0].ndim};
  memcpy(back.list, b->edge[0].shape, sizeof b->edge[0].shape);
  LT_GRAD_ATTR(b, 0, tile_backward, &back, b->grad[0]);
}
const lt_op lt_op_tile = {.name = "tile",
                          .signature = "tile(x, repeats: ints)",
                          .doc = "x repeated so many times along each dim; more repeats than dims add dims in front.",
                          .shape = tile_shape,
                          .cpu = tile_cpu,
                          .backward = tile_rule};

static int tile_backward_shape(lt_args *c) { return lt_out(c, 0, c->in[0]->dtype, c->attr->n_list, c->attr->list); }
static int tile_backward_cpu(lt_args *c) {
  lt_tensor lifted = with_dims(c->out[0], c->in[0]->ndim);
  lt_args same = *c;
  same.out[0] = &lifted;
  return unpicked(&same, tile_maps);
}
static void tile_backward_rule(lt_back *b) {
  lt_attr repeats = {.n_list = b->edge[0].ndim};
  int lead = b->edge[0].ndim - b->attr->n_list;
  for (int d = 0; d < b->edge[0].ndim; d++) {
    int64_t size = d < lead ? 1 : b->attr->list[d - lead];
    repeats.list[d] = size ? b->edge[0].shape[d] / size : 1;
  }
  LT_GRAD_ATTR(b, 0, tile, &repeats, b->grad[0]);
}
const lt_op lt_op_tile_backward = {.name = "tile_backward",
                                   .signature = "tile_backward(grad, shape: ints)",
                                   .doc = "Sums what tile() repeated, back to the shape.",
                                   .flags = LT_OP_HIDDEN,
                                   .shape = tile_backward_shape,
                                   .cpu = tile_backward_cpu,
                                   .backward = tile_backward_rule};

/* ---- pad: list = first, last of the last dim, first, last of the one before, ... ---- */
enum { CONSTANT, REFLECT, REPLICATE };
static int64_t width_of(const lt_attr *a, int ndim, int d, int side) {
  int k = 2 * (ndim - 1 - d) + side;
  return k < a->n_list ? a->list[k] : 0;
}
static int pad_shape(lt_args *c) {
  const lt_tensor *x = c->in[0];
  const lt_attr *a = c->attr;
  int64_t shape[LT_MAX_DIMS], mode = a->i[0];
  if (a->n_list % 2 || a->n_list > 2 * x->ndim)
    return lt_fail(LT_ERR_ARGUMENT,
                   "pad: %d numbers for %s; give two (before, after) for each dim from the last one on", a->n_list,
                   lt_shape_text(x));
  for (int d = 0; d < x->ndim; d++) {
    int64_t before = width_of(a, x->ndim, d, 0), after = width_of(a, x->ndim, d, 1), size = x->shape[d];
    shape[d] = size + before + after;
    if (shape[d] < 0 || before < -size || after < -size)
      return lt_fail(LT_ERR_SHAPE, "pad: %lld and %lld crop more than the %lld positions of dim %d", (long long)before,
                     (long long)after, (long long)size, d + 1);
    if ((mode == REFLECT && (before >= size || after >= size) && (before > 0 || after > 0)) ||
        (mode == REPLICATE && size == 0 && shape[d] > 0))
      return lt_fail(LT_ERR_SHAPE, "pad: %lld and %lld around the %lld positions of dim %d; %s", (long long)before,
                     (long long)after, (long long)size, d + 1,
                     mode == REFLECT ? "'reflect' can add one less than the size on each side"
                                     : "'replicate' needs at least one position");
  }
  return lt_out(c, 0, x->dtype, x->ndim, shape);
}
static void pad_maps(const lt_args *c, maps *m) {
  int ndim = m->picked->ndim;
  for (int d = 0; d < ndim; d++) {
    int64_t before = width_of(c->attr, ndim, d, 0), size = m->whole->shape[d];
    for (int64_t j = 0; j < m->picked->shape[d]; j++) {
      int64_t from = j - before;
      if (from < 0)
        from = c->attr->i[0] == REFLECT ? -from : c->attr->i[0] == REPLICATE ? 0 : -1;
      else if (from >= size)
        from = c->attr->i[0] == REFLECT ? 2 * size - 2 - from : c->attr->i[0] == REPLICATE ? size - 1 : -1;
      m->map[d][j] = from;
    }
  }
}
static int pad_cpu(lt_args *c) { return picked(c, pad_maps, c->attr->f[0]); }
/* Constant padding goes back by cropping; the others add up the copies. */
static void pad_rule(lt_back *b) {
  lt_attr a = *b->attr;
  a.f[0] = 0;
  if (a.i[0] != CONSTANT) {
    LT_GRAD_ATTR(b, 0, pad_backward, &a, b->grad[0]);
    return;
  }
  for (int k = 0; k < a.n_list; k++) a.list[k] = -a.list[k];
  LT_GRAD_ATTR(b, 0, pad, &a, b->grad[0]);
}
const lt_op lt_op_pad = {
    .name = "pad",
    .signature = "pad(x, pad: ints, mode: constant|reflect|replicate = constant, value: number = 0)",
    .doc = "x with positions put around it: before and after the last dim, then the one before it, and so on. They "
           "are the value, a mirror image without the edge (reflect), or the edge (replicate). Negative widths crop.",
    .shape = pad_shape,
    .cpu = pad_cpu,
    .backward = pad_rule};

static int pad_backward_shape(lt_args *c) {
  const lt_tensor *grad = c->in[0];
  int64_t shape[LT_MAX_DIMS];
  for (int d = 0; d < grad->ndim; d++)
    shape[d] = grad->shape[d] - width_of(c->attr, grad->ndim, d, 0) - width_of(c->attr, grad->ndim, d, 1);
  return lt_out(c, 0, grad->dtype, grad->ndim, shape);
}
static int pad_backward_cpu(lt_args *c) { return unpicked(c, pad_maps); }
static void pad_backward_rule(lt_back *b) { LT_GRAD_ATTR(b, 0, pad, b->attr, b->grad[0]); }
const lt_op lt_op_pad_backward = {.name = "pad_backward",
                                  .signature =
                                      "pad_backward(grad, pad: ints, mode: constant|reflect|replicate = constant)",
                                  .doc = "Adds up what pad() copied from one place.",
                                  .flags = LT_OP_HIDDEN,
                                  .shape = pad_backward_shape,
                                  .cpu = pad_backward_cpu,
                                  .backward = pad_backward_rule};
