/* field_embedding: all categorical features of a sample looked up in one table in one pass, with the two sums that
 * click models want of them: the linear weights (a last column of the table) and the interaction term of interaction.c.
 * The gradient is one pass as well, over the distinct rows; with create_graph it is made of operators instead. */
#include "by_eight.h"
#include "lookup.h"

enum { SAMPLES = 64, LINEAR = 0, FM = 1, PADDING = 2 }; /* attributes i[] */
enum { OUT_X, OUT_LINEAR, OUT_FM, OUT_SUMS, OUTS };

typedef struct field_job {
  lt_lookup lookup;
  const void *table; /* [rows, dim (+ 1)], rows `pitch` elements apart */
  int64_t pitch, dim;
  void *x, *linear, *term, *sums; /* [batch, fields * dim], [batch], [batch], [batch, dim]; NULL: not asked for */
} field_job;

#define ELEM float
#define NAME(x) x##_f32
#include "field_template.h"
#undef ELEM
#undef NAME

#define ELEM double
#define NAME(x) x##_f64
#include "field_template.h"

/* ---- shapes and checks, shared with the gradient ---- */

static int check_fields(const lt_args *c, const lt_tensor *ids, const lt_tensor *first, const lt_tensor *size,
                        int64_t n_rows) {
  if (ids->ndim != 2)
    return lt_fail(LT_ERR_SHAPE, "%s: the ids are %s; they must be [batch, features]", c->op->name, lt_shape_text(ids));
  for (int k = 0; k < 2; k++) {
    const lt_tensor *t = k ? size : first;
    if (t->ndim != 1 || t->n != ids->shape[1] || t->dtype != LT_INT64)
      return lt_fail(LT_ERR_SHAPE, "%s: %s are %s %s and the ids %s; they must be int64, one number a feature",
                     c->op->name, k ? "sizes" : "offsets", lt_shape_text(t), lt_dtype_name(t->dtype),
                     lt_shape_text(ids));
  }
  const int64_t *at = lt_ptr(first), *n = lt_ptr(size);
  for (int64_t f = 0; f < first->n; f++) {
    int64_t from = at[f * first->stride[0]], rows = n[f * size->stride[0]];
    if (from < 0 || rows < 0 || from > n_rows - rows)
      return lt_fail(LT_ERR_RANGE, "%s: feature %lld has %lld rows from row %lld on; the table has %lld", c->op->name,
                     (long long)f + 1, (long long)rows, (long long)from, (long long)n_rows);
  }
  return LT_OK;
}

static lt_lookup field_lookup(const lt_tensor *ids, const lt_tensor *first, const lt_tensor *size, int64_t padding) {
  return (lt_lookup){.ids = lt_ptr(ids),
                     .wide = ids->dtype == LT_INT64,
                     .batch = ids->shape[0],
                     .fields = ids->shape[1],
                     .first = lt_ptr(first),
                     .size = lt_ptr(size),
                     .padding = padding};
}

static int check_ids(const lt_args *c, const lt_lookup *l) {
  int64_t bad = lt_lookup_check(l);
  if (bad < 0) return LT_OK;
  int64_t f = bad % l->fields;
  if (l->size[f] == 0)
    return lt_fail(LT_ERR_RANGE, "%s: feature %lld, row %lld: id %lld; the feature has no rows", c->op->name,
                   (long long)f + 1, (long long)(bad / l->fields) + 1, (long long)lt_lookup_id(l, bad));
  return lt_fail(LT_ERR_RANGE, "%s: feature %lld, row %lld: id %lld; legal ids are 0 to %lld", c->op->name,
                 (long long)f + 1, (long long)(bad / l->fields) + 1, (long long)lt_lookup_id(l, bad),
                 (long long)l->size[f] - 1);
}

