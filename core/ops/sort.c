/* sort, topk, unique, searchsorted: what follows from the order of elements. All are stable, ties keep their order, and
 * NaN counts as the largest value. Lines along the sorted dim are independent and shared among threads. */
#include "keys.h"
#include "stage.h"

#include <omp.h>

/* Scratch of each thread: `each` ranked elements. */
static int scratch(int64_t lines, int64_t each, int *threads, lt_ranked **out) {
  int64_t work = lines * each;
  *threads = lt_threads_for(work);
  if (*threads > lines) *threads = lines > 1 ? (int)lines : 1;
  *out = lt_alloc(*threads * (each > 0 ? each : 1) * (int64_t)sizeof **out);
  return *out ? LT_OK : LT_ERR_MEMORY;
}
static void scratch_free(lt_ranked *s, int threads, int64_t each) {
  lt_free(s, threads * (each > 0 ? each : 1) * (int64_t)sizeof *s);
}

/* Values and positions of the first k ranked elements into a line of the outputs. */
static void put_line(const lt_ranked *v, int64_t k, const void *x, int64_t x_stride, int64_t size, void *values,
                     int64_t *ids, int64_t stride) {
  for (int64_t i = 0; i < k; i++) ids[i * stride] = v[i].at;
  LT_BY_SIZE(size, const T *from = x; T *to = values;
             for (int64_t i = 0; i < k; i++) to[i * stride] = from[v[i].at * x_stride];)
}

/* Keeps the first k of the ranked elements, in rising `at`: a heap of the k smallest finds the border. */
static void keep_first(lt_ranked *v, lt_ranked *heap, int64_t n, int64_t k) {
#define AFTER(a, b) ((a).key > (b).key || ((a).key == (b).key && (a).at > (b).at))
  for (int64_t i = 0; i < n; i++) {
    lt_ranked x = v[i];
    int64_t hole;
    if (i < k) { /* up */
      for (hole = i; hole > 0 && AFTER(x, heap[(hole - 1) / 2]); hole = (hole - 1) / 2)
        heap[hole] = heap[(hole - 1) / 2];
    } else if (x.key < heap[0].key) { /* down, in place of the last of the kept */
      hole = 0;
      for (int64_t child; (child = 2 * hole + 1) < k; hole = child) {
        if (child + 1 < k && AFTER(heap[child + 1], heap[child])) child++;
        if (!AFTER(heap[child], x)) break;
        heap[hole] = heap[child];
      }
    } else
      continue;
    heap[hole] = x;
  }
  lt_ranked border = heap[0];
  for (int64_t i = 0, kept = 0; i < n; i++)
    if (!AFTER(v[i], border)) v[kept++] = v[i];
#undef AFTER
}

/* The first k of each line, in order. k = length: all of it. */
static int sort_lines(lt_args *c, int64_t dim, int64_t k, bool descending) {
  lt_tensor *x, *values, *ids;
  LT_TRY(lt_contiguous(c->in[0], &x));
  int status = lt_stage(c, 0, &values);
  if (status >= 0) {
    status = lt_stage(c, 1, &ids);
    if (status < 0) lt_tensor_release(values);
  }
  if (status < 0) {
    lt_tensor_release(x);
    return status;
  }
  lt_split s = lt_split_at(x, dim);
  int64_t lines = s.outer * s.inner, size = lt_dtype_size(x->dtype), each = 2 * s.length;
  lt_ranked *ranked;
  int threads;
  status = scratch(lines, each, &threads, &ranked);
  if (status >= 0 && k > 0) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t line = 0; line < lines; line++) {
      lt_ranked *v = ranked + omp_get_thread_num() * each;
      int64_t o = line / s.inner, i = line % s.inner, to = o * k * s.inner + i;
      const char *from = (const char *)lt_ptr(x) + (o * s.length * s.inner + i) * size;
      lt_rank_line(from, x->dtype, s.inner, s.length, descending, v);
      bool few = k <= s.length / 8;
      if (few) keep_first(v, v + s.length, s.length, k);
      lt_sort_ranked(v, v + s.length, few ? k : s.length);
      put_line(v, k, from, s.inner, size, (char *)lt_ptr(values) + to * size, (int64_t *)lt_ptr(ids) + to, s.inner);
    }
  }
  if (status >= 0) scratch_free(ranked, threads, each);
  lt_tensor_release(x);
  status = lt_unstage(c, 0, values, status);
  return lt_unstage(c, 1, ids, status);
}

/* The gradient of each value goes to the place it came from; places are distinct, so adding is putting. */
static void to_places(lt_back *b, int64_t dim) {
  lt_attr zeros = {.n_list = b->edge[0].ndim, .i = {b->edge[0].dtype}}, at = {.i = {dim}};
  memcpy(zeros.list, b->edge[0].shape, sizeof b->edge[0].shape);
  if (!b->grad[0] || !lt_wants(b, 0)) return;
  LT_GRAD_ATTR(b, 0, scatter_add, &at, lt_do(b, LT_OP_zeros, &zeros, 0, NULL), b->out[1], b->grad[0]);
}

