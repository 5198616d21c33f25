/* embedding: rows of a table by id, and its gradient: the distinct rows of the batch with their sums, never a table of
 * zeros. embedding_backward and rows_lookup are each other's gradients, so every derivative exists. Several fields in
 * one table are field_embedding.c's, bags embedding_bag.c's. */
#include "lookup.h"

static int need_table(const lt_args *c, int i) {
  const lt_tensor *w = c->in[i];
  LT_TRY(lt_need_float(c, i));
  if (w->ndim == 2) return LT_OK;
  return lt_fail(LT_ERR_SHAPE, "%s: the table is %s; it must be [rows, width]", c->op->name, lt_shape_text(w));
}

/* "3", or "[2, 5]" where ids have more dims */
static const char *place_text(const lt_tensor *ids, int64_t place) {
  int64_t at[LT_MAX_DIMS];
  for (int d = ids->ndim - 1; d >= 0; d--) {
    at[d] = place % ids->shape[d] + 1;
    place /= ids->shape[d];
  }
  const char *text = lt_dims_text(ids->ndim, at);
  if (ids->ndim != 1) return text;
  char *bare = (char *)text + 1; /* the text is this thread's own */
  bare[strlen(bare) - 1] = 0;
  return bare;
}

static int check_ids(const lt_args *c, const lt_tensor *ids, const lt_lookup *l) {
  int64_t bad = lt_lookup_check(l);
  if (bad < 0) return LT_OK;
  if (l->size[0] == 0)
    return lt_fail(LT_ERR_RANGE, "%s: id %lld at position %s; the table has no rows", c->op->name,
                   (long long)lt_lookup_id(l, bad), place_text(ids, bad));
  return lt_fail(LT_ERR_RANGE, "%s: id %lld at position %s; legal ids are 0 to %lld", c->op->name,
                 (long long)lt_lookup_id(l, bad), place_text(ids, bad), (long long)l->size[0] - 1);
}

static lt_lookup plain_lookup(const lt_tensor *ids, const int64_t *n_rows, int64_t padding) {
  static const int64_t zero = 0;
  return (lt_lookup){.ids = lt_ptr(ids),
                     .wide = ids->dtype == LT_INT64,
                     .batch = ids->n,
                     .fields = 1,
                     .first = &zero,
                     .size = n_rows,
                     .padding = padding};
}

/* ---- embedding(ids, weight) ---- */
static int embedding_shape(lt_args *c) {
  const lt_tensor *ids = c->in[0], *w = c->in[1];
  int64_t shape[LT_MAX_DIMS];
  LT_TRY(lt_need_ids(c, 0));
  LT_TRY(need_table(c, 1));
  if (ids->ndim == LT_MAX_DIMS)
    return lt_fail(LT_ERR_SHAPE, "embedding: the ids have %d dims already, the most; the result needs one more",
                   LT_MAX_DIMS);
  memcpy(shape, ids->shape, sizeof shape);
  shape[ids->ndim] = w->shape[1];
  return lt_out(c, 0, w->dtype, ids->ndim + 1, shape);
}

/* Rows as bytes: any dtype. */
static void copy_rows(const lt_lookup *l, const char *table, int64_t pitch, char *to, int64_t bytes, int64_t first,
                      int64_t last) {
  enum { AHEAD = 8 };
  for (int64_t p = first; p < last; p++) {
    if (p + AHEAD < last) {
      const char *soon = table + lt_lookup_id(l, p + AHEAD) * pitch;
      for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(soon + b);
    }
    memcpy(to + p * bytes, table + lt_lookup_id(l, p) * pitch, (size_t)bytes);
  }
}

static int embedding_cpu(lt_args *c) {
  enum { CHUNK = 1024 };
  lt_tensor *ids, *w, *o = c->out[0], *to;
  LT_TRY(lt_contiguous(c->in[0], &ids));
  bool flat = c->in[1]->stride[1] == 1 || c->in[1]->shape[1] == 1;
  int status = flat ? (w = lt_tensor_retain(c->in[1]), LT_OK) : lt_contiguous(c->in[1], &w);
  if (status < 0) {
    lt_tensor_release(ids);
    return status;
  }
  lt_lookup l = plain_lookup(ids, &w->shape[0], -1);
  bool direct = lt_tensor_is_contiguous(o);
  status = check_ids(c, ids, &l);
  if (status >= 0) status = direct ? (to = lt_tensor_retain(o), LT_OK) : lt_tensor_like(o, &to);
  if (status >= 0) {
    int64_t size = lt_dtype_size(w->dtype), bytes = w->shape[1] * size, pitch = w->stride[0] * size;
    const char *table = lt_ptr(w);
    char *out = lt_ptr(to);
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(o->n))
    for (int64_t p = 0; p < l.batch; p += CHUNK)
      copy_rows(&l, table, pitch, out, bytes, p, p + CHUNK < l.batch ? p + CHUNK : l.batch);
    if (!direct) status = lt_run_into(LT_OP_clone, &to, 1, NULL, o, false);
    lt_tensor_release(to);
  }
  lt_tensor_release(w);
  lt_tensor_release(ids);
  return status;
}

