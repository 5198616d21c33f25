/* Finds what matters in a block of delimited text, 64 bytes at a time: field ends and line ends outside quotes. */
#pragma once
#include "error.h"

typedef struct lt_scan {
  const char *text;      /* starts at the start of a row; 64 readable bytes follow its end */
  char delimiter, quote; /* quote 0: none */
  bool trim;             /* blanks may stand between a delimiter and an opening quote */
  const char *comment;   /* lines that begin so hold no quotes; "": none */
  size_t comment_length;
  /* state */
  int64_t at;         /* everything before is scanned; a multiple of 64 */
  bool quoted;        /* inside a quoted field */
  bool skip;          /* the next byte is the second of a doubled quote */
  int64_t opened;     /* where that quote is */
  int64_t line_begin; /* start of the row being scanned */
  /* seen since the caller cleared them */
  bool carriage, nul, quotes;
} lt_scan;

/* Scans text[at .. to) and appends positions of delimiters and line feeds to `ends`, of line feeds alone to `lines`.
 * Both have room for to - at entries more. `to` is a multiple of 64, or the end of the text. */
void lt_scan_range(lt_scan *s, int64_t to, uint32_t *ends, int64_t *end_count, uint32_t *lines, int64_t *line_count);
/* The same without vector instructions: for processors that lack them, and to hold the other against. */
void lt_scan_range_plain(lt_scan *s, int64_t to, uint32_t *ends, int64_t *end_count, uint32_t *lines,
                         int64_t *line_count);
/* The number of line feeds in text[0 .. n). */
int64_t lt_scan_lines(const char *text, int64_t n);
/* Does a quote at `at` open a field? `line` is where its line begins. */
bool lt_scan_opens(const lt_scan *s, int64_t at, int64_t line);
/* Where the last complete row ends (just behind its line feed), 0: none; *opened is an unclosed quote or -1. */
int64_t lt_scan_first_row(const lt_scan *s, int64_t n, int64_t *opened); /* the same for the first row alone */
int64_t lt_scan_last_row(const lt_scan *s, int64_t n, int64_t *opened);
