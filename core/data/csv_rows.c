/* The working side of the CSV reader: finds the rows of a block and hands them on in strips. Rows of the wrong width,
 * blank lines, comments and control bytes are sorted out here. Also each worker's scratch memory. */
#include "csv.h"

#include <stdlib.h>

enum { SCAN_BYTES = 32 << 10 };

int csv_workers_new(lt_csv *c, int n) {
  c->workers = calloc((size_t)n, sizeof *c->workers);
  if (!c->workers) return lt_fail(LT_ERR_MEMORY, "csv: no memory for %d workers", n);
  for (int i = 0; i < n; i++) {
    csv_worker *w = &c->workers[i];
    w->first = malloc(CSV_STRIP * sizeof *w->first), w->start = malloc(CSV_STRIP * sizeof *w->start);
    w->field = malloc(CSV_STRIP * sizeof *w->field), w->length = malloc(CSV_STRIP * sizeof *w->length);
    w->hash = malloc(CSV_STRIP * sizeof *w->hash), w->bad = malloc(CSV_STRIP);
    w->strings = calloc((size_t)c->column_count + 1, sizeof *w->strings);
    if (!w->first || !w->start || !w->field || !w->length || !w->hash || !w->bad || !w->strings)
      return lt_fail(LT_ERR_MEMORY, "csv: no memory for %d workers", n);
  }
  return LT_OK;
}

void csv_workers_free(lt_csv *c, int n) {
  for (int i = 0; c->workers && i < n; i++) {
    csv_worker *w = &c->workers[i];
    free(w->first), free(w->start), free(w->field), free(w->length), free(w->hash), free(w->bad);
    free(w->ends), free(w->lines), free(w->scratch);
    for (int32_t k = 0; w->strings && k < c->column_count; k++) lt_strings_release(w->strings[k]);
    free(w->strings);
  }
  free(c->workers);
  c->workers = NULL;
}

static int reserve(csv_worker *w, int64_t n) {
  if (n <= w->capacity) return LT_OK;
  n += n / 2;
  uint32_t *ends = realloc(w->ends, (size_t)n * sizeof *ends);
  if (ends) w->ends = ends;
  uint32_t *lines = realloc(w->lines, (size_t)n * sizeof *lines);
  if (lines) w->lines = lines;
  if (!ends || !lines) return lt_fail(LT_ERR_MEMORY, "csv: no memory for %lld fields in one row", (long long)n);
  w->capacity = n;
  return LT_OK;
}

/* Unescaped fields of one column of a strip are never longer than the strip's text. */
static int reserve_scratch(csv_worker *w, int64_t bytes) {
  if (bytes <= w->scratch_bytes) return LT_OK;
  char *grown = realloc(w->scratch, (size_t)bytes);
  if (!grown) return lt_fail(LT_ERR_MEMORY, "csv: no memory for quoted fields of %lld bytes", (long long)bytes);
  w->scratch = grown, w->scratch_bytes = bytes;
  return LT_OK;
}

typedef struct rows {
  csv_strip s;
  int64_t next_end; /* the first entry of ends that belongs to the next row */
  uint32_t begin;   /* where the next row begins */
  uint32_t strip_begin;
  bool stopped;           /* by a row that is too long */
  int64_t blank, content; /* position of the first of the last blank lines; of the first row; -1: none */
} rows;

static bool is_quoted(const csv_strip *s, uint32_t from, uint32_t to) {
  const char *p = s->b->text + from, *end = s->b->text + to;
  while (s->c->options.trim && p < end && (*p == ' ' || *p == '\t')) p++;
  return p < end && s->c->options.quote && *p == (char)s->c->options.quote;
}

/* A carriage return that is not the line's end, in a field without quotes. */
static bool bare_carriage(const csv_strip *s, const uint32_t *ends, uint32_t begin, uint32_t end) {
  const char *text = s->b->text;
  uint32_t stop = end > begin && text[end - 1] == '\r' ? end - 1 : end;
  if (!memchr(text + begin, '\r', stop - begin)) return false;
  for (uint32_t from = begin;; ends++) {
    uint32_t to = *ends < stop ? *ends : stop;
    if (!is_quoted(s, from, to) && to > from && memchr(text + from, '\r', to - from)) return true;
    if (*ends == end) return false;
    from = *ends + 1;
  }
}

static bool is_comment(const csv_strip *s, uint32_t begin, uint32_t end) {
  size_t n = strlen(s->c->comment);
  return n && end - begin >= n && memcmp(s->b->text + begin, s->c->comment, n) == 0;
}

static bool is_blank(const csv_strip *s, uint32_t begin, uint32_t end) {
  return end == begin || (end == begin + 1 && s->b->text[begin] == '\r');
}

/* From here on rows cannot be told apart, or should not be: an error whatever is done about bad rows. */
static void stop(rows *r, int problem, uint32_t at) {
  csv_block *b = r->s.b;
  b->end = (csv_report){.problem = problem, .file = b->file, .line = lt_scan_lines(b->text, at), .column = -1};
  r->stopped = true;
}

