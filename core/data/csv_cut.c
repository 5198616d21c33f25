/* The taking side of the CSV reader: reads the text of one file after the other and cuts it into blocks at row ends,
 * the only part that must go in order. A block takes the whole carry buffer with it; only the tail behind its last row
 * is copied, into the next one. Failures become blocks too, so that rows before them are still delivered. */
#include "csv.h"

#include <stdio.h>
#include <stdlib.h>

int csv_read_more(lt_csv *c, int64_t more) {
  int64_t need = c->carry_bytes + more + 1 + CSV_PAD;
  if (need > c->carry_capacity) {
    char *grown = realloc(c->carry, (size_t)need);
    if (!grown) return lt_fail(LT_ERR_MEMORY, "csv: no memory for %lld bytes of text", (long long)need);
    c->carry = grown, c->carry_capacity = need;
  }
  int64_t got = 0;
  int status = more > 0 ? lt_stream_read(c->stream, c->carry + c->carry_bytes, more, &got) : LT_OK;
  if (status < 0) return lt_fail_in(status, "csv");
  c->carry_bytes += got;
  if (more > 0 && got == 0) c->file_ended = true;
  memset(c->carry + c->carry_bytes, 0, CSV_PAD);
  return LT_OK;
}

static int replace_stream(lt_csv *c, lt_stream *with) {
  pthread_mutex_lock(&c->stream_lock);
  lt_stream *old = c->stream;
  c->stream = with;
  int cancelled = c->cancelled;
  pthread_mutex_unlock(&c->stream_lock);
  lt_stream_close(old);
  return cancelled ? lt_fail(LT_ERR_INTERRUPT, "csv: reading was cancelled") : LT_OK;
}

int csv_begin_file(lt_csv *c) {
  lt_stream *s;
  int status = lt_stream_open(c->paths[c->file], &s);
  if (status < 0) return lt_fail_in(status, "csv");
  LT_TRY(replace_stream(c, s));
  c->file_ended = false;
  c->carry_bytes = 0;
  return csv_read_header(c);
}

void csv_cancel(void *context) {
  lt_csv *c = context;
  pthread_mutex_lock(&c->stream_lock);
  c->cancelled = 1;
  if (c->stream) lt_stream_cancel(c->stream);
  pthread_mutex_unlock(&c->stream_lock);
}

/* Gives the block the first `cut` bytes of the carry; the rest starts a new carry. */
static int hand_over(lt_csv *c, csv_block *b, int64_t cut) {
  int64_t tail = c->carry_bytes - cut, capacity = c->options.block_bytes + tail + 1 + CSV_PAD;
  char *next = malloc((size_t)capacity);
  if (!next) return lt_fail(LT_ERR_MEMORY, "csv: no memory for %lld bytes of text", (long long)capacity);
  memcpy(next, c->carry + cut, (size_t)tail);
  memset(next + tail, 0, CSV_PAD);
  memset(c->carry + cut, 0, CSV_PAD);
  b->text = c->carry, b->bytes = cut;
  c->carry = next, c->carry_bytes = tail, c->carry_capacity = capacity;
  return LT_OK;
}

/* The carry always has a byte to spare: csv_read_more asks for one more than it fills. */
static void end_last_line(lt_csv *c) {
  if (c->carry_bytes == 0 || c->carry[c->carry_bytes - 1] == '\n') return;
  c->carry[c->carry_bytes++] = '\n';
}

/* A failure to read waits until the complete rows before it have been handed over. */
static void keep_failure(lt_csv *c, int status) {
  c->read_status = status;
  if (status < 0) snprintf(c->read_error, sizeof c->read_error, "%s", lt_last_error());
}

static int cut_block(lt_csv *c, csv_block *b) {
  int64_t want = c->options.block_bytes, opened;
  for (;;) {
    while (c->carry_bytes < want && !c->file_ended && !c->read_status)
      keep_failure(c, csv_read_more(c, want - c->carry_bytes));
    int64_t n = c->carry_bytes < want ? c->carry_bytes : want;
    if (c->file_ended && n == c->carry_bytes) {
      end_last_line(c);
      return hand_over(c, b, c->carry_bytes);
    }
    lt_scan scan = csv_scanner(c, c->carry);
    int64_t cut = lt_scan_last_row(&scan, n, &opened);
    if (cut > 0) return hand_over(c, b, cut);
    if (c->read_status && n == c->carry_bytes) return lt_fail(c->read_status, "%s", c->read_error);
    if (n > c->options.max_line_bytes) {
      b->too_long = true;
      c->source_ended = true;
      return hand_over(c, b, n);
    }
    want *= 2;
  }
}

static int take(lt_csv *c, csv_block *b) {
  if (c->file_ended && c->carry_bytes == 0 && c->file_line == 0) { /* the file before is used up */
    c->file++;
    b->file = c->file;
    LT_TRY(csv_begin_file(c));
  }
  b->file = c->file;
  b->first_line = c->file_line;
  c->file_line = 0;
  LT_TRY(cut_block(c, b));
  if (c->file_ended && c->carry_bytes == 0 && c->file + 1 == c->path_count) c->source_ended = true;
  return LT_OK;
}

void csv_take(void *context, int worker, lt_item **out) {
  lt_csv *c = context;
  *out = NULL;
  if (c->source_ended) return;
  csv_block *b = c->spare;
  c->spare = calloc(1, sizeof *b);
  int status = c->spare ? take(c, b) : lt_fail(LT_ERR_MEMORY, "csv: no memory for a block of rows");
  b->worker = worker;
  b->blank_line = b->content_line = b->lead_line = -1;
  if (status < 0) {
    b->status = status;
    strncpy(b->error, lt_last_error(), sizeof b->error - 1);
    c->source_ended = true;
  }
  b->item.bytes = b->bytes + (int64_t)sizeof *b;
  *out = &b->item;
}

void csv_drop(void *context, lt_item *item) {
  (void)context;
  csv_block *b = (csv_block *)item;
  free(b->text);
  lt_frame_release(b->rows);
  free(b);
}
