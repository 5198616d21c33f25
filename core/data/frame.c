/* Frames: making, growing, picking rows. The table all readers fill and all batches come from.
 * Reading values out in batches is gather.c; turning texts and numbers into ids is encode.c. */
#include "frame.h"

#include <stdlib.h>

static int no_memory(void) { return lt_fail(LT_ERR_MEMORY, "frame: no memory for its columns"); }

static int64_t element_size(int32_t kind, int32_t dtype) {
  if (kind == LT_COLUMN_TEXT) return 4;
  switch (dtype) {
  case LT_FLOAT32:
  case LT_INT32: return 4;
  case LT_FLOAT64:
  case LT_INT64: return 8;
  }
  return 0;
}

/* Offsets by width, widest first, so that every element lies on its own boundary. */
static void lay_out(lt_frame *f) {
  int64_t at = 0;
  for (int64_t size = 8; size >= 4; size -= 4)
    for (int32_t i = 0; i < f->width; i++) {
      frame_column *c = &f->columns[i];
      if (element_size(c->kind, c->dtype) != size) continue;
      c->offset = at;
      at += size;
    }
  int wide = 0;
  for (int32_t i = 0; i < f->width; i++) wide |= element_size(f->columns[i].kind, f->columns[i].dtype) == 8;
  f->stride = wide ? (at + 7) / 8 * 8 : at;
}

static int check_spec(const lt_frame_column *columns, int32_t width) {
  if (width < 1) return lt_fail(LT_ERR_ARGUMENT, "frame: no columns; name at least one");
  for (int32_t i = 0; i < width; i++) {
    if (element_size(columns[i].kind, columns[i].dtype) == 0)
      return lt_fail(LT_ERR_DTYPE, "frame: column \"%s\" is %s; float32, float64, int32, int64 or text are possible",
                     columns[i].name, lt_dtype_name(columns[i].dtype));
    for (int32_t j = 0; j < i; j++)
      if (strcmp(columns[i].name, columns[j].name) == 0)
        return lt_fail(LT_ERR_ARGUMENT, "frame: two columns are named \"%s\"; give each its own name", columns[i].name);
  }
  return LT_OK;
}

static int build(const lt_frame_column *columns, int32_t width, int64_t rows, lt_frame **out) {
  lt_frame *f = calloc(1, sizeof *f);
  if (!f) return no_memory();
  atomic_init(&f->refs, 1);
  f->columns = calloc((size_t)width, sizeof *f->columns);
  if (!f->columns) return free(f), no_memory();
  f->width = width;
  for (int32_t i = 0; i < width; i++) {
    frame_column *c = &f->columns[i];
    c->kind = columns[i].kind;
    c->dtype = c->kind == LT_COLUMN_TEXT ? LT_INT32 : columns[i].dtype;
    c->name = strdup(columns[i].name);
    if (!c->name) return lt_frame_release(f), no_memory();
  }
  lay_out(f);
  int status = rows < 0 || rows > INT64_MAX / 8 / f->stride
                   ? lt_fail(LT_ERR_ARGUMENT, "frame: %lld rows; give a number from 0 up", (long long)rows)
                   : lt_buffer_new(rows * f->stride, &f->records);
  if (status < 0) return lt_frame_release(f), status;
  f->rows = rows;
  *out = f;
  return LT_OK;
}

int lt_frame_new(const lt_frame_column *columns, int32_t width, int64_t rows, lt_frame **out) {
  LT_TRY(check_spec(columns, width));
  return build(columns, width, rows, out);
}

void lt_frame_retain(lt_frame *f) { atomic_fetch_add(&f->refs, 1); }

void lt_frame_release(lt_frame *f) {
  if (!f || atomic_fetch_sub(&f->refs, 1) != 1) return;
  for (int32_t i = 0; i < f->width; i++) {
    free(f->columns[i].name);
    lt_strings_release(f->columns[i].strings);
  }
  free(f->columns);
  lt_buffer_release(f->records);
  free(f);
}

int lt_frame_like(const lt_frame *f, int64_t rows, lt_frame **out) {
  lt_frame_column *columns = calloc((size_t)f->width, sizeof *columns);
  if (!columns) return no_memory();
  for (int32_t i = 0; i < f->width; i++)
    columns[i] =
        (lt_frame_column){.name = f->columns[i].name, .kind = f->columns[i].kind, .dtype = f->columns[i].dtype};
  lt_frame *copy = NULL;
  int status = build(columns, f->width, rows, &copy);
  free(columns);
  LT_TRY(status);
  for (int32_t i = 0; i < f->width; i++) {
    copy->columns[i].strings = f->columns[i].strings;
    if (copy->columns[i].strings) lt_strings_retain(copy->columns[i].strings);
  }
  *out = copy;
  return LT_OK;
}

void lt_frame_set_strings(lt_frame *f, int32_t column, lt_strings *strings) {
  lt_strings_release(f->columns[column].strings);
  f->columns[column].strings = strings;
  f->columns[column].counted = false;
}

int lt_frame_writable(const lt_frame *f, const char *what) {
  if (atomic_load(&f->readers) > 0)
    return lt_fail(LT_ERR_STATE, "%s: a batch iterator reads this frame; close it first", what);
  if (atomic_load(&f->records->refs) > 1)
    return lt_fail(LT_ERR_STATE, "%s: tensors view this frame's rows; release them first, or copy the frame", what);
  return LT_OK;
}

