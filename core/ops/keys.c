/* Keys and their stable sort: insertion for short lines, merging for middle ones, radix for long ones; see the header.
 */
#include "keys.h"

/* Bits of a float of B bits -> unsigned order: negative numbers turned round, positive ones above them. */
#define FLOAT_KEY(U, BITS, INF)                                                                                        \
  for (int64_t i = 0; i < n; i++) {                                                                                    \
    U u = ((const U *)data)[i * stride], top = (U)1 << (BITS - 1), a = (U)(u & ~top);                                  \
    U key = a > INF ? (U) ~(U)0 : a == 0 ? top : u & top ? (U)~u : (U)(u | top);                                       \
    out[i].key = key;                                                                                                  \
  }

static void keys_of(const void *data, int dtype, int64_t stride, int64_t n, lt_ranked *out) {
  switch (dtype) {
  case LT_FLOAT32: FLOAT_KEY(uint32_t, 32, 0x7f800000u) return;
  case LT_FLOAT64: FLOAT_KEY(uint64_t, 64, 0x7ff0000000000000u) return;
  case LT_BFLOAT16: FLOAT_KEY(uint16_t, 16, 0x7f80) return;
  case LT_FLOAT16: FLOAT_KEY(uint16_t, 16, 0x7c00) return;
  case LT_INT64:
    for (int64_t i = 0; i < n; i++) out[i].key = ((const uint64_t *)data)[i * stride] ^ (uint64_t)1 << 63;
    return;
  case LT_INT32:
    for (int64_t i = 0; i < n; i++) out[i].key = ((const uint32_t *)data)[i * stride] ^ 0x80000000u;
    return;
  default:
    for (int64_t i = 0; i < n; i++) out[i].key = ((const uint8_t *)data)[i * stride];
  }
}

void lt_rank_line(const void *data, int dtype, int64_t stride, int64_t n, bool descending, lt_ranked *out) {
  keys_of(data, dtype, stride, n, out);
  uint64_t turn = descending ? ~(uint64_t)0 : 0;
  for (int64_t i = 0; i < n; i++) {
    out[i].key ^= turn;
    out[i].at = i;
  }
}

enum { RUN = 16, RADIX_FROM = 64, DIGIT = 8, DIGITS = 8, BUCKETS = 1 << DIGIT };

static void insertion(lt_ranked *v, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    lt_ranked x = v[i];
    int64_t j = i;
    for (; j > 0 && v[j - 1].key > x.key; j--) v[j] = v[j - 1];
    v[j] = x;
  }
}

static void merge_sort(lt_ranked *v, lt_ranked *spare, int64_t n) {
  lt_ranked *from = v, *to = spare;
  for (int64_t i = 0; i < n; i += RUN) insertion(v + i, n - i < RUN ? n - i : RUN);
  for (int64_t width = RUN; width < n; width *= 2) {
    for (int64_t first = 0; first < n; first += 2 * width) {
      int64_t middle = first + width < n ? first + width : n, last = first + 2 * width < n ? first + 2 * width : n;
      int64_t a = first, b = middle, k = first;
      while (a < middle && b < last) {
        bool right = from[b].key < from[a].key;
        to[k++] = from[right ? b : a];
        b += right;
        a += !right;
      }
      if (a < middle) memcpy(to + k, from + a, (size_t)(middle - a) * sizeof *v);
      if (b < last) memcpy(to + k, from + b, (size_t)(last - b) * sizeof *v);
    }
    lt_ranked *swap = from;
    from = to;
    to = swap;
  }
  if (from != v) memcpy(v, from, (size_t)n * sizeof *v);
}

/* Least significant digit first; digits in which all keys agree are skipped. */
static void radix_sort(lt_ranked *v, lt_ranked *spare, int64_t n) {
  lt_ranked *from = v, *to = spare;
  uint64_t differ = 0;
  for (int64_t i = 1; i < n; i++) differ |= v[i].key ^ v[0].key;
  for (int d = 0; d < DIGITS; d++) {
    if (!(differ >> (d * DIGIT) & (BUCKETS - 1))) continue;
    int64_t start[BUCKETS] = {0}, sum = 0;
    for (int64_t i = 0; i < n; i++) start[from[i].key >> (d * DIGIT) & (BUCKETS - 1)]++;
    for (int b = 0; b < BUCKETS; b++) {
      int64_t count = start[b];
      start[b] = sum;
      sum += count;
    }
    for (int64_t i = 0; i < n; i++) to[start[from[i].key >> (d * DIGIT) & (BUCKETS - 1)]++] = from[i];
    lt_ranked *swap = from;
    from = to;
    to = swap;
  }
  if (from != v) memcpy(v, from, (size_t)n * sizeof *v);
}

void lt_sort_ranked(lt_ranked *v, lt_ranked *spare, int64_t n) {
  if (n <= 2 * RUN)
    insertion(v, n);
  else if (n < RADIX_FROM)
    merge_sort(v, spare, n);
  else
    radix_sort(v, spare, n);
}
