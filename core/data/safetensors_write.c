/* Writes safetensors files: tensors are declared, then their bytes come in any order, in pieces or as strided rows, and
 * go straight to their place. Laid out as the reference crate does: by alignment, widest first, then by name; the
 * header padded to 8, so that a mapping is aligned. Metadata is sorted by key: the same content gives the same bytes.
 * The file appears when it is complete (atomic_file.c). */
#include "safetensors.h"

#include "../file.h"
#include "../json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 20 }; /* bytes gathered before a write of rows */

typedef struct declared {
  char *name;
  int dtype; /* index into safetensors_dtypes */
  int ndim;
  int64_t shape[LT_MAX_DIMS];
  int64_t bytes, written, begin;
} declared;

struct lt_safetensors_writer {
  char *path;
  lt_file_writer *file;
  declared *tensors;
  int64_t n, n_metadata, data_start; /* data_start 0: not laid out yet */
  safetensors_pair *metadata;
  char *header;
  size_t header_n, header_room;
  bool finished;
};

static int no_memory(const lt_safetensors_writer *w) {
  return lt_fail(LT_ERR_MEMORY, "%s: out of memory while writing; what was there is unchanged", w->path);
}

int lt_safetensors_create(const char *path, lt_safetensors_writer **out) {
  lt_safetensors_writer *w = calloc(1, sizeof *w);
  if (w) w->path = strdup(path);
  if (!w || !w->path) {
    free(w);
    return lt_fail(LT_ERR_MEMORY, "%s: out of memory while opening it for writing", path);
  }
  int status = lt_file_create(path, &w->file);
  if (status < 0) {
    lt_safetensors_writer_free(w);
    return status;
  }
  *out = w;
  return LT_OK;
}

void lt_safetensors_writer_free(lt_safetensors_writer *w) {
  if (!w) return;
  lt_file_free(w->file);
  for (int64_t i = 0; i < w->n; i++) free(w->tensors[i].name);
  for (int64_t i = 0; i < w->n_metadata; i++) {
    free(w->metadata[i].key);
    free(w->metadata[i].value);
  }
  free(w->tensors);
  free(w->metadata);
  free(w->header);
  free(w->path);
  free(w);
}

static int check_text(const lt_safetensors_writer *w, const char *what, const char *text) {
  int64_t n = (int64_t)strlen(text);
  for (int64_t at = 0, step; at < n; at += step)
    if (!(step = lt_utf8_length(text + at, n - at)))
      return lt_fail(LT_ERR_ARGUMENT, "%s: %s '%s' is not UTF-8; the format takes no other text", w->path, what,
                     lt_shown(text));
  return LT_OK;
}

static int check_open(const lt_safetensors_writer *w, const char *what) {
  if (w->finished) return lt_fail(LT_ERR_STATE, "%s: is finished; %s come before that", w->path, what);
  if (w->data_start > 0) return lt_fail(LT_ERR_STATE, "%s: data is being written; %s come before that", w->path, what);
  return LT_OK;
}

/* ---- declarations ---- */

int lt_safetensors_add(lt_safetensors_writer *w, const char *name, int dtype, int ndim, const int64_t *shape,
                       int64_t *index) {
  LT_TRY(check_open(w, "tensors"));
  LT_TRY(check_text(w, "tensor name", name));
  if (!strcmp(name, "__metadata__"))
    return lt_fail(LT_ERR_ARGUMENT, "%s: '__metadata__' cannot name a tensor; the format keeps it for itself", w->path);
  if (ndim < 0 || ndim > LT_MAX_DIMS)
    return lt_fail(LT_ERR_SHAPE, "%s: tensor '%s' has %d dimensions; 0 to %d are possible", w->path, lt_shown(name),
                   ndim, LT_MAX_DIMS);
  declared t = {.ndim = ndim, .bytes = lt_dtype_size(dtype)};
  while (t.dtype < safetensors_dtype_count && safetensors_dtypes[t.dtype].dtype != dtype) t.dtype++;
  if (dtype < 0 || t.dtype == safetensors_dtype_count)
    return lt_fail(LT_ERR_DTYPE, "%s: tensor '%s' has element type %d, which there is not", w->path, lt_shown(name),
                   dtype);
  bool bad = false;
  for (int d = 0; d < ndim; d++) {
    bad = bad || shape[d] < 0;
    t.shape[d] = shape[d];
  }
  for (int d = 0; d < ndim && !bad; d++) /* zero times anything does not overflow; 2^53 is what readers can take */
    bad = __builtin_mul_overflow(t.bytes, shape[d], &t.bytes) || t.bytes >= (int64_t)1 << 53;
  if (bad)
    return lt_fail(LT_ERR_SHAPE, "%s: tensor '%s' has a negative dimension or more bytes than can be counted", w->path,
                   lt_shown(name));
  declared *more = realloc(w->tensors, (size_t)(w->n + 1) * sizeof *more);
  if (!more) return no_memory(w);
  w->tensors = more;
  if (!(t.name = strdup(name))) return no_memory(w);
  w->tensors[w->n] = t;
  *index = w->n++;
  return LT_OK;
}

