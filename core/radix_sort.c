/* Sorting of scores as integers: the bits of a double, turned so that they order like it, in a stable radix sort.
 * Six passes at most, three for scores that were float32; no comparison, no dependence on the number of threads. */
#include "metrics.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t top = 1ULL << 63;

uint64_t lt_score_key(double score) {
  uint64_t bits;
  score += 0.0; /* -0 becomes 0: they tie */
  memcpy(&bits, &score, sizeof bits);
  return bits & top ? ~bits : bits | top;
}

double lt_key_score(uint64_t key) {
  double score;
  key = key & top ? key & ~top : ~key;
  memcpy(&score, &key, sizeof score);
  return score;
}

/* Stable radix sort of `key`, eleven bits at a time; `other` (or NULL) moves along. Digits that all share are skipped:
 * scores that were float32 take three passes of the six. */
int lt_metric_sort(uint64_t *key, uint64_t *other, int64_t n) {
  enum { BITS = 11, SIZE = 1 << BITS, PASSES = 6 };
  uint64_t *key_to = malloc((size_t)n * sizeof *key + 1);
  uint64_t *other_to = other ? malloc((size_t)n * sizeof *other + 1) : NULL;
  int64_t(*count)[SIZE] = calloc(PASSES, sizeof *count);
  int status = key_to && (other_to || !other) && count
                   ? LT_OK
                   : lt_fail(LT_ERR_MEMORY, "auc: out of memory while sorting %lld rows", (long long)n);
  uint64_t *key_home = key, *other_home = other;
  for (int64_t i = 0; status == LT_OK && i < n; i++)
    for (int pass = 0; pass < PASSES; pass++) count[pass][key[i] >> (BITS * pass) & (SIZE - 1)]++;
  for (int pass = 0; status == LT_OK && pass < PASSES; pass++) {
    int shift = BITS * pass;
    if (n == 0 || count[pass][key[0] >> shift & (SIZE - 1)] == n) continue;
    for (int64_t d = 0, start = 0; d < SIZE; d++) {
      int64_t here = count[pass][d];
      count[pass][d] = start;
      start += here;
    }
    for (int64_t i = 0; i < n; i++) {
      int64_t to = count[pass][key[i] >> shift & (SIZE - 1)]++;
      key_to[to] = key[i];
      if (other) other_to[to] = other[i];
    }
    uint64_t *swap = key;
    key = key_to, key_to = swap;
    swap = other;
    other = other_to, other_to = swap;
  }
  if (key != key_home) { /* an odd number of passes: the result lies in the scratch array */
    memcpy(key_home, key, (size_t)n * sizeof *key);
    if (other) memcpy(other_home, other, (size_t)n * sizeof *other);
    key_to = key, other_to = other;
  }
  free(key_to);
  free(other_to);
  free(count);
  return status;
}
