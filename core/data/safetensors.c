/* Reads safetensors files: u64le N, N bytes of JSON, data. The whole header is checked before any of it is believed:
 * types, shapes and offsets agree, and the tensors tile the data without hole, overlap or tail. Element types that the
 * engine does not compute with are an error only when such a tensor is asked for.
 * The header is read into memory rather than mapped, so that nobody can change it between check and use. */
#include "safetensors.h"

#include "../file.h"
#include "../json.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const safetensors_dtype safetensors_dtypes[] = {
    {"BOOL", 8, LT_BOOL},  {"F4", 4, -1},           {"F6_E2M3", 6, -1},        {"F6_E3M2", 6, -1},
    {"U8", 8, LT_UINT8},   {"I8", 8, -1},           {"F8_E5M2", 8, -1},        {"F8_E4M3", 8, -1},
    {"F8_E8M0", 8, -1},    {"F8_E4M3FNUZ", 8, -1},  {"F8_E5M2FNUZ", 8, -1},    {"I16", 16, -1},
    {"U16", 16, -1},       {"F16", 16, LT_FLOAT16}, {"BF16", 16, LT_BFLOAT16}, {"I32", 32, LT_INT32},
    {"U32", 32, -1},       {"F32", 32, LT_FLOAT32}, {"C64", 64, -1},           {"F64", 64, LT_FLOAT64},
    {"I64", 64, LT_INT64}, {"U64", 64, -1}};
const int safetensors_dtype_count = sizeof safetensors_dtypes / sizeof *safetensors_dtypes;

typedef safetensors_entry entry;
typedef safetensors_pair pair;

enum { MAX_ENTRY = 4096, MAX_METADATA = 1 << 20, MAX_FILE_DIMS = 64 };

static int no_memory(const char *path) {
  return lt_fail(LT_ERR_MEMORY, "%s: out of memory while reading the header", path);
}

#define REFUSE(file, format, ...) lt_fail(LT_ERR_FORMAT, "%s: " format, (file)->path, __VA_ARGS__)

/* Room for one more: arrays grow by half, so that a header's cost stays in proportion to its length. */
static int grow(void *array, int64_t n, size_t size, const char *path) {
  void **at = array;
  if (n >= 16 && (n & (n - 1)) != 0) return LT_OK;
  if (n > 0 && n < 16) return LT_OK;
  void *bigger = realloc(*at, (size_t)(n < 16 ? 16 : 2 * n) * size);
  if (!bigger) return no_memory(path);
  *at = bigger;
  return LT_OK;
}

/* ---- one tensor's description ---- */

static int read_shape(const lt_safetensors *f, entry *e, const cJSON *list) {
  const char *name = lt_shown(e->name);
  if (!cJSON_IsArray(list)) return REFUSE(f, "tensor '%s': shape is not a list", name);
  int ndim = cJSON_GetArraySize(list);
  if (ndim > MAX_FILE_DIMS) return REFUSE(f, "tensor '%s': shape has %d dimensions, more than any tensor", name, ndim);
  e->shape = malloc(sizeof(int64_t) * (size_t)(ndim + 1));
  if (!e->shape) return no_memory(f->path);
  e->ndim = 0;
  for (const cJSON *dim = list->child; dim; dim = dim->next)
    if (!lt_json_count(dim, &e->shape[e->ndim++]))
      return REFUSE(f, "tensor '%s': dimension %d of its shape is not a whole number from 0 to 2^53 - 1", name,
                    e->ndim);
  return LT_OK;
}

static int read_offsets(const lt_safetensors *f, entry *e, const cJSON *list) {
  bool pair = cJSON_IsArray(list) && cJSON_GetArraySize(list) == 2;
  if (!pair || !lt_json_count(list->child, &e->begin) || !lt_json_count(list->child->next, &e->end))
    return REFUSE(f, "tensor '%s': data_offsets is not a pair of whole numbers from 0 to 2^53 - 1", lt_shown(e->name));
  if (e->end < e->begin)
    return REFUSE(f, "tensor '%s': data_offsets [%lld, %lld] end before they begin", lt_shown(e->name),
                  (long long)e->begin, (long long)e->end);
  return LT_OK;
}

