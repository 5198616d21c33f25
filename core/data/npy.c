/* NumPy's .npy, versions 1 to 3: magic, version, header length, a Python dict literal, data. The literal is read by a
 * small parser of its own grammar, never evaluated. Big-endian data is swapped, Fortran order becomes row-major, the
 * integer types that the engine lacks are widened exactly; objects (pickles), structures and text are refused. */
#include "../file.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_HEADER = 65536, BLOCK = 1 << 16 }; /* bytes of a header; elements converted at a time */

typedef struct npy_type {
  char kind; /* of the descr: f i u b */
  int size;  /* bytes an element in the file */
  int dtype; /* what it becomes */
} npy_type;

static const npy_type types[] = {{'f', 4, LT_FLOAT32}, {'f', 8, LT_FLOAT64}, {'f', 2, LT_FLOAT16}, {'i', 8, LT_INT64},
                                 {'i', 4, LT_INT32},   {'u', 1, LT_UINT8},   {'b', 1, LT_BOOL},    {'i', 1, LT_INT32},
                                 {'i', 2, LT_INT32},   {'u', 2, LT_INT32},   {'u', 4, LT_INT64},   {'u', 8, LT_INT64}};

struct lt_npy {
  char *path;
  int fd;
  int64_t file_bytes, data_start;
  bool swapped;
  const npy_type *type;
  lt_npy_header header;
};

#define REFUSE(f, format, ...) lt_fail(LT_ERR_FORMAT, "%s: " format, (f)->path, __VA_ARGS__)

/* ---- the dict literal ---- */

typedef struct cursor {
  const char *at, *end; /* *end is 0 */
} cursor;

static char peek(cursor *c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t')) c->at++;
  return *c->at;
}

static bool take(cursor *c, char wanted) {
  if (peek(c) != wanted) return false;
  c->at++;
  return true;
}

/* A quoted text without escapes: NumPy writes no other here. */
static bool take_text(cursor *c, char *out, size_t room) {
  char quote = peek(c);
  if (quote != '\'' && quote != '"') return false;
  const char *start = ++c->at;
  while (c->at < c->end && *c->at != quote) c->at++;
  size_t n = (size_t)(c->at - start);
  if (c->at == c->end || n >= room || memchr(start, '\\', n) || memchr(start, 0, n)) return false;
  memcpy(out, start, n);
  out[n] = 0;
  c->at++;
  return true;
}

static bool take_word(cursor *c, const char *word) {
  size_t n = strlen(word);
  peek(c);
  if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) || isalnum((unsigned char)c->at[n])) return false;
  c->at += n;
  return true;
}

static bool take_count(cursor *c, int64_t *out) {
  if (!isdigit((unsigned char)peek(c))) return false;
  *out = 0;
  for (; isdigit((unsigned char)*c->at); c->at++)
    if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, *c->at - '0', out)) return false;
  if (*c->at == 'L') c->at++; /* Python 2 wrote long integers so */
  return true;
}

static int read_shape(lt_npy *f, cursor *c) {
  lt_npy_header *h = &f->header;
  if (!take(c, '(')) return REFUSE(f, "%s", "header: shape is not a tuple");
  for (h->ndim = 0; peek(c) != ')';) {
    if (h->ndim == LT_MAX_DIMS)
      return lt_fail(LT_ERR_SHAPE, "%s: has more than %d dimensions; ltrain takes up to %d", f->path, LT_MAX_DIMS,
                     LT_MAX_DIMS);
    if (!take_count(c, &h->shape[h->ndim++]))
      return REFUSE(f, "header: dimension %d of the shape is not a whole number that can be counted", h->ndim);
    if (!take(c, ',') && peek(c) != ')') return REFUSE(f, "%s", "header: expected ',' or ')' in the shape");
  }
  c->at++;
  return LT_OK;
}