static int field_shape(lt_args *c) {
  const lt_tensor *ids = c->in[0], *w = c->in[1];
  bool linear = c->attr->i[LINEAR], fm = c->attr->i[FM];
  LT_TRY(lt_need_ids(c, 0));
  if (w->dtype != LT_FLOAT32 && w->dtype != LT_FLOAT64)
    return lt_fail(LT_ERR_DTYPE, "field_embedding: the table is %s; it must be float32 or float64",
                   lt_dtype_name(w->dtype));
  if (w->ndim != 2 || w->shape[1] < (linear ? 1 : 0))
    return lt_fail(LT_ERR_SHAPE,
                   "field_embedding: the table is %s; it must be [rows, dim], and one column more with linear = true",
                   lt_shape_text(w));
  LT_TRY(check_fields(c, ids, c->in[2], c->in[3], w->shape[0]));
  LT_TRY(lt_need_whole_out(c));
  int64_t dim = w->shape[1] - linear, batch = ids->shape[0], none = 0;
  LT_TRY(lt_out(c, OUT_X, w->dtype, 2, (int64_t[]){batch, ids->shape[1] * dim}));
  LT_TRY(lt_out(c, OUT_LINEAR, w->dtype, 1, linear ? &batch : &none));
  LT_TRY(lt_out(c, OUT_FM, w->dtype, 1, fm ? &batch : &none));
  return lt_out(c, OUT_SUMS, w->dtype, 2, (int64_t[]){fm ? batch : 0, dim});
}

static int field_cpu(lt_args *c) {
  lt_tensor *t[4] = {0}, *w;
  int status = LT_OK;
  for (int k = 0; k < 4 && status >= 0; k++) {
    bool as_it_is = k == 1 && (c->in[1]->stride[1] == 1 || c->in[1]->shape[1] == 1); /* rows may lie apart */
    if (as_it_is)
      t[k] = lt_tensor_retain(c->in[k]);
    else
      status = lt_contiguous(c->in[k], &t[k]);
  }
  if (status >= 0) {
    w = t[1];
    field_job j = {.lookup = field_lookup(t[0], t[2], t[3], -1),
                   .table = lt_ptr(w),
                   .pitch = w->stride[0],
                   .x = lt_ptr(c->out[OUT_X]),
                   .dim = w->shape[1] - (c->attr->i[LINEAR] != 0)};
    if (c->attr->i[LINEAR]) j.linear = lt_ptr(c->out[OUT_LINEAR]);
    if (c->attr->i[FM]) j.term = lt_ptr(c->out[OUT_FM]), j.sums = lt_ptr(c->out[OUT_SUMS]);
    status = check_ids(c, &j.lookup);
    if (status >= 0) {
      int64_t batch = j.lookup.batch;
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(batch *j.lookup.fields * w->shape[1]))
      for (int64_t s = 0; s < batch; s += SAMPLES)
        if (w->dtype == LT_FLOAT64)
          gather_range_f64(&j, s, s + SAMPLES < batch ? s + SAMPLES : batch);
        else
          gather_range_f32(&j, s, s + SAMPLES < batch ? s + SAMPLES : batch);
    }
  }
  for (int k = 0; k < 4; k++) lt_tensor_release(t[k]);
  return status;
}

/* ---- the gradient ---- */

/* By operators, for second derivatives and for who uses the sums: gradients of what was read, then their sums by row.
 */
