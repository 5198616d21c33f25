/* gather, scatter, scatter_add: reading and writing at ids along one dim. The tensor that ids point into may be larger
 * in the other dims and may have any strides; ids and what goes with them are walked as [outer, length, inner]. Lines
 * (outer x inner) touch disjoint elements, so threads share them and each line keeps its order: sums have fixed bits.
 */
#include "stage.h"

typedef struct walk {
  lt_split s;        /* of ids */
  int64_t dim, step; /* stride of the big tensor along dim */
  int64_t *inner;    /* [s.inner] element offsets in the big tensor */
  const lt_tensor *big, *ids;
} walk;
enum { BLOCK = 512 };

static int walk_start(walk *w, const lt_tensor *big, const lt_tensor *ids, int64_t dim) {
  *w = (walk){.s = lt_split_at(ids, dim), .dim = dim, .step = big->stride[dim], .big = big, .ids = ids};
  w->inner = lt_alloc((w->s.inner + 1) * (int64_t)sizeof *w->inner);
  if (!w->inner) return LT_ERR_MEMORY;
  for (int64_t i = 0; i < w->s.inner; i++) {
    int64_t rest = i, at = 0;
    for (int d = ids->ndim - 1; d > dim; d--) {
      at += rest % ids->shape[d] * big->stride[d];
      rest /= ids->shape[d];
    }
    w->inner[i] = at;
  }
  return LT_OK;
}
static void walk_end(walk *w) { lt_free(w->inner, (w->s.inner + 1) * (int64_t)sizeof *w->inner); }

static int64_t outer_offset(const walk *w, int64_t o) {
  int64_t at = 0;
  for (int64_t d = w->dim - 1; d >= 0; d--) {
    at += o % w->ids->shape[d] * w->big->stride[d];
    o /= w->ids->shape[d];
  }
  return at;
}

/* BODY runs for each element: `at` its flat position in ids, `place` its element offset in the big tensor. */
/* clang-format off: it would join the pragma and its loop */
#define WALK(w, ID, BODY)                                                                                              \
  {                                                                                                                    \
    const walk *const w_ = (w);                                                                                        \
    const ID *ids_ = lt_ptr(w_->ids);                                                                                  \
    const int64_t outer_ = w_->s.outer, length_ = w_->s.length, inner_ = w_->s.inner, step_ = w_->step;                \
    const int64_t blocks_ = (inner_ + BLOCK - 1) / BLOCK;                                                              \
    _Pragma("omp parallel for collapse(2) schedule(static) num_threads(lt_threads_for(w_->ids->n))") for (             \
        int64_t o = 0; o < outer_; o++) for (int64_t b = 0; b < blocks_; b++) {                                        \
      const int64_t base_ = outer_offset(w_, o), first_ = b * BLOCK;                                                   \
      const int64_t last_ = first_ + BLOCK < inner_ ? first_ + BLOCK : inner_;                                         \
      for (int64_t k = 0; k < length_; k++)                                                                            \
        for (int64_t i = first_; i < last_; i++) {                                                                     \
          const int64_t at = (o * length_ + k) * inner_ + i;                                                           \
          const int64_t place = base_ + (int64_t)ids_[at] * step_ + w_->inner[i];                                      \
          BODY                                                                                                         \
        }                                                                                                              \
    }                                                                                                                  \
  }
#define WALK_BOTH(w, BODY)                                                                                             \
  if ((w)->ids->dtype == LT_INT64)                                                                                     \
    WALK(w, int64_t, BODY)                                                                                             \
  else                                                                                                                 \
    WALK(w, int32_t, BODY)
/* clang-format on */

/* ids (input 1) against input 0: as many dims, no longer than it but along dim. */
static int check_ids_shape(const lt_args *c, int64_t dim) {
  const lt_tensor *x = c->in[0], *ids = c->in[1];
  LT_TRY(lt_check_dim(c, x, dim));
  LT_TRY(lt_need_ids(c, 1));
  bool fits = ids->ndim == x->ndim;
  for (int d = 0; d < x->ndim && fits; d++) fits = d == dim || ids->shape[d] <= x->shape[d];
  if (fits) return LT_OK;
  return lt_fail(
      LT_ERR_SHAPE,
      "%s: ids are %s and the tensor %s; both need the same number of dims, and ids may be longer only along dim %lld",
      c->op->name, lt_shape_text(ids), lt_shape_text(x), (long long)dim + 1);
}

