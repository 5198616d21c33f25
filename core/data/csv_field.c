/* One field of a row: blanks around it, quotes off it, and whether it means "no value". A quoted field that is a
 * missing marker is missing as well: writers that quote everything are common. */
#include "csv.h"

static bool is_blank(const lt_csv *c, char b) { return b == ' ' || (b == '\t' && c->options.delimiter != '\t'); }

/* From behind the opening quote: the field's text up to the closing quote, and where that is (NULL: nowhere). */
static const char *unquote(char quote, const char *p, const char *end, char **scratch, const char **text,
                           uint32_t *length) {
  char *out = *scratch, *start = out;
  const char *from = p;
  for (;;) {
    const char *q = memchr(p, quote, (size_t)(end - p));
    if (!q) return NULL;
    if (q + 1 < end && q[1] == quote) { /* a doubled quote: the text up to its first half, then on behind its second */
      memcpy(out, from, (size_t)(q + 1 - from));
      out += q + 1 - from;
      p = from = q + 2;
      continue;
    }
    if (out == start) { /* nothing doubled: the text stays where it is */
      *text = from, *length = (uint32_t)(q - from);
    } else {
      memcpy(out, from, (size_t)(q - from));
      out += q - from;
      *text = start, *length = (uint32_t)(out - start);
      *scratch = out;
    }
    return q;
  }
}

/* Trims and unquotes in place of (*field, *length); unescaped text goes to *scratch, which moves on. */
int csv_clean(const lt_csv *c, const char **field, uint32_t *length, char **scratch) {
  const char *p = *field, *end = p + *length;
  char quote = (char)c->options.quote;
  if (c->options.trim) {
    while (p < end && is_blank(c, *p)) p++;
    while (end > p && is_blank(c, end[-1])) end--;
  }
  *field = p, *length = (uint32_t)(end - p);
  if (!quote || p == end || *p != quote) return CSV_FINE;
  const char *close = unquote(quote, p + 1, end, scratch, field, length);
  if (close && close + 1 == end) return CSV_FINE;
  *field = p, *length = (uint32_t)(end - p);
  return close ? CSV_AFTER_QUOTE : CSV_UNTERMINATED;
}

bool csv_is_missing(const lt_csv *c, const char *field, uint32_t length) {
  if (length == 0) return true;
  if (length > c->missing_longest) return false;
  for (int32_t i = 0; i < c->missing_count; i++)
    if (c->missing_length[i] == length && memcmp(c->missing[i], field, length) == 0) return true;
  return false;
}
