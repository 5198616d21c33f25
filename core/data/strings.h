/* A set of texts, each with a code (0, 1, 2 ... in order of arrival) and a count of its uses: the dictionary behind a
 * text column and behind a vocabulary. Adding is one writer's; finding is anybody's while nobody adds.
 * The hash of a short text is a bijection of its bytes: equal hashes of two short texts mean equal texts, so a look-up
 * touches one 16-byte slot, count included, and nothing else. */
#pragma once
#include "error.h"

#include <stdatomic.h>
#include <string.h>

typedef struct lt_slot {
  uint64_t hash;
  uint32_t code; /* + 1; 0: empty. The top bit marks a long text, whose bytes must be compared */
  uint32_t uses; /* not yet in lt_strings.uses */
} lt_slot;

typedef struct lt_strings {
  atomic_int refs;
  lt_slot *slots; /* open addressing, at most 5/8 full */
  uint64_t mask;
  int64_t count, capacity;
  uint64_t *begin; /* [count + 1] offsets into text */
  char *text;
  uint64_t text_capacity;
  int64_t *uses; /* [count], complete after lt_strings_settle */
} lt_strings;

typedef struct lt_text_hash {
  uint64_t hash;
  uint32_t mark; /* LT_LONG_TEXT or 0 */
} lt_text_hash;
#define LT_LONG_TEXT 0x80000000u

int lt_strings_new(lt_strings **out);
void lt_strings_retain(lt_strings *s);
void lt_strings_release(lt_strings *s);
int64_t lt_strings_bytes(const lt_strings *s); /* memory it takes */
/* The code of a text, added if it is new; its uses grow by `uses`. < 0: an lt_status. */
int64_t lt_strings_add(lt_strings *s, const char *text, uint32_t length, lt_text_hash h, int64_t uses);
void lt_strings_settle(lt_strings *s); /* completes the counts in `uses` */
/* A copy with the codes in the order of `order` [n]; texts not named there are left out. */
int lt_strings_permuted(const lt_strings *s, const uint32_t *order, int64_t n, lt_strings **out);
/* Codes with uses >= min_uses by falling uses, then by rising bytes; the caller frees *out. */
int lt_strings_ranked(const lt_strings *s, const int64_t *uses, int64_t min_uses, uint32_t **out, int64_t *n);

static inline uint64_t lt_load64(const char *p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
}
static inline uint64_t lt_load32(const char *p) {
  uint32_t v;
  memcpy(&v, p, 4);
  return v;
}
/* A bijection on 64 bits whose every output bit depends on every input bit. */
static inline uint64_t lt_mix64(uint64_t x) {
  x ^= x >> 32, x *= 0xe9846af9b1a615dULL;
  x ^= x >> 32, x *= 0xe9846af9b1a615dULL;
  return x ^ x >> 28;
}
static inline uint64_t lt_fold64(uint64_t a, uint64_t b) {
  unsigned __int128 product = (unsigned __int128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}
uint64_t lt_hash_long(const char *text, uint64_t length); /* 8 bytes or more */
/* A short text is one of up to 7 bytes, or of 8 whose last is not a control byte below 8: the length of the shorter
 * ones goes where the eighth byte would be, so that no two short texts have one key. */
static inline lt_text_hash lt_hash_text(const char *p, uint64_t n) {
  uint64_t key = 0;
  if (n >= 8) {
    if (n > 8 || (unsigned char)p[7] < 8) return (lt_text_hash){lt_hash_long(p, n), LT_LONG_TEXT};
    return (lt_text_hash){lt_mix64(lt_load64(p)), 0};
  }
  if (n >= 4)
    key = lt_load32(p) | lt_load32(p + n - 4) << 8 * (n - 4); /* the two loads overlap; equal bytes meet */
  else if (n > 0)
    key = (uint64_t)(unsigned char)p[0] | (uint64_t)(unsigned char)p[n / 2] << 8 * (n / 2) |
          (uint64_t)(unsigned char)p[n - 1] << 8 * (n - 1);
  return (lt_text_hash){lt_mix64(key | n << 56), 0};
}

static inline const lt_slot *lt_strings_slot(const lt_strings *s, lt_text_hash h) {
  return &s->slots[h.hash & s->mask];
}
static inline bool lt_slot_is(const lt_strings *s, const lt_slot *slot, const char *text, uint32_t length,
                              lt_text_hash h) {
  if (slot->hash != h.hash || (slot->code & LT_LONG_TEXT) != h.mark) return false;
  if (!h.mark) return true;
  const uint64_t *begin = &s->begin[(slot->code & ~LT_LONG_TEXT) - 1];
  return begin[1] - begin[0] == length && memcmp(s->text + begin[0], text, length) == 0;
}
static inline int64_t lt_strings_find(const lt_strings *s, const char *text, uint32_t length, lt_text_hash h) {
  for (uint64_t i = h.hash & s->mask;; i = (i + 1) & s->mask) {
    const lt_slot *slot = &s->slots[i];
    if (slot->code == 0) return -1;
    if (lt_slot_is(s, slot, text, length, h)) return (int64_t)(slot->code & ~LT_LONG_TEXT) - 1;
  }
}
static inline const char *lt_strings_text(const lt_strings *s, int64_t code, int64_t *length) {
  *length = (int64_t)(s->begin[code + 1] - s->begin[code]);
  return s->text + s->begin[code];
}
