/* The set of texts behind text columns and vocabularies: open addressing over 16-byte slots, texts in one arena.
 * Also its order of rank (falling count, then bytes), which makes codes independent of threads and of arrival. */
#include "strings.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { FIRST_SLOTS = 64, FIRST_TEXT = 256, HUGE_PAGE = 2 << 20 };
#define MOST_USES 0x7fffffffu /* a slot hands its count over before it can overflow */

static int no_memory(const lt_strings *s) {
  return lt_fail(LT_ERR_MEMORY, "data: no memory for a dictionary beyond %lld values; use hash buckets",
                 (long long)s->count);
}

/* wyhash's idea: 16 bytes a step through one 64 x 64 -> 128 bit product, folded. */
uint64_t lt_hash_long(const char *p, uint64_t n) {
  const uint64_t k1 = 0xa0761d6478bd642fULL, k2 = 0xe7037ed1a0b428dbULL;
  uint64_t h = n * 0x9e3779b97f4a7c15ULL, left = n;
  for (; left > 16; left -= 16, p += 16) h = lt_fold64(lt_load64(p) ^ k1, lt_load64(p + 8) ^ h);
  uint64_t a, b; /* the last 16 bytes; of a shorter text its first and last 8 */
  if (n >= 16)
    a = lt_load64(p + left - 16), b = lt_load64(p + left - 8);
  else
    a = lt_load64(p), b = lt_load64(p + left - 8);
  return lt_mix64(lt_fold64(a ^ k2, b ^ h) ^ h);
}

/* Big tables ask for huge pages: look-ups are random, and with small pages most of them miss the TLB as well. */
static lt_slot *new_slots(uint64_t n) {
  size_t bytes = n * sizeof(lt_slot);
  if (bytes < HUGE_PAGE) return calloc(n, sizeof(lt_slot));
  lt_slot *slots = aligned_alloc(HUGE_PAGE, bytes);
  if (!slots) return NULL;
  madvise(slots, bytes, MADV_HUGEPAGE); /* advice: its failure costs speed only */
  return memset(slots, 0, bytes);
}

int lt_strings_new(lt_strings **out) {
  lt_strings *s = calloc(1, sizeof *s);
  if (!s) return lt_fail(LT_ERR_MEMORY, "data: no memory for a dictionary");
  atomic_init(&s->refs, 1);
  s->slots = new_slots(FIRST_SLOTS);
  s->mask = FIRST_SLOTS - 1;
  s->begin = calloc(1, sizeof *s->begin);
  s->text = malloc(FIRST_TEXT);
  s->text_capacity = FIRST_TEXT;
  if (!s->slots || !s->begin || !s->text) {
    lt_strings_release(s);
    return lt_fail(LT_ERR_MEMORY, "data: no memory for a dictionary");
  }
  *out = s;
  return LT_OK;
}

void lt_strings_retain(lt_strings *s) { atomic_fetch_add(&s->refs, 1); }

void lt_strings_release(lt_strings *s) {
  if (!s || atomic_fetch_sub(&s->refs, 1) != 1) return;
  free(s->slots), free(s->begin), free(s->text), free(s->uses);
  free(s);
}

int64_t lt_strings_bytes(const lt_strings *s) {
  return (int64_t)(sizeof *s + (s->mask + 1) * sizeof *s->slots + s->text_capacity) + 16 * s->capacity;
}

static int grow_slots(lt_strings *s) {
  uint64_t mask = s->mask < 1 << 16 ? s->mask * 4 + 3 : s->mask * 2 + 1;
  lt_slot *slots = new_slots(mask + 1);
  if (!slots) return no_memory(s);
  for (uint64_t i = 0; i <= s->mask; i++) {
    if (s->slots[i].code == 0) continue;
    uint64_t j = s->slots[i].hash & mask;
    while (slots[j].code) j = (j + 1) & mask;
    slots[j] = s->slots[i];
  }
  free(s->slots);
  s->slots = slots, s->mask = mask;
  return LT_OK;
}

static int grow_values(lt_strings *s) {
  int64_t capacity = s->capacity ? s->capacity * 2 : 64;
  uint64_t *begin = realloc(s->begin, (size_t)(capacity + 1) * sizeof *begin);
  if (!begin) return no_memory(s);
  s->begin = begin;
  int64_t *uses = realloc(s->uses, (size_t)capacity * sizeof *uses);
  if (!uses) return no_memory(s);
  s->uses = uses;
  s->capacity = capacity;
  return LT_OK;
}

static int grow_text(lt_strings *s, uint64_t need) {
  uint64_t capacity = s->text_capacity * 2;
  if (capacity < need) capacity = need;
  char *text = realloc(s->text, capacity);
  if (!text) return no_memory(s);
  s->text = text, s->text_capacity = capacity;
  return LT_OK;
}

static void place(lt_strings *s, lt_text_hash h, int64_t code, uint32_t uses) {
  uint64_t i = h.hash & s->mask;
  while (s->slots[i].code) i = (i + 1) & s->mask;
  s->slots[i] = (lt_slot){.hash = h.hash, .code = ((uint32_t)code + 1) | h.mark, .uses = uses};
}