int lt_safetensors_set(lt_safetensors_writer *w, const char *key, const char *value) {
  LT_TRY(check_open(w, "metadata"));
  LT_TRY(check_text(w, "metadata key", key));
  LT_TRY(check_text(w, "metadata value", value));
  for (int64_t i = 0; i < w->n_metadata; i++)
    if (!strcmp(w->metadata[i].key, key))
      return lt_fail(LT_ERR_ARGUMENT, "%s: metadata '%s' is given twice", w->path, lt_shown(key));
  safetensors_pair *more = realloc(w->metadata, (size_t)(w->n_metadata + 1) * sizeof *more);
  if (!more) return no_memory(w);
  w->metadata = more;
  safetensors_pair p = {strdup(key), strdup(value)};
  if (!p.key || !p.value) {
    free(p.key);
    free(p.value);
    return no_memory(w);
  }
  w->metadata[w->n_metadata++] = p;
  return LT_OK;
}

/* ---- header ---- */

static int put(lt_safetensors_writer *w, const char *text, size_t n) {
  if (w->header_n + n > w->header_room) {
    size_t room = 2 * (w->header_n + n) + 256;
    char *bigger = realloc(w->header, room);
    if (!bigger) return no_memory(w);
    w->header = bigger;
    w->header_room = room;
  }
  memcpy(w->header + w->header_n, text, n);
  w->header_n += n;
  return LT_OK;
}

static int put_text(lt_safetensors_writer *w, const char *text) {
  LT_TRY(put(w, "\"", 1));
  for (; *text; text++) {
    static const char plain[] = "\"\\\b\f\n\r\t", after[] = "\"\\bfnrt";
    const char *known = strchr(plain, *text);
    char escape[8] = {'\\', known ? after[known - plain] : 0};
    if (known)
      LT_TRY(put(w, escape, 2));
    else if ((unsigned char)*text < 0x20)
      LT_TRY(put(w, escape, (size_t)sprintf(escape, "\\u%04x", *text)));
    else
      LT_TRY(put(w, text, 1));
  }
  return put(w, "\"", 1);
}

static int put_tensor(lt_safetensors_writer *w, const declared *t) {
  char text[64];
  LT_TRY(put_text(w, t->name));
  LT_TRY(put(w, text, (size_t)sprintf(text, ":{\"dtype\":\"%s\",\"shape\":[", safetensors_dtypes[t->dtype].name)));
  for (int d = 0; d < t->ndim; d++)
    LT_TRY(put(w, text, (size_t)sprintf(text, d ? ",%" PRId64 : "%" PRId64, t->shape[d])));
  return put(w, text,
             (size_t)sprintf(text, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", t->begin, t->begin + t->bytes));
}

static int by_layout(const void *a, const void *b) {
  const declared *left = *(const declared *const *)a, *right = *(const declared *const *)b;
  return left->dtype != right->dtype ? right->dtype - left->dtype : strcmp(left->name, right->name);
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(const declared *const *)a)->name, (*(const declared *const *)b)->name);
}

static int by_key(const void *a, const void *b) {
  return strcmp(((const safetensors_pair *)a)->key, ((const safetensors_pair *)b)->key);
}

