/* Opening a CSV reader: its own copy of every option, checks on them, and the plan that binds the schema's columns to
 * positions in the file's rows. Nothing of the caller's is kept. */
#include "csv.h"
#include "number.h"

#include <stdio.h>
#include <stdlib.h>

static int no_memory(void) { return lt_fail(LT_ERR_MEMORY, "csv: no memory to open a reader"); }

void lt_csv_defaults(lt_csv_options *out) {
  *out = (lt_csv_options){.delimiter = ',',
                          .quote = '"',
                          .header = 1,
                          .block_bytes = 512 << 10,
                          .queue_bytes = 16 << 20,
                          .max_line_bytes = 16 << 20,
                          .dictionary_bytes = (int64_t)4 << 30};
}

static int check_options(const lt_csv_options *o) {
  int d = o->delimiter;
  if (d < 1 || d > 127 || d == '\n' || d == '\r' || d == '.' || d == '-' || (d >= '0' && d <= '9'))
    return lt_fail(LT_ERR_ARGUMENT, "csv: delimiter is byte %d; give one ASCII character that no number holds", d);
  if (o->quote < 0 || o->quote > 127 || o->quote == d || o->quote == '\n' || o->quote == '\r')
    return lt_fail(LT_ERR_ARGUMENT, "csv: quote is byte %d; give an ASCII character other than the delimiter",
                   o->quote);
  if (o->comment && strlen(o->comment) > 16)
    return lt_fail(LT_ERR_ARGUMENT, "csv: comment prefix \"%s\" is longer than 16 bytes", o->comment);
  if (o->threads < 0 || o->threads > 256) return lt_fail(LT_ERR_ARGUMENT, "csv: %d threads; give 0 to 256", o->threads);
  if (o->block_bytes < 64 || o->block_bytes > 1 << 30 || o->max_line_bytes < 64 || o->max_line_bytes > 1 << 30)
    return lt_fail(LT_ERR_ARGUMENT, "csv: block_bytes %lld and max_line_bytes %lld; give 64 to 2^30",
                   (long long)o->block_bytes, (long long)o->max_line_bytes);
  if (o->skip_lines < 0) return lt_fail(LT_ERR_ARGUMENT, "csv: skip_lines is %d; give 0 or more", o->skip_lines);
  return LT_OK;
}

static int copy_texts(const char *const *from, int32_t n, char ***out) {
  char **copy = calloc((size_t)n + 1, sizeof *copy);
  *out = copy;
  if (!copy) return no_memory();
  for (int32_t i = 0; i < n; i++)
    if (!(copy[i] = strdup(from[i]))) return no_memory();
  return LT_OK;
}

static void free_texts(char **texts, int32_t n) {
  for (int32_t i = 0; texts && i < n; i++) free(texts[i]);
  free(texts);
}

static int copy_missing(lt_csv *c, const lt_csv_options *o) {
  LT_TRY(copy_texts(o->missing, o->missing_count, &c->missing));
  c->missing_count = o->missing_count;
  c->missing_length = calloc((size_t)o->missing_count + 1, sizeof *c->missing_length);
  if (!c->missing_length) return no_memory();
  for (int32_t i = 0; i < o->missing_count; i++) {
    c->missing_length[i] = strlen(c->missing[i]);
    if (c->missing_length[i] > c->missing_longest) c->missing_longest = c->missing_length[i];
  }
  return LT_OK;
}

static int copy_columns(lt_csv *c, const lt_csv_column *columns, int32_t n) {
  c->columns = calloc((size_t)n + 1, sizeof *c->columns);
  if (!c->columns) return no_memory();
  c->column_count = n;
  for (int32_t i = 0; i < n; i++) {
    const lt_csv_column *from = &columns[i];
    csv_column *to = &c->columns[i];
    *to = (csv_column){.kind = from->kind,
                       .dtype = from->dtype,
                       .on_missing = from->on_missing,
                       .fill = from->fill,
                       .fill_whole = from->fill_whole,
                       .position = -1,
                       .index = i};
    if (!(to->name = strdup(from->name))) return no_memory();
    if (!from->encoder) continue;
    if (from->kind != LT_COLUMN_TEXT)
      return lt_fail(LT_ERR_ARGUMENT, "csv: column \"%s\" is a number with a vocabulary; read it as text", from->name);
    to->encoder = from->encoder;
    lt_vocabulary_retain(to->encoder);
  }
  return LT_OK;
}