static int append(lt_strings *s, const char *text, uint32_t length, int64_t uses) {
  int64_t code = s->count;
  if (code >= INT32_MAX - 2)
    return lt_fail(LT_ERR_RANGE, "data: more than %d different values in one column; use hash buckets", INT32_MAX - 2);
  if (code == s->capacity) LT_TRY(grow_values(s));
  uint64_t end = s->begin[code] + length;
  if (end > s->text_capacity) LT_TRY(grow_text(s, end));
  memcpy(s->text + s->begin[code], text, length);
  s->begin[code + 1] = end;
  s->uses[code] = uses;
  s->count++;
  return LT_OK;
}

int64_t lt_strings_add(lt_strings *s, const char *text, uint32_t length, lt_text_hash h, int64_t uses) {
  for (uint64_t i = h.hash & s->mask;; i = (i + 1) & s->mask) {
    lt_slot *slot = &s->slots[i];
    if (slot->code == 0) break;
    if (!lt_slot_is(s, slot, text, length, h)) continue;
    int64_t code = (int64_t)(slot->code & ~LT_LONG_TEXT) - 1;
    if (uses == 1 && slot->uses < MOST_USES)
      slot->uses++;
    else
      s->uses[code] += uses;
    return code;
  }
  if ((uint64_t)(s->count + 1) * 8 > (s->mask + 1) * 5) LT_TRY(grow_slots(s));
  LT_TRY(append(s, text, length, uses));
  place(s, h, s->count - 1, 0);
  return s->count - 1;
}

void lt_strings_settle(lt_strings *s) {
  for (uint64_t i = 0; i <= s->mask; i++) {
    lt_slot *slot = &s->slots[i];
    if (slot->code && slot->uses) s->uses[(slot->code & ~LT_LONG_TEXT) - 1] += slot->uses;
    slot->uses = 0;
  }
}

static int permute(const lt_strings *s, const uint32_t *order, int64_t n, lt_strings *copy) {
  uint64_t slots = FIRST_SLOTS;
  while (slots * 5 < (uint64_t)(n + 1) * 8) slots *= 2;
  free(copy->slots);
  copy->mask = slots - 1;
  if (!(copy->slots = new_slots(slots))) return no_memory(s);
  for (int64_t i = 0; i < n; i++) {
    int64_t length;
    const char *text = lt_strings_text(s, order[i], &length);
    LT_TRY(append(copy, text, (uint32_t)length, s->uses[order[i]]));
    place(copy, lt_hash_text(text, (uint64_t)length), i, 0);
  }
  return LT_OK;
}

int lt_strings_permuted(const lt_strings *s, const uint32_t *order, int64_t n, lt_strings **out) {
  lt_strings *copy;
  LT_TRY(lt_strings_new(&copy));
  int status = permute(s, order, n, copy);
  if (status < 0) return lt_strings_release(copy), status;
  *out = copy;
  return LT_OK;
}

typedef struct rank {
  int64_t uses;
  uint64_t prefix; /* the first 8 bytes, first byte on top, so that most compares end here */
  uint32_t code;
} rank;

static int by_rank(const void *left, const void *right, void *context) {
  const rank *a = left, *b = right;
  const lt_strings *s = context;
  if (a->uses != b->uses) return a->uses > b->uses ? -1 : 1;
  if (a->prefix != b->prefix) return a->prefix < b->prefix ? -1 : 1;
  int64_t n, m;
  const char *x = lt_strings_text(s, a->code, &n), *y = lt_strings_text(s, b->code, &m);
  int64_t common = n < m ? n : m;
  int order = common ? memcmp(x, y, (size_t)common) : 0;
  return order ? order : (n > m) - (n < m);
}

static uint64_t prefix_of(const lt_strings *s, int64_t code) {
  int64_t n;
  const char *text = lt_strings_text(s, code, &n);
  if (n >= 8) return __builtin_bswap64(lt_load64(text));
  uint64_t prefix = 0;
  for (int64_t i = 0; i < 8; i++) prefix = prefix << 8 | (i < n ? (unsigned char)text[i] : 0);
  return prefix;
}

int lt_strings_ranked(const lt_strings *s, const int64_t *uses, int64_t min_uses, uint32_t **out, int64_t *n) {
  rank *ranks = malloc((size_t)(s->count + 1) * sizeof *ranks);
  uint32_t *order = malloc((size_t)(s->count + 1) * sizeof *order);
  if (!ranks || !order) {
    free(ranks), free(order);
    return no_memory(s);
  }
  int64_t kept = 0;
  for (int64_t code = 0; code < s->count; code++)
    if (uses[code] >= min_uses)
      ranks[kept++] = (rank){.uses = uses[code], .prefix = prefix_of(s, code), .code = (uint32_t)code};
  qsort_r(ranks, (size_t)kept, sizeof *ranks, by_rank, (void *)s);
  for (int64_t i = 0; i < kept; i++) order[i] = ranks[i].code;
  free(ranks);
  *out = order, *n = kept;
  return LT_OK;
}