static int compose(lt_safetensors_writer *w, declared **order) { /* order: [n], scratch */
  for (int64_t i = 0; i < w->n; i++) order[i] = &w->tensors[i];
  qsort(order, (size_t)w->n, sizeof *order, by_name);
  for (int64_t i = 1; i < w->n; i++)
    if (!strcmp(order[i - 1]->name, order[i]->name))
      return lt_fail(LT_ERR_ARGUMENT, "%s: tensor '%s' is given twice", w->path, lt_shown(order[i]->name));
  qsort(order, (size_t)w->n, sizeof *order, by_layout);
  if (w->n_metadata) qsort(w->metadata, (size_t)w->n_metadata, sizeof *w->metadata, by_key);
  w->header_n = 0;
  LT_TRY(put(w, "{", 1));
  if (w->n_metadata) LT_TRY(put(w, "\"__metadata__\":{", 16));
  for (int64_t i = 0; i < w->n_metadata; i++) {
    if (i) LT_TRY(put(w, ",", 1));
    LT_TRY(put_text(w, w->metadata[i].key));
    LT_TRY(put(w, ":", 1));
    LT_TRY(put_text(w, w->metadata[i].value));
  }
  if (w->n_metadata) LT_TRY(put(w, "}", 1));
  int64_t end = 0;
  for (int64_t i = 0; i < w->n; i++) {
    if (i || w->n_metadata) LT_TRY(put(w, ",", 1));
    order[i]->begin = end;
    if (__builtin_add_overflow(end, order[i]->bytes, &end) || end >= (int64_t)1 << 53)
      return lt_fail(LT_ERR_SHAPE, "%s: the tensors have more bytes together than can be counted", w->path);
    LT_TRY(put_tensor(w, order[i]));
  }
  LT_TRY(put(w, "}       ", 8));
  w->header_n -= w->header_n % 8; /* one '}' and up to seven spaces */
  if (w->header_n > SAFETENSORS_MAX_HEADER)
    return lt_fail(LT_ERR_ARGUMENT, "%s: names and metadata take %zu bytes; the format allows %d", w->path, w->header_n,
                   SAFETENSORS_MAX_HEADER);
  LT_TRY(lt_file_reserve(w->file, 8 + (int64_t)w->header_n + end));
  unsigned char length[8];
  for (int i = 0; i < 8; i++) length[i] = (unsigned char)(w->header_n >> (8 * i));
  LT_TRY(lt_file_write(w->file, length, 8, 0));
  LT_TRY(lt_file_write(w->file, w->header, (int64_t)w->header_n, 8));
  w->data_start = 8 + (int64_t)w->header_n;
  return LT_OK;
}

static int lay_out(lt_safetensors_writer *w) {
  if (w->finished) return lt_fail(LT_ERR_STATE, "%s: is finished already", w->path);
  if (w->data_start > 0) return LT_OK;
  declared **order = malloc(sizeof(declared *) * (size_t)(w->n + 1));
  if (!order) return no_memory(w);
  int status = compose(w, order);
  free(order);
  return status;
}

/* ---- data ---- */

static int find_room(lt_safetensors_writer *w, int64_t index, int64_t bytes, declared **out) {
  LT_TRY(lay_out(w));
  if (index < 0 || index >= w->n)
    return lt_fail(LT_ERR_RANGE, "%s: tensor number %lld; %lld were declared, counted from 0", w->path,
                   (long long)index, (long long)w->n);
  declared *t = *out = &w->tensors[index];
  if (bytes < 0 || bytes > t->bytes - t->written)
    return lt_fail(LT_ERR_SHAPE, "%s: %lld bytes for tensor '%s', which takes %lld and has %lld of them", w->path,
                   (long long)bytes, lt_shown(t->name), (long long)t->bytes, (long long)t->written);
  return LT_OK;
}

int lt_safetensors_write(lt_safetensors_writer *w, int64_t index, const void *data, int64_t bytes) {
  declared *t;
  LT_TRY(find_room(w, index, bytes, &t));
  LT_TRY(lt_file_write(w->file, data, bytes, w->data_start + t->begin + t->written));
  t->written += bytes;
  return LT_OK;
}

int lt_safetensors_write_rows(lt_safetensors_writer *w, int64_t index, const void *data, int64_t rows,
                              int64_t row_bytes, int64_t row_stride) {
  declared *t;
  int64_t total;
  if (rows < 0 || row_bytes < 0 || __builtin_mul_overflow(rows, row_bytes, &total)) total = -1;
  LT_TRY(find_room(w, index, total, &t));
  if (total == 0) return LT_OK;
  if (row_stride == row_bytes) return lt_safetensors_write(w, index, data, total);
  int64_t step = row_bytes > BLOCK ? 1 : BLOCK / row_bytes; /* rows a block */
  if (step > rows) step = rows;
  char *block = malloc((size_t)(step * row_bytes));
  if (!block) return no_memory(w);
  int status = LT_OK;
  for (int64_t row = 0; row < rows && status == LT_OK; row += step) {
    int64_t n = rows - row < step ? rows - row : step;
    for (int64_t i = 0; i < n; i++)
      memcpy(block + i * row_bytes, (const char *)data + (row + i) * row_stride, (size_t)row_bytes);
    status = lt_safetensors_write(w, index, block, n * row_bytes);
  }
  free(block);
  return status;
}

int lt_safetensors_finish(lt_safetensors_writer *w) {
  LT_TRY(lay_out(w));
  for (int64_t i = 0; i < w->n; i++)
    if (w->tensors[i].written < w->tensors[i].bytes)
      return lt_fail(LT_ERR_STATE, "%s: tensor '%s' has %lld of its %lld bytes; write it before finishing", w->path,
                     lt_shown(w->tensors[i].name), (long long)w->tensors[i].written, (long long)w->tensors[i].bytes);
  LT_TRY(lt_file_commit(w->file));
  w->finished = true;
  return LT_OK;
}
