/* The generator's state and its words in bulk. What the words mean is in philox.h; operators are in ops/draw.c. */
#pragma once
#include "philox.h"
#include "tensor.h"

/* A random operator's attributes hold its stream: i[LT_SEED] and i[LT_CALL], put there by op.c before shape(). */
enum lt_stream_slots { LT_SEED = 2, LT_CALL = 3 };
void lt_random_next(int64_t *seed, int64_t *call); /* the stream that the next call draws from; uses nothing up */
void lt_random_used(void);                         /* that call has succeeded */

/* Words first .. first + n - 1 of the stream (seed, call). */
void lt_random_words(int64_t seed, int64_t call, int64_t first, int64_t n, uint32_t *out);
static inline uint64_t lt_word_pair(const uint32_t *words, int64_t i) { /* words 2 i and 2 i + 1 as one */
  return words[2 * i] | (uint64_t)words[2 * i + 1] << 32;
}
