/* The scanner behind the CSV reader, after simdjson's idea: compares give one bit a byte, bits become positions.
 * AVX2 where the processor has it, else plain loops with the same bits. A quote counts only where a field begins; what
 * stands inside an unquoted field (5" disk) is text. Chunks without quotes, the usual case, never look at that. */
#include "scan.h"

#include <immintrin.h>
#include <string.h>

typedef struct masks {
  uint64_t delimiter, line, quote, carriage, nul;
} masks;

static masks masks_plain(const char *p, char delimiter, char quote) {
  masks m = {0};
  for (int i = 0; i < 64; i++) {
    uint64_t bit = 1ULL << i;
    if (p[i] == delimiter) m.delimiter |= bit;
    if (p[i] == '\n') m.line |= bit;
    if (p[i] == quote) m.quote |= bit;
    if (p[i] == '\r') m.carriage |= bit;
    if (p[i] == 0) m.nul |= bit;
  }
  return m;
}

__attribute__((target("avx2"))) static inline uint64_t equal_avx2(__m256i low, __m256i high, char c) {
  __m256i want = _mm256_set1_epi8(c);
  uint32_t a = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, want));
  uint32_t b = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, want));
  return (uint64_t)b << 32 | a;
}

__attribute__((target("avx2"))) static masks masks_avx2(const char *p, char delimiter, char quote) {
  __m256i low = _mm256_loadu_si256((const __m256i *)p), high = _mm256_loadu_si256((const __m256i *)(p + 32));
  return (masks){.delimiter = equal_avx2(low, high, delimiter),
                 .line = equal_avx2(low, high, '\n'),
                 .quote = equal_avx2(low, high, quote),
                 .carriage = equal_avx2(low, high, '\r'),
                 .nul = equal_avx2(low, high, 0)};
}

static bool is_blank(const lt_scan *s, char c) { return c == ' ' || (c == '\t' && s->delimiter != '\t'); }

static bool in_comment(const lt_scan *s, int64_t line) {
  return s->comment_length && memcmp(s->text + line, s->comment, s->comment_length) == 0;
}

bool lt_scan_opens(const lt_scan *s, int64_t at, int64_t line) {
  int64_t before = at;
  while (s->trim && before > line && is_blank(s, s->text[before - 1])) before--;
  return (before == line || s->text[before - 1] == s->delimiter) && !in_comment(s, line);
}

/* The bytes of this chunk that are inside quotes, one bit each; walks from quote to quote. */
static uint64_t inside_quotes(lt_scan *s, const masks *m, int64_t base) {
  uint64_t inside = s->quoted ? ~0ULL : 0, quotes = m->quote;
  if (s->skip) quotes &= ~1ULL, s->skip = false;
  while (quotes) {
    int bit = __builtin_ctzll(quotes);
    uint64_t from_here = ~0ULL << bit;
    int64_t at = base + bit;
    quotes &= quotes - 1;
    if (s->quoted) {
      if (s->text[at + 1] == s->quote) {
        if (bit == 63)
          s->skip = true;
        else
          quotes &= ~(1ULL << (bit + 1));
        continue;
      }
      s->quoted = false;
      inside &= ~from_here;
      continue;
    }
    uint64_t lines = m->line & ~inside & ((1ULL << bit) - 1);
    int64_t line = lines ? base + 64 - __builtin_clzll(lines) : s->line_begin;
    if (!lt_scan_opens(s, at, line)) continue;
    s->quoted = true, s->opened = at;
    inside |= from_here;
  }
  return inside;
}

static inline __attribute__((always_inline)) void scan_chunk(lt_scan *s, const masks *m, uint64_t valid, uint32_t *ends,
                                                             int64_t *end_count, uint32_t *lines, int64_t *line_count) {
  uint64_t line = m->line & valid, field = (m->delimiter | m->line) & valid;
  uint32_t base = (uint32_t)s->at;
  if (m->carriage & valid) s->carriage = true;
  if (m->nul & valid) s->nul = true;
  if ((m->quote & valid) || s->quoted || s->skip) {
    masks cut = {.line = line, .quote = m->quote & valid};
    uint64_t outside = ~inside_quotes(s, &cut, s->at);
    line &= outside, field &= outside;
    s->quotes = true;
  }
  if (line) s->line_begin = s->at + 64 - __builtin_clzll(line);
  int64_t n = *end_count;
  for (; field; field &= field - 1) ends[n++] = base + (uint32_t)__builtin_ctzll(field);
  *end_count = n;
  for (n = *line_count; line; line &= line - 1) lines[n++] = base + (uint32_t)__builtin_ctzll(line);
  *line_count = n;
}