static int read_dtype(const lt_safetensors *f, entry *e, const cJSON *text) {
  if (!cJSON_IsString(text)) return REFUSE(f, "tensor '%s': dtype is not a text", lt_shown(e->name));
  for (e->dtype = 0; e->dtype < safetensors_dtype_count; e->dtype++)
    if (!strcmp(text->valuestring, safetensors_dtypes[e->dtype].name)) return LT_OK;
  return REFUSE(f, "tensor '%s': unknown dtype '%s'", lt_shown(e->name), lt_shown(text->valuestring));
}

/* Bytes that shape and type need, or a failure when they cannot be counted. */
static int check_size(const lt_safetensors *f, const entry *e) {
  int64_t bits = safetensors_dtypes[e->dtype].bits;
  bool empty = false, overflow = false;
  for (int d = 0; d < e->ndim; d++) empty = empty || e->shape[d] == 0;
  for (int d = 0; d < e->ndim && !empty; d++) overflow = overflow || __builtin_mul_overflow(bits, e->shape[d], &bits);
  if (overflow) return REFUSE(f, "tensor '%s': its shape has more elements than can be counted", lt_shown(e->name));
  if (empty) bits = 0;
  if (bits % 8 || bits / 8 != e->end - e->begin)
    return REFUSE(f, "tensor '%s': %s of its shape takes %lld bytes, but data_offsets [%lld, %lld] give it %lld",
                  lt_shown(e->name), safetensors_dtypes[e->dtype].name, (long long)((bits + 7) / 8),
                  (long long)e->begin, (long long)e->end, (long long)(e->end - e->begin));
  return LT_OK;
}

static int read_fields(const lt_safetensors *f, entry *e, const cJSON *fields) {
  unsigned seen = 0;
  for (const cJSON *field = fields->child; field; field = field->next) {
    static const char *const names[] = {"dtype", "shape", "data_offsets"};
    int which = 0;
    while (which < 3 && strcmp(field->string, names[which])) which++;
    if (which == 3) continue; /* the reference reader passes over what it does not know, too */
    if (seen >> which & 1) return REFUSE(f, "tensor '%s': %s is given twice", lt_shown(e->name), names[which]);
    seen |= 1u << which;
    LT_TRY(which == 0 ? read_dtype(f, e, field) : which == 1 ? read_shape(f, e, field) : read_offsets(f, e, field));
  }
  if (seen != 7)
    return REFUSE(f, "tensor '%s': %s is missing", lt_shown(e->name),
                  !(seen & 1)   ? "dtype"
                  : !(seen & 2) ? "shape"
                                : "data_offsets");
  return check_size(f, e);
}

static int read_entry(const lt_safetensors *f, entry *e, lt_json_slice value) {
  if (value.text[0] != '{') return REFUSE(f, "tensor '%s': its description is not an object", lt_shown(e->name));
  if (value.n > MAX_ENTRY)
    return REFUSE(f, "tensor '%s': its description has %lld characters, more than %d", lt_shown(e->name),
                  (long long)value.n, MAX_ENTRY);
  cJSON *fields = lt_json_tree(value);
  if (!fields) return no_memory(f->path);
  int status = read_fields(f, e, fields);
  cJSON_Delete(fields);
  return status;
}

/* ---- the whole header ---- */

static int read_metadata(lt_safetensors *f, lt_json_slice object) {
  lt_json_slice key, value;
  if (object.text[0] != '{') return REFUSE(f, "%s", "__metadata__ is not an object");
  for (int64_t cursor = 0; lt_json_next(object, &cursor, &key, &value);) {
    if (f->n_metadata == MAX_METADATA) return REFUSE(f, "__metadata__ has more than %d entries", MAX_METADATA);
    LT_TRY(grow(&f->metadata, f->n_metadata, sizeof *f->metadata, f->path));
    pair *p = &f->metadata[f->n_metadata];
    if (!(p->key = lt_json_string(key))) return no_memory(f->path);
    p->value = NULL;
    f->n_metadata++;
    if (value.text[0] != '"') return REFUSE(f, "__metadata__ '%s' is not a text", lt_shown(p->key));
    if (!(p->value = lt_json_string(value))) return no_memory(f->path);
  }
  return LT_OK;
}

