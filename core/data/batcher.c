/* Batches of a frame's rows: which rows is a function of (seed, epoch, position) alone, whoever makes them. Threads
 * work ahead through ordered.c; the state to resume from is the end of the last batch delivered, so that how far they
 * are ahead never matters. Buffers come from a pool: a steady loop that lets its batches go allocates nothing. */
#include "frame.h"
#include "ordered.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct lt_batch {
  lt_item item;
  lt_buffer *home;          /* the pooled buffer this struct lies in */
  int64_t position, global; /* of the whole batch: where it starts, its rows */
  int64_t first, rows;      /* of this rank */
  int32_t parts;
  int status;
  char error[256];
  lt_buffer *row_numbers; /* [rows] int64 */
  lt_buffer *part[];      /* [rows, width] each */
};

struct lt_batcher {
  lt_frame *frame;
  int64_t *rows; /* [n] of the frame; NULL: all */
  int64_t n;
  lt_batch_options options;
  lt_gather *parts;
  int32_t *finite;
  int32_t part_count;
  lt_permutation *order; /* NULL: as they are */
  lt_buffer_pool *pool;
  lt_ordered *pipe;
  int64_t next; /* position of the next batch to take; under ordered.c's source lock */
  int failed;   /* no memory for a batch struct: the stream ends and the consumer is told */
  int64_t delivered, delivered_rows;
  int finished;
};

static int64_t batch_rows(const lt_batcher *b, int64_t position) {
  int64_t left = b->n - position;
  if (left <= 0 || (left < b->options.batch && b->options.drop_last)) return 0;
  return left < b->options.batch ? left : b->options.batch;
}

void lt_batch_release(lt_batch *t) {
  if (!t) return;
  for (int32_t i = 0; i < t->parts; i++) lt_buffer_release(t->part[i]);
  lt_buffer_release(t->row_numbers);
  lt_buffer_release(t->home);
}

static void take(void *context, int worker, lt_item **out) {
  (void)worker;
  lt_batcher *b = context;
  int64_t global = batch_rows(b, b->next);
  lt_buffer *home;
  *out = NULL;
  if (global == 0 || b->failed) return;
  size_t bytes = sizeof(lt_batch) + (size_t)b->part_count * sizeof(lt_buffer *);
  if (lt_buffer_pool_take(b->pool, (int64_t)bytes, &home) < 0) {
    b->failed = 1;
    return;
  }
  lt_batch *t = home->data;
  memset(t, 0, bytes);
  int64_t ranks = b->options.ranks, rank = b->options.rank;
  t->home = home, t->parts = b->part_count, t->position = b->next, t->global = global;
  t->first = b->next + global * rank / ranks;
  t->rows = b->next + global * (rank + 1) / ranks - t->first;
  t->item.bytes = 1; /* the queue is bounded by their number */
  b->next += global;
  *out = &t->item;
}

static int check_finite(const lt_batcher *b, const lt_batch *t, int32_t part) {
  const lt_gather *g = &b->parts[part];
  int64_t n = t->rows * g->width;
  const void *data = t->part[part]->data;
  for (int64_t i = 0; i < n; i++) {
    double value = g->dtype == LT_FLOAT32 ? ((const float *)data)[i] : ((const double *)data)[i];
    if (isfinite(value)) continue;
    int64_t row = ((const int64_t *)t->row_numbers->data)[i / g->width];
    int64_t offset = 0;
    for (int32_t k = 0, to = (int32_t)(i % g->width) * (int32_t)lt_dtype_size(g->dtype); k < g->pieces; k++)
      if (g->piece[k].to <= to && to < g->piece[k].to + g->piece[k].bytes)
        offset = g->piece[k].from + to - g->piece[k].to;
    const char *name = "?";
    for (int32_t c = 0; c < b->frame->width; c++)
      if (b->frame->columns[c].offset == offset) name = b->frame->columns[c].name;
    return lt_fail(LT_ERR_RANGE, "batch: column \"%s\" is %s in row %lld; give missing values a fill, or bucket them",
                   name, isnan(value) ? "nan" : "infinite", (long long)row);
  }
  return LT_OK;
}