static void rule_by_operators(lt_back *b, lt_tensor *const *grad) {
  const lt_edge *table = &b->edge[1];
  bool linear = b->attr->i[LINEAR];
  int64_t batch = b->edge[0].shape[0], fields = b->edge[0].shape[1], dim = table->shape[1] - linear;
  lt_attr whole = {.n_list = 3, .list = {batch, fields, dim}};
  lt_tensor *x = NULL, *part[2] = {0}, *total, *rows[2];
  if (grad[OUT_X]) x = LT_DO_ATTR(b, reshape, &whole, grad[OUT_X]);
  if (grad[OUT_FM]) {
    lt_attr none = {.i = {0}};
    lt_tensor *slope =
        LT_DO_ATTR(b, fm_interaction_backward, &none, grad[OUT_FM], LT_DO_ATTR(b, reshape, &whole, b->out[OUT_X]));
    x = x ? LT_DO(b, add, x, slope) : slope;
  }
  if (grad[OUT_SUMS]) {
    lt_attr one = {.n_list = 3, .list = {batch, 1, dim}};
    lt_tensor *each = LT_DO_ATTR(b, expand, &whole, LT_DO_ATTR(b, reshape, &one, grad[OUT_SUMS]));
    x = x ? LT_DO(b, add, x, each) : each;
  }
  if (linear) { /* side by side: each inside zeros of the table's width */
    lt_attr wide = {.i = {2, 1, dim, 1}, .n_list = 3, .list = {batch, fields, dim + 1}};
    lt_attr column = {.i = {2, dim + 1, dim + 1, 1}, .n_list = 3, .list = {batch, fields, dim + 1}};
    lt_attr one = {.n_list = 3, .list = {batch, 1, 1}}, each = {.n_list = 3, .list = {batch, fields, 1}};
    if (x && dim > 0) part[0] = LT_DO_ATTR(b, slice_backward, &wide, x);
    if (grad[OUT_LINEAR])
      part[1] = LT_DO_ATTR(b, slice_backward, &column,
                           LT_DO_ATTR(b, expand, &each, LT_DO_ATTR(b, reshape, &one, grad[OUT_LINEAR])));
    x = part[0] && part[1] ? LT_DO(b, add, part[0], part[1]) : part[0] ? part[0] : part[1];
  }
  if (!x || b->status < 0) return;
  lt_attr attr = {.i = {table->shape[0], -1}};
  total = x;
  if (b->attr->i[PADDING] >= 0) { /* gradients of padding ids become zero; their rows stay, as rows of zeros */
    lt_attr pad = {.n_list = 3, .list = {batch, fields, 1}};
    lt_tensor *real = LT_DO(b, ne, b->in[0], lt_number(b, (double)b->attr->i[PADDING], LT_INT64));
    total = LT_DO(b, where, LT_DO_ATTR(b, reshape, &pad, real), x, lt_number(b, 0, table->dtype));
  }
  lt_do_n(b, LT_OP_embedding_backward, &attr, 2, (lt_tensor *[]){total, LT_DO(b, add, b->in[0], b->in[2])}, 2, rows);
  lt_give_rows(b, 1, rows[0], rows[1]);
}

static void field_rule(lt_back *b) {
  if (!lt_wants(b, 1)) return;
  lt_tensor *grad[OUTS] = {b->grad[OUT_X]}; /* outputs that were not asked for are empty, and so are their gradients */
  if (b->attr->i[LINEAR]) grad[OUT_LINEAR] = b->grad[OUT_LINEAR];
  if (b->attr->i[FM]) grad[OUT_FM] = b->grad[OUT_FM], grad[OUT_SUMS] = b->grad[OUT_SUMS];
  if (lt_grad_enabled() || grad[OUT_SUMS]) {
    rule_by_operators(b, grad);
    return;
  }
  lt_attr attr = *b->attr;
  lt_tensor *in[] = {grad[OUT_X],      grad[OUT_LINEAR], grad[OUT_FM], b->out[OUT_X],
                     b->out[OUT_SUMS], b->in[0],         b->in[2],     b->in[3]},
            *rows[2];
  attr.i[3] = b->edge[1].shape[0];
  lt_do_n(b, LT_OP_field_embedding_backward, &attr, 8, in, 2, rows);
  lt_give_rows(b, 1, rows[0], rows[1]);
}
const lt_op lt_op_field_embedding = {
    .name = "field_embedding",
    .signature =
        "field_embedding(ids, weight, offsets, sizes, linear: bool = false, fm: bool = false, padding: int = -1)",
    .n_out = OUTS,
    .doc = "Looks up ids [batch, features] in one table: feature f owns sizes[f] rows from offsets[f] on, and its ids "
           "count from 0. "
           "Gives the embeddings [batch, features * dim]; with linear = true the sum of the table's last column "
           "[batch]; with fm = true "
           "fm_interaction of the embeddings [batch] and their sum over features [batch, dim]. What is not asked for "
           "is empty.",
    .shape = field_shape,
    .cpu = field_cpu,
    .backward = field_rule,
    .keep = LT_IN(0) | LT_IN(2) | LT_IN(3) | LT_OUT(OUT_X) | LT_OUT(OUT_SUMS),
    .flags = LT_OP_NO_METHOD};

