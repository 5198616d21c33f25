/* embedding_bag: for each bag of ids the sum, mean or largest values of their rows, without the rows in between.
 * Every mode is a weighted sum of rows, y[b] = sum over places p of bag b of share[p] weight[ids[p]], where share is 1,
 * 1 / (ids of the bag), or 1 at the places that hold the largest value; embedding_bag_share gives bag and share of each
 * place, and the gradient is made of operators on them. */
#include "lookup.h"

enum { SUM, MEAN, MAX };
enum { IDS, TABLE, OFFSETS, WEIGHTS };

static int check_bags(const lt_args *c, int64_t *bags) {
  const lt_tensor *ids = c->in[IDS], *w = c->in[TABLE], *o = c->in[OFFSETS];
  const char *name = "embedding_bag";
  LT_TRY(lt_need_ids(c, IDS));
  if (w->dtype != LT_FLOAT32 && w->dtype != LT_FLOAT64)
    return lt_fail(LT_ERR_DTYPE, "%s: the table is %s; it must be float32 or float64", name, lt_dtype_name(w->dtype));
  if (w->ndim != 2)
    return lt_fail(LT_ERR_SHAPE, "%s: the table is %s; it must be [rows, width]", name, lt_shape_text(w));
  if (!o) {
    if (ids->ndim != 2)
      return lt_fail(LT_ERR_SHAPE, "%s: the ids are %s; without offsets they must be [bags, ids of a bag]", name,
                     lt_shape_text(ids));
    *bags = ids->shape[0];
    return LT_OK;
  }
  LT_TRY(lt_need_ids(c, OFFSETS));
  if (ids->ndim != 1 || o->ndim != 1)
    return lt_fail(LT_ERR_SHAPE, "%s: the ids are %s and the offsets %s; with offsets both must be one dim", name,
                   lt_shape_text(ids), lt_shape_text(o));
  *bags = o->n;
  if (o->n == 0 && ids->n)
    return lt_fail(LT_ERR_SHAPE, "%s: %lld ids and no offsets; every id belongs to a bag", name, (long long)ids->n);
  for (int64_t b = 0, before = 0; b < o->n; b++) {
    int64_t at = lt_load_int(lt_ptr(o), o->dtype, b * o->stride[0]);
    if (b == 0 && at != 0)
      return lt_fail(LT_ERR_RANGE, "%s: the first bag starts at %lld; it must start at 0", name, (long long)at);
    if (at < before || at > ids->n)
      return lt_fail(LT_ERR_RANGE,
                     "%s: bag %lld starts at %lld and the one before at %lld; offsets must not fall nor pass %lld, the "
                     "number of ids",
                     name, (long long)b + 1, (long long)at, (long long)before, (long long)ids->n);
    before = at;
  }
  return LT_OK;
}

/* First place of bag b; of the bag behind the last one, the number of ids. */
static int64_t bag_start(const lt_args *c, int64_t bags, int64_t b) {
  const lt_tensor *o = c->in[OFFSETS];
  if (!o) return b * c->in[IDS]->shape[1];
  return b < bags ? lt_load_int(lt_ptr(o), o->dtype, b * o->stride[0]) : c->in[IDS]->n;
}

typedef struct bags {
  lt_lookup lookup;
  lt_tensor *ids, *table, *weights; /* contiguous; weights may be NULL */
  int64_t n;                        /* bags */
  int mode;
} bags;

static int open_bags(lt_args *c, const lt_tensor *weights, bags *j) {
  static const int64_t zero = 0;
  *j = (bags){.mode = (int)c->attr->i[0]};
  LT_TRY(check_bags(c, &j->n));
  LT_TRY(lt_contiguous(c->in[IDS], &j->ids));
  bool flat = c->in[TABLE]->stride[1] == 1 || c->in[TABLE]->shape[1] == 1;
  int status = flat ? (j->table = lt_tensor_retain(c->in[TABLE]), LT_OK) : lt_contiguous(c->in[TABLE], &j->table);
  if (status >= 0 && weights) status = lt_contiguous((lt_tensor *)weights, &j->weights);
  if (status < 0) return status;
  j->lookup = (lt_lookup){.ids = lt_ptr(j->ids),
                          .wide = j->ids->dtype == LT_INT64,
                          .batch = j->ids->n,
                          .fields = 1,
                          .first = &zero,
                          .size = &j->table->shape[0],
                          .padding = c->attr->i[1]};
  int64_t bad = lt_lookup_check(&j->lookup);
  if (bad >= 0)
    return lt_fail(LT_ERR_RANGE, "embedding_bag: id %lld at position %lld; legal ids are 0 to %lld",
                   (long long)lt_lookup_id(&j->lookup, bad), (long long)bad + 1, (long long)j->table->shape[0] - 1);
  return LT_OK;
}
static int close_bags(bags *j, int status) {
  lt_tensor_release(j->ids);
  lt_tensor_release(j->table);
  lt_tensor_release(j->weights);
  return status;
}

