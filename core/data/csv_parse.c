/* The columns of a strip of rows: one tight loop a column and type, and look-ups in big dictionaries are prefetched
 * while other rows are hashed. Numbers go first and texts are checked before they are entered, so that a bad row's
 * texts never reach a dictionary or its counts. Which rows there are is csv_rows.c. */
#include "csv.h"
#include "number.h"

#include <math.h>
#include <stdlib.h>

void csv_note_row(csv_strip *s, uint32_t start, csv_report report) {
  s->b->bad++;
  report.file = s->b->file;
  report.line = start;
  csv_note(s->b, s->c->options.skip_bad ? CSV_REPORTS : 1, report);
}

static void note_field(csv_strip *s, int64_t i, int32_t column, int problem, const char *field, uint32_t length) {
  csv_report r = {.problem = problem, .column = column};
  csv_quote_value(field, length, r.value);
  s->w->bad[i] = 1;
  csv_note_row(s, s->w->start[i], r);
}

static inline void raw_field(const csv_strip *s, const csv_column *column, int64_t i, const char **field,
                             uint32_t *length) {
  const uint32_t *ends = s->w->ends + s->w->first[i];
  uint32_t from = column->position ? ends[column->position - 1] + 1 : s->w->start[i];
  uint32_t to = ends[column->position];
  if (column->position == s->c->name_count - 1 && to > from && s->b->text[to - 1] == '\r') to--;
  *field = s->b->text + from;
  *length = to - from;
}

/* The field without quotes and blanks; false: the row is bad. */
static inline bool get_field(csv_strip *s, int32_t index, int64_t i, const char **field, uint32_t *length,
                             char **scratch) {
  const csv_column *column = &s->c->columns[index];
  raw_field(s, column, i, field, length);
  if (!s->c->options.trim && !(s->quotes && *length && **field == (char)s->c->options.quote)) return true;
  int problem = csv_clean(s->c, field, length, scratch);
  if (problem == CSV_FINE) return true;
  note_field(s, i, index, problem, *field, *length);
  return false;
}

static int problem_of(int number_status) {
  switch (number_status) {
  case LT_NUMBER_OK: return CSV_FINE;
  case LT_NUMBER_SPECIAL: return CSV_SPECIAL;
  case LT_NUMBER_RANGE: return CSV_RANGE;
  case LT_NUMBER_FRACTION: return CSV_FRACTION;
  }
  return CSV_NOT_NUMBER;
}

/* Short runs of digits, most of what logs hold, without a call. */
static inline bool small_whole(const char *p, uint32_t n, int32_t *out) {
  int32_t value = 0;
  if (n == 0 || n > 7) return false;
  for (uint32_t i = 0; i < n; i++) {
    unsigned digit = (unsigned)(unsigned char)p[i] - '0';
    if (digit > 9) return false;
    value = value * 10 + (int32_t)digit;
  }
  *out = value;
  return true;
}

static int parse_number(const csv_column *column, const char *p, uint32_t n, void *cell) {
  int64_t whole;
  int status;
  switch (column->kind == LT_COLUMN_TEXT ? LT_INT32 : column->dtype) {
  case LT_FLOAT32: return problem_of(lt_number_float(p, n, cell));
  case LT_FLOAT64: return problem_of(lt_number_double(p, n, cell));
  case LT_INT64: return problem_of(lt_number_int64(p, n, cell));
  }
  status = problem_of(lt_number_int64(p, n, &whole));
  if (status) return status;
  if (column->encoder && (whole < 0 || whole >= column->encoder->buckets)) return CSV_ID_RANGE;
  if (whole < INT32_MIN || whole > INT32_MAX) return CSV_RANGE;
  *(int32_t *)cell = (int32_t)whole;
  return CSV_FINE;
}

static void fill_number(const csv_column *column, void *cell) {
  switch (column->kind == LT_COLUMN_TEXT ? LT_INT32 : column->dtype) {
  case LT_FLOAT32: *(float *)cell = (float)column->fill; break;
  case LT_FLOAT64: *(double *)cell = column->fill; break;
  case LT_INT64: *(int64_t *)cell = column->fill_whole; break;
  default: *(int32_t *)cell = (int32_t)column->fill_whole;
  }
}

static void number_column(csv_strip *s, int32_t index) {
  lt_csv *c = s->c;
  const csv_column *column = &c->columns[index];
  char *scratch = s->w->scratch;
  bool quick = c->missing_count == 0 && !column->encoder;
  bool real = column->dtype == LT_FLOAT32, integer = column->dtype == LT_INT32;
  for (int64_t i = 0; i < s->rows; i++) {
    const char *p;
    uint32_t n;
    int32_t small;
    if (s->w->bad[i] || !get_field(s, index, i, &p, &n, &scratch)) continue;
    char *cell = lt_frame_at(s->b->rows, index, s->base + i);
    if (quick && (real || integer) && small_whole(p, n, &small)) {
      if (real)
        *(float *)cell = (float)small;
      else
        *(int32_t *)cell = small;
      continue;
    }
    if (csv_is_missing(c, p, n)) {
      if (column->on_missing == LT_MISSING_ERROR)
        note_field(s, i, index, CSV_MISSING, p, n);
      else
        fill_number(column, cell);
      continue;
    }
    int problem = parse_number(column, p, n, cell);
    if (problem) note_field(s, i, index, problem, p, n);
  }
}

