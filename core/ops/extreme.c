/* Largest and smallest elements, with or without their positions, and the reductions of truth: any, all, count_nonzero.
 * NaN counts as the most extreme. Of equal elements the first gives the position; amax and amin share the gradient. */
#include "elementwise.h"
#include "fold.h"

/* ---- amax, amin ---- */
static int not_empty(const lt_args *c) {
  lt_reduction r;
  LT_TRY(lt_reduction_plan(c, &r));
  if (r.n_reduced || r.n_out == 0) return LT_OK;
  return lt_fail(LT_ERR_SHAPE,
                 "%s: the tensor is %s, and among no elements there is none to choose; check that it is not empty",
                 c->op->name, lt_shape_text(c->in[0]));
}
static int extreme_shape(lt_args *c) {
  LT_TRY(not_empty(c));
  return lt_reduced_shape(c, c->in[0]->dtype);
}

static int fold_all(const lt_args *c, const lt_fold *real, const lt_fold_int *whole, lt_reduction *r, void **v) {
  LT_TRY(lt_reduction_plan(c, r));
  *v = lt_alloc(r->n_out * 8);
  if (!*v) return LT_ERR_MEMORY;
  int status = lt_is_float(c->in[0]->dtype) ? lt_fold_run(c->in[0], r, real, NULL, 0, *v)
                                            : lt_fold_run_int(c->in[0], r, whole, *v);
  if (status < 0) lt_free(*v, r->n_out * 8);
  return status;
}
static int extreme(const lt_args *c, const lt_fold *real, const lt_fold_int *whole) {
  lt_reduction r;
  void *v;
  LT_TRY(fold_all(c, real, whole, &r, &v));
  if (lt_is_float(c->in[0]->dtype))
    lt_put_doubles(c, 0, v);
  else
    lt_put_ints(c, 0, v);
  lt_free(v, r.n_out * 8);
  return LT_OK;
}
static int amax_cpu(lt_args *c) { return extreme(c, &lt_fold_largest, &lt_fold_int_largest); }
static int amin_cpu(lt_args *c) { return extreme(c, &lt_fold_smallest, &lt_fold_int_smallest); }

static void shared_rule(lt_back *b) {
  lt_attr keep = *b->attr;
  keep.i[0] = 1;
  lt_tensor *one = lt_number(b, 1, b->edge[0].dtype), *zero = lt_number(b, 0, b->edge[0].dtype);
  lt_tensor *tied = LT_DO(b, where, LT_DO(b, eq, b->in[0], lt_reduced_expand(b, b->out[0])), one, zero);
  lt_tensor *share = LT_DO(b, div, tied, LT_DO_ATTR(b, sum, &keep, tied));
  LT_GRAD(b, 0, mul, lt_reduced_expand(b, b->grad[0]), share);
}
const lt_op lt_op_amax = {
    .name = "amax",
    .signature = "amax(x, dims: dims = nil, keepdim: bool = false)",
    .doc = "Largest element over the given dims (all when nil); NaN wins. Equal ones share the gradient.",
    .shape = extreme_shape,
    .cpu = amax_cpu,
    .backward = shared_rule,
    .keep = LT_IN(0) | LT_OUT(0)};
const lt_op lt_op_amin = {
    .name = "amin",
    .signature = "amin(x, dims: dims = nil, keepdim: bool = false)",
    .doc = "Smallest element over the given dims (all when nil); NaN wins. Equal ones share the gradient.",
    .shape = extreme_shape,
    .cpu = amin_cpu,
    .backward = shared_rule,
    .keep = LT_IN(0) | LT_OUT(0)};

/* ---- positions: a block is searched only when its fold beats the best so far ---- */
typedef struct place {
  int64_t at;
  union {
    double real;
    int64_t whole;
  } value;
} place;

