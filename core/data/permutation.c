/* The order of an epoch: a bijection on 0 .. n - 1 computed position by position from (seed, epoch). Up to 2^16 rows an
 * exactly uniform shuffle is kept as a table; beyond that a keyed Feistel network on the next power of two, walked
 * until it lands inside, so that nothing is stored and any position can be asked for at once. */
#include "error.h"
#include "strings.h"

#include <stdlib.h>

enum { TABLE_UP_TO = 1 << 16, ROUNDS = 6 };

struct lt_permutation {
  int64_t n;
  uint32_t *table;           /* small n */
  int left_bits, right_bits; /* big n: halves of the index */
  uint64_t key[ROUNDS];
};

static uint64_t key_of(int64_t seed, int64_t epoch, uint64_t counter) {
  uint64_t h = lt_mix64((uint64_t)seed ^ 0x5851f42d4c957f2dULL);
  h = lt_mix64(h + (uint64_t)epoch * 0x9e3779b97f4a7c15ULL);
  return lt_mix64(h + counter * 0xd1342543de82ef95ULL);
}

/* Uniform on 0 .. bound - 1 without the bias of a plain modulo (Lemire 2019). */
static uint64_t below(uint64_t bound, int64_t seed, int64_t epoch, uint64_t *counter) {
  uint64_t reject = -bound % bound;
  for (;;) {
    unsigned __int128 product = (unsigned __int128)key_of(seed, epoch, (*counter)++) * bound;
    if ((uint64_t)product >= reject) return (uint64_t)(product >> 64);
  }
}

static void fisher_yates(lt_permutation *p, int64_t seed, int64_t epoch) {
  uint64_t counter = ROUNDS;
  for (int64_t i = 0; i < p->n; i++) p->table[i] = (uint32_t)i;
  for (int64_t i = p->n - 1; i > 0; i--) {
    int64_t j = (int64_t)below((uint64_t)i + 1, seed, epoch, &counter);
    uint32_t other = p->table[j];
    p->table[j] = p->table[i], p->table[i] = other;
  }
}

int lt_permutation_new(int64_t n, int64_t seed, int64_t epoch, lt_permutation **out) {
  if (n < 0) return lt_fail(LT_ERR_ARGUMENT, "permutation: of %lld rows; give 0 or more", (long long)n);
  lt_permutation *p = calloc(1, sizeof *p);
  if (!p) return lt_fail(LT_ERR_MEMORY, "permutation: no memory");
  p->n = n;
  if (n <= TABLE_UP_TO) {
    p->table = malloc((size_t)(n + 1) * sizeof *p->table);
    if (!p->table) return free(p), lt_fail(LT_ERR_MEMORY, "permutation: no memory for %lld rows", (long long)n);
    fisher_yates(p, seed, epoch);
  } else {
    int bits = 64 - __builtin_clzll((uint64_t)n - 1);
    p->left_bits = bits / 2, p->right_bits = bits - bits / 2;
    for (int i = 0; i < ROUNDS; i++) p->key[i] = key_of(seed, epoch, (uint64_t)i);
  }
  *out = p;
  return LT_OK;
}

/* Each round changes one half by a function of the other, which can be undone: so the whole is a bijection. */
static inline uint64_t feistel(const lt_permutation *p, uint64_t x) {
  uint64_t right = x & ((1ULL << p->right_bits) - 1), left = x >> p->right_bits;
  for (int i = 0; i < ROUNDS; i += 2) {
    left ^= lt_mix64(right ^ p->key[i]) >> (64 - p->left_bits);
    right ^= lt_mix64(left ^ p->key[i + 1]) >> (64 - p->right_bits);
  }
  return left << p->right_bits | right;
}

static inline int64_t at(const lt_permutation *p, int64_t position) {
  if (p->table) return p->table[position];
  uint64_t x = (uint64_t)position;
  do x = feistel(p, x);
  while (x >= (uint64_t)p->n);
  return (int64_t)x;
}

int64_t lt_permutation_at(const lt_permutation *p, int64_t position) {
  if (position < 0 || position >= p->n)
    return lt_fail(LT_ERR_RANGE, "permutation: position %lld of %lld", (long long)position, (long long)p->n);
  return at(p, position);
}

void lt_permutation_fill(const lt_permutation *p, int64_t position, int64_t n, int64_t *out) {
  for (int64_t i = 0; i < n; i++) out[i] = at(p, position + i);
}

void lt_permutation_free(lt_permutation *p) {
  if (!p) return;
  free(p->table);
  free(p);
}
