/* From raw values to ids. Three kinds: a map of the values seen in training, hash buckets, and ids that are whole
 * numbers already. Ids of maps and hashes: 0 padding, 1 out of vocabulary, values or buckets from 2 on. */
#pragma once
#include "strings.h"

struct lt_vocabulary {
  atomic_int refs;
  int32_t kind; /* enum lt_vocabulary_kind */
  char *name;
  lt_strings *values;         /* map: code = id - 2; `uses` are the counts in training */
  int64_t min_count, dropped; /* map: values seen less often, left out */
  int64_t buckets;            /* hash: number of buckets; whole: ids are 0 .. buckets - 1 */
  uint64_t seed;
  atomic_int_least64_t seen, unknown; /* fields encoded so far; those that got id 1 */
};

enum { LT_ID_PADDING = 0, LT_ID_UNKNOWN = 1, LT_ID_FIRST = 2 };

/* The id of a text of a map or hash vocabulary; counts nothing. */
static inline int32_t lt_vocabulary_id(const lt_vocabulary *v, const char *text, uint32_t length, lt_text_hash h) {
  if (v->kind == LT_VOCABULARY_MAP) {
    int64_t code = lt_strings_find(v->values, text, length, h);
    return code < 0 ? LT_ID_UNKNOWN : (int32_t)code + LT_ID_FIRST;
  }
  uint64_t mixed = lt_mix64(h.hash ^ v->seed);
  return (int32_t)(((unsigned __int128)mixed * (uint64_t)v->buckets) >> 64) + LT_ID_FIRST;
}
void lt_vocabulary_count(lt_vocabulary *v, int64_t seen, int64_t unknown);
int lt_vocabulary_of(const lt_strings *values, const int64_t *uses, const char *name, int64_t min_count,
                     lt_vocabulary **out);
