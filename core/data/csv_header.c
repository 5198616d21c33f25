/* The start of a file: byte order mark, lines to skip, blank and comment lines, then the header's names; or, without a
 * header, the number of fields in the first row. Works on the carry, the text read but not yet handed to a worker. */
#include "csv.h"

#include <stdio.h>
#include <stdlib.h>

lt_scan csv_scanner(const lt_csv *c, const char *text) {
  return (lt_scan){.text = text,
                   .delimiter = (char)c->options.delimiter,
                   .quote = (char)c->options.quote,
                   .trim = c->options.trim != 0,
                   .comment = c->comment,
                   .comment_length = strlen(c->comment),
                   .opened = -1};
}

static void drop_carry(lt_csv *c, int64_t n) {
  memmove(c->carry, c->carry + n, (size_t)(c->carry_bytes - n + CSV_PAD));
  c->carry_bytes -= n;
}

static int too_long(const lt_csv *c, int64_t line, int64_t opened) {
  csv_report r = {
      .problem = opened >= 0 ? CSV_UNTERMINATED : CSV_TOO_LONG, .file = c->file, .line = line, .column = -1};
  return csv_fail(c, &r);
}

/* Makes the carry hold the whole first row; *end is behind its line feed (or the end of a file that lacks one). */
static int first_row(lt_csv *c, int64_t line, bool quotes, int64_t *end) {
  for (;;) {
    int64_t opened = -1;
    lt_scan scan = csv_scanner(c, c->carry);
    if (!quotes) scan.quote = 0;
    *end = c->carry_bytes ? lt_scan_first_row(&scan, c->carry_bytes, &opened) : 0;
    if (*end > 0) return LT_OK;
    if (c->file_ended) {
      if (opened >= 0) return too_long(c, line + lt_scan_lines(c->carry, opened), opened);
      return *end = c->carry_bytes, LT_OK;
    }
    if (c->carry_bytes > c->options.max_line_bytes) return too_long(c, line, opened);
    LT_TRY(csv_read_more(c, c->carry_bytes + 65536));
  }
}

static int empty(const lt_csv *c, int64_t lines) {
  const char *path = c->paths[c->file];
  if (c->stream->text_bytes == 0) return lt_fail(LT_ERR_FORMAT, "csv: %s is empty (0 bytes)", path);
  if (lines < c->options.skip_lines)
    return lt_fail(LT_ERR_FORMAT, "csv: %s has %lld lines; skip_lines = %d leaves nothing to read", path,
                   (long long)lines, c->options.skip_lines);
  return lt_fail(LT_ERR_FORMAT, "csv: %s has no rows (%lld bytes of blank or comment lines)", path,
                 (long long)c->stream->text_bytes);
}

static int check_encoding(lt_csv *c) {
  const unsigned char *p = (const unsigned char *)c->carry;
  if (c->carry_bytes >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) drop_carry(c, 3);
  if (c->carry_bytes >= 2 && ((p[0] == 0xff && p[1] == 0xfe) || (p[0] == 0xfe && p[1] == 0xff)))
    return lt_fail(LT_ERR_FORMAT, "csv: %s is UTF-16 text; convert it with iconv -f utf-16 -t utf-8",
                   c->paths[c->file]);
  return LT_OK;
}

/* Length without the line feed and a carriage return before it. */
static int64_t bare_length(const lt_csv *c, int64_t end) {
  if (end > 0 && c->carry[end - 1] == '\n') end--;
  if (end > 0 && c->carry[end - 1] == '\r') end--;
  return end;
}

/* Skips what stands before the header (or the first row); *line is the line the carry then starts with. */
static int skip_to_content(lt_csv *c, int64_t *line, int64_t *end) {
  for (*line = 1;; (*line)++) {
    bool skipped = *line <= c->options.skip_lines;
    LT_TRY(first_row(c, *line, !skipped, end));
    if (*end == 0) return empty(c, *line - 1);
    size_t prefix = strlen(c->comment);
    bool comment = prefix && (size_t)*end >= prefix && memcmp(c->carry, c->comment, prefix) == 0;
    if (!skipped && !comment && (bare_length(c, *end) > 0 || !c->options.header)) return LT_OK;
    drop_carry(c, *end);
  }
}

