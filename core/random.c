/* The generator: a seed and the number of random calls since it was set. A call that fails uses no number up, so that
 * the retry after a collection draws what the first try would have drawn. */
#include "random.h"
#include "op.h"

static _Atomic int64_t current_seed, current_call;

void lt_manual_seed(int64_t seed) { lt_set_random_state(seed, 0); }
void lt_random_state(int64_t *seed, int64_t *call) { lt_random_next(seed, call); }
void lt_set_random_state(int64_t seed, int64_t call) {
  atomic_store_explicit(&current_seed, seed, memory_order_relaxed);
  atomic_store_explicit(&current_call, call, memory_order_relaxed);
}

void lt_random_next(int64_t *seed, int64_t *call) {
  *seed = atomic_load_explicit(&current_seed, memory_order_relaxed);
  *call = atomic_load_explicit(&current_call, memory_order_relaxed);
}
void lt_random_used(void) { atomic_fetch_add_explicit(&current_call, 1, memory_order_relaxed); }

void lt_philox(const uint32_t *counter, const uint32_t *key, uint32_t *out) { lt_philox_block(counter, key, out); }

/* LANES blocks side by side, so that the rounds are vector instructions; the same words as lt_philox_block gives. */
enum { LANES = 64 };
LT_CLONES static void philox_lanes(uint64_t seed, uint64_t call, uint64_t block, uint32_t *restrict out) {
  uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES], k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int l = 0; l < LANES; l++) {
    c0[l] = (uint32_t)(block + (uint64_t)l);
    c1[l] = (uint32_t)((block + (uint64_t)l) >> 32);
    c2[l] = (uint32_t)call;
    c3[l] = (uint32_t)(call >> 32);
  }
  for (int round = 0; round < 10; round++) {
    for (int l = 0; l < LANES; l++) {
      uint64_t p = (uint64_t)0xD2511F53u * c0[l], q = (uint64_t)0xCD9E8D57u * c2[l];
      c0[l] = (uint32_t)(q >> 32) ^ c1[l] ^ k0;
      c2[l] = (uint32_t)(p >> 32) ^ c3[l] ^ k1;
      c1[l] = (uint32_t)q;
      c3[l] = (uint32_t)p;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int l = 0; l < LANES; l++) {
    out[4 * l] = c0[l];
    out[4 * l + 1] = c1[l];
    out[4 * l + 2] = c2[l];
    out[4 * l + 3] = c3[l];
  }
}

void lt_random_words(int64_t seed, int64_t call, int64_t first, int64_t n, uint32_t *out) {
  uint32_t some[4 * LANES];
  for (; n > 0 && n <= 16; n--) { /* a few words: not worth LANES blocks */
    uint32_t counter[] = {(uint32_t)(first / 4), (uint32_t)(first / 4 >> 32), (uint32_t)call, (uint32_t)(call >> 32)};
    uint32_t key[] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, block[4];
    lt_philox_block(counter, key, block);
    *out++ = block[first++ % 4];
  }
  while (n > 0) {
    int64_t skip = first % 4, m = 4 * LANES - skip < n ? 4 * LANES - skip : n;
    bool whole = skip == 0 && m == 4 * LANES;
    philox_lanes((uint64_t)seed, (uint64_t)call, (uint64_t)(first / 4), whole ? out : some);
    if (!whole) memcpy(out, some + skip, (size_t)m * sizeof *out);
    first += m;
    out += m;
    n -= m;
  }
}