/* "<f4": byte order, kind, bytes. */
static int read_type(lt_npy *f, cursor *c) {
  char *descr = f->header.descr;
  if (peek(c) == '[')
    return lt_fail(LT_ERR_DTYPE, "%s: holds a structured array; save its fields as arrays of their own", f->path);
  if (!take_text(c, descr, sizeof f->header.descr)) return REFUSE(f, "%s", "header: descr is not a short text");
  char order = descr[0], kind = order ? descr[1] : 0;
  if (kind == 'O')
    return lt_fail(LT_ERR_DTYPE,
                   "%s: holds Python objects (a pickle, which can run code); save a numeric array: a.astype('float32')",
                   f->path);
  if (kind == 'U' || kind == 'S' || kind == 'a')
    return lt_fail(LT_ERR_DTYPE, "%s: holds text ('%s'); encode it as ids first", f->path, lt_shown(descr));
  char *end = descr;
  long size = kind ? strtol(descr + 2, &end, 10) : 0;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].kind == kind && types[i].size == size && *end == 0 && isdigit((unsigned char)descr[2]))
      f->type = &types[i];
  bool known_order = order == '<' || order == '>' || order == '|' || order == '=';
  if (!f->type || !known_order || (order == '|' && size > 1))
    return lt_fail(LT_ERR_DTYPE, "%s: holds elements of type '%s'; ltrain reads f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1",
                   f->path, lt_shown(descr));
  f->swapped = order == '>' && size > 1;
  f->header.dtype = f->type->dtype;
  return LT_OK;
}

static int read_dict(lt_npy *f, cursor *c) {
  unsigned seen = 0;
  if (!take(c, '{')) return REFUSE(f, "%s", "header: does not begin with '{'");
  while (peek(c) != '}') {
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    char key[32];
    int which = 0;
    if (!take_text(c, key, sizeof key)) return REFUSE(f, "%s", "header: expected a key in quotes");
    while (which < 3 && strcmp(key, keys[which])) which++;
    if (which == 3) return REFUSE(f, "header: unknown key '%s'", lt_shown(key));
    if (seen >> which & 1) return REFUSE(f, "header: %s is given twice", key);
    seen |= 1u << which;
    if (!take(c, ':')) return REFUSE(f, "header: expected ':' after '%s'", key);
    if (which == 0) LT_TRY(read_type(f, c));
    if (which == 1) {
      f->header.fortran = take_word(c, "True");
      if (!f->header.fortran && !take_word(c, "False"))
        return REFUSE(f, "%s", "header: fortran_order is neither True nor False");
    }
    if (which == 2) LT_TRY(read_shape(f, c));
    if (!take(c, ',') && peek(c) != '}') return REFUSE(f, "header: expected ',' or '}' after %s", key);
  }
  c->at++;
  if (seen != 7)
    return REFUSE(f, "header: %s is missing", !(seen & 1) ? "descr" : !(seen & 2) ? "fortran_order" : "shape");
  if (peek(c) || c->at != c->end) return REFUSE(f, "%s", "header: more text after the '}'");
  return LT_OK;
}

/* ---- the file ---- */

static int check_size(lt_npy *f) {
  lt_npy_header *h = &f->header;
  int64_t held = f->file_bytes - f->data_start, needed;
  bool empty = false, overflow = false;
  for (int d = 0; d < h->ndim; d++) empty = empty || h->shape[d] == 0;
  h->count = empty ? 0 : 1;
  for (int d = 0; d < h->ndim && !empty; d++)
    overflow = overflow || __builtin_mul_overflow(h->count, h->shape[d], &h->count);
  /* 8: the widest element, in the file or in memory */
  if (overflow || __builtin_mul_overflow(h->count, 8, &needed))
    return REFUSE(f, "%s", "its shape has more elements than can be counted");
  needed = h->count * f->type->size;
  h->bytes = h->count * lt_dtype_size(h->dtype);
  if (needed > held)
    return REFUSE(f, "%lld of its %lld bytes are missing; it is cut short, fetch or save it again",
                  (long long)(needed - held), (long long)(f->data_start + needed));
  if (needed < held)
    return REFUSE(f, "%lld bytes follow the array; a file of several arrays has to be split",
                  (long long)(held - needed));
  return LT_OK;
}

