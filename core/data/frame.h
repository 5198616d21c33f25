/* A frame: rows of named columns, kept as one array of records (row after row), because training reads random rows: a
 * row is two or three cache lines wherever it lies. A column is an offset in the record; its view has the record as
 * stride. 8-byte columns come first in the record, then 4-byte ones, each in the order given. */
#pragma once
#include "buffer.h"
#include "strings.h"

typedef struct frame_column {
  char *name;
  int32_t kind, dtype;
  int64_t offset;      /* bytes from the start of the record */
  lt_strings *strings; /* of a text column: what its int32 codes stand for */
  bool counted;        /* the dictionary's uses are those of exactly these rows, or of all rows that were counted */
} frame_column;

struct lt_frame {
  atomic_int refs;
  atomic_int readers; /* batchers at work: rows and columns stay as they are */
  int32_t width;
  frame_column *columns; /* [width] */
  int64_t rows;
  int64_t stride;     /* bytes a record */
  lt_buffer *records; /* [rows, stride] */
};

static inline char *lt_frame_at(const lt_frame *f, int32_t column, int64_t row) {
  return (char *)f->records->data + row * f->stride + f->columns[column].offset;
}
int lt_frame_like(const lt_frame *f, int64_t rows, lt_frame **out); /* same columns, other rows (unset) */
int lt_frame_grow(lt_frame *f, int64_t rows);                       /* sets the number of rows; new ones are unset */
int lt_frame_writable(const lt_frame *f, const char *what);         /* an error while batchers read it */
int lt_frame_check_column(const lt_frame *f, int32_t column, const char *what);
void lt_frame_set_strings(lt_frame *f, int32_t column, lt_strings *strings); /* takes over the reference */

/* What a batch or a gather copies: columns of one dtype, runs of neighbours as one piece. */
typedef struct lt_piece {
  int64_t from, to, bytes; /* offset in the record, offset in the output row, length */
} lt_piece;
typedef struct lt_gather {
  int32_t dtype, width;
  int64_t row_bytes;
  int32_t pieces;
  lt_piece *piece;
} lt_gather;
int lt_gather_plan(const lt_frame *f, const int32_t *columns, int32_t width, const char *what, lt_gather *out);
void lt_gather_free(lt_gather *g);
/* Copies rows[0..n) of the frame to out [n, width]; out-of-range rows are the caller's fault. */
void lt_gather_rows(const lt_gather *g, const lt_frame *f, const int64_t *rows, int64_t n, char *out);