#define KERNELS(T, suffix)                                                                                             \
  static void pool_##suffix(const bags *j, int64_t first, int64_t end, T *out) {                                       \
    int64_t dim = j->table->shape[1], pitch = j->table->stride[0], count = 0;                                          \
    const T *table = lt_ptr(j->table), *weights = j->weights ? lt_ptr(j->weights) : NULL;                              \
    for (int64_t k = 0; k < dim; k++) out[k] = 0;                                                                      \
    for (int64_t p = first; p < end; p++) {                                                                            \
      int64_t id = lt_lookup_id(&j->lookup, p);                                                                        \
      const T *row = table + id * pitch, w = weights ? weights[p] : 1;                                                 \
      if (id == j->lookup.padding) continue;                                                                           \
      if (j->mode == MAX)                                                                                              \
        for (int64_t k = 0; k < dim; k++) out[k] = count && out[k] >= row[k] ? out[k] : row[k];                        \
      else                                                                                                             \
        for (int64_t k = 0; k < dim; k++) out[k] += w * row[k];                                                        \
      count++;                                                                                                         \
    }                                                                                                                  \
    for (int64_t k = 0; j->mode == MEAN && count && k < dim; k++) out[k] /= (T)count;                                  \
  }                                                                                                                    \
  /* share: [places, 1], or [places, dim] of the largest */                                                            \
  static void share_##suffix(const bags *j, int64_t first, int64_t end, T *share) {                                    \
    int64_t dim = j->table->shape[1], pitch = j->table->stride[0], count = 0;                                          \
    const T *table = lt_ptr(j->table);                                                                                 \
    for (int64_t p = first; p < end; p++) count += lt_lookup_id(&j->lookup, p) != j->lookup.padding;                   \
    for (int64_t p = first; p < end && j->mode != MAX; p++)                                                            \
      share[p] = lt_lookup_id(&j->lookup, p) == j->lookup.padding ? 0 : j->mode == MEAN ? 1 / (T)count : 1;            \
    for (int64_t k = 0; k < dim && j->mode == MAX; k++) {                                                              \
      int64_t best = -1;                                                                                               \
      for (int64_t p = first; p < end; p++) {                                                                          \
        int64_t id = lt_lookup_id(&j->lookup, p);                                                                      \
        share[p * dim + k] = 0;                                                                                        \
        if (id == j->lookup.padding) continue;                                                                         \
        if (best < 0 || !(table[lt_lookup_id(&j->lookup, best) * pitch + k] >= table[id * pitch + k])) best = p;       \
      }                                                                                                                \
      if (best >= 0) share[best * dim + k] = 1;                                                                        \
    }                                                                                                                  \
  }
KERNELS(float, f32)
KERNELS(double, f64)