int lt_frame_check_column(const lt_frame *f, int32_t column, const char *what) {
  if (column < 0 || column >= f->width)
    return lt_fail(LT_ERR_RANGE, "%s: column number %d of a frame with %d columns (0 to %d)", what, column, f->width,
                   f->width - 1);
  return LT_OK;
}

int lt_frame_grow(lt_frame *f, int64_t rows) {
  LT_TRY(lt_buffer_resize(f->records, rows * f->stride));
  f->rows = rows;
  return LT_OK;
}

static int same_columns(const lt_frame *a, const lt_frame *b) {
  if (a->width != b->width)
    return lt_fail(LT_ERR_SHAPE, "frame append: %d columns cannot follow %d", b->width, a->width);
  for (int32_t i = 0; i < a->width; i++) {
    const frame_column *x = &a->columns[i], *y = &b->columns[i];
    if (strcmp(x->name, y->name) || x->dtype != y->dtype)
      return lt_fail(LT_ERR_SHAPE, "frame append: column %d is \"%s\" (%s) here and \"%s\" (%s) there", i + 1, x->name,
                     lt_dtype_name(x->dtype), y->name, lt_dtype_name(y->dtype));
    if (x->strings != y->strings)
      return lt_fail(LT_ERR_STATE,
                     "frame append: column \"%s\" has another dictionary in each frame; encode both with "
                     "one vocabulary first",
                     x->name);
  }
  return LT_OK;
}

int lt_frame_append(lt_frame *f, const lt_frame *more) {
  LT_TRY(lt_frame_writable(f, "frame append"));
  LT_TRY(same_columns(f, more));
  int64_t before = f->rows, added = more->rows;
  for (int32_t i = 0; i < f->width; i++) f->columns[i].counted = false;
  LT_TRY(lt_frame_grow(f, before + added));
  memcpy((char *)f->records->data + before * f->stride, more->records->data, (size_t)(added * f->stride));
  return LT_OK;
}

int lt_frame_select(const lt_frame *f, const int64_t *rows, int64_t n, lt_frame **out) {
  for (int64_t i = 0; i < n; i++)
    if (rows[i] < 0 || rows[i] >= f->rows)
      return lt_fail(LT_ERR_RANGE, "frame select: row %lld of a frame with %lld rows (0 to %lld)", (long long)rows[i],
                     (long long)f->rows, (long long)f->rows - 1);
  lt_frame *picked;
  LT_TRY(lt_frame_like(f, n, &picked));
  char *to = picked->records->data;
  const char *from = f->records->data;
  for (int64_t i = 0; i < n; i++) memcpy(to + i * f->stride, from + rows[i] * f->stride, (size_t)f->stride);
  *out = picked;
  return LT_OK;
}

int lt_frame_filter(const lt_frame *f, const uint8_t *mask, lt_frame **out) {
  int64_t n = 0;
  for (int64_t i = 0; i < f->rows; i++) n += mask[i] != 0;
  lt_frame *picked;
  LT_TRY(lt_frame_like(f, n, &picked));
  char *to = picked->records->data;
  const char *from = f->records->data;
  for (int64_t i = 0; i < f->rows; i++) {
    if (!mask[i]) continue;
    memcpy(to, from + i * f->stride, (size_t)f->stride);
    to += f->stride;
  }
  *out = picked;
  return LT_OK;
}

int64_t lt_frame_rows(const lt_frame *f) { return f->rows; }
int64_t lt_frame_stride(const lt_frame *f) { return f->stride; }
int32_t lt_frame_width(const lt_frame *f) { return f->width; }
lt_buffer *lt_frame_records(const lt_frame *f) { return f->records; }

int lt_frame_describe(const lt_frame *f, int32_t column, lt_frame_info *out) {
  LT_TRY(lt_frame_check_column(f, column, "frame"));
  const frame_column *c = &f->columns[column];
  *out = (lt_frame_info){.name = c->name,
                         .kind = c->kind,
                         .dtype = c->dtype,
                         .offset = c->offset,
                         .values = c->strings ? c->strings->count : 0};
  return LT_OK;
}

int32_t lt_frame_find(const lt_frame *f, const char *name) {
  for (int32_t i = 0; i < f->width; i++)
    if (strcmp(f->columns[i].name, name) == 0) return i;
  return -1;
}

int lt_frame_text(const lt_frame *f, int32_t column, int64_t code, const char **text, int64_t *length, int64_t *uses) {
  LT_TRY(lt_frame_check_column(f, column, "frame text"));
  const frame_column *c = &f->columns[column];
  if (!c->strings)
    return lt_fail(LT_ERR_DTYPE, "frame text: column \"%s\" holds %s, no texts", c->name, lt_dtype_name(c->dtype));
  if (code < 0 || code >= c->strings->count)
    return lt_fail(LT_ERR_RANGE, "frame text: code %lld of column \"%s\"; its dictionary has codes 0 to %lld",
                   (long long)code, c->name, (long long)c->strings->count - 1);
  *text = lt_strings_text(c->strings, code, length);
  *uses = c->strings->uses[code];
  return LT_OK;
}