/* The same by plain operators, for devices without a kernel. */
static int embedding_fallback(lt_args *c) {
  lt_tensor *flat, *rows, *shaped;
  lt_attr all = {.n_list = 1, .list = {-1}, .device = c->attr->device}, first = {.i = {0}},
          shape = {.n_list = c->out[0]->ndim};
  memcpy(shape.list, c->out[0]->shape, sizeof c->out[0]->shape);
  bool was = lt_grad_enable(false);
  int status = lt_run(LT_OP_reshape, &c->in[0], 1, &all, &flat, 1);
  if (status >= 0) {
    lt_tensor *in[] = {c->in[1], flat};
    status = lt_run(LT_OP_index_select, in, 2, &first, &rows, 1);
    lt_tensor_release(flat);
  }
  if (status >= 0) {
    status = lt_run(LT_OP_reshape, &rows, 1, &shape, &shaped, 1);
    lt_tensor_release(rows);
  }
  if (status >= 0) {
    status = lt_run_into(LT_OP_clone, &shaped, 1, NULL, c->out[0], false);
    lt_tensor_release(shaped);
  }
  lt_grad_enable(was);
  return status;
}

static void embedding_rule(lt_back *b) {
  lt_attr attr = {.i = {b->edge[1].shape[0], b->attr->i[0]}};
  lt_tensor *in[] = {b->grad[0], b->in[0]}, *out[2];
  if (!lt_wants(b, 1)) return;
  lt_do_n(b, LT_OP_embedding_backward, &attr, 2, in, 2, out);
  lt_give_rows(b, 1, out[0], out[1]);
}
const lt_op lt_op_embedding = {.name = "embedding",
                               .signature = "embedding(ids, weight, padding: int = -1)",
                               .doc = "Rows of weight [rows, width] by 0-based ids (int32 or int64) of any shape: "
                                      "[..., width]. The gradient has only "
                                      "the rows of the batch; the padding id gets none.",
                               .shape = embedding_shape,
                               .cpu = embedding_cpu,
                               .backward = embedding_rule,
                               .keep = LT_IN(0),
                               .fallback = embedding_fallback};

/* ---- embedding_backward(grad, ids): distinct rows and the sums of grad over their places ---- */
static int embedding_backward_shape(lt_args *c) {
  const lt_tensor *g = c->in[0], *ids = c->in[1];
  int64_t width = g->ndim ? g->shape[g->ndim - 1] : 1, shape[] = {ids->n, width};
  LT_TRY(lt_need_ids(c, 1));
  if (g->dtype != LT_FLOAT32 && g->dtype != LT_FLOAT64)
    return lt_fail(LT_ERR_DTYPE, "embedding: gradients of a %s table; tables that are trained are float32 or float64",
                   lt_dtype_name(g->dtype));
  if (g->ndim < 1 || g->n != ids->n * width)
    return lt_fail(LT_ERR_SHAPE, "embedding_backward: the gradient is %s and the ids %s; they do not go together",
                   lt_shape_text(g), lt_shape_text(ids));
  LT_TRY(lt_need_whole_out(c));
  LT_TRY(lt_out(c, 0, LT_INT64, 1, shape));
  return lt_out(c, 1, g->dtype, 2, shape);
}
static int embedding_backward_cpu(lt_args *c) {
  lt_tensor *g, *ids;
  lt_unique unique;
  LT_TRY(lt_contiguous(c->in[0], &g));
  int status = lt_contiguous(c->in[1], &ids);
  if (status >= 0) {
    lt_lookup l = plain_lookup(ids, &c->attr->i[0], c->attr->i[1]);
    status = check_ids(c, ids, &l);
    if (status >= 0) status = lt_unique_rows(&l, lt_ptr(c->out[0]), &unique);
    if (status >= 0) {
      int64_t shape[] = {unique.n_rows, c->out[1]->shape[1]};
      lt_row_sums sums = {.unique = &unique,
                          .fields = 1,
                          .dim = shape[1],
                          .width = shape[1],
                          .x = lt_ptr(g),
                          .values = lt_ptr(c->out[1])};
      lt_row_sums_run(&sums, g->dtype);
      lt_unique_free(&unique);
      lt_out_narrow(c, 0, 1, shape);
      lt_out_narrow(c, 1, 2, shape);
    }
    lt_tensor_release(ids);
  }
  lt_tensor_release(g);
  return status;
}
static void embedding_backward_rule(lt_back *b) {
  if (!b->grad[1] || !lt_wants(b, 0)) return;
  lt_attr shape = {.n_list = b->edge[0].ndim};
  memcpy(shape.list, b->edge[0].shape, sizeof b->edge[0].shape);
  LT_GRAD_ATTR(b, 0, reshape, &shape, LT_DO(b, rows_lookup, b->out[0], b->grad[1], b->in[1]));
}
const lt_op lt_op_embedding_backward = {
    .name = "embedding_backward",
    .signature = "embedding_backward(grad, ids, n_rows: int, padding: int = -1)",
    .n_out = 2,
    .doc = "Distinct ascending rows [u] and sums of grad over the places of each [u, width].",
    .flags = LT_OP_HIDDEN,
    .shape = embedding_backward_shape,
    .cpu = embedding_backward_cpu,
    .backward = embedding_backward_rule,
    .keep = LT_IN(1) | LT_OUT(0)};

