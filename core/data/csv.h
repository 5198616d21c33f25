/* What the parts of the CSV reader share. The reader is a source of ordered.h: csv_cut.c takes (reads the file and cuts
 * blocks at row ends), csv_rows.c and csv_parse.c work (text to records), csv.c consumes (line numbers, errors, whole
 * frames); csv_open.c and csv_header.c bind the schema to the file, csv_report.c words the messages. */
#pragma once
#include "frame.h"
#include "ordered.h"
#include "scan.h"
#include "stream.h"
#include "vocabulary.h"

#include <pthread.h>

enum { CSV_REPORTS = 5, CSV_VALUE = 60, CSV_PAD = 64, CSV_STRIP = 512 };

enum csv_problem {
  CSV_FINE,
  CSV_WIDTH,   /* number of fields; `number` has it */
  CSV_BLANK,   /* an empty line among rows */
  CSV_MISSING, /* in a column that needs a value */
  CSV_NOT_NUMBER,
  CSV_SPECIAL,      /* inf, nan */
  CSV_FRACTION,     /* a whole number was wanted */
  CSV_RANGE,        /* beyond the column's type */
  CSV_ID_RANGE,     /* whole-number ids: not 0 .. limit - 1 */
  CSV_AFTER_QUOTE,  /* text behind a closing quote */
  CSV_UNTERMINATED, /* a quote that never closes */
  CSV_TOO_LONG,     /* a row longer than max_line_bytes */
  CSV_CARRIAGE,     /* a bare carriage return */
  CSV_NUL
};

typedef struct csv_report {
  enum csv_problem problem;
  int32_t file;
  int64_t line; /* of the block: first the byte, when it is parsed the line from 0 on; consumed: of the file, from 1 */
  int32_t column; /* of the schema; -1: the whole row */
  int64_t number;
  char value[CSV_VALUE + 8];
} csv_report;

typedef struct csv_column {
  char *name;
  int32_t kind, dtype, on_missing;
  double fill;
  int64_t fill_whole;
  lt_vocabulary *encoder;
  int32_t position; /* in the file's rows */
  int32_t index;    /* in the frame */
} csv_column;

typedef struct csv_block {
  lt_item item;
  int32_t file;
  int64_t first_line; /* of the file, 1-based; 0: follows the block before */
  char *text;         /* [bytes + CSV_PAD], starts and ends at row ends */
  int64_t bytes;
  bool too_long; /* one row that did not fit */
  /* results */
  int worker;
  lt_frame *rows;
  int64_t kept;         /* good rows, stored or only counted */
  int64_t lines;        /* line feeds in the text */
  int64_t content_line; /* first line that is a row, good or bad; -1: none */
  int64_t lead_line;    /* first of the blank lines before it; -1: none */
  int64_t blank_line;   /* first of the blank lines at the end; -1: none */
  int64_t bad;          /* rows left out */
  int32_t reports;
  csv_report report[CSV_REPORTS]; /* of the first bad rows, by line */
  csv_report end;                 /* what keeps all rows behind it from being told apart; CSV_FINE: nothing */
  int status;                     /* < 0: failed outside of rows; `error` says how */
  char error[512];
} csv_block;

typedef struct csv_worker {
  uint32_t *ends, *lines; /* [capacity] positions found by the scanner */
  int64_t capacity;
  uint32_t *first, *start; /* [CSV_STRIP] index of a row's first end, position of its first byte */
  const char **field;      /* [CSV_STRIP] cleaned fields of one column */
  uint32_t *length;
  lt_text_hash *hash;
  uint8_t *bad;  /* [CSV_STRIP] */
  char *scratch; /* [scratch_bytes] unescaped fields of one column */
  int64_t scratch_bytes;
  lt_strings **strings; /* [columns] dictionaries of text columns without an encoder */
} csv_worker;

/* Complete rows of the right width, being parsed. */
typedef struct csv_strip {
  lt_csv *c;
  csv_worker *w;
  csv_block *b;
  int64_t base; /* row of the block's frame where the strip starts */
  int64_t rows;
  bool quotes, carriage, nul; /* some row may hold such a byte */
} csv_strip;

/* Rows that one worker parsed: their codes are those of its dictionaries. */
typedef struct csv_segment {
  int64_t begin, end;
  int worker;
} csv_segment;

struct lt_csv {
  lt_csv_options options;
  char delimiter_name[16];
  char **paths;
  int32_t path_count;
  char **missing;
  size_t *missing_length, missing_longest;
  int32_t missing_count;
  char *comment;
  char **given_names;
  int32_t given_count;
  csv_column *columns;
  int32_t column_count;
  char **names; /* of the file's columns; empty strings where it has no header */
  int32_t name_count;
  lt_frame *form; /* no rows; gives blocks their columns */
  csv_worker *workers;
  lt_ordered *pipe;
  /* the source's: under ordered.c's source lock */
  int32_t file;
  int64_t file_line;           /* first line behind the header; 0 once the first block has it */
  pthread_mutex_t stream_lock; /* closing and cancelling the stream */
  lt_stream *stream;
  int cancelled;
  char *carry; /* the start of the next block */
  int64_t carry_bytes, carry_capacity;
  bool file_ended, source_ended;
  int read_status; /* < 0: reading failed behind the carry, and read_error says how */
  char read_error[512];
  csv_block *spare; /* the next block, made ahead so that failures always have one */
  /* the consumer's */
  int32_t at_file;
  int64_t line;          /* of the next block's first line */
  int64_t pending_blank; /* a blank line that is fine only if nothing follows; 0: none */
  int64_t file_rows;     /* rows and bad rows of this file so far */
  bool failed, finished;
  lt_csv_stats stats;
  csv_report report[CSV_REPORTS];
  int32_t reports;
};

/* csv_cut.c */
int csv_begin_file(lt_csv *c); /* opens paths[file], reads the header, checks or makes the plan */
void csv_take(void *context, int worker, lt_item **out);
void csv_cancel(void *context);
int csv_read_more(lt_csv *c, int64_t more); /* one read of up to so many bytes, behind the carry */
/* csv_open.c */
int csv_plan(lt_csv *c, char **names, int32_t count, int64_t line); /* binds schema columns to positions */
/* csv_header.c */
int csv_read_header(lt_csv *c);
lt_scan csv_scanner(const lt_csv *c, const char *text);
/* csv_rows.c */
void csv_work(void *context, int worker, lt_item *item);
void csv_drop(void *context, lt_item *item);
int csv_workers_new(lt_csv *c, int n);
void csv_workers_free(lt_csv *c, int n);
/* csv_parse.c */
int csv_parse_strip(csv_strip *s); /* to records; s->base moves on, s->rows is 0 again */
void csv_note_row(csv_strip *s, uint32_t start, csv_report report);
/* csv_merge.c */
int csv_merge_dictionaries(lt_csv *c, lt_frame *f, const csv_segment *segments, int64_t n);
/* csv_field.c */
int csv_clean(const lt_csv *c, const char **field, uint32_t *length, char **scratch);
bool csv_is_missing(const lt_csv *c, const char *field, uint32_t length);
/* csv_report.c */
void csv_note(csv_block *b, int64_t keep, csv_report report);
void csv_quote_value(const char *text, int64_t n, char *out); /* printable, cut to CSV_VALUE */
int csv_fail(const lt_csv *c, const csv_report *r);           /* the message of a bad row; returns its status */
void csv_describe(const lt_csv *c, const csv_report *r, char *out, size_t n);