/* Blocks have the schema's columns; columns that are encoded while reading hold ids, not texts. */
static int make_form(lt_csv *c) {
  if (c->column_count == 0) return LT_OK; /* opened to look at the header */
  lt_frame_column *columns = calloc((size_t)c->column_count, sizeof *columns);
  if (!columns) return no_memory();
  for (int32_t i = 0; i < c->column_count; i++) {
    const csv_column *from = &c->columns[i];
    columns[i] = (lt_frame_column){.name = from->name, .kind = from->kind, .dtype = from->dtype};
    if (from->encoder) columns[i].kind = LT_COLUMN_NUMBER, columns[i].dtype = LT_INT32;
  }
  int status = lt_frame_new(columns, c->column_count, 0, &c->form);
  free(columns);
  return status;
}

static int fill_reader(lt_csv *c, const char *const *paths, int32_t path_count, const lt_csv_options *o,
                       const lt_csv_column *columns, int32_t column_count) {
  c->options = *o;
  if (path_count < 1) return lt_fail(LT_ERR_ARGUMENT, "csv: no file; name at least one");
  LT_TRY(check_options(o));
  c->path_count = path_count;
  LT_TRY(copy_texts(paths, path_count, &c->paths));
  if (!(c->comment = strdup(o->comment ? o->comment : ""))) return no_memory();
  c->given_count = o->name_count;
  LT_TRY(copy_texts(o->names, o->name_count, &c->given_names));
  LT_TRY(copy_missing(c, o));
  LT_TRY(copy_columns(c, columns, column_count));
  LT_TRY(make_form(c));
  int n = o->threads > 0 ? o->threads : 1;
  LT_TRY(csv_workers_new(c, n));
  if (!(c->spare = calloc(1, sizeof *c->spare))) return no_memory();
  return csv_begin_file(c);
}

int lt_csv_open(const char *const *paths, int32_t path_count, const lt_csv_options *options,
                const lt_csv_column *columns, int32_t column_count, lt_csv **out) {
  lt_csv *c = calloc(1, sizeof *c);
  if (!c) return no_memory();
  pthread_mutex_init(&c->stream_lock, NULL);
  int status = fill_reader(c, paths, path_count, options, columns, column_count);
  if (status < 0) {
    lt_csv_close(c);
    return status;
  }
  *out = c;
  return LT_OK;
}

void lt_csv_close(lt_csv *c) {
  if (!c) return;
  lt_ordered_close(c->pipe);
  lt_stream_close(c->stream);
  csv_workers_free(c, c->options.threads > 0 ? c->options.threads : 1);
  for (int32_t i = 0; i < c->column_count; i++) {
    free(c->columns[i].name);
    lt_vocabulary_release(c->columns[i].encoder);
  }
  free(c->columns);
  lt_frame_release(c->form);
  free_texts(c->paths, c->path_count);
  free_texts(c->missing, c->missing_count);
  free_texts(c->given_names, c->given_count);
  free_texts(c->names, c->name_count);
  free(c->missing_length), free(c->comment), free(c->carry), free(c->spare);
  pthread_mutex_destroy(&c->stream_lock);
  free(c);
}

/* Edits (insert, delete, replace one byte) from a to b, for "did you mean". Names beyond 63 bytes count as far. */
static int distance(const char *a, const char *b) {
  size_t n = strlen(a), m = strlen(b);
  int row[64];
  if (n > 63 || m > 63) return 1000;
  for (size_t j = 0; j <= m; j++) row[j] = (int)j;
  for (size_t i = 1; i <= n; i++) {
    int diagonal = row[0];
    row[0] = (int)i;
    for (size_t j = 1; j <= m; j++) {
      int best = diagonal + (a[i - 1] != b[j - 1]);
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      diagonal = row[j], row[j] = best;
    }
  }
  return row[m];
}