static int fill(lt_batcher *b, lt_batch *t) {
  LT_TRY(lt_buffer_pool_take(b->pool, t->rows * 8, &t->row_numbers));
  int64_t *rows = t->row_numbers->data;
  if (b->order)
    lt_permutation_fill(b->order, t->first, t->rows, rows);
  else
    for (int64_t i = 0; i < t->rows; i++) rows[i] = t->first + i;
  if (b->rows)
    for (int64_t i = 0; i < t->rows; i++) rows[i] = b->rows[rows[i]];
  for (int32_t k = 0; k < b->part_count; k++) {
    LT_TRY(lt_buffer_pool_take(b->pool, t->rows * b->parts[k].row_bytes, &t->part[k]));
    lt_gather_rows(&b->parts[k], b->frame, rows, t->rows, t->part[k]->data);
    if (b->finite[k]) LT_TRY(check_finite(b, t, k));
  }
  return LT_OK;
}

static void work(void *context, int worker, lt_item *item) {
  (void)worker;
  lt_batch *t = (lt_batch *)item;
  t->status = fill(context, t);
  if (t->status < 0) snprintf(t->error, sizeof t->error, "%s", lt_last_error());
}

static void drop(void *context, lt_item *item) {
  (void)context;
  lt_batch_release((lt_batch *)item);
}

static int check_options(const lt_batch_options *o, int64_t n) {
  if (o->batch < 1) return lt_fail(LT_ERR_ARGUMENT, "batch: size %lld; give 1 or more", (long long)o->batch);
  if (o->position < 0 || o->position > n)
    return lt_fail(LT_ERR_RANGE, "batch: position %lld of %lld rows; the state is of other data",
                   (long long)o->position, (long long)n);
  if (o->ranks < 0 || o->rank < 0 || o->rank >= (o->ranks ? o->ranks : 1))
    return lt_fail(LT_ERR_ARGUMENT, "batch: rank %d of %d; ranks count from 0", o->rank, o->ranks);
  if (o->threads < 0 || o->threads > 64) return lt_fail(LT_ERR_ARGUMENT, "batch: %d threads; give 0 to 64", o->threads);
  if (o->depth < 0) return lt_fail(LT_ERR_ARGUMENT, "batch: prefetch %d; give 0 or more batches", o->depth);
  return LT_OK;
}

static int copy_rows(lt_batcher *b, const int64_t *rows, int64_t n) {
  b->n = rows ? n : b->frame->rows;
  if (!rows) return LT_OK;
  for (int64_t i = 0; i < n; i++)
    if (rows[i] < 0 || rows[i] >= b->frame->rows)
      return lt_fail(LT_ERR_RANGE, "batch: row %lld of a frame with %lld rows (0 to %lld)", (long long)rows[i],
                     (long long)b->frame->rows, (long long)b->frame->rows - 1);
  if (!(b->rows = malloc((size_t)(n + 1) * sizeof *rows)))
    return lt_fail(LT_ERR_MEMORY, "batch: no memory for %lld row numbers", (long long)n);
  memcpy(b->rows, rows, (size_t)n * sizeof *rows);
  return LT_OK;
}