static int load(lt_npy *f) {
  unsigned char first[12] = {0};
  LT_TRY(lt_file_open(f->path, &f->fd, &f->file_bytes));
  if (f->file_bytes >= 10) LT_TRY(lt_file_read(f->fd, f->path, first, 10, 0));
  if (memcmp(first, "\x93NUMPY", 6)) {
    bool zip = !memcmp(first, "PK\x03\x04", 4);
    return REFUSE(f, "not a npy file: it does not begin with \\x93NUMPY%s",
                  zip ? "; this is a npz, unzip it first" : "");
  }
  if (first[6] < 1 || first[6] > 3)
    return REFUSE(f, "npy version %d.%d; versions 1 to 3 are known", first[6], first[7]);
  int64_t n = first[8] | first[9] << 8, start = 10;
  if (first[6] > 1) {
    if (f->file_bytes < 12) return REFUSE(f, "%s", "ends inside its header; it is cut short");
    LT_TRY(lt_file_read(f->fd, f->path, first + 10, 2, 10));
    n |= (int64_t)first[10] << 16 | (int64_t)first[11] << 24;
    start = 12;
  }
  if (n > MAX_HEADER) return REFUSE(f, "a header of %lld bytes is above the limit of %d", (long long)n, MAX_HEADER);
  if (n > f->file_bytes - start) return REFUSE(f, "%s", "ends inside its header; it is cut short");
  char *text = calloc((size_t)n + 1, 1);
  if (!text) return lt_fail(LT_ERR_MEMORY, "%s: out of memory while reading the header", f->path);
  int status = lt_file_read(f->fd, f->path, text, n, start);
  cursor c = {text, text + n};
  if (status == LT_OK) status = read_dict(f, &c);
  free(text);
  f->data_start = start + n;
  return status < 0 ? status : check_size(f);
}

int lt_npy_open(const char *path, lt_npy **out) {
  lt_npy *f = calloc(1, sizeof *f);
  if (f) f->fd = -1, f->path = strdup(path);
  if (!f || !f->path) {
    free(f);
    return lt_fail(LT_ERR_MEMORY, "%s: out of memory", path);
  }
  int status = load(f);
  if (status < 0) {
    lt_npy_close(f);
    return status;
  }
  *out = f;
  return LT_OK;
}

void lt_npy_close(lt_npy *f) {
  if (!f) return;
  if (f->fd >= 0) close(f->fd);
  free(f->path);
  free(f);
}

void lt_npy_info(const lt_npy *f, lt_npy_header *out) { *out = f->header; }

/* ---- data ---- */

static uint64_t load_bits(const uint8_t *p, int size, bool swapped) {
  uint64_t bits = 0;
  for (int i = 0; i < size; i++) bits |= (uint64_t)p[swapped ? size - 1 - i : i] << (8 * i);
  return bits;
}

/* One element into its place; false: it does not fit. */
static bool convert(const lt_npy *f, const uint8_t *from, char *to) {
  int size = f->type->size, dtype = f->type->dtype;
  uint64_t bits = load_bits(from, size, f->swapped);
  if (f->type->kind == 'u' && size == 8 && bits > INT64_MAX) return false;
  if (dtype == LT_BOOL && bits > 1) return false;
  if (f->type->kind == 'i' && size < 8) { /* extend the sign */
    uint64_t sign = 1ULL << (8 * size - 1);
    bits = (bits ^ sign) - sign;
  }
  memcpy(to, &bits, (size_t)lt_dtype_size(dtype)); /* little endian, as this platform is */
  return true;
}