static int by_key(const void *a, const void *b) { return strcmp(((const pair *)a)->key, ((const pair *)b)->key); }

static int by_offset(const void *left, const void *right) {
  const entry *a = left, *b = right;
  if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
  if (a->end != b->end) return a->end < b->end ? -1 : 1;
  return strcmp(a->name, b->name);
}

static int by_name(const void *a, const void *b, void *entries) {
  return strcmp(((const entry *)entries)[*(const int64_t *)a].name, ((const entry *)entries)[*(const int64_t *)b].name);
}

static int index_names(lt_safetensors *f) {
  if (f->n_metadata) qsort(f->metadata, (size_t)f->n_metadata, sizeof *f->metadata, by_key);
  for (int64_t i = 1; i < f->n_metadata; i++)
    if (!strcmp(f->metadata[i - 1].key, f->metadata[i].key))
      return REFUSE(f, "__metadata__ '%s' is given twice", lt_shown(f->metadata[i].key));
  if (!(f->sorted = malloc(sizeof(int64_t) * (size_t)(f->n + 1)))) return no_memory(f->path);
  if (f->n) qsort(f->entries, (size_t)f->n, sizeof *f->entries, by_offset);
  for (int64_t i = 0; i < f->n; i++) f->sorted[i] = i;
  qsort_r(f->sorted, (size_t)f->n, sizeof *f->sorted, by_name, f->entries);
  for (int64_t i = 1; i < f->n; i++)
    if (!strcmp(f->entries[f->sorted[i - 1]].name, f->entries[f->sorted[i]].name))
      return REFUSE(f, "tensor '%s' is given twice", lt_shown(f->entries[f->sorted[i]].name));
  return LT_OK;
}

/* The tensors tile the data: each begins where the one before ends, the last ends with the file. */
static int check_tiling(const lt_safetensors *f) {
  int64_t end = 0, held = f->file_bytes - f->data_start;
  for (int64_t i = 0; i < f->n; i++) {
    const entry *e = &f->entries[i];
    if (e->begin < end)
      return REFUSE(f, "tensor '%s' [%lld, %lld] overlaps '%s' [%lld, %lld]", lt_shown(e->name), (long long)e->begin,
                    (long long)e->end, lt_shown(e[-1].name), (long long)e[-1].begin, (long long)e[-1].end);
    if (e->begin > end)
      return REFUSE(f, "%lld bytes before tensor '%s' [%lld, %lld] belong to no tensor", (long long)(e->begin - end),
                    lt_shown(e->name), (long long)e->begin, (long long)e->end);
    end = e->end;
  }
  if (end > held)
    return REFUSE(f, "%lld of its %lld bytes are missing; it is cut short, fetch or save it again",
                  (long long)(end - held), (long long)(f->data_start + end));
  if (end < held) return REFUSE(f, "%lld bytes after the last tensor belong to no tensor", (long long)(held - end));
  return LT_OK;
}

static int read_header(lt_safetensors *f, lt_json_slice header) {
  lt_json_slice key, value;
  bool metadata = false;
  for (int64_t cursor = 0; lt_json_next(header, &cursor, &key, &value);) {
    char *name = lt_json_string(key);
    if (!name) return no_memory(f->path);
    if (!strcmp(name, "__metadata__")) {
      free(name);
      if (metadata) return REFUSE(f, "%s", "__metadata__ is given twice");
      metadata = true;
      LT_TRY(read_metadata(f, value));
      continue;
    }
    int status = grow(&f->entries, f->n, sizeof *f->entries, f->path);
    if (status < 0) {
      free(name);
      return status;
    }
    entry *e = &f->entries[f->n++];
    *e = (entry){.name = name};
    LT_TRY(read_entry(f, e, value));
  }
  LT_TRY(index_names(f));
  return check_tiling(f);
}