/* ---- rows_lookup(rows, values, ids): values of the row that each id names, zeros where rows has no such id ---- */
static int rows_lookup_shape(lt_args *c) {
  const lt_tensor *rows = c->in[0], *v = c->in[1], *ids = c->in[2];
  int64_t shape[LT_MAX_DIMS];
  LT_TRY(lt_need_ids(c, 0));
  LT_TRY(lt_need_ids(c, 2));
  if (rows->ndim != 1 || v->ndim != 2 || v->shape[0] != rows->n || ids->ndim == LT_MAX_DIMS)
    return lt_fail(LT_ERR_SHAPE, "rows_lookup: rows %s, values %s and ids %s do not go together", lt_shape_text(rows),
                   lt_shape_text(v), lt_shape_text(ids));
  LT_TRY(lt_need_whole_out(c));
  memcpy(shape, ids->shape, sizeof shape);
  shape[ids->ndim] = v->shape[1];
  return lt_out(c, 0, v->dtype, ids->ndim + 1, shape);
}
static int rows_lookup_cpu(lt_args *c) {
  lt_tensor *rows, *v, *ids = c->in[2], *flat_ids;
  LT_TRY(lt_contiguous(c->in[0], &rows));
  int status = lt_contiguous(c->in[1], &v);
  if (status >= 0) {
    status = lt_contiguous(ids, &flat_ids);
    if (status >= 0) {
      int64_t bytes = v->shape[1] * lt_dtype_size(v->dtype), n = rows->n;
      const char *from = lt_ptr(v);
      char *to = lt_ptr(c->out[0]);
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(c->out[0]->n))
      for (int64_t p = 0; p < ids->n; p++) {
        int64_t id = lt_load_int(lt_ptr(flat_ids), ids->dtype, p), low = 0, high = n;
        while (low < high) {
          int64_t middle = (low + high) / 2;
          if (lt_load_int(lt_ptr(rows), rows->dtype, middle) < id)
            low = middle + 1;
          else
            high = middle;
        }
        if (low < n && lt_load_int(lt_ptr(rows), rows->dtype, low) == id)
          memcpy(to + p * bytes, from + low * bytes, (size_t)bytes);
        else
          memset(to + p * bytes, 0, (size_t)bytes);
      }
      lt_tensor_release(flat_ids);
    }
    lt_tensor_release(v);
  }
  lt_tensor_release(rows);
  return status;
}
static void rows_lookup_rule(lt_back *b) {
  if (!lt_wants(b, 1)) return;
  lt_attr all = {.i = {UINT32_MAX, -1}};
  lt_tensor *in[] = {b->grad[0], b->in[2]}, *out[2];
  lt_do_n(b, LT_OP_embedding_backward, &all, 2, in, 2, out);
  LT_GRAD(b, 1, rows_lookup, out[0], out[1], b->in[0]);
}
const lt_op lt_op_rows_lookup = {.name = "rows_lookup",
                                 .signature = "rows_lookup(rows, values, ids)",
                                 .doc = "For each id its row of values [u, width], whose ids are rows [u], ascending; "
                                        "zeros where it is not among them.",
                                 .flags = LT_OP_HIDDEN,
                                 .shape = rows_lookup_shape,
                                 .cpu = rows_lookup_cpu,
                                 .backward = rows_lookup_rule,
                                 .keep = LT_IN(0) | LT_IN(2)};