/* ---- sort ---- */
static int sort_shape(lt_args *c) {
  const lt_tensor *x = c->in[0];
  LT_TRY(lt_check_dim(c, x, c->attr->i[0]));
  LT_TRY(lt_out_like(c, 0, x));
  return lt_out(c, 1, LT_INT64, x->ndim, x->shape);
}
static int sort_cpu(lt_args *c) {
  int64_t dim = c->attr->i[0];
  return sort_lines(c, dim, c->in[0]->shape[dim], c->attr->i[1]);
}
static void sort_rule(lt_back *b) { to_places(b, b->attr->i[0]); }
const lt_op lt_op_sort = {
    .name = "sort",
    .signature = "sort(x, dim: dim = -1, descending: bool = false)",
    .n_out = 2,
    .doc = "Values in order along one dim, and the positions (0-based, int64) they had. Equal values keep their "
           "order; NaN counts as the largest.",
    .shape = sort_shape,
    .cpu = sort_cpu,
    .backward = sort_rule,
    .keep = LT_OUT(1)};

/* ---- topk ---- */
static int topk_shape(lt_args *c) {
  const lt_tensor *x = c->in[0];
  int64_t k = c->attr->i[0], dim = c->attr->i[1], shape[LT_MAX_DIMS];
  LT_TRY(lt_check_dim(c, x, dim));
  if (k < 0 || k > x->shape[dim])
    return lt_fail(LT_ERR_RANGE, "topk: k is %lld and dim %lld of %s has %lld elements; k must be 0 to %lld",
                   (long long)k, (long long)dim + 1, lt_shape_text(x), (long long)x->shape[dim],
                   (long long)x->shape[dim]);
  memcpy(shape, x->shape, sizeof shape);
  shape[dim] = k;
  LT_TRY(lt_out(c, 0, x->dtype, x->ndim, shape));
  return lt_out(c, 1, LT_INT64, x->ndim, shape);
}
static int topk_cpu(lt_args *c) { return sort_lines(c, c->attr->i[1], c->attr->i[0], c->attr->i[2]); }
static void topk_rule(lt_back *b) { to_places(b, b->attr->i[1]); }
const lt_op lt_op_topk = {
    .name = "topk",
    .signature = "topk(x, k: int, dim: dim = -1, largest: bool = true)",
    .n_out = 2,
    .doc = "The k largest (or smallest) values along one dim, best first, and their positions (0-based, int64). Of "
           "equal values the first wins; NaN counts as the largest.",
    .shape = topk_shape,
    .cpu = topk_cpu,
    .backward = topk_rule,
    .keep = LT_OUT(1)};

/* ---- unique ---- */
static int unique_shape(lt_args *c) {
  const lt_tensor *x = c->in[0];
  int64_t none = 0;
  LT_TRY(lt_out(c, 0, x->dtype, 1, &none)); /* the kernel sizes it */
  LT_TRY(lt_out(c, 1, LT_INT64, x->ndim, x->shape));
  return lt_out(c, 2, LT_INT64, 1, &none);
}
static int write_unique(lt_args *c, const lt_tensor *x, const lt_ranked *v) {
  int64_t n = x->n, u = 0, size = lt_dtype_size(x->dtype), *inverse = lt_ptr(c->out[1]);
  for (int64_t i = 0; i < n; i++) {
    u += i > 0 && v[i].key != v[i - 1].key;
    inverse[v[i].at] = u;
  }
  u += n > 0;
  LT_TRY(lt_out_sized(c, 0, 1, &u));
  LT_TRY(lt_out_sized(c, 2, 1, &u));
  char *values = lt_ptr(c->out[0]);
  int64_t *counts = lt_ptr(c->out[2]);
  memset(counts, 0, (size_t)u * sizeof *counts);
  for (int64_t i = 0, k = -1; i < n; i++) {
    if (i == 0 || v[i].key != v[i - 1].key)
      memcpy(values + ++k * size, (const char *)lt_ptr(x) + v[i].at * size, (size_t)size);
    counts[k]++;
  }
  return LT_OK;
}
static int unique_cpu(lt_args *c) {
  lt_tensor *x;
  lt_ranked *v;
  int one;
  LT_TRY(lt_contiguous(c->in[0], &x));
  int status = scratch(1, 2 * x->n, &one, &v);
  if (status >= 0) {
    lt_rank_line(lt_ptr(x), x->dtype, 1, x->n, false, v);
    lt_sort_ranked(v, v + x->n, x->n);
    status = write_unique(c, x, v);
    scratch_free(v, one, 2 * x->n);
  }
  lt_tensor_release(x);
  return status;
}
const lt_op lt_op_unique = {
    .name = "unique",
    .signature = "unique(x)",
    .n_out = 3,
    .doc = "The distinct values of x in rising order [u]; for each element of x the position (0-based, int64) of its "
           "value among them; and how often each occurs [u]. All NaN are one value.",
    .flags = LT_OP_NO_GRADIENT,
    .shape = unique_shape,
    .cpu = unique_cpu};

