// sources: core/error.c core/interrupt.c core/dtype.c core/data/buffer.c core/data/csv.c
// sources: core/data/csv_cut.c core/data/csv_field.c core/data/csv_header.c core/data/csv_merge.c
// sources: core/data/csv_open.c core/data/csv_parse.c core/data/csv_report.c core/data/csv_rows.c
// sources: core/data/frame.c core/data/gzip.c core/data/number.c core/data/ordered.c
// sources: core/data/scan.c core/data/stream.c core/data/strings.c core/data/unpack.c
// sources: core/data/vocabulary.c
// libraries: -lisal -larchive -lm -lpthread
/* Any bytes as a delimited file, the first four as options. Held against a reader of one character at a time (below),
 * and against itself with other blocks and threads: the same rows, or the same message, whatever the cutting. */
#include "data/scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_COLUMNS = 64 };

static void require(bool held, const char *what) {
  if (held) return;
  fprintf(stderr, "%s: %s\n", what, lt_last_error());
  abort();
}

/* Text of everything that was read: fields behind their lengths, or the message. */
typedef struct outcome {
  char *text;
  size_t size;
  int status;
} outcome;

static void say(outcome *o, const char *text, size_t n) {
  o->text = realloc(o->text, o->size + n + 16);
  o->size += (size_t)sprintf(o->text + o->size, "%zu:", n);
  memcpy(o->text + o->size, text, n);
  o->size += n;
}

static void say_cell(outcome *o, lt_frame *f, int64_t row, int32_t column) {
  lt_frame_info info;
  require(lt_frame_describe(f, column, &info) == 0, "describe");
  const char *cell = (const char *)lt_buffer_data(lt_frame_records(f)) + row * lt_frame_stride(f) + info.offset;
  if (info.kind == LT_COLUMN_NUMBER) return say(o, cell, (size_t)lt_dtype_size(info.dtype));
  const char *text;
  int64_t length, uses;
  require(lt_frame_text(f, column, *(const int32_t *)cell, &text, &length, &uses) == 0 && uses > 0, "text");
  say(o, text, (size_t)length);
}

static int open_reader(const char *path, const lt_csv_options *options, int kinds, lt_csv **out) {
  lt_csv *look;
  int status = lt_csv_open(&path, 1, options, NULL, 0, &look);
  if (status < 0) return status;
  lt_csv_column columns[MAX_COLUMNS];
  int32_t count = 0;
  for (int32_t i = 0; i < lt_csv_name_count(look) && count < MAX_COLUMNS; i++) {
    const char *name = lt_csv_name(look, i);
    bool repeated = name[0] == 0;
    for (int32_t k = 0; k < lt_csv_name_count(look); k++) repeated |= k != i && !strcmp(name, lt_csv_name(look, k));
    if (repeated) continue;
    static const int32_t dtypes[] = {LT_FLOAT32, LT_FLOAT64, LT_INT64, LT_INT32};
    columns[count++] = (lt_csv_column){.name = name,
                                       .kind = kinds >> i % 3 & 1 ? LT_COLUMN_NUMBER : LT_COLUMN_TEXT,
                                       .dtype = dtypes[i % 4],
                                       .on_missing = kinds & 8 ? LT_MISSING_ERROR : LT_MISSING_FILL};
  }
  status = lt_csv_open(&path, 1, options, columns, count, out);
  lt_csv_close(look);
  return status;
}

static outcome read_all(const char *path, const lt_csv_options *options, int kinds) {
  outcome o = {0};
  lt_csv *csv = NULL;
  lt_frame *f = NULL;
  o.status = open_reader(path, options, kinds, &csv);
  if (o.status == 0) o.status = lt_csv_read(csv, &f);
  if (o.status < 0) {
    require(strstr(lt_last_error(), "csv") != NULL, "a message without its origin");
    say(&o, lt_last_error(), strlen(lt_last_error()));
  } else {
    for (int64_t row = 0; row < lt_frame_rows(f); row++)
      for (int32_t k = 0; k < lt_frame_width(f); k++) say_cell(&o, f, row, k);
    char report[1200];
    for (int32_t i = 0; lt_csv_report(csv, i, report, sizeof report); i++) say(&o, report, strlen(report));
  }
  lt_frame_release(f);
  lt_csv_close(csv);
  return o;
}

/* RFC 4180 by the letter, for text columns without header, trimming and comments. Returns 0 where it has no opinion:
 * rows of unequal width, blank lines, control bytes, text behind closing quotes. */