static int check_range(const lt_args *c, const lt_tensor *ids, int64_t dim) {
  return lt_check_ids(c, ids, c->in[0]->shape[dim], "dim %lld of %s", (long long)dim + 1, lt_shape_text(c->in[0]));
}

/* ---- gather ---- */
static int gather_shape(lt_args *c) {
  LT_TRY(check_ids_shape(c, c->attr->i[0]));
  return lt_out(c, 0, c->in[0]->dtype, c->in[1]->ndim, c->in[1]->shape);
}
static int gather_cpu(lt_args *c) {
  lt_tensor *ids, *out;
  const lt_tensor *x = c->in[0];
  walk w;
  LT_TRY(lt_contiguous(c->in[1], &ids));
  int status = check_range(c, ids, c->attr->i[0]);
  if (status >= 0) status = walk_start(&w, x, ids, c->attr->i[0]);
  if (status >= 0) {
    status = lt_stage(c, 0, &out);
    if (status >= 0) {
      LT_BY_SIZE(lt_dtype_size(x->dtype), const T *from = lt_ptr(x); T *to = lt_ptr(out);
                 WALK_BOTH(&w, to[at] = from[place];))
      status = lt_unstage(c, 0, out, status);
    }
    walk_end(&w);
  }
  lt_tensor_release(ids);
  return status;
}
static void gather_rule(lt_back *b) {
  lt_attr zeros = {.n_list = b->edge[0].ndim, .i = {b->edge[0].dtype}};
  memcpy(zeros.list, b->edge[0].shape, sizeof b->edge[0].shape);
  if (lt_wants(b, 0))
    LT_GRAD_ATTR(b, 0, scatter_add, b->attr, lt_do(b, LT_OP_zeros, &zeros, 0, NULL), b->in[1], b->grad[0]);
}
const lt_op lt_op_gather = {
    .name = "gather",
    .signature = "gather(x, dim: dim, ids)",
    .doc = "Of each line along dim the elements that ids (0-based, int32 or int64) name: in two dims and dim = 2, "
           "y[i][j] = x[i][ids[i][j]]. The result has the shape of ids.",
    .shape = gather_shape,
    .cpu = gather_cpu,
    .backward = gather_rule,
    .keep = LT_IN(1)};

/* ---- scatter_add and scatter: x, changed at ids ---- */
static int scatter_shape(lt_args *c) {
  LT_TRY(check_ids_shape(c, c->attr->i[0]));
  if (!lt_same_shape(c->in[1], c->in[2]))
    return lt_fail(LT_ERR_SHAPE, "%s: ids are %s and source %s; they must agree", c->op->name, lt_shape_text(c->in[1]),
                   lt_shape_text(c->in[2]));
  return lt_out_like(c, 0, c->in[0]);
}
static int scatter_add_shape(lt_args *c) {
  if (c->in[0]->dtype == LT_BOOL)
    return lt_fail(LT_ERR_DTYPE,
                   "scatter_add: the tensor is bool and cannot be added to; convert with x:to(\"int64\")");
  return scatter_shape(c);
}

static void add_walk(walk *w, lt_tensor *out, const lt_tensor *source) {
  void *to = lt_ptr(out);
  const void *from = lt_ptr(source);
#define ADD(T) WALK_BOTH(w, ((T *)to)[place] += ((const T *)from)[at];) return;
  switch (out->dtype) {
  case LT_FLOAT32: ADD(float)
  case LT_FLOAT64: ADD(double)
  case LT_INT64: ADD(uint64_t)
  case LT_INT32: ADD(uint32_t)
  case LT_UINT8: ADD(uint8_t)
  default:
    WALK_BOTH(w, lt_store_double(to, out->dtype, place,
                                 lt_load_double(to, out->dtype, place) + lt_load_double(from, out->dtype, at));)
  }
#undef ADD
}
static void put_walk(walk *w, lt_tensor *out, const lt_tensor *source) {
  LT_BY_SIZE(lt_dtype_size(out->dtype), T *to = lt_ptr(out); const T *from = lt_ptr(source);
             WALK_BOTH(w, to[place] = from[at];))
}