/* ---- searchsorted ---- */
static int searchsorted_shape(lt_args *c) {
  const lt_tensor *edges = c->in[0], *x = c->in[1];
  bool lines = edges->ndim > 1;
  if (edges->ndim == 0) return lt_fail(LT_ERR_SHAPE, "searchsorted: sorted is a number; it must have at least one dim");
  if (lines &&
      (x->ndim != edges->ndim || memcmp(x->shape, edges->shape, (size_t)(x->ndim - 1) * sizeof *x->shape) != 0))
    return lt_fail(LT_ERR_SHAPE,
                   "searchsorted: sorted is %s and values %s; sorted must be one line, or both must agree in all dims "
                   "but the last",
                   lt_shape_text(edges), lt_shape_text(x));
  return lt_out(c, 0, LT_INT64, x->ndim, x->shape);
}
static int as_dtype(lt_tensor *t, int dtype, lt_tensor **out) {
  lt_tensor *same;
  lt_attr attr = {.i = {dtype}};
  LT_TRY(lt_run(LT_OP_to, &t, 1, &attr, &same, 1));
  int status = lt_contiguous(same, out);
  lt_tensor_release(same);
  return status;
}
/* How many of the m keys of a line are below `key`; halving without branches, which would be guessed wrong. */
static int64_t count_below(const uint64_t *line, int64_t m, uint64_t key) {
  const uint64_t *at = line;
  for (; m > 1; m -= m / 2) at += at[m / 2 - 1] < key ? m / 2 : 0;
  return at - line + (*at < key);
}
static int search_lines(lt_args *c, const lt_tensor *edges, const lt_tensor *x, lt_tensor *out) {
  enum { BLOCK = 256 };
  int64_t m = edges->shape[edges->ndim - 1], lines = edges->ndim > 1 ? edges->n / (m ? m : 1) : 1;
  int64_t n = lines ? x->n / lines : 0, size = lt_dtype_size(x->dtype), *found = lt_ptr(out);
  uint64_t right = c->attr->i[0] != 0; /* edges equal to the value count too: compare with the next key */
  lt_ranked *ranked;
  int one;
  if (m == 0) {
    memset(found, 0, (size_t)x->n * sizeof *found);
    return LT_OK;
  }
  LT_TRY(scratch(1, edges->n, &one, &ranked));
  uint64_t *keys = (uint64_t *)ranked; /* packed over the ranked elements they come from */
  lt_rank_line(lt_ptr(edges), edges->dtype, 1, edges->n, false, ranked);
  for (int64_t i = 0; i < edges->n; i++) keys[i] = ranked[i].key;
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(x->n * 16))
  for (int64_t first = 0; first < x->n; first += BLOCK) {
    lt_ranked v[BLOCK];
    int64_t count = x->n - first < BLOCK ? x->n - first : BLOCK;
    lt_rank_line((const char *)lt_ptr(x) + first * size, x->dtype, 1, count, false, v);
    for (int64_t i = 0; i < count; i++) {
      const uint64_t *line = lines == 1 ? keys : keys + (first + i) / n * m;
      bool all = right && v[i].key == UINT64_MAX; /* has no next key: nothing is above it */
      found[first + i] = all ? m : count_below(line, m, v[i].key + right);
    }
  }
  scratch_free(ranked, one, edges->n);
  return LT_OK;
}
static int searchsorted_cpu(lt_args *c) {
  int dtype = lt_promote(c->in[0]->dtype, c->in[1]->dtype);
  if (lt_is_float(dtype) && c->in[0]->dtype != c->in[1]->dtype)
    dtype = LT_FLOAT64; /* holds all but the largest int64 */
  lt_tensor *edges, *x, *out;
  LT_TRY(as_dtype(c->in[0], dtype, &edges));
  int status = as_dtype(c->in[1], dtype, &x);
  if (status >= 0) {
    status = lt_stage(c, 0, &out);
    if (status >= 0) status = lt_unstage(c, 0, out, search_lines(c, edges, x, out));
    lt_tensor_release(x);
  }
  lt_tensor_release(edges);
  return status;
}
const lt_op lt_op_searchsorted = {
    .name = "searchsorted",
    .signature = "searchsorted(sorted, values: operand, right: bool = false)",
    .doc = "For each value how many elements of sorted (rising, along its last dim) come before it: those less "
           "than it, or, with right, those not greater. int64. sorted is one line, or has the leading dims of values.",
    .flags = LT_OP_NO_GRADIENT,
    .shape = searchsorted_shape,
    .cpu = searchsorted_cpu};