static const char *nearest(const char *name, char **names, int32_t count) {
  const char *best = NULL;
  int least = 1 + (int)strlen(name) / 2;
  for (int32_t i = 0; i < count; i++) {
    int d = distance(name, names[i]);
    if (names[i][0] && d < least) least = d, best = names[i];
  }
  return best;
}

static int looks_like_data(char **names, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    double number;
    if (lt_number_double(names[i], (int64_t)strlen(names[i]), &number) == LT_NUMBER_OK) return 1;
  }
  return 0;
}

static int unknown_column(const lt_csv *c, const char *name, char **names, int32_t count, int64_t line) {
  const char *path = c->paths[c->file], *near = nearest(name, names, count);
  if (c->options.header && c->given_count == 0 && looks_like_data(names, count)) {
    char first[CSV_VALUE + 8];
    csv_quote_value(names[0], (int64_t)strlen(names[0]), first);
    return lt_fail(
        LT_ERR_FORMAT,
        "csv: %s line %lld looks like data (\"%s\", ...), not like the names of columns: \"%s\" is not in it; "
        "pass header = { ... } with the names",
        path, (long long)line, first, name);
  }
  const char *other = count == 1 ? strpbrk(names[0], ";\t|,") : NULL;
  if (other) {
    char whole[CSV_VALUE + 8], mark[2] = {*other, 0};
    csv_quote_value(names[0], (int64_t)strlen(names[0]), whole);
    return lt_fail(LT_ERR_FORMAT,
                   "csv: %s has one column, \"%s\", and none is \"%s\"; pass delimiter = \"%s\" to split it", path,
                   whole, name, *other == '\t' ? "\\t" : mark);
  }
  if (near) return lt_fail(LT_ERR_FORMAT, "csv: %s has no column \"%s\"; did you mean \"%s\"?", path, name, near);
  char list[300] = "";
  for (int32_t i = 0; i < count && strlen(list) < 200; i++) {
    char one[CSV_VALUE + 8];
    csv_quote_value(names[i], (int64_t)strlen(names[i]), one);
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", one);
  }
  return lt_fail(LT_ERR_FORMAT, "csv: %s has no column \"%s\"; its columns are %s", path, name, list);
}

int csv_plan(lt_csv *c, char **names, int32_t count, int64_t line) {
  for (int32_t i = 0; i < c->column_count; i++) {
    csv_column *column = &c->columns[i];
    int32_t position = -1;
    for (int32_t k = 0; k < count; k++) {
      if (strcmp(names[k], column->name)) continue;
      if (position >= 0)
        return lt_fail(
            LT_ERR_FORMAT,
            "csv: %s names columns %d and %d \"%s\"; pass header = { ... } with other names, and skip_lines = 1",
            c->paths[c->file], position + 1, k + 1, column->name);
      position = k;
    }
    if (position < 0) return unknown_column(c, column->name, names, count, line);
    if (c->file > 0 && position != column->position)
      return lt_fail(LT_ERR_FORMAT,
                     "csv: \"%s\" is column %d in %s and column %d in %s; files read together need the "
                     "same columns",
                     column->name, column->position + 1, c->paths[0], position + 1, c->paths[c->file]);
    column->position = position;
  }
  if (c->file > 0 && count != c->name_count)
    return lt_fail(LT_ERR_FORMAT, "csv: %s has %d columns and %s has %d; files read together need the same columns",
                   c->paths[0], c->name_count, c->paths[c->file], count);
  return LT_OK;
}

int32_t lt_csv_name_count(const lt_csv *c) { return c->name_count; }
const char *lt_csv_name(const lt_csv *c, int32_t position) {
  return position >= 0 && position < c->name_count ? c->names[position] : NULL;
}
