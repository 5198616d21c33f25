/* Distinct rows by sorting: stable radix sorts of (row, place) pairs, whose result is unique, so neither threads nor
 * the choice between the two ways shows in it. Where each field has rows of its own, fields are sorted apart, one
 * thread each, on a few digits of the local id; otherwise all places are sorted together, chunk by chunk. */
#include "lookup.h"

enum { DIGIT = 11, BUCKETS = 1 << DIGIT, PASSES = 3, CHECKED = 4096, HEADS = 8192 };

/* ---- checking ---- */

#define ANY_BAD(T)                                                                                                     \
  for (int64_t s = first; s < last; s++) {                                                                             \
    const T *id = (const T *)l->ids + s * l->fields;                                                                   \
    for (int64_t f = 0; f < l->fields; f++) bad |= (uint64_t)(int64_t)id[f] >= (uint64_t)l->size[f];                   \
  }
#define ANY_BAD_FLAT(T)                                                                                                \
  for (int64_t s = first; s < last; s++) bad |= (uint64_t)(int64_t)((const T *)l->ids)[s] >= (uint64_t)l->size[0];
LT_CLONES static bool any_bad(const lt_lookup *l, int64_t first, int64_t last) {
  int bad = 0;
  if (l->fields == 1) {
    if (l->wide) ANY_BAD_FLAT(int64_t) else ANY_BAD_FLAT(int32_t)
  } else if (l->wide)
    ANY_BAD(int64_t)
  else
    ANY_BAD(int32_t)
  return bad;
}

int64_t lt_lookup_check(const lt_lookup *l) {
  int64_t n = l->batch * l->fields, per = CHECKED / (l->fields + 1) + 1, found = INT64_MAX;
#pragma omp parallel for schedule(static) reduction(min : found) num_threads(lt_threads_for(n))
  for (int64_t s = 0; s < l->batch; s += per) {
    int64_t last = s + per < l->batch ? s + per : l->batch;
    if (found != INT64_MAX || !any_bad(l, s, last)) continue;
    for (int64_t p = s * l->fields; p < last * l->fields && found == INT64_MAX; p++)
      if ((uint64_t)lt_lookup_id(l, p) >= (uint64_t)l->size[p % l->fields]) found = p;
  }
  return found == INT64_MAX ? -1 : found;
}

/* ---- sorting ---- */

/* Places of the padding id carry this number; their segment is dropped. */
static const uint32_t NO_PLACE = UINT32_MAX;

static inline uint64_t entry(const lt_lookup *l, int64_t place, int64_t field) {
  int64_t id = lt_lookup_id(l, place);
  return (uint64_t)(l->first[field] + id) << 32 | (id == l->padding ? NO_PLACE : (uint32_t)place);
}

static int bits_of(int64_t values) { return values > 1 ? 64 - __builtin_clzll((unsigned long long)(values - 1)) : 1; }

static void swap(uint64_t **a, uint64_t **b) {
  uint64_t *t = *a;
  *a = *b;
  *b = t;
}

/* Field f into sorted[0 .. batch - 1]; spare is as large. All digits are counted while ids are read. */
static void sort_field(const lt_lookup *l, int64_t f, uint64_t *sorted, uint64_t *spare) {
  uint32_t count[PASSES][BUCKETS];
  int bits = bits_of(l->size[f]), passes = (bits + DIGIT - 1) / DIGIT, digit = (bits + passes - 1) / passes;
  uint64_t mask = ((uint64_t)1 << digit) - 1, base = (uint64_t)l->first[f] << 32;
  uint64_t *from = passes % 2 ? spare : sorted, *to = passes % 2 ? sorted : spare;
  for (int p = 0; p < passes; p++) memset(count[p], 0, (mask + 1) * sizeof count[p][0]);
  for (int64_t s = 0; s < l->batch; s++) {
    from[s] = entry(l, s * l->fields + f, f);
    uint64_t key = (from[s] - base) >> 32;
    for (int p = 0; p < passes; p++) count[p][key >> p * digit & mask]++;
  }
  for (int p = 0; p < passes; p++, swap(&from, &to)) {
    uint32_t at = 0;
    for (uint64_t d = 0; d <= mask; d++) {
      uint32_t n = count[p][d];
      count[p][d] = at;
      at += n;
    }
    for (int64_t s = 0; s < l->batch; s++) to[count[p][(from[s] - base) >> (32 + p * digit) & mask]++] = from[s];
  }
}

/* All places together: counts by chunk, so that chunks scatter side by side. counts: [chunks, BUCKETS]. */
static void sort_all(const lt_lookup *l, int64_t n, int64_t n_rows, uint64_t *sorted, uint64_t *spare, uint32_t *counts,
                     int chunks) {
  int bits = bits_of(n_rows), passes = (bits + DIGIT - 1) / DIGIT, digit = (bits + passes - 1) / passes;
  uint64_t mask = ((uint64_t)1 << digit) - 1, *from = passes % 2 ? spare : sorted, *to = passes % 2 ? sorted : spare;
  int64_t per = (n + chunks - 1) / chunks;
#pragma omp parallel for schedule(static) num_threads(chunks)
  for (int k = 0; k < chunks; k++)
    for (int64_t p = k * per; p < n && p < (k + 1) * per; p++) from[p] = entry(l, p, p % l->fields);
  for (int p = 0, shift = 32; p < passes; p++, shift += digit, swap(&from, &to)) {
#pragma omp parallel for schedule(static) num_threads(chunks)
    for (int k = 0; k < chunks; k++) {
      uint32_t *count = counts + (int64_t)k * BUCKETS;
      memset(count, 0, BUCKETS * sizeof *count);
      for (int64_t i = k * per; i < n && i < (k + 1) * per; i++) count[from[i] >> shift & mask]++;
    }
    uint32_t at = 0;
    for (uint64_t d = 0; d <= mask; d++)
      for (int k = 0; k < chunks; k++) {
        uint32_t *count = &counts[(int64_t)k * BUCKETS + (int64_t)d], m = *count;
        *count = at;
        at += m;
      }
#pragma omp parallel for schedule(static) num_threads(chunks)
    for (int k = 0; k < chunks; k++) {
      uint32_t *count = counts + (int64_t)k * BUCKETS;
      for (int64_t i = k * per; i < n && i < (k + 1) * per; i++) to[count[from[i] >> shift & mask]++] = from[i];
    }
  }
}