#define BEATS_REAL(new, old, sign) ((old) == (old) && ((new) != (new) || (sign > 0 ? (new) > (old) : (new) < (old))))
#define BEATS_WHOLE(new, old, sign) (sign > 0 ? (new) > (old) : (new) < (old))
#define SEARCH(NAME, T, FIELD, KIND, FOLD, BEATS)                                                                      \
  static place NAME(const lt_tensor *x, const lt_reduction *r, int64_t start, const FOLD *f, int sign) {               \
    T block[LT_BLOCK];                                                                                                 \
    place best = {-1, {0}};                                                                                            \
    bool any = r->ndim > r->n_kept;                                                                                    \
    int64_t inner = any ? r->shape[r->ndim - 1] : 1, stride = any ? r->stride[r->ndim - 1] : 1;                        \
    for (int64_t at = 0, m; at < r->n_reduced; at += m) {                                                              \
      m = inner - at % inner < LT_BLOCK ? inner - at % inner : LT_BLOCK;                                               \
      int64_t offset = start + lt_reduction_step(r, at / inner) + at % inner * stride;                                 \
      lt_load_block(block, KIND, (char *)x->storage->data + offset * lt_dtype_size(x->dtype), x->dtype, stride, m);    \
      T top = f->along(f->start, block, m, 0, 0);                                                                      \
      if (best.at >= 0 && !BEATS(top, best.value.FIELD, sign)) continue;                                               \
      int64_t i = 0;                                                                                                   \
      while (i < m - 1 && block[i] != top && !(top != top && block[i] != block[i])) i++;                               \
      best.at = at + i;                                                                                                \
      best.value.FIELD = top;                                                                                          \
    }                                                                                                                  \
    return best;                                                                                                       \
  }
SEARCH(search_real, double, real, LT_FLOAT64, lt_fold, BEATS_REAL)
SEARCH(search_whole, int64_t, whole, LT_INT64, lt_fold_int, BEATS_WHOLE)

/* Positions go to output k; values, when k is 1, to output 0. */
static int positions(const lt_args *c, int k, int sign) {
  const lt_tensor *x = c->in[0];
  lt_reduction r;
  LT_TRY(lt_reduction_plan(c, &r));
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(x->n))
  for (int64_t i = 0; i < r.n_out; i++) {
    int64_t start = lt_reduction_start(x, &r, i);
    bool real = lt_is_float(x->dtype);
    place p = real ? search_real(x, &r, start, sign > 0 ? &lt_fold_largest : &lt_fold_smallest, sign)
                   : search_whole(x, &r, start, sign > 0 ? &lt_fold_int_largest : &lt_fold_int_smallest, sign);
    lt_store_int(lt_ptr(c->out[k]), c->out[k]->dtype, lt_offset_of(c->out[k], i), p.at);
    if (k == 0) continue;
    if (real)
      lt_store_double(lt_ptr(c->out[0]), x->dtype, lt_offset_of(c->out[0], i), p.value.real);
    else
      lt_store_int(lt_ptr(c->out[0]), x->dtype, lt_offset_of(c->out[0], i), p.value.whole);
  }
  return LT_OK;
}

static int argmax_shape(lt_args *c) {
  if (c->attr->n_list > 1)
    return lt_fail(LT_ERR_ARGUMENT,
                   "%s: %d dims given; positions are counted along one dim, or along all elements when it is nil",
                   c->op->name, c->attr->n_list);
  LT_TRY(not_empty(c));
  return lt_reduced_shape(c, LT_INT64);
}
static int argmax_cpu(lt_args *c) { return positions(c, 0, 1); }
static int argmin_cpu(lt_args *c) { return positions(c, 0, -1); }
const lt_op lt_op_argmax = {
    .name = "argmax",
    .signature = "argmax(x, dim: dims = nil, keepdim: bool = false)",
    .doc =
        "Position (from 0, int64) of the first largest element along the dim; in row order of all elements when nil.",
    .flags = LT_OP_NO_GRADIENT,
    .shape = argmax_shape,
    .cpu = argmax_cpu};
const lt_op lt_op_argmin = {
    .name = "argmin",
    .signature = "argmin(x, dim: dims = nil, keepdim: bool = false)",
    .doc =
        "Position (from 0, int64) of the first smallest element along the dim; in row order of all elements when nil.",
    .flags = LT_OP_NO_GRADIENT,
    .shape = argmax_shape,
    .cpu = argmin_cpu};