/* Elements stream by in file order; `step` and `index` walk the place of each in row-major order. */
static int convert_all(const lt_npy *f, char *out) {
  const lt_npy_header *h = &f->header;
  int64_t item = lt_dtype_size(h->dtype), step[LT_MAX_DIMS], index[LT_MAX_DIMS] = {0}, place = 0;
  for (int64_t d = h->ndim - 1, n = item; d >= 0; n *= h->shape[d--]) step[d] = n;
  uint8_t *block = malloc((size_t)BLOCK * (size_t)f->type->size);
  if (!block) return lt_fail(LT_ERR_MEMORY, "%s: out of memory while reading", f->path);
  int status = LT_OK;
  for (int64_t done = 0; done < h->count && status == LT_OK; done += BLOCK) {
    int64_t n = h->count - done < BLOCK ? h->count - done : BLOCK;
    status = lt_file_read(f->fd, f->path, block, n * f->type->size, f->data_start + done * f->type->size);
    for (int64_t i = 0; i < n && status == LT_OK; i++) {
      if (!convert(f, block + i * f->type->size, out + place))
        status = lt_fail(LT_ERR_RANGE, "%s: element %lld of a '%s' array has no %s value", f->path,
                         (long long)(done + i + 1), lt_shown(h->descr), lt_dtype_name(h->dtype));
      if (!h->fortran) {
        place += item;
        continue;
      }
      for (int d = 0; d < h->ndim; d++) { /* the first dimension runs fastest */
        place += step[d];
        if (++index[d] < h->shape[d]) break;
        place -= step[d] * index[d];
        index[d] = 0;
      }
    }
  }
  free(block);
  return status;
}

int lt_npy_read(const lt_npy *f, void *out, int64_t bytes) {
  const lt_npy_header *h = &f->header;
  if (bytes != h->bytes)
    return lt_fail(LT_ERR_SHAPE, "%s: the array has %lld bytes, the place for it %lld", f->path, (long long)h->bytes,
                   (long long)bytes);
  bool plain = !f->swapped && f->type->size == lt_dtype_size(h->dtype) && h->dtype != LT_BOOL &&
               !(f->type->kind == 'u' && f->type->size == 8);
  if (plain && (!h->fortran || h->ndim < 2)) return lt_file_read(f->fd, f->path, out, bytes, f->data_start);
  return convert_all(f, out);
}

int lt_npy_write(const char *path, int dtype, int ndim, const int64_t *shape, const void *data) {
  char header[512] = "\x93NUMPY\x01";
  const npy_type *type = types;
  while (type->dtype != dtype)
    if (++type == types + sizeof types / sizeof *types)
      return lt_fail(LT_ERR_DTYPE, "%s: npy has no %s; convert to float32 first", path, lt_dtype_name(dtype));
  if (ndim < 0 || ndim > LT_MAX_DIMS)
    return lt_fail(LT_ERR_SHAPE, "%s: %d dimensions; 0 to %d are possible", path, ndim, LT_MAX_DIMS);
  int64_t bytes = type->size;
  int n = 10;
  n += sprintf(header + n, "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (", type->size > 1 ? '<' : '|',
               type->kind, type->size);
  for (int d = 0; d < ndim; d++) {
    if (shape[d] < 0 || __builtin_mul_overflow(bytes, shape[d], &bytes))
      return lt_fail(LT_ERR_SHAPE, "%s: a negative dimension, or more elements than can be counted", path);
    n += sprintf(header + n, ndim == 1 ? "%lld," : d ? ", %lld" : "%lld", (long long)shape[d]);
  }
  n += sprintf(header + n, "), }");
  while ((n + 1) % 64) header[n++] = ' ';
  header[n++] = '\n';
  header[8] = (char)((n - 10) & 255);
  header[9] = (char)((n - 10) >> 8);
  lt_file_writer *file;
  LT_TRY(lt_file_create(path, &file));
  int status = lt_file_reserve(file, n + bytes);
  if (status == LT_OK) status = lt_file_write(file, header, n, 0);
  if (status == LT_OK) status = lt_file_write(file, data, bytes, n);
  if (status == LT_OK) status = lt_file_commit(file);
  lt_file_free(file);
  return status;
}