static int prepare(lt_batcher *b, const int64_t *rows, int64_t n, const lt_batch_part *parts, int32_t part_count) {
  if (part_count < 1) return lt_fail(LT_ERR_ARGUMENT, "batch: no parts; name columns to deliver");
  LT_TRY(copy_rows(b, rows, n));
  LT_TRY(check_options(&b->options, b->n));
  if (b->options.ranks == 0) b->options.ranks = 1;
  b->parts = calloc((size_t)part_count, sizeof *b->parts);
  b->finite = calloc((size_t)part_count, sizeof *b->finite);
  if (!b->parts || !b->finite) return lt_fail(LT_ERR_MEMORY, "batch: no memory for %d parts", part_count);
  for (; b->part_count < part_count; b->part_count++) {
    const lt_batch_part *part = &parts[b->part_count];
    lt_gather *g = &b->parts[b->part_count];
    LT_TRY(lt_gather_plan(b->frame, part->columns, part->width, "batch", g));
    b->finite[b->part_count] = part->finite && (g->dtype == LT_FLOAT32 || g->dtype == LT_FLOAT64);
  }
  if (b->options.shuffle) LT_TRY(lt_permutation_new(b->n, b->options.seed, b->options.epoch, &b->order));
  LT_TRY(lt_buffer_pool_new(&b->pool));
  b->next = b->delivered = b->options.position;
  lt_source source = {.context = b, .take = take, .work = work, .drop = drop};
  int64_t depth = b->options.depth > 0 ? b->options.depth : 2;
  return lt_ordered_new(&source, b->options.threads, depth, &b->pipe);
}

int lt_batcher_open(lt_frame *f, const int64_t *rows, int64_t n, const lt_batch_part *parts, int32_t part_count,
                    const lt_batch_options *options, lt_batcher **out) {
  lt_batcher *b = calloc(1, sizeof *b);
  if (!b) return lt_fail(LT_ERR_MEMORY, "batch: no memory");
  b->frame = f, b->options = *options;
  lt_frame_retain(f);
  atomic_fetch_add(&f->readers, 1);
  int status = prepare(b, rows, n, parts, part_count);
  if (status < 0) {
    lt_batcher_close(b);
    return status;
  }
  *out = b;
  return LT_OK;
}

int lt_batcher_next(lt_batcher *b, lt_batch **out) {
  *out = NULL;
  if (b->finished) return LT_OK;
  lt_item *item;
  LT_TRY(lt_ordered_next(b->pipe, &item));
  lt_batch *t = (lt_batch *)item;
  if (!t) {
    b->finished = 1;
    return b->failed ? lt_fail(LT_ERR_MEMORY, "batch: no memory for the next batch") : LT_OK;
  }
  if (t->status < 0) {
    int status = lt_fail(t->status, "%s", t->error);
    lt_batch_release(t);
    b->finished = 1;
    return status;
  }
  b->delivered = t->position + t->global;
  b->delivered_rows += t->rows;
  *out = t;
  return LT_OK;
}

int64_t lt_batcher_position(const lt_batcher *b) { return b->delivered; }

int64_t lt_batcher_steps(const lt_batcher *b) {
  int64_t left = b->n - b->options.position, size = b->options.batch;
  return b->options.drop_last ? left / size : (left + size - 1) / size;
}

void lt_batcher_status(const lt_batcher *b, lt_csv_stats *out) {
  *out = (lt_csv_stats){.rows = b->delivered_rows};
  lt_ordered_waits(b->pipe, &out->waits, &out->waited);
}

void lt_batcher_close(lt_batcher *b) {
  if (!b) return;
  lt_ordered_close(b->pipe);
  lt_buffer_pool_close(b->pool);
  lt_permutation_free(b->order);
  for (int32_t i = 0; b->parts && i < b->part_count; i++) lt_gather_free(&b->parts[i]);
  free(b->parts), free(b->finite), free(b->rows);
  atomic_fetch_sub(&b->frame->readers, 1);
  lt_frame_release(b->frame);
  free(b);
}

int64_t lt_batch_rows(const lt_batch *t) { return t->rows; }
int64_t lt_batch_global_rows(const lt_batch *t) { return t->global; }
int64_t lt_batch_first(const lt_batch *t) { return t->first; }
lt_buffer *lt_batch_part_buffer(const lt_batch *t, int32_t part) {
  return part >= 0 && part < t->parts ? t->part[part] : NULL;
}
lt_buffer *lt_batch_row_numbers(const lt_batch *t) { return t->row_numbers; }
