/* Text columns of a frame, filled and changed: from a list of texts, by a map of their distinct values, into numbers.
 * Work goes by distinct value where it can: a script's function, or a parser, sees each text once, the rows only their
 * codes. */
#include "frame.h"
#include "number.h"

#include <math.h>
#include <stdlib.h>

static int no_memory(int64_t n) { return lt_fail(LT_ERR_MEMORY, "frame: no memory for %lld values", (long long)n); }

static int check_text(const lt_frame *f, int32_t column, const char *what) {
  LT_TRY(lt_frame_check_column(f, column, what));
  LT_TRY(lt_frame_writable(f, what));
  const frame_column *c = &f->columns[column];
  if (c->kind == LT_COLUMN_TEXT) return LT_OK;
  return lt_fail(LT_ERR_DTYPE, "%s: column \"%s\" holds %s, no texts", what, c->name, lt_dtype_name(c->dtype));
}

/* Uses of each code, in the dictionary's own counts: it belongs to this column alone. */
static void count_uses(lt_frame *f, int32_t column) {
  lt_strings *s = f->columns[column].strings;
  for (int64_t code = 0; code < s->count; code++) s->uses[code] = 0;
  for (int64_t row = 0; row < f->rows; row++) s->uses[*(const int32_t *)lt_frame_at(f, column, row)]++;
}

int lt_frame_write_texts(lt_frame *f, int32_t column, const char *const *texts, const int64_t *lengths) {
  LT_TRY(check_text(f, column, "frame"));
  lt_strings *s;
  LT_TRY(lt_strings_new(&s));
  for (int64_t row = 0; row < f->rows; row++) {
    const char *text = texts[row] ? texts[row] : "";
    uint64_t length = texts[row] ? (uint64_t)lengths[row] : 0;
    int64_t code = length > INT32_MAX ? lt_fail(LT_ERR_ARGUMENT, "frame: a text of %lld bytes", (long long)length)
                                      : lt_strings_add(s, text, (uint32_t)length, lt_hash_text(text, length), 1);
    if (code < 0) return lt_strings_release(s), (int)code;
    *(int32_t *)lt_frame_at(f, column, row) = (int32_t)code;
  }
  lt_strings_settle(s);
  lt_frame_set_strings(f, column, s);
  return LT_OK;
}

int lt_frame_recode(lt_frame *f, int32_t column, const char *const *texts, const int64_t *lengths) {
  LT_TRY(check_text(f, column, "frame recode"));
  const lt_strings *old = f->columns[column].strings;
  if (!old) return lt_fail(LT_ERR_STATE, "frame recode: column \"%s\" has no texts yet", f->columns[column].name);
  int32_t *map = malloc(((size_t)old->count + 1) * sizeof *map);
  lt_strings *s = NULL;
  int64_t code = map ? lt_strings_new(&s) : no_memory(old->count);
  for (int64_t i = 0; code >= 0 && i < old->count; i++) {
    const char *text = texts[i] ? texts[i] : "";
    uint64_t length = texts[i] ? (uint64_t)lengths[i] : 0;
    code = lt_strings_add(s, text, (uint32_t)length, lt_hash_text(text, length), 1);
    map[i] = (int32_t)code;
  }
  if (code < 0) {
    lt_strings_release(s), free(map);
    return (int)code;
  }
  for (int64_t row = 0; row < f->rows; row++) {
    int32_t *cell = (int32_t *)lt_frame_at(f, column, row);
    *cell = map[*cell];
  }
  free(map);
  lt_strings_settle(s);
  lt_frame_set_strings(f, column, s);
  count_uses(f, column);
  return LT_OK;
}

static const char *complaint(int status, int dtype) {
  switch (status) {
  case LT_NUMBER_SPECIAL: return "no finite number";
  case LT_NUMBER_FRACTION: return "no whole number";
  case LT_NUMBER_RANGE: return dtype == LT_INT32 ? "beyond int32" : "beyond float32";
  }
  return "no number";
}

static int64_t first_row(const lt_frame *f, int32_t column, int64_t code) {
  for (int64_t row = 0; row < f->rows; row++)
    if (*(const int32_t *)lt_frame_at(f, column, row) == code) return row;
  return -1;
}

/* The number of each code as four bytes; a code that no row uses may be anything. */
static int parse_values(const lt_frame *f, int32_t column, int dtype, bool required, double fill, const int64_t *rows,
                        int32_t *out) {
  const lt_strings *s = f->columns[column].strings;
  const char *name = f->columns[column].name;
  for (int64_t code = 0; code < s->count; code++) {
    int64_t length, whole = 0, row;
    float real = (float)fill;
    const char *text = lt_strings_text(s, code, &length);
    int status = LT_NUMBER_OK;
    if (length == 0) {
      if (required && (row = first_row(f, column, code)) >= 0)
        return lt_fail(LT_ERR_FORMAT,
                       "encode: column \"%s\" has no value in row %lld; complete it, or give the column "
                       "a value for missing ones (missing = 0)",
                       name, (long long)(rows ? rows[row] : row));
      whole = (int64_t)fill;
    } else if (dtype == LT_FLOAT32) {
      status = lt_number_float(text, length, &real);
    } else {
      status = lt_number_int64(text, length, &whole);
      if (!status && (whole < INT32_MIN || whole > INT32_MAX)) status = LT_NUMBER_RANGE;
    }
    if (status && (row = first_row(f, column, code)) >= 0)
      return lt_fail(LT_ERR_FORMAT,
                     "encode: column \"%s\" is \"%.*s\" in row %lld, %s; correct it, list it in missing, "
                     "or use the column as a category",
                     name, (int)(length < 60 ? length : 60), text, (long long)(rows ? rows[row] : row),
                     complaint(status, dtype));
    if (dtype == LT_FLOAT32)
      memcpy(&out[code], &real, sizeof real);
    else
      out[code] = (int32_t)whole;
  }
  return LT_OK;
}

int lt_frame_parse(lt_frame *f, int32_t column, int32_t dtype, int32_t on_missing, double fill, const int64_t *rows) {
  LT_TRY(check_text(f, column, "encode"));
  if (dtype != LT_FLOAT32 && dtype != LT_INT32)
    return lt_fail(LT_ERR_DTYPE, "encode: a text column becomes float32 or int32, not %s", lt_dtype_name(dtype));
  const lt_strings *s = f->columns[column].strings;
  if (!s) return lt_fail(LT_ERR_STATE, "encode: column \"%s\" has no texts yet", f->columns[column].name);
  int32_t *values = malloc(((size_t)s->count + 1) * sizeof *values);
  if (!values) return no_memory(s->count);
  int status = parse_values(f, column, dtype, on_missing == LT_MISSING_ERROR, fill, rows, values);
  for (int64_t row = 0; status >= 0 && row < f->rows; row++) {
    int32_t *cell = (int32_t *)lt_frame_at(f, column, row);
    *cell = values[*cell];
  }
  free(values);
  LT_TRY(status);
  lt_frame_set_strings(f, column, NULL);
  f->columns[column].kind = LT_COLUMN_NUMBER, f->columns[column].dtype = dtype;
  return LT_OK;
}