/* Finds rows that a text column makes bad, before any text column is entered into dictionaries. */
static void check_text_column(csv_strip *s, int32_t index) {
  const csv_column *column = &s->c->columns[index];
  char *scratch = s->w->scratch;
  for (int64_t i = 0; i < s->rows; i++) {
    const char *p;
    uint32_t n;
    if (s->w->bad[i] || !get_field(s, index, i, &p, &n, &scratch)) continue;
    if (column->on_missing == LT_MISSING_ERROR && csv_is_missing(s->c, p, n))
      note_field(s, i, index, CSV_MISSING, p, n);
  }
}

static void hash_fields(csv_strip *s, int32_t index, const lt_strings *strings) {
  csv_worker *w = s->w;
  char *scratch = w->scratch;
  bool markers = s->c->missing_count > 0;
  for (int64_t i = 0; i < s->rows; i++) {
    if (w->bad[i]) continue;
    get_field(s, index, i, &w->field[i], &w->length[i], &scratch);
    if (markers && csv_is_missing(s->c, w->field[i], w->length[i])) w->length[i] = 0;
    w->hash[i] = lt_hash_text(w->field[i], w->length[i]);
    if (strings) __builtin_prefetch(lt_strings_slot(strings, w->hash[i]));
  }
}

static void encode_column(csv_strip *s, int32_t index) {
  csv_worker *w = s->w;
  lt_vocabulary *v = s->c->columns[index].encoder;
  int64_t seen = 0, unknown = 0;
  hash_fields(s, index, v->values);
  for (int64_t i = 0; i < s->rows; i++) {
    if (w->bad[i]) continue;
    int32_t id = lt_vocabulary_id(v, w->field[i], w->length[i], w->hash[i]);
    *(int32_t *)lt_frame_at(s->b->rows, index, s->base + i) = id;
    seen++, unknown += id == LT_ID_UNKNOWN;
  }
  lt_vocabulary_count(v, seen, unknown);
}

static int dictionary_column(csv_strip *s, int32_t index) {
  csv_worker *w = s->w;
  if (!w->strings[index]) LT_TRY(lt_strings_new(&w->strings[index]));
  lt_strings *strings = w->strings[index];
  hash_fields(s, index, strings);
  for (int64_t i = 0; i < s->rows; i++) {
    if (w->bad[i]) continue;
    int64_t code = lt_strings_add(strings, w->field[i], w->length[i], w->hash[i], 1);
    if (code < 0) return (int)code;
    *(int32_t *)lt_frame_at(s->b->rows, index, s->base + i) = (int32_t)code;
  }
  return LT_OK;
}

static bool is_whole_encoder(const csv_column *column) {
  return column->encoder && column->encoder->kind == LT_VOCABULARY_WHOLE;
}

static int parse_columns(csv_strip *s) {
  lt_csv *c = s->c;
  for (int32_t k = 0; k < c->column_count; k++)
    if (c->columns[k].kind == LT_COLUMN_NUMBER || is_whole_encoder(&c->columns[k])) number_column(s, k);
  for (int32_t k = 0; k < c->column_count; k++)
    if (c->columns[k].kind == LT_COLUMN_TEXT && !is_whole_encoder(&c->columns[k]) &&
        (s->quotes || c->columns[k].on_missing == LT_MISSING_ERROR))
      check_text_column(s, k);
  for (int32_t k = 0; k < c->column_count; k++) {
    if (c->columns[k].kind != LT_COLUMN_TEXT || is_whole_encoder(&c->columns[k])) continue;
    if (c->columns[k].encoder)
      encode_column(s, k);
    else
      LT_TRY(dictionary_column(s, k));
  }
  return LT_OK;
}

/* Moves good records over the bad ones. */
static int64_t close_gaps(csv_strip *s) {
  lt_frame *f = s->b->rows;
  char *records = (char *)f->records->data + s->base * f->stride;
  int64_t kept = 0;
  for (int64_t i = 0; i < s->rows; i++) {
    if (s->w->bad[i]) continue;
    if (kept != i) memcpy(records + kept * f->stride, records + i * f->stride, (size_t)f->stride);
    kept++;
  }
  return kept;
}

int csv_parse_strip(csv_strip *s) {
  if (s->rows == 0) return LT_OK;
  int64_t bad = s->b->bad;
  LT_TRY(lt_frame_grow(s->b->rows, s->base + s->rows));
  LT_TRY(parse_columns(s));
  int64_t kept = s->b->bad == bad ? s->rows : close_gaps(s);
  if (!s->c->options.count_only) s->base += kept;
  s->b->kept += kept;
  s->rows = 0;
  return lt_frame_grow(s->b->rows, s->base);
}