static bool fields_apart(const lt_lookup *l) {
  for (int64_t f = 1; f < l->fields; f++)
    if (l->first[f] < l->first[f - 1] + l->size[f - 1]) return false;
  return true;
}

/* A row must not be padding for one field and a value for another. */
static int check_padding(const lt_lookup *l) {
  for (int64_t f = 0; f < l->fields && l->padding >= 0; f++)
    for (int64_t g = 0; g < f; g++) {
      bool same = l->first[f] == l->first[g],
           touch = l->first[f] < l->first[g] + l->size[g] && l->first[g] < l->first[f] + l->size[f];
      if (touch && !same)
        return lt_fail(LT_ERR_ARGUMENT,
                       "lookup: features %lld and %lld share some rows but not their padding row; let them share all "
                       "rows or none",
                       (long long)g + 1, (long long)f + 1);
    }
  return LT_OK;
}

/* ---- the rows ---- */

/* Heads of segments in places begin..end-1 of `sorted`: counted, or written when rows is given. */
static int64_t heads(const uint64_t *sorted, int64_t n, int64_t begin, int64_t end, int64_t *rows,
                     lt_segment *segment) {
  int64_t found = 0;
  for (int64_t i = begin; i < end; i++) {
    uint64_t row = sorted[i] >> 32;
    if ((i > 0 && sorted[i - 1] >> 32 == row) || (uint32_t)sorted[i] == NO_PLACE) continue;
    if (rows) {
      rows[found] = (int64_t)row;
      segment[found].first = (uint32_t)i;
    }
    found++;
  }
  if (!rows || !found) return found;
  /* a segment ends where the row changes; the last one may reach beyond this part */
  for (int64_t k = 0; k + 1 < found; k++) {
    int64_t e = segment[k + 1].first;
    while (sorted[e - 1] >> 32 != (uint64_t)rows[k]) e--; /* steps back over dropped padding */
    segment[k].end = (uint32_t)e;
  }
  int64_t e = segment[found - 1].first + 1;
  while (e < n && sorted[e] >> 32 == (uint64_t)rows[found - 1]) e++;
  segment[found - 1].end = (uint32_t)e;
  return found;
}

int lt_unique_rows(const lt_lookup *l, int64_t *rows, lt_unique *u) {
  int64_t n = l->batch * l->fields, parts = (n + HEADS - 1) / HEADS, n_rows = 0;
  int chunks = lt_threads_for(n);
  *u = (lt_unique){.n = n};
  if (n >= NO_PLACE) return lt_fail(LT_ERR_SHAPE, "lookup: %lld ids in one call; at most 4294967294", (long long)n);
  for (int64_t f = 0; f < l->fields; f++)
    if (l->first[f] + l->size[f] > n_rows) n_rows = l->first[f] + l->size[f];
  if (n_rows > UINT32_MAX)
    return lt_fail(LT_ERR_SHAPE, "lookup: a table of %lld rows; at most 4294967295", (long long)n_rows);
  bool apart = fields_apart(l);
  if (!apart) LT_TRY(check_padding(l));
  u->bytes = (2 * n + parts + 1) * (int64_t)sizeof *u->sorted + (int64_t)chunks * BUCKETS * (int64_t)sizeof(uint32_t);
  u->block = lt_alloc(u->bytes);
  if (!u->block) return LT_ERR_MEMORY;
  u->sorted = u->block;
  uint64_t *spare = u->sorted + n;
  int64_t *part = (int64_t *)(spare + n);
  if (apart && l->fields >= 2 * chunks) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(lt_threads_for(n))
    for (int64_t f = 0; f < l->fields; f++) sort_field(l, f, u->sorted + f * l->batch, spare + f * l->batch);
  } else
    sort_all(l, n, n_rows, u->sorted, spare, (uint32_t *)(part + parts + 1), chunks);
  u->segment = (lt_segment *)spare;
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(n))
  for (int64_t k = 0; k < parts; k++)
    part[k] = heads(u->sorted, n, k * HEADS, k + 1 < parts ? (k + 1) * HEADS : n, NULL, NULL);
  for (int64_t k = 0; k < parts; k++) {
    int64_t m = part[k];
    part[k] = u->n_rows;
    u->n_rows += m;
  }
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(n))
  for (int64_t k = 0; k < parts; k++)
    heads(u->sorted, n, k * HEADS, k + 1 < parts ? (k + 1) * HEADS : n, rows + part[k], u->segment + part[k]);
  return LT_OK;
}

void lt_unique_free(lt_unique *u) {
  if (u->block) lt_free(u->block, u->bytes);
}