/* What people pass by mistake, told by the first bytes. */
static const char *guess(const char first[8]) {
  static const struct {
    const char *start, *what;
  } kinds[] = {{"version ", "a git-lfs pointer; run git lfs pull"},
               {"PK\x03\x04", "a zip archive (PyTorch or npz); convert it to safetensors"},
               {"\x80\x02", "a pickle; convert it to safetensors"},
               {"\x1f\x8b", "gzip; unpack it first"},
               {"\x93NUMPY", "npy; read it as such"},
               {"\x89HDF", "HDF5; convert it to safetensors"},
               {"GGUF", "GGUF; convert it to safetensors"},
               {"<", "a web page, saved in place of the file; fetch it again"},
               {"{", "JSON without the eight bytes before it"}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!memcmp(first, kinds[i].start, strlen(kinds[i].start))) return kinds[i].what;
  return NULL;
}

static int load(lt_safetensors *f) {
  unsigned char first[8];
  LT_TRY(lt_file_open(f->path, &f->fd, &f->file_bytes));
  if (f->file_bytes < 8)
    return REFUSE(f, "%lld bytes are too few for a safetensors file; it is empty or cut short",
                  (long long)f->file_bytes);
  LT_TRY(lt_file_read(f->fd, f->path, first, 8, 0));
  uint64_t n = 0;
  for (int i = 7; i >= 0; i--) n = n << 8 | first[i];
  const char *kind = guess((char *)first);
  if (n > SAFETENSORS_MAX_HEADER || (kind && (int64_t)n > f->file_bytes - 8))
    return REFUSE(
        f, "not a safetensors file (the header would have %llu bytes; up to %d are possible); this looks like %s",
        (unsigned long long)n, SAFETENSORS_MAX_HEADER, kind ? kind : "another kind of file, or a damaged one");
  if ((int64_t)n > f->file_bytes - 8)
    return REFUSE(
        f, "the header of %llu bytes reaches beyond the end of the file (%lld bytes); it is cut short or damaged",
        (unsigned long long)n, (long long)f->file_bytes);
  f->data_start = 8 + (int64_t)n;
  char *text = malloc((size_t)n + 1);
  if (!text) return no_memory(f->path);
  int status = lt_file_read(f->fd, f->path, text, (int64_t)n, 8);
  if (status == LT_OK && (n == 0 || text[0] != '{'))
    status = REFUSE(f, "%s", "not a safetensors file: its header does not begin with '{'");
  lt_json_slice header = {text, (int64_t)n};
  if (status == LT_OK && (status = lt_json_check("header", header, 16)) < 0) lt_fail_in(status, f->path);
  if (status == LT_OK) status = read_header(f, header);
  free(text);
  return status;
}

int lt_safetensors_open(const char *path, lt_safetensors **out) {
  lt_safetensors *f = calloc(1, sizeof *f);
  if (f) f->fd = -1, f->path = strdup(path);
  if (!f || !f->path) {
    free(f);
    return no_memory(path);
  }
  int status = load(f);
  if (status < 0) {
    lt_safetensors_close(f);
    return status;
  }
  *out = f;
  return LT_OK;
}

void lt_safetensors_close(lt_safetensors *f) {
  if (!f) return;
  for (int64_t i = 0; i < f->n; i++) {
    free(f->entries[i].name);
    free(f->entries[i].shape);
  }
  for (int64_t i = 0; i < f->n_metadata; i++) {
    free(f->metadata[i].key);
    free(f->metadata[i].value);
  }
  if (f->map) munmap(f->map, (size_t)f->file_bytes);
  if (f->fd >= 0) close(f->fd);
  free(f->entries);
  free(f->sorted);
  free(f->metadata);
  free(f->path);
  free(f);
}
