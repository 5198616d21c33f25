/* What is asked of an open safetensors file: names, types, shapes, metadata, and the bytes of a tensor, whole, by rows
 * with a stride (an embedding table interleaves weights and optimizer state), or as a pointer into a mapping. */
#include "safetensors.h"

#include "../file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BLOCK = 1 << 20 }; /* bytes read at a time when rows are scattered */

int64_t lt_safetensors_count(const lt_safetensors *f) { return f->n; }

int64_t lt_safetensors_find(const lt_safetensors *f, const char *name) {
  int64_t low = 0, high = f->n;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    int order = strcmp(f->entries[f->sorted[middle]].name, name);
    if (order == 0) return f->sorted[middle];
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return -1;
}

static int find_entry(const lt_safetensors *f, int64_t index, const safetensors_entry **out) {
  if (index < 0 || index >= f->n)
    return lt_fail(LT_ERR_RANGE, "%s: tensor number %lld; the file has %lld, counted from 0", f->path, (long long)index,
                   (long long)f->n);
  *out = &f->entries[index];
  return LT_OK;
}

int lt_safetensors_entry(const lt_safetensors *f, int64_t index, lt_stored_tensor *out) {
  const safetensors_entry *e = NULL;
  LT_TRY(find_entry(f, index, &e));
  *out = (lt_stored_tensor){.name = e->name,
                            .dtype_name = safetensors_dtypes[e->dtype].name,
                            .shape = e->shape,
                            .bytes = e->end - e->begin,
                            .dtype = safetensors_dtypes[e->dtype].dtype,
                            .ndim = e->ndim};
  return LT_OK;
}

/* A tensor that the engine can hold. */
static int find_usable(const lt_safetensors *f, int64_t index, const safetensors_entry **out) {
  LT_TRY(find_entry(f, index, out));
  const safetensors_dtype *type = &safetensors_dtypes[(*out)->dtype];
  if (type->dtype < 0)
    return lt_fail(LT_ERR_DTYPE, "%s: tensor '%s' is %s, which ltrain does not compute with; convert it to F32 first",
                   f->path, lt_shown((*out)->name), type->name);
  if ((*out)->ndim > LT_MAX_DIMS)
    return lt_fail(LT_ERR_SHAPE, "%s: tensor '%s' has %d dimensions; ltrain takes up to %d", f->path,
                   lt_shown((*out)->name), (*out)->ndim, LT_MAX_DIMS);
  return LT_OK;
}

/* C's bool has two values only; any other byte under it is undefined behaviour. `at`: first byte in the tensor. */
static int check_bools(const lt_safetensors *f, const safetensors_entry *e, const uint8_t *bytes, int64_t n,
                       int64_t at) {
  if (safetensors_dtypes[e->dtype].dtype != LT_BOOL) return LT_OK;
  for (int64_t i = 0; i < n; i++)
    if (bytes[i] > 1)
      return lt_fail(LT_ERR_FORMAT, "%s: tensor '%s': element %lld of a BOOL is %d, neither 0 nor 1", f->path,
                     lt_shown(e->name), (long long)(at + i + 1), bytes[i]);
  return LT_OK;
}

int lt_safetensors_read(const lt_safetensors *f, int64_t index, void *out, int64_t bytes) {
  const safetensors_entry *e = NULL;
  LT_TRY(find_usable(f, index, &e));
  if (bytes != e->end - e->begin)
    return lt_fail(LT_ERR_SHAPE, "%s: tensor '%s' has %lld bytes, the place for it %lld", f->path, lt_shown(e->name),
                   (long long)(e->end - e->begin), (long long)bytes);
  LT_TRY(lt_file_read(f->fd, f->path, out, bytes, f->data_start + e->begin));
  return check_bools(f, e, out, bytes, 0);
}

int lt_safetensors_read_rows(const lt_safetensors *f, int64_t index, void *out, int64_t rows, int64_t row_bytes,
                             int64_t row_stride) {
  const safetensors_entry *e = NULL;
  int64_t total;
  LT_TRY(find_usable(f, index, &e));
  if (rows < 0 || row_bytes < 0 || __builtin_mul_overflow(rows, row_bytes, &total) || total != e->end - e->begin)
    return lt_fail(LT_ERR_SHAPE, "%s: tensor '%s' has %lld bytes, the place for it %lld rows of %lld", f->path,
                   lt_shown(e->name), (long long)(e->end - e->begin), (long long)rows, (long long)row_bytes);
  if (total == 0) return LT_OK;
  int64_t step = row_bytes > BLOCK ? 1 : BLOCK / row_bytes; /* rows a block */
  if (step > rows) step = rows;
  uint8_t *block = malloc((size_t)(step * row_bytes));
  if (!block) return lt_fail(LT_ERR_MEMORY, "%s: out of memory while reading '%s'", f->path, lt_shown(e->name));
  int status = LT_OK;
  for (int64_t row = 0; row < rows && status == LT_OK; row += step) {
    int64_t n = rows - row < step ? rows - row : step, at = row * row_bytes;
    status = lt_file_read(f->fd, f->path, block, n * row_bytes, f->data_start + e->begin + at);
    if (status == LT_OK) status = check_bools(f, e, block, n * row_bytes, at);
    if (status < 0) break;
    for (int64_t i = 0; i < n; i++)
      memcpy((char *)out + (row + i) * row_stride, block + i * row_bytes, (size_t)row_bytes);
  }
  free(block);
  return status;
}

int lt_safetensors_data(lt_safetensors *f, int64_t index, const void **out) {
  const safetensors_entry *e = NULL;
  LT_TRY(find_usable(f, index, &e));
  if (!f->map) {
    void *map = mmap(NULL, (size_t)f->file_bytes, PROT_READ, MAP_PRIVATE, f->fd, 0);
    if (map == MAP_FAILED)
      return lt_fail(LT_ERR_IO, "%s: cannot be mapped into memory: %s", f->path, strerrordesc_np(errno));
    f->map = map;
  }
  *out = (const char *)f->map + f->data_start + e->begin;
  return check_bools(f, e, *out, e->end - e->begin, 0);
}

int64_t lt_safetensors_metadata_count(const lt_safetensors *f) { return f->n_metadata; }

int lt_safetensors_metadata_at(const lt_safetensors *f, int64_t index, const char **key, const char **value) {
  if (index < 0 || index >= f->n_metadata)
    return lt_fail(LT_ERR_RANGE, "%s: metadata number %lld; the file has %lld, counted from 0", f->path,
                   (long long)index, (long long)f->n_metadata);
  *key = f->metadata[index].key;
  *value = f->metadata[index].value;
  return LT_OK;
}

const char *lt_safetensors_metadata(const lt_safetensors *f, const char *key) {
  int64_t low = 0, high = f->n_metadata;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    int order = strcmp(f->metadata[middle].key, key);
    if (order == 0) return f->metadata[middle].value;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}