/* ---- max, min: values and positions ---- */
static int max_shape(lt_args *c) {
  if (c->attr->n_list != 1)
    return lt_fail(LT_ERR_ARGUMENT, "%s: %d dims given; it goes along one dim: use a%s for several or all", c->op->name,
                   c->attr->n_list, c->op->name);
  LT_TRY(not_empty(c));
  LT_TRY(lt_reduced_shape(c, c->in[0]->dtype));
  return lt_reduced_shape_k(c, 1, LT_INT64);
}
static int max_cpu(lt_args *c) { return positions(c, 1, 1); }
static int min_cpu(lt_args *c) { return positions(c, 1, -1); }
/* The gradient goes to the position that was given: where arange along the dim equals it. */
static void max_rule(lt_back *b) {
  const lt_edge *e = &b->edge[0];
  int64_t dim = b->attr->list[0];
  lt_attr count = {.f = {0, (double)e->shape[dim] - 1, 1}, .i = {LT_INT64}}, along = {.n_list = e->ndim},
          one = {.n_list = e->ndim};
  if (!b->grad[0]) return;
  for (int d = 0; d < e->ndim; d++) {
    along.list[d] = d == dim ? e->shape[d] : 1;
    one.list[d] = d == dim ? 1 : e->shape[d];
  }
  lt_tensor *here = LT_DO_ATTR(b, reshape, &along, lt_do(b, LT_OP_arange, &count, 0, NULL));
  lt_tensor *chosen = LT_DO(b, eq, here, LT_DO_ATTR(b, reshape, &one, b->out[1]));
  LT_GRAD(b, 0, where, chosen, LT_DO_ATTR(b, reshape, &one, b->grad[0]), lt_number(b, 0, e->dtype));
}
const lt_op lt_op_max = {
    .name = "max",
    .signature = "max(x, dim: dims, keepdim: bool = false)",
    .n_out = 2,
    .doc = "Largest elements along one dim, and their positions (from 0, int64; the first of equal ones, NaN wins).",
    .shape = max_shape,
    .cpu = max_cpu,
    .backward = max_rule,
    .keep = LT_OUT(1)};
const lt_op lt_op_min = {
    .name = "min",
    .signature = "min(x, dim: dims, keepdim: bool = false)",
    .n_out = 2,
    .doc = "Smallest elements along one dim, and their positions (from 0, int64; the first of equal ones, NaN wins).",
    .shape = max_shape,
    .cpu = min_cpu,
    .backward = max_rule,
    .keep = LT_OUT(1)};

/* ---- truth: anything but 0 is true ---- */
typedef enum question { HOW_MANY, ANY, ALL } question;
static int ask(const lt_args *c, question q) {
  lt_reduction r;
  void *v;
  LT_TRY(fold_all(c, &lt_fold_count, &lt_fold_int_count, &r, &v));
  int64_t *n = v;
  for (int64_t i = 0; i < r.n_out; i++) {
    if (lt_is_float(c->in[0]->dtype)) n[i] = (int64_t)((double *)v)[i];
    if (q != HOW_MANY) n[i] = q == ANY ? n[i] > 0 : n[i] == r.n_reduced;
  }
  lt_put_ints(c, 0, n);
  lt_free(v, r.n_out * 8);
  return LT_OK;
}
static int truth_shape(lt_args *c) { return lt_reduced_shape(c, LT_BOOL); }
static int count_shape(lt_args *c) { return lt_reduced_shape(c, LT_INT64); }
static int any_cpu(lt_args *c) { return ask(c, ANY); }
static int all_cpu(lt_args *c) { return ask(c, ALL); }
static int count_nonzero_cpu(lt_args *c) { return ask(c, HOW_MANY); }
const lt_op lt_op_any = {.name = "any",
                         .signature = "any(x, dims: dims = nil, keepdim: bool = false)",
                         .doc = "True where at least one element over the given dims (all when nil) is not 0.",
                         .flags = LT_OP_NO_GRADIENT,
                         .shape = truth_shape,
                         .cpu = any_cpu};
const lt_op lt_op_all = {.name = "all",
                         .signature = "all(x, dims: dims = nil, keepdim: bool = false)",
                         .doc = "True where no element over the given dims (all when nil) is 0.",
                         .flags = LT_OP_NO_GRADIENT,
                         .shape = truth_shape,
                         .cpu = all_cpu};
const lt_op lt_op_count_nonzero = {.name = "count_nonzero",
                                   .signature = "count_nonzero(x, dims: dims = nil, keepdim: bool = false)",
                                   .doc = "How many elements over the given dims (all when nil) are not 0, as int64.",
                                   .flags = LT_OP_NO_GRADIENT,
                                   .shape = count_shape,
                                   .cpu = count_nonzero_cpu};
