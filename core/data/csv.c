/* The consuming side of the CSV reader: blocks arrive in file order, so here line numbers become absolute, errors come
 * out at their place, and blocks are joined to whole frames. */
#include "csv.h"

#include <stdlib.h>

static int start(lt_csv *c) {
  if (c->pipe) return LT_OK;
  if (c->column_count == 0) return lt_fail(LT_ERR_STATE, "csv: opened without columns; name the columns to read");
  lt_source source = {.context = c, .take = csv_take, .work = csv_work, .drop = csv_drop, .cancel = csv_cancel};
  return lt_ordered_new(&source, c->options.threads, c->options.queue_bytes, &c->pipe);
}

static void keep_report(lt_csv *c, csv_report report) {
  if (c->reports < CSV_REPORTS) c->report[c->reports++] = report;
}

/* One bad row: the error of the call, or counted and kept. */
static int bad_row(lt_csv *c, const csv_report *report) {
  if (!c->options.skip_bad) return csv_fail(c, report);
  keep_report(c, *report);
  return LT_OK;
}

static int end_file(const lt_csv *c) {
  if (c->file_rows > 0) return LT_OK;
  return lt_fail(LT_ERR_FORMAT, "csv: %s has %s no rows", c->paths[c->at_file],
                 c->options.header ? "a header but" : "");
}

static int account_lines(lt_csv *c, const csv_block *b) {
  if (b->first_line) { /* a new file */
    if (b->file > 0) LT_TRY(end_file(c));
    c->at_file = b->file, c->line = b->first_line, c->pending_blank = 0, c->file_rows = 0;
  }
  if (b->content_line >= 0 && (c->pending_blank || b->lead_line >= 0)) {
    csv_report blank = {.problem = CSV_BLANK, .file = b->file, .column = -1};
    blank.line = c->pending_blank ? c->pending_blank : c->line + b->lead_line;
    c->pending_blank = 0;
    LT_TRY(bad_row(c, &blank));
    c->stats.bad++;
  }
  for (int32_t i = 0; i < b->reports; i++) {
    csv_report report = b->report[i];
    report.line += c->line;
    LT_TRY(bad_row(c, &report));
  }
  if (b->end.problem) {
    csv_report end = b->end;
    end.line += c->line;
    return csv_fail(c, &end);
  }
  if (b->blank_line >= 0 && !c->pending_blank) c->pending_blank = c->line + b->blank_line;
  c->line += b->lines;
  c->file_rows += b->kept + b->bad;
  c->stats.rows += b->kept, c->stats.bad += b->bad, c->stats.lines += b->lines, c->stats.bytes += b->bytes;
  return LT_OK;
}

static int next_block(lt_csv *c, csv_block **out) {
  *out = NULL;
  if (c->failed) return lt_fail(LT_ERR_STATE, "csv: %s: reading has failed before; open the file again", c->paths[0]);
  if (c->finished) return LT_OK;
  LT_TRY(start(c));
  lt_item *item;
  LT_TRY(lt_ordered_next(c->pipe, &item));
  csv_block *b = (csv_block *)item;
  if (!b) {
    c->finished = true;
    return end_file(c);
  }
  int status = b->status < 0 ? lt_fail(b->status, "%s", b->error) : account_lines(c, b);
  if (status < 0) {
    c->failed = true;
    csv_drop(c, item);
    return status;
  }
  *out = b;
  return LT_OK;
}

int lt_csv_next(lt_csv *c, lt_frame **out) {
  *out = NULL;
  for (int32_t k = 0; k < c->column_count; k++)
    if (c->columns[k].kind == LT_COLUMN_TEXT && !c->columns[k].encoder)
      return lt_fail(LT_ERR_STATE, "csv: column \"%s\" is text without a vocabulary; reading block by block needs one",
                     c->columns[k].name);
  for (;;) {
    csv_block *b;
    LT_TRY(next_block(c, &b));
    if (!b) return LT_OK;
    lt_frame *rows = b->rows;
    b->rows = NULL;
    csv_drop(c, &b->item);
    if (rows->rows > 0) return *out = rows, LT_OK;
    lt_frame_release(rows);
  }
}

static int join_blocks(lt_csv *c, lt_frame *f, csv_segment **segments, int64_t *count) {
  int64_t capacity = 0;
  for (;;) {
    csv_block *b;
    LT_TRY(next_block(c, &b));
    if (!b) return LT_OK;
    if (*count == capacity) {
      capacity = capacity ? capacity * 2 : 64;
      csv_segment *grown = realloc(*segments, (size_t)capacity * sizeof *grown);
      if (!grown)
        return csv_drop(c, &b->item), lt_fail(LT_ERR_MEMORY, "csv: no memory for %lld blocks", (long long)capacity);
      *segments = grown;
    }
    (*segments)[(*count)++] = (csv_segment){f->rows, f->rows + b->rows->rows, b->worker};
    int status = lt_frame_append(f, b->rows);
    csv_drop(c, &b->item);
    LT_TRY(status);
  }
}

int lt_csv_read(lt_csv *c, lt_frame **out) {
  *out = NULL;
  if (c->pipe) return lt_fail(LT_ERR_STATE, "csv: %s has been read already; open it again", c->paths[0]);
  LT_TRY(start(c));
  lt_frame *f;
  csv_segment *segments = NULL;
  int64_t count = 0;
  LT_TRY(lt_frame_like(c->form, 0, &f));
  int status = join_blocks(c, f, &segments, &count);
  if (status == LT_OK) status = csv_merge_dictionaries(c, f, segments, count);
  free(segments);
  if (status < 0) return lt_frame_release(f), status;
  *out = f;
  return LT_OK;
}

void lt_csv_status(const lt_csv *c, lt_csv_stats *out) {
  *out = c->stats;
  if (c->pipe) lt_ordered_waits(c->pipe, &out->waits, &out->waited);
}