static int plain_reader(const uint8_t *p, size_t n, char delimiter, outcome *o) {
  char *field = malloc(n + 1);
  size_t at = 0, columns = 0, row = 0;
  if (n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) at = 3;
  int sure = n > at;
  while (sure && at < n) {
    size_t width = 0, start = at;
    for (;;) {
      size_t length = 0;
      if (at < n && p[at] == '"') {
        for (at++; at < n && (p[at] != '"' || (at + 1 < n && p[at + 1] == '"')); at++) {
          at += p[at] == '"';
          field[length++] = (char)p[at];
          sure &= p[at] != 0;
        }
        if (at++ >= n) sure = 0;
      } else {
        for (; at < n && p[at] != delimiter && p[at] != '\n'; at++) {
          if (p[at] == '\r' && (at + 1 == n || p[at + 1] == '\n')) break;
          field[length++] = (char)p[at];
          sure &= p[at] != 0 && p[at] != '\r';
        }
      }
      if (sure) say(o, field, length);
      width++;
      if (!sure || at >= n || p[at] != delimiter) break;
      at++;
    }
    if (sure && at < n && p[at] == '\r') at++;
    if (sure && at < n && p[at] != '\n') sure = 0;
    at++;
    sure &= at - start > 1 && p[start] != '\r' && width <= MAX_COLUMNS && (row == 0 || width == columns);
    if (row++ == 0) columns = width;
  }
  free(field);
  return sure;
}

/* The scanner with vector instructions and without must find the same. */
static void compare_scanners(const uint8_t *data, size_t n, const lt_csv_options *o) {
  char *text = calloc(1, n + 128);
  uint32_t *at[4];
  int64_t count[4] = {0};
  for (int i = 0; i < 4; i++) at[i] = malloc((n + 64) * sizeof **at);
  memcpy(text, data, n);
  lt_scan a = {.text = text, .delimiter = (char)o->delimiter, .quote = (char)o->quote, .trim = o->trim != 0};
  a.comment = o->comment ? o->comment : "", a.comment_length = strlen(a.comment);
  lt_scan b = a;
  lt_scan_range(&a, (int64_t)n, at[0], &count[0], at[1], &count[1]);
  lt_scan_range_plain(&b, (int64_t)n, at[2], &count[2], at[3], &count[3]);
  for (int i = 0; i < 2; i++)
    require(count[i] == count[i + 2] && !memcmp(at[i], at[i + 2], (size_t)count[i] * sizeof **at), "scanners differ");
  require(a.quoted == b.quoted && a.nul == b.nul && a.carriage == b.carriage, "scanners end in other states");
  for (int i = 0; i < 4; i++) free(at[i]);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static char path[64];
  static int fd = -1;
  if (size < 4) return 0;
  if (fd < 0) {
    fd = memfd_create("fuzz", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  }
  const uint8_t *text = data + 4;
  size_t n = size - 4;
  require(ftruncate(fd, 0) == 0 && pwrite(fd, text, n, 0) == (ssize_t)n, "memfd");
  static const char *const missing[] = {"?", "NA", "-1"};
  lt_csv_options options;
  lt_csv_defaults(&options);
  options.delimiter = ",\t;|"[data[0] & 3];
  options.header = data[0] >> 2 & 1, options.trim = data[0] >> 3 & 1, options.skip_bad = data[0] >> 4 & 1;
  options.quote = data[0] & 32 ? 0 : '"';
  options.skip_lines = data[0] >> 6;
  options.comment = data[1] & 1 ? "#" : NULL;
  options.missing = missing, options.missing_count = data[1] >> 1 & 3;
  options.max_line_bytes = 4096; /* above what libFuzzer makes by default: too long is another path */
  if (data[1] & 8) options.max_line_bytes = 64 + data[2];
  int kinds = data[1] >> 4;
  compare_scanners(text, n, &options);
  outcome whole = read_all(path, &options, kinds);
  if (!(data[1] & 8)) {
    options.block_bytes = 64 + data[2], options.threads = data[3] % 3, options.queue_bytes = data[3];
    outcome pieces = read_all(path, &options, kinds);
    require(whole.status == pieces.status && whole.size == pieces.size, "cutting changes the outcome");
    require(memcmp(whole.text ? whole.text : "", pieces.text ? pieces.text : "", whole.size) == 0,
            "cutting changes the rows");
    free(pieces.text);
  }
  outcome plain = {0};
  lt_stream *stream;
  bool packed = true;
  if (lt_stream_open(path, &stream) == 0) {
    packed = strcmp(lt_stream_packing(stream), "plain") != 0;
    lt_stream_close(stream);
  }
  bool comparable = (data[0] & 0xfc) == 0 && data[1] == 0 && !packed && n < 4000 && !(n >= 2 && text[0] >= 0xfe);
  if (comparable && plain_reader(text, n, (char)options.delimiter, &plain)) {
    require(whole.status == 0, "a good file is refused");
    require(whole.size == plain.size && memcmp(whole.text, plain.text, plain.size) == 0, "a field was read wrongly");
  }
  free(plain.text);
  free(whole.text);
  return 0;
}