static uint64_t first_bits(int64_t n) { return n >= 64 ? ~0ULL : (1ULL << n) - 1; }

__attribute__((target("avx2,bmi"))) static void scan_avx2(lt_scan *s, int64_t to, uint32_t *ends, int64_t *end_count,
                                                          uint32_t *lines, int64_t *line_count) {
  char quote = s->quote ? s->quote : '\n'; /* without quotes: a byte whose bits are then thrown away */
  for (; s->at < to; s->at += 64) {
    masks m = masks_avx2(s->text + s->at, s->delimiter, quote);
    if (!s->quote) m.quote = 0;
    scan_chunk(s, &m, first_bits(to - s->at), ends, end_count, lines, line_count);
  }
}

void lt_scan_range_plain(lt_scan *s, int64_t to, uint32_t *ends, int64_t *end_count, uint32_t *lines,
                         int64_t *line_count) {
  for (; s->at < to; s->at += 64) {
    masks m = masks_plain(s->text + s->at, s->delimiter, s->quote ? s->quote : '\n');
    if (!s->quote) m.quote = 0;
    scan_chunk(s, &m, first_bits(to - s->at), ends, end_count, lines, line_count);
  }
}

void lt_scan_range(lt_scan *s, int64_t to, uint32_t *ends, int64_t *end_count, uint32_t *lines, int64_t *line_count) {
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi"))
    scan_avx2(s, to, ends, end_count, lines, line_count);
  else
    lt_scan_range_plain(s, to, ends, end_count, lines, line_count);
}

int64_t lt_scan_lines(const char *text, int64_t n) {
  int64_t lines = 0;
  for (int64_t i = 0; i < n; i++) lines += text[i] == '\n';
  return lines;
}

/* Just behind the quote that closes the field opened before `at`; -1: it stays open. */
static int64_t closing_quote(const lt_scan *s, int64_t at, int64_t n) {
  while (at < n) {
    const char *q = memchr(s->text + at, s->quote, (size_t)(n - at));
    if (!q) return -1;
    at = q - s->text + 1;
    if (at >= n || s->text[at] != s->quote) return at;
    at++;
  }
  return -1;
}

/* The end of the row that begins at `line`, behind its line feed; 0: it is not complete. */
static int64_t row_end(const lt_scan *s, int64_t line, int64_t n, int64_t *opened) {
  int64_t at = line, stop = -1; /* the first line feed from `at` on; n: there is none */
  for (;;) {
    if (stop < at) {
      const char *feed = memchr(s->text + at, '\n', (size_t)(n - at));
      stop = feed ? feed - s->text : n;
    }
    const char *q = memchr(s->text + at, s->quote, (size_t)(stop - at));
    if (!q) return stop < n ? stop + 1 : 0;
    int64_t quote = q - s->text;
    at = quote + 1;
    if (!lt_scan_opens(s, quote, line)) continue;
    at = closing_quote(s, quote + 1, n);
    if (at < 0) return *opened = quote, 0;
  }
}

int64_t lt_scan_first_row(const lt_scan *s, int64_t n, int64_t *opened) {
  *opened = -1;
  if (s->quote) return row_end(s, 0, n, opened);
  const char *feed = memchr(s->text, '\n', (size_t)n);
  return feed ? feed - s->text + 1 : 0;
}

int64_t lt_scan_last_row(const lt_scan *s, int64_t n, int64_t *opened) {
  *opened = -1;
  if (!s->quote || !memchr(s->text, s->quote, (size_t)n)) {
    const char *feed = memrchr(s->text, '\n', (size_t)n);
    return feed ? feed - s->text + 1 : 0;
  }
  int64_t line = 0;
  while (line < n) {
    int64_t next = row_end(s, line, n, opened);
    if (next == 0) break;
    line = next;
  }
  return line;
}
