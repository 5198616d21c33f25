/* Frames made from columns of other frames: how joins, splits and schemas put together what training reads. Text
 * columns keep the dictionary they came with, so nothing is looked up again; row -1 stands for "no value". */
#include "frame.h"

#include <math.h>
#include <stdlib.h>

/* A dictionary that has the empty text, and the code of that: the column's own, or a copy that got one more value. */
static int with_empty(const lt_strings *s, lt_strings **out, int32_t *code) {
  const lt_text_hash empty = lt_hash_text("", 0);
  int64_t found = lt_strings_find(s, "", 0, empty);
  if (found >= 0) {
    lt_strings_retain((lt_strings *)s);
    *out = (lt_strings *)s, *code = (int32_t)found;
    return LT_OK;
  }
  uint32_t *order = malloc(((size_t)s->count + 1) * sizeof *order);
  if (!order) return lt_fail(LT_ERR_MEMORY, "frame: no memory for %lld values", (long long)s->count);
  for (int64_t i = 0; i < s->count; i++) order[i] = (uint32_t)i;
  lt_strings *copy;
  int status = lt_strings_permuted(s, order, s->count, &copy);
  free(order);
  LT_TRY(status);
  found = lt_strings_add(copy, "", 0, empty, 0);
  if (found < 0) return lt_strings_release(copy), (int)found;
  lt_strings_settle(copy);
  *out = copy, *code = (int32_t)found;
  return LT_OK;
}

static int check_source(const lt_frame_source *s, int64_t n, bool *absent) {
  LT_TRY(lt_frame_check_column(s->frame, s->column, "frame compose"));
  *absent = false;
  if (!s->rows && n > s->frame->rows)
    return lt_fail(LT_ERR_RANGE, "frame compose: column \"%s\" has %lld rows and %lld are wanted", s->name,
                   (long long)s->frame->rows, (long long)n);
  for (int64_t i = 0; s->rows && i < n; i++) {
    if (s->rows[i] < -1 || s->rows[i] >= s->frame->rows)
      return lt_fail(LT_ERR_RANGE, "frame compose: row %lld of \"%s\"; it has rows 0 to %lld", (long long)s->rows[i],
                     s->name, (long long)s->frame->rows - 1);
    *absent |= s->rows[i] == -1;
  }
  return LT_OK;
}

static int copy_column(lt_frame *f, int32_t column, const lt_frame_source *s, bool absent) {
  const frame_column *from = &s->frame->columns[s->column];
  int64_t nothing = 0; /* the bytes of "no value" */
  if (from->strings) {
    lt_strings *strings = NULL;
    int32_t code = 0;
    if (absent) {
      LT_TRY(with_empty(from->strings, &strings, &code));
    } else {
      strings = from->strings;
      lt_strings_retain(strings);
    }
    lt_frame_set_strings(f, column, strings);
    memcpy(&nothing, &code, sizeof code);
  } else if (absent && from->dtype == LT_FLOAT32) {
    memcpy(&nothing, &(float){NAN}, sizeof(float));
  } else if (absent && from->dtype == LT_FLOAT64) {
    memcpy(&nothing, &(double){NAN}, sizeof(double));
  } else if (absent) {
    return lt_fail(LT_ERR_DTYPE, "frame compose: column \"%s\" is %s, which has no form for a missing value", s->name,
                   lt_dtype_name(from->dtype));
  }
  int64_t size = lt_dtype_size(from->dtype);
  for (int64_t i = 0; i < f->rows; i++) {
    int64_t row = s->rows ? s->rows[i] : i;
    const void *cell = row < 0 ? (const void *)&nothing : lt_frame_at(s->frame, s->column, row);
    if (size == 4)
      memcpy(lt_frame_at(f, column, i), cell, 4);
    else
      memcpy(lt_frame_at(f, column, i), cell, 8);
  }
  return LT_OK;
}