static char *field_name(lt_csv *c, const char *field, int64_t n, char *scratch) {
  uint32_t length = (uint32_t)n;
  csv_clean(c, &field, &length, &scratch);
  return strndup(field, length);
}

/* Splits the row into fields; fills names where `names` is given. */
static int split_row(lt_csv *c, int64_t end, char ***names, int32_t *count) {
  int64_t n = bare_length(c, end), end_count = 0, line_count = 0, from = 0;
  size_t room = (size_t)n + 128;
  uint32_t *ends = malloc(room * sizeof *ends), *lines = malloc(room * sizeof *lines);
  char *scratch = malloc(room);
  lt_scan scan = csv_scanner(c, c->carry);
  int status = ends && lines && scratch ? LT_OK : lt_fail(LT_ERR_MEMORY, "csv: no memory for the header");
  if (status == LT_OK) {
    lt_scan_range(&scan, n, ends, &end_count, lines, &line_count);
    if (scan.carriage && memchr(c->carry, '\r', (size_t)n) && !scan.quotes)
      status = csv_fail(c, &(csv_report){.problem = CSV_CARRIAGE, .file = c->file, .line = c->file_line, .column = -1});
    if (scan.nul)
      status = csv_fail(c, &(csv_report){.problem = CSV_NUL, .file = c->file, .line = c->file_line, .column = -1});
    ends[end_count++] = (uint32_t)n;
    *count = (int32_t)end_count;
  }
  if (status == LT_OK && names) {
    *names = calloc((size_t)end_count, sizeof **names);
    for (int64_t i = 0; *names && i < end_count; from = ends[i] + 1, i++)
      if (!((*names)[i] = field_name(c, c->carry + from, ends[i] - from, scratch))) {
        for (int64_t k = 0; k < i; k++) free((*names)[k]);
        free(*names), *names = NULL;
        break;
      }
    if (!*names) status = lt_fail(LT_ERR_MEMORY, "csv: no memory for the header");
  }
  free(ends), free(lines), free(scratch);
  return status;
}

/* Names of the columns: those given, those in the header, or "1", "2", ... */
static int make_names(lt_csv *c, int64_t end, char ***names, int32_t *count) {
  if (c->options.header && c->given_count == 0) return split_row(c, end, names, count);
  int32_t fields = 0;
  LT_TRY(split_row(c, end, NULL, &fields));
  *count = c->given_count ? c->given_count : fields;
  *names = calloc((size_t)*count + 1, sizeof **names);
  for (int32_t i = 0; *names && i < *count; i++) {
    char number[16];
    snprintf(number, sizeof number, "%d", i + 1);
    (*names)[i] = strdup(c->given_count ? c->given_names[i] : number);
  }
  return *names ? LT_OK : lt_fail(LT_ERR_MEMORY, "csv: no memory for the header");
}

int csv_read_header(lt_csv *c) {
  int64_t line, end;
  while (c->carry_bytes < 3 && !c->file_ended) LT_TRY(csv_read_more(c, 65536));
  LT_TRY(check_encoding(c));
  LT_TRY(skip_to_content(c, &line, &end));
  c->file_line = line;
  char **names = NULL;
  int32_t count = 0;
  LT_TRY(make_names(c, end, &names, &count));
  int status = csv_plan(c, names, count, line);
  if (status < 0 || c->file > 0) {
    for (int32_t i = 0; i < count; i++) free(names[i]);
    free(names);
    LT_TRY(status);
  } else {
    c->names = names, c->name_count = count;
  }
  if (c->options.header) {
    c->file_line += lt_scan_lines(c->carry, end);
    drop_carry(c, end);
  }
  return LT_OK;
}
