/* Vocabularies: fitted on a text column (or built from an ordered list that was saved), frozen, and then read by any
 * number of threads. Ids go by falling count, ties by bytes, so they depend on the data alone. A missing field is the
 * empty text: a value like any other, with an id of its own when it is frequent enough. Fitting reads counts only. */
#include "vocabulary.h"
#include "frame.h"

#include <stdlib.h>

static int make(int32_t kind, const char *name, lt_vocabulary **out) {
  lt_vocabulary *v = calloc(1, sizeof *v);
  char *copy = strdup(name);
  if (!v || !copy) {
    free(v), free(copy);
    return lt_fail(LT_ERR_MEMORY, "vocabulary: no memory for \"%s\"", name);
  }
  atomic_init(&v->refs, 1);
  v->kind = kind, v->name = copy;
  *out = v;
  return LT_OK;
}

int lt_vocabulary_new(const char *name, int64_t min_count, lt_vocabulary **out) {
  if (min_count < 1)
    return lt_fail(LT_ERR_ARGUMENT, "vocabulary: min_count of \"%s\" is %lld; give 1 or more", name,
                   (long long)min_count);
  lt_vocabulary *v;
  LT_TRY(make(LT_VOCABULARY_MAP, name, &v));
  v->min_count = min_count;
  int status = lt_strings_new(&v->values);
  if (status < 0) return lt_vocabulary_release(v), status;
  *out = v;
  return LT_OK;
}

int lt_vocabulary_hash(const char *name, int64_t buckets, int64_t seed, lt_vocabulary **out) {
  if (buckets < 1 || buckets > INT32_MAX - LT_ID_FIRST)
    return lt_fail(LT_ERR_ARGUMENT, "vocabulary: \"%s\" has %lld hash buckets; give 1 to %d", name, (long long)buckets,
                   INT32_MAX - LT_ID_FIRST);
  lt_vocabulary *v;
  LT_TRY(make(LT_VOCABULARY_HASH, name, &v));
  v->buckets = buckets;
  v->seed = lt_mix64((uint64_t)seed + 0x9e3779b97f4a7c15ULL);
  *out = v;
  return LT_OK;
}

int lt_vocabulary_whole(const char *name, int64_t limit, lt_vocabulary **out) {
  if (limit < 1 || limit > INT32_MAX)
    return lt_fail(LT_ERR_ARGUMENT, "vocabulary: ids of \"%s\" below %lld; give a limit of 1 to %d", name,
                   (long long)limit, INT32_MAX);
  lt_vocabulary *v;
  LT_TRY(make(LT_VOCABULARY_WHOLE, name, &v));
  v->buckets = limit;
  *out = v;
  return LT_OK;
}

void lt_vocabulary_retain(lt_vocabulary *v) { atomic_fetch_add(&v->refs, 1); }

void lt_vocabulary_release(lt_vocabulary *v) {
  if (!v || atomic_fetch_sub(&v->refs, 1) != 1) return;
  lt_strings_release(v->values);
  free(v->name);
  free(v);
}

static int check_map(const lt_vocabulary *v, const char *what) {
  if (v->kind == LT_VOCABULARY_MAP) return LT_OK;
  return lt_fail(LT_ERR_STATE, "%s: \"%s\" keeps no values; only a vocabulary fitted on data does", what, v->name);
}

int lt_vocabulary_add(lt_vocabulary *v, const char *text, int64_t length, int64_t count) {
  LT_TRY(check_map(v, "vocabulary add"));
  if (length < 0 || length > INT32_MAX)
    return lt_fail(LT_ERR_ARGUMENT, "vocabulary add: a value of %lld bytes", (long long)length);
  int64_t before = v->values->count;
  int64_t code = lt_strings_add(v->values, text, (uint32_t)length, lt_hash_text(text, (uint64_t)length), count);
  if (code < 0) return (int)code;
  if (v->values->count == before)
    return lt_fail(LT_ERR_FORMAT, "vocabulary add: \"%.*s\" is in \"%s\" twice", (int)(length < 60 ? length : 60), text,
                   v->name);
  return LT_OK;
}

int lt_vocabulary_of(const lt_strings *values, const int64_t *uses, const char *name, int64_t min_count,
                     lt_vocabulary **out) {
  lt_vocabulary *v;
  LT_TRY(lt_vocabulary_new(name, min_count, &v));
  uint32_t *order;
  int64_t kept, used = 0;
  int status = lt_strings_ranked(values, uses, min_count, &order, &kept);
  for (int64_t i = 0; status >= 0 && i < kept; i++) {
    int64_t length;
    const char *text = lt_strings_text(values, order[i], &length);
    status = lt_vocabulary_add(v, text, length, uses[order[i]]);
  }
  if (status < 0) return lt_vocabulary_release(v), status;
  free(order);
  for (int64_t code = 0; code < values->count; code++) used += uses[code] > 0;
  v->dropped = used - kept;
  *out = v;
  return LT_OK;
}