/* ---- field_embedding_backward: distinct rows and their sums ---- */
enum { IN_X, IN_LINEAR, IN_FM, IN_E, IN_SUMS, IN_IDS, IN_FIRST, IN_SIZE, ROWS = 3 };

static int backward_shape(lt_args *c) {
  const lt_tensor *ids = c->in[IN_IDS], *e = c->in[IN_E], *g = c->in[IN_X];
  int64_t n = ids->n, fields, dim;
  LT_TRY(lt_need_ids(c, IN_IDS));
  LT_TRY(check_fields(c, ids, c->in[IN_FIRST], c->in[IN_SIZE], c->attr->i[ROWS]));
  fields = ids->shape[1];
  dim = fields ? e->shape[1] / fields : 0;
  for (int k = IN_LINEAR; k <= IN_FM; k++)
    if (c->in[k] && (c->in[k]->n != ids->shape[0] || c->in[k]->dtype != e->dtype))
      return lt_fail(LT_ERR_SHAPE, "field_embedding_backward: gradient %d is %s for ids %s", k + 1,
                     lt_shape_text(c->in[k]), lt_shape_text(ids));
  if (e->n != n * dim || (g && (g->n != e->n || g->dtype != e->dtype)) ||
      (c->in[IN_FM] && c->in[IN_SUMS]->n != ids->shape[0] * dim))
    return lt_fail(LT_ERR_SHAPE, "field_embedding_backward: embeddings %s do not fit ids %s", lt_shape_text(e),
                   lt_shape_text(ids));
  LT_TRY(lt_need_whole_out(c));
  LT_TRY(lt_out(c, 0, LT_INT64, 1, &n));
  return lt_out(c, 1, e->dtype, 2, (int64_t[]){n, dim + (c->attr->i[LINEAR] != 0)});
}

static int backward_cpu(lt_args *c) {
  lt_tensor *t[8] = {0};
  lt_unique unique;
  int status = LT_OK;
  for (int k = 0; k < 8 && status >= 0; k++)
    if (c->in[k]) status = lt_contiguous(c->in[k], &t[k]);
  if (status >= 0) {
    lt_lookup l = field_lookup(t[IN_IDS], t[IN_FIRST], t[IN_SIZE], c->attr->i[PADDING]);
    status = check_ids(c, &l);
    if (status >= 0) status = lt_unique_rows(&l, lt_ptr(c->out[0]), &unique);
  }
  if (status >= 0) {
    int64_t shape[] = {unique.n_rows, c->out[1]->shape[1]};
    lt_row_sums sums = {.unique = &unique,
                        .fields = t[IN_IDS]->shape[1],
                        .dim = shape[1] - (c->attr->i[LINEAR] != 0),
                        .width = shape[1],
                        .values = lt_ptr(c->out[1])};
    if (t[IN_X]) sums.x = lt_ptr(t[IN_X]);
    if (t[IN_LINEAR]) sums.linear = lt_ptr(t[IN_LINEAR]);
    if (t[IN_FM]) sums.fm = lt_ptr(t[IN_FM]), sums.e = lt_ptr(t[IN_E]), sums.sums = lt_ptr(t[IN_SUMS]);
    lt_row_sums_run(&sums, c->out[1]->dtype);
    lt_unique_free(&unique);
    lt_out_narrow(c, 0, 1, shape);
    lt_out_narrow(c, 1, 2, shape);
  }
  for (int k = 0; k < 8; k++) lt_tensor_release(t[k]);
  return status;
}
const lt_op lt_op_field_embedding_backward = {
    .name = "field_embedding_backward",
    .signature = "field_embedding_backward(x: tensor?, linear: tensor?, fm: tensor?, e, sums, ids, offsets, sizes, "
                 "with_linear: bool, with_fm: bool, "
                 "padding: int, n_rows: int)",
    .n_out = 2,
    .doc = "Distinct ascending rows [u] and the sums of the gradients of each [u, dim (+ 1)].",
    .flags = LT_OP_HIDDEN | LT_OP_NO_GRADIENT,
    .shape = backward_shape,
    .cpu = backward_cpu};