/* ---- embedding_bag ---- */
static int bag_shape(lt_args *c) {
  const lt_tensor *w = c->in[WEIGHTS], *table = c->in[TABLE];
  int64_t n;
  LT_TRY(check_bags(c, &n));
  if (w && (w->dtype != table->dtype || !lt_same_shape(w, c->in[IDS])))
    return lt_fail(LT_ERR_SHAPE,
                   "embedding_bag: the weights are %s %s; they must be %s like the table and %s like the ids",
                   lt_shape_text(w), lt_dtype_name(w->dtype), lt_dtype_name(table->dtype), lt_shape_text(c->in[IDS]));
  if (w && c->attr->i[0] != SUM)
    return lt_fail(LT_ERR_ARGUMENT, "embedding_bag: weights go with mode = \"sum\" only; the mode is \"%s\"",
                   c->attr->i[0] == MEAN ? "mean" : "max");
  LT_TRY(lt_need_whole_out(c));
  return lt_out(c, 0, table->dtype, 2, (int64_t[]){n, table->shape[1]});
}
static int bag_cpu(lt_args *c) {
  bags j;
  int status = open_bags(c, c->in[WEIGHTS], &j);
  if (status >= 0) {
    int64_t dim = j.table->shape[1];
    void *out = lt_ptr(c->out[0]);
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(j.ids->n *dim))
    for (int64_t b = 0; b < j.n; b++) {
      int64_t first = bag_start(c, j.n, b), end = bag_start(c, j.n, b + 1);
      if (j.table->dtype == LT_FLOAT64)
        pool_f64(&j, first, end, (double *)out + b * dim);
      else
        pool_f32(&j, first, end, (float *)out + b * dim);
    }
  }
  return close_bags(&j, status);
}
static void bag_rule(lt_back *b) {
  lt_attr dim1 = {.i = {0}}, flat = {.n_list = 1, .list = {-1}}, column = {.n_list = 2, .list = {-1, 1}},
          rows = {.n_list = 1, .list = {1}};
  lt_attr back = {.i = {b->edge[TABLE].shape[0], b->attr->i[1]}};
  lt_tensor *share[2], *out[2];
  lt_do_n(b, LT_OP_embedding_bag_share, b->attr, 3, (lt_tensor *[]){b->in[IDS], b->in[TABLE], b->in[OFFSETS]}, 2,
          share);
  lt_tensor *ids = LT_DO_ATTR(b, reshape, &flat, b->in[IDS]);
  lt_tensor *g = LT_DO(b, mul, LT_DO_ATTR(b, index_select, &dim1, b->grad[0], share[0]), share[1]);
  if (lt_wants(b, WEIGHTS)) {
    lt_attr shape = {.n_list = b->edge[WEIGHTS].ndim};
    memcpy(shape.list, b->edge[WEIGHTS].shape, sizeof b->edge[WEIGHTS].shape);
    lt_attr plain = {.i = {-1}}; /* the share of padding is 0 already */
    lt_tensor *dots = LT_DO_ATTR(b, sum, &rows, LT_DO(b, mul, g, LT_DO_ATTR(b, embedding, &plain, ids, b->in[TABLE])));
    LT_GRAD_ATTR(b, WEIGHTS, reshape, &shape, dots);
  }
  if (!lt_wants(b, TABLE)) return;
  if (b->in[WEIGHTS]) g = LT_DO(b, mul, g, LT_DO_ATTR(b, reshape, &column, b->in[WEIGHTS]));
  lt_do_n(b, LT_OP_embedding_backward, &back, 2, (lt_tensor *[]){g, ids}, 2, out);
  lt_give_rows(b, TABLE, out[0], out[1]);
}
const lt_op lt_op_embedding_bag = {
    .name = "embedding_bag",
    .signature =
        "embedding_bag(ids, weight, offsets: tensor?, weights: tensor?, mode: sum|mean|max = mean, padding: int = -1)",
    .doc = "For each bag of 0-based ids the sum, mean or largest values of their rows of weight [rows, width]: [bags, "
           "width]. Bags are the rows "
           "of ids, or, with offsets, stretches of one long list that start there. An empty bag gives zeros; padding "
           "ids don't count; "
           "weights (mode sum) multiply the rows.",
    .shape = bag_shape,
    .cpu = bag_cpu,
    .backward = bag_rule,
    .keep = LT_IN(IDS) | LT_IN(TABLE) | LT_IN(OFFSETS) | LT_IN(WEIGHTS),
    .flags = LT_OP_NO_METHOD};

/* ---- embedding_bag_share ---- */
static int share_shape(lt_args *c) {
  int64_t n = c->in[IDS]->n;
  LT_TRY(lt_need_whole_out(c));
  LT_TRY(lt_out(c, 0, LT_INT64, 1, &n));
  return lt_out(c, 1, c->in[TABLE]->dtype, 2, (int64_t[]){n, c->attr->i[0] == MAX ? c->in[TABLE]->shape[1] : 1});
}
static int share_cpu(lt_args *c) {
  bags j;
  int status = open_bags(c, NULL, &j);
  if (status >= 0) {
    int64_t *bag = lt_ptr(c->out[0]);
    void *share = lt_ptr(c->out[1]);
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(c->out[1]->n))
    for (int64_t b = 0; b < j.n; b++) {
      int64_t first = bag_start(c, j.n, b), end = bag_start(c, j.n, b + 1);
      for (int64_t p = first; p < end; p++) bag[p] = b;
      if (j.table->dtype == LT_FLOAT64)
        share_f64(&j, first, end, share);
      else
        share_f32(&j, first, end, share);
    }
  }
  return close_bags(&j, status);
}
const lt_op lt_op_embedding_bag_share = {
    .name = "embedding_bag_share",
    .signature = "embedding_bag_share(ids, weight, offsets: tensor?, mode: sum|mean|max = mean, padding: int = -1)",
    .n_out = 2,
    .doc = "For each place its bag, and the share of its row in the bag's result.",
    .flags = LT_OP_HIDDEN | LT_OP_NO_GRADIENT,
    .shape = share_shape,
    .cpu = share_cpu};
