/* The words of the CSV reader: every complaint about a row, with file, line, column and value, and the remedy. */
#include "csv.h"

#include <stdio.h>
#include <stdlib.h>

/* Keeps the first `keep` reports by line. A row gets one report, of its first bad column. */
void csv_note(csv_block *b, int64_t keep, csv_report report) {
  int32_t at = b->reports;
  while (at > 0 && b->report[at - 1].line > report.line) at--;
  if (at >= keep) return;
  int32_t last = b->reports < keep ? b->reports++ : (int32_t)keep - 1;
  memmove(&b->report[at + 1], &b->report[at], (size_t)(last - at) * sizeof report);
  b->report[at] = report;
}

void csv_quote_value(const char *text, int64_t n, char *out) {
  int64_t at = 0, i = 0;
  for (; i < n && at < CSV_VALUE - 4; i++) {
    unsigned char byte = (unsigned char)text[i];
    if (byte >= 32 && byte != 127)
      out[at++] = text[i];
    else
      at += sprintf(out + at, byte == '\n' ? "\\n" : byte == '\t' ? "\\t" : byte == '\r' ? "\\r" : "\\x%02x", byte);
  }
  if (i < n) {
    while (at > 0 && ((unsigned char)out[at - 1] & 0xc0) == 0x80) at--; /* not in the middle of a UTF-8 character */
    if (at > 0 && (unsigned char)out[at - 1] >= 0xc0) at--;
    at += sprintf(out + at, "...");
  }
  out[at] = 0;
}

static const char *byte_name(int32_t byte, char *out) {
  if (byte == '\t') return "tab";
  sprintf(out, "\"%c\"", (char)byte);
  return out;
}

static const char skip_remedy[] = "or pass on_error = \"skip\" to leave such rows out";

static void say_number(const lt_csv *c, const csv_report *r, char *out, size_t n) {
  const csv_column *column = &c->columns[r->column];
  bool first = r->line <= c->options.skip_lines + 1 && !c->options.header;
  switch (r->problem) {
  case CSV_SPECIAL:
    snprintf(out, n, "\"%s\" is not a finite number; correct it, or list it in missing", r->value);
    break;
  case CSV_FRACTION:
    snprintf(out, n, "\"%s\" is not a whole number; correct it, or read the column as float32", r->value);
    break;
  case CSV_RANGE:
    snprintf(out, n, "\"%s\" does not fit %s; correct it, or use the column as a category", r->value,
             column->encoder ? "int64" : lt_dtype_name(column->dtype));
    break;
  case CSV_ID_RANGE:
    snprintf(out, n, "id %s is outside 0 to %lld; correct it, or raise the number of ids", r->value,
             (long long)column->encoder->buckets - 1);
    break;
  default:
    snprintf(out, n, "\"%s\" is not a number; %s", r->value,
             first ? "if line 1 is a header, pass header = true"
                   : "correct it, list it in missing, or use the column as a category");
  }
}

static void say_row(const lt_csv *c, const csv_report *r, char *out, size_t n) {
  char name[8];
  switch (r->problem) {
  case CSV_WIDTH:
    snprintf(out, n, "%lld column%s where %s %d; quote values that hold the delimiter %s, %s", (long long)r->number,
             r->number == 1 ? "" : "s",
             c->given_count      ? "columns names"
             : c->options.header ? "the header has"
                                 : "the first row has",
             c->name_count, byte_name(c->options.delimiter, name), skip_remedy);
    break;
  case CSV_BLANK: snprintf(out, n, "blank, and rows follow it; remove it, %s", skip_remedy); break;
  case CSV_UNTERMINATED:
    snprintf(out, n,
             "the quote that opens here never closes; close it, or pass quote = false if quotes are plain text");
    break;
  case CSV_TOO_LONG:
    snprintf(out, n, "longer than %lld bytes; is this delimited text? if so, raise max_line_bytes",
             (long long)c->options.max_line_bytes);
    break;
  case CSV_CARRIAGE:
    snprintf(out, n, "a carriage return inside the line; convert the file's line ends with tr '\\r' '\\n'");
    break;
  case CSV_NUL:
    snprintf(out, n, "a NUL byte; the file is damaged, or UTF-16 (then convert it with iconv -f utf-16 -t utf-8)");
    break;
  case CSV_MISSING: snprintf(out, n, "no value, and every row needs one; complete the row, %s", skip_remedy); break;
  case CSV_AFTER_QUOTE:
    snprintf(out, n, "text behind the closing quote in %s; write a quote inside a quoted value twice (\"\")", r->value);
    break;
  default: say_number(c, r, out, n);
  }
}

void csv_describe(const lt_csv *c, const csv_report *r, char *out, size_t n) {
  char column[160] = "";
  if (r->column >= 0) {
    char name[CSV_VALUE + 8];
    csv_quote_value(c->columns[r->column].name, (int64_t)strlen(c->columns[r->column].name), name);
    snprintf(column, sizeof column, ", column %d (\"%s\")", c->columns[r->column].position + 1, name);
  }
  int at = snprintf(out, n, "csv: %s line %lld%s: ", c->paths[r->file], (long long)r->line, column);
  if (at > 0 && (size_t)at < n) say_row(c, r, out + at, n - (size_t)at);
}

int csv_fail(const lt_csv *c, const csv_report *r) {
  char text[1024];
  csv_describe(c, r, text, sizeof text);
  return lt_fail(r->problem == CSV_ID_RANGE ? LT_ERR_RANGE : LT_ERR_FORMAT, "%s", text);
}

int lt_csv_report(const lt_csv *c, int32_t index, char *out, int64_t capacity) {
  if (index < 0 || index >= c->reports || capacity < 1) return 0;
  csv_describe(c, &c->report[index], out, (size_t)capacity);
  return 1;
}