int lt_frame_compose(const lt_frame_source *columns, int32_t width, int64_t n, lt_frame **out) {
  if (width < 1) return lt_fail(LT_ERR_ARGUMENT, "frame compose: no columns; name at least one");
  lt_frame_column *plan = calloc((size_t)width, sizeof *plan);
  bool *absent = calloc((size_t)width, sizeof *absent);
  lt_frame *f = NULL;
  int status = plan && absent ? LT_OK : lt_fail(LT_ERR_MEMORY, "frame compose: no memory for %d columns", width);
  for (int32_t i = 0; status >= 0 && i < width; i++) {
    status = check_source(&columns[i], n, &absent[i]);
    if (status < 0) break;
    const frame_column *from = &columns[i].frame->columns[columns[i].column];
    plan[i] = (lt_frame_column){.name = columns[i].name, .kind = from->kind, .dtype = from->dtype};
  }
  if (status >= 0) status = lt_frame_new(plan, width, n, &f);
  for (int32_t i = 0; status >= 0 && i < width; i++) status = copy_column(f, i, &columns[i], absent[i]);
  free(plan), free(absent);
  if (status < 0) return lt_frame_release(f), status;
  *out = f;
  return LT_OK;
}

static int text_column(const lt_frame *f, int32_t column, const lt_strings **out) {
  LT_TRY(lt_frame_check_column(f, column, "join"));
  const frame_column *c = &f->columns[column];
  if (!c->strings)
    return lt_fail(LT_ERR_DTYPE,
                   "join: column \"%s\" holds %s; tables are joined on text columns, before a schema "
                   "encodes them",
                   c->name, lt_dtype_name(c->dtype));
  *out = c->strings;
  return LT_OK;
}

/* rows[code of f] = the row of `other` with that text. */
static int match_codes(const lt_strings *mine, const lt_frame *other, int32_t column, int64_t *rows) {
  const lt_strings *theirs = other->columns[column].strings;
  int64_t *row_of = malloc(((size_t)theirs->count + 1) * sizeof *row_of);
  if (!row_of) return lt_fail(LT_ERR_MEMORY, "join: no memory for %lld keys", (long long)theirs->count);
  for (int64_t code = 0; code < theirs->count; code++) row_of[code] = -1;
  for (int64_t row = 0; row < other->rows; row++) {
    int32_t code = *(const int32_t *)lt_frame_at(other, column, row);
    if (row_of[code] >= 0) {
      int64_t length, first = row_of[code];
      const char *text = lt_strings_text(theirs, code, &length);
      free(row_of);
      return lt_fail(LT_ERR_FORMAT,
                     "join: \"%.*s\" is the \"%s\" of rows %lld and %lld; keys of the joined table must "
                     "be unique",
                     (int)(length < 60 ? length : 60), text, other->columns[column].name, (long long)first,
                     (long long)row);
    }
    row_of[code] = row;
  }
  for (int64_t code = 0; code < mine->count; code++) {
    int64_t length;
    const char *text = lt_strings_text(mine, code, &length);
    int64_t found = lt_strings_find(theirs, text, (uint32_t)length, lt_hash_text(text, (uint64_t)length));
    rows[code] = found < 0 ? -1 : row_of[found];
  }
  free(row_of);
  return LT_OK;
}

int lt_frame_match(const lt_frame *f, int32_t column, const lt_frame *other, int32_t other_column, int64_t *rows) {
  const lt_strings *mine, *theirs;
  LT_TRY(text_column(f, column, &mine));
  LT_TRY(text_column(other, other_column, &theirs));
  int64_t *of_code = malloc(((size_t)mine->count + 1) * sizeof *of_code);
  if (!of_code) return lt_fail(LT_ERR_MEMORY, "join: no memory for %lld keys", (long long)mine->count);
  int status = match_codes(mine, other, other_column, of_code);
  for (int64_t row = 0; status >= 0 && row < f->rows; row++)
    rows[row] = of_code[*(const int32_t *)lt_frame_at(f, column, row)];
  free(of_code);
  return status;
}