/* Counts of the codes in the given rows; rows NULL: all. */
static int count_rows(const lt_frame *f, int32_t column, const int64_t *rows, int64_t n, int64_t **out) {
  const lt_strings *s = f->columns[column].strings;
  int64_t *uses = calloc((size_t)s->count + 1, sizeof *uses);
  if (!uses) return lt_fail(LT_ERR_MEMORY, "vocabulary fit: no memory for %lld counts", (long long)s->count);
  for (int64_t i = 0; i < n; i++) {
    int64_t row = rows ? rows[i] : i;
    if (row < 0 || row >= f->rows) {
      free(uses);
      return lt_fail(LT_ERR_RANGE, "vocabulary fit: row %lld of a frame with %lld rows (0 to %lld)", (long long)row,
                     (long long)f->rows, (long long)f->rows - 1);
    }
    uses[*(const int32_t *)lt_frame_at(f, column, row)]++;
  }
  *out = uses;
  return LT_OK;
}

int lt_vocabulary_fit(const lt_frame *f, int32_t column, const int64_t *rows, int64_t n, int64_t min_count,
                      lt_vocabulary **out) {
  LT_TRY(lt_frame_check_column(f, column, "vocabulary fit"));
  const frame_column *c = &f->columns[column];
  if (!c->strings)
    return lt_fail(LT_ERR_DTYPE, "vocabulary fit: column \"%s\" holds %s; only text columns can be fitted", c->name,
                   lt_dtype_name(c->dtype));
  if (!rows && c->counted) return lt_vocabulary_of(c->strings, c->strings->uses, c->name, min_count, out);
  int64_t *uses = NULL;
  LT_TRY(count_rows(f, column, rows, rows ? n : f->rows, &uses));
  int status = lt_vocabulary_of(c->strings, uses, c->name, min_count, out);
  free(uses);
  return status;
}

void lt_vocabulary_count(lt_vocabulary *v, int64_t seen, int64_t unknown) {
  atomic_fetch_add_explicit(&v->seen, seen, memory_order_relaxed);
  if (unknown) atomic_fetch_add_explicit(&v->unknown, unknown, memory_order_relaxed);
}

int64_t lt_vocabulary_encode(lt_vocabulary *v, const char *text, int64_t length) {
  if (v->kind == LT_VOCABULARY_WHOLE)
    return lt_fail(LT_ERR_STATE, "vocabulary: \"%s\" takes whole numbers, no texts", v->name);
  int32_t id = lt_vocabulary_id(v, text, (uint32_t)length, lt_hash_text(text, (uint64_t)length));
  lt_vocabulary_count(v, 1, id == LT_ID_UNKNOWN);
  return id;
}

int lt_vocabulary_text(const lt_vocabulary *v, int64_t id, const char **text, int64_t *length, int64_t *count) {
  LT_TRY(check_map(v, "vocabulary text"));
  if (id < LT_ID_FIRST || id >= LT_ID_FIRST + v->values->count)
    return lt_fail(LT_ERR_RANGE, "vocabulary text: id %lld of \"%s\"; values have ids %d to %lld", (long long)id,
                   v->name, LT_ID_FIRST, (long long)(LT_ID_FIRST + v->values->count - 1));
  *text = lt_strings_text(v->values, id - LT_ID_FIRST, length);
  *count = v->values->uses[id - LT_ID_FIRST];
  return LT_OK;
}

void lt_vocabulary_describe(const lt_vocabulary *v, lt_vocabulary_info *out) {
  int64_t own = v->kind == LT_VOCABULARY_MAP ? v->values->count : v->buckets;
  *out = (lt_vocabulary_info){.name = v->name,
                              .kind = v->kind,
                              .first = v->kind == LT_VOCABULARY_WHOLE ? 0 : LT_ID_FIRST,
                              .size = own + (v->kind == LT_VOCABULARY_WHOLE ? 0 : LT_ID_FIRST),
                              .min_count = v->min_count,
                              .dropped = v->dropped,
                              .seen = atomic_load(&((lt_vocabulary *)v)->seen),
                              .unknown = atomic_load(&((lt_vocabulary *)v)->unknown)};
}

void lt_vocabulary_reset_counters(lt_vocabulary *v) {
  atomic_store(&v->seen, 0);
  atomic_store(&v->unknown, 0);
}