/* Sorts out one line; returns whether it is a row to parse. `width` fields start at ends[at]. */
static bool accept(rows *r, int64_t at, uint32_t end, int64_t width) {
  csv_strip *s = &r->s;
  uint32_t begin = r->begin;
  if (end - begin <= 1 && is_blank(s, begin, end)) {
    if (r->blank < 0) r->blank = begin;
    return false;
  }
  if (s->c->comment[0] && is_comment(s, begin, end)) return false;
  if (r->blank >= 0 && r->content >= 0)
    csv_note_row(s, (uint32_t)r->blank, (csv_report){.problem = CSV_BLANK, .column = -1});
  else if (r->blank >= 0) /* the run may have begun in the block before: csv.c says it once */
    s->b->lead_line = lt_scan_lines(s->b->text, r->blank);
  r->blank = -1;
  if (r->content < 0) r->content = begin;
  if (end - begin > s->c->options.max_line_bytes) {
    stop(r, CSV_TOO_LONG, begin);
    return false;
  }
  int problem = CSV_FINE;
  if (s->nul && memchr(s->b->text + begin, 0, end - begin)) problem = CSV_NUL;
  if (!problem && s->carriage && bare_carriage(s, s->w->ends + at, begin, end)) problem = CSV_CARRIAGE;
  if (!problem && width != s->c->name_count) problem = CSV_WIDTH;
  if (!problem) return true;
  csv_note_row(s, begin, (csv_report){.problem = problem, .column = -1, .number = width});
  return false;
}

static int flush(rows *r) {
  csv_strip *s = &r->s;
  if (s->rows == 0) return LT_OK;
  if (s->quotes) LT_TRY(reserve_scratch(s->w, r->begin - r->strip_begin));
  if (s->base == 0) { /* room for the whole block, guessed from its first rows */
    int64_t guess = s->rows * (s->b->bytes + s->b->bytes / 16) / (r->begin + 1) + s->rows;
    LT_TRY(lt_frame_grow(s->b->rows, guess));
  }
  memset(s->w->bad, 0, (size_t)s->rows);
  return csv_parse_strip(s);
}

static int take_lines(rows *r, int64_t end_count, int64_t line_count) {
  csv_strip *s = &r->s;
  const uint32_t *ends = s->w->ends;
  int64_t width = s->c->name_count;
  for (int64_t i = 0; i < line_count && !r->stopped; i++) {
    uint32_t end = s->w->lines[i];
    int64_t at = r->next_end, last = at + width - 1;
    if (last >= end_count || ends[last] != end) /* not the expected number of fields: count them */
      for (last = at; ends[last] != end;) last++;
    if (accept(r, at, end, last - at + 1)) {
      s->w->first[s->rows] = (uint32_t)at;
      s->w->start[s->rows] = r->begin;
      s->rows++;
    }
    r->next_end = last + 1;
    r->begin = end + 1;
    if (s->rows == CSV_STRIP) {
      LT_TRY(flush(r));
      r->strip_begin = r->begin;
    }
  }
  LT_TRY(flush(r));
  r->strip_begin = r->begin;
  return LT_OK;
}

static int parse_block(lt_csv *c, csv_worker *w, csv_block *b, rows *r) {
  lt_scan scan = csv_scanner(c, b->text);
  int64_t ends = 0, lines = 0;
  while (scan.at < b->bytes && !r->stopped) {
    int64_t to = scan.at + SCAN_BYTES < b->bytes ? scan.at + SCAN_BYTES : b->bytes;
    LT_TRY(reserve(w, ends + (to - scan.at) + 64));
    scan.quotes = scan.carriage = scan.nul = false;
    lt_scan_range(&scan, to, w->ends, &ends, w->lines, &lines);
    r->s.quotes |= scan.quotes, r->s.carriage |= scan.carriage, r->s.nul |= scan.nul;
    if (lines == 0) continue;
    LT_TRY(take_lines(r, ends, lines));
    r->s.quotes = scan.quotes, r->s.carriage = scan.carriage, r->s.nul = scan.nul; /* the rest began in this range */
    ends -= r->next_end, lines = 0;
    memmove(w->ends, w->ends + r->next_end, (size_t)ends * sizeof *w->ends);
    r->next_end = 0;
  }
  if (scan.quoted && !r->stopped) stop(r, CSV_UNTERMINATED, (uint32_t)scan.opened);
  if (b->too_long && !r->stopped) stop(r, CSV_TOO_LONG, r->begin);
  for (int32_t i = 0; i < b->reports; i++) b->report[i].line = lt_scan_lines(b->text, b->report[i].line);
  b->lines = lt_scan_lines(b->text, b->bytes);
  b->content_line = r->content < 0 ? -1 : lt_scan_lines(b->text, r->content);
  b->blank_line = r->blank < 0 ? -1 : lt_scan_lines(b->text, r->blank);
  return LT_OK;
}

static int check_dictionaries(const lt_csv *c, const csv_worker *w) {
  int64_t total = 0, most = -1;
  int32_t worst = 0;
  for (int32_t k = 0; k < c->column_count; k++) {
    int64_t bytes = w->strings[k] ? lt_strings_bytes(w->strings[k]) : 0;
    total += bytes;
    if (bytes > most) most = bytes, worst = k;
  }
  int64_t threads = c->options.threads > 0 ? c->options.threads : 1;
  if (total <= c->options.dictionary_bytes / threads) return LT_OK;
  return lt_fail(LT_ERR_MEMORY,
                 "csv: dictionaries take more than %lld MiB, most of it column \"%s\" with %lld values; give it hash "
                 "buckets, or raise dictionary_bytes",
                 (long long)(c->options.dictionary_bytes >> 20), c->columns[worst].name,
                 (long long)w->strings[worst]->count);
}

static int work(lt_csv *c, csv_worker *w, csv_block *b) {
  LT_TRY(lt_frame_like(c->form, 0, &b->rows));
  rows r = {.s = {.c = c, .w = w, .b = b}, .blank = -1, .content = -1};
  LT_TRY(parse_block(c, w, b, &r));
  return check_dictionaries(c, w);
}

void csv_work(void *context, int worker, lt_item *item) {
  lt_csv *c = context;
  csv_block *b = (csv_block *)item;
  if (b->status < 0) return;
  b->status = work(c, &c->workers[worker], b);
  b->worker = worker;
  if (b->status < 0) strncpy(b->error, lt_last_error(), sizeof b->error - 1);
  free(b->text);
  b->text = NULL;
}