static int scatter_with(lt_args *c, void (*write)(walk *, lt_tensor *, const lt_tensor *)) {
  lt_tensor *x = c->in[0], *o = c->out[0], *ids, *source, *same;
  walk w;
  lt_attr to = {.i = {x->dtype}};
  LT_TRY(lt_contiguous(c->in[1], &ids));
  int status = check_range(c, ids, c->attr->i[0]);
  if (status >= 0) status = lt_run(LT_OP_to, &c->in[2], 1, &to, &same, 1);
  if (status >= 0) {
    status = lt_contiguous(same, &source);
    lt_tensor_release(same);
  }
  if (status >= 0) {
    bool in_place = o->storage == x->storage && o->offset == x->offset;
    if (!in_place) status = lt_run_into(LT_OP_clone, &x, 1, NULL, o, c->accumulate);
    if (status >= 0) status = walk_start(&w, o, ids, c->attr->i[0]);
    if (status >= 0) {
      write(&w, o, source);
      walk_end(&w);
    }
    lt_tensor_release(source);
  }
  lt_tensor_release(ids);
  return status;
}
static int scatter_add_cpu(lt_args *c) { return scatter_with(c, add_walk); }
static int scatter_cpu(lt_args *c) { return scatter_with(c, put_walk); }

static void scatter_add_rule(lt_back *b) {
  lt_give(b, 0, b->grad[0]);
  if (lt_wants(b, 2)) LT_GRAD_ATTR(b, 2, gather, b->attr, b->grad[0], b->in[1]);
}
const lt_op lt_op_scatter_add = {
    .name = "scatter_add",
    .signature = "scatter_add(x, dim: dim, ids, source)",
    .doc = "x with source added at ids (0-based) along dim: in two dims and dim = 2, x[i][ids[i][j]] += "
           "source[i][j]. Ids may repeat and are added in order.",
    .flags = LT_OP_INPLACE,
    .shape = scatter_add_shape,
    .cpu = scatter_add_cpu,
    .backward = scatter_add_rule,
    .keep = LT_IN(1)};

/* Where an id repeats the last write stays, and only that element of source gets a gradient: numbers of the elements
 * are scattered in the same way, and who finds its own number back was the last. */
static void scatter_rule(lt_back *b) {
  const lt_edge *x = &b->edge[0], *s = &b->edge[2];
  lt_attr dim = {.i = {b->attr->i[0]}};
  if (lt_wants(b, 0)) {
    lt_attr none = {.n_list = s->ndim, .i = {x->dtype}};
    memcpy(none.list, s->shape, sizeof s->shape);
    LT_GRAD_ATTR(b, 0, scatter, &dim, b->grad[0], b->in[1], lt_do(b, LT_OP_zeros, &none, 0, NULL));
  }
  if (!lt_wants(b, 2)) return;
  int64_t n = 1;
  lt_attr zeros = {.n_list = x->ndim, .i = {LT_INT64}}, shape = {.n_list = s->ndim};
  memcpy(zeros.list, x->shape, sizeof x->shape);
  memcpy(shape.list, s->shape, sizeof s->shape);
  for (int d = 0; d < s->ndim; d++) n *= s->shape[d];
  lt_attr count = {.f = {1, (double)n, 1}, .i = {LT_INT64}};
  lt_tensor *number = LT_DO_ATTR(b, reshape, &shape, lt_do(b, LT_OP_arange, &count, 0, NULL));
  lt_tensor *last = LT_DO_ATTR(b, scatter, &dim, lt_do(b, LT_OP_zeros, &zeros, 0, NULL), b->in[1], number);
  lt_tensor *stayed = LT_DO(b, eq, LT_DO_ATTR(b, gather, &dim, last, b->in[1]), number);
  lt_tensor *g = LT_DO_ATTR(b, gather, &dim, b->grad[0], b->in[1]);
  LT_GRAD(b, 2, where, stayed, g, lt_number(b, 0, b->grad[0]->dtype));
}
const lt_op lt_op_scatter = {
    .name = "scatter",
    .signature = "scatter(x, dim: dim, ids, source)",
    .doc = "x with the elements at ids (0-based) along dim replaced by those of source: in two dims and dim = 2, "
           "x[i][ids[i][j]] = source[i][j]. Where an id repeats the last one stays.",
    .flags = LT_OP_INPLACE,
    .shape = scatter_shape,
    .cpu = scatter_cpu,
    .backward = scatter_rule,
    .keep = LT_IN(1)};
