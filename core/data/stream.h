/* A file opened by name and read as plain bytes, whatever it is packed with. The packing is told by the first bytes,
 * never by the name. What the unpackers (gzip.c, unpack.c) and the reader (stream.c) share. */
#pragma once
#include "error.h"

enum { LT_STREAM_INPUT = 256 * 1024 };

typedef struct lt_unpacker {
  const char *name; /* "gzip" */
  int (*open)(lt_stream *s);
  int (*read)(lt_stream *s, char *out, int64_t capacity, int64_t *got); /* *got = 0: the end */
  void (*close)(lt_stream *s);
} lt_unpacker;

extern const lt_unpacker lt_unpacker_gzip, lt_unpacker_zlib, lt_unpacker_xz, lt_unpacker_zstd, lt_unpacker_bzip2;

struct lt_stream {
  char *path;
  int fd;
  int64_t size;  /* of a regular file when it was opened, else 0: fewer bytes mean that it was cut meanwhile */
  int cancel_fd; /* readable once somebody cancels; -1 for regular files, which never keep a reader waiting */
  const lt_unpacker *unpacker; /* NULL: plain */
  void *state;                 /* the unpacker's own */
  int64_t text_bytes;          /* delivered so far */
  int64_t packed_bytes;        /* read from the file so far, consumed or not */
  int input_ended;             /* the file has no more bytes */
  int64_t begin, end;          /* unread part of input */
  unsigned char input[LT_STREAM_INPUT + 64];
};

/* Reads more of the file behind the unread part, which moves to the front. At the end of the file, input_ended. */
int lt_stream_fill(lt_stream *s);
/* Offset in the file of the next unread byte. */
static inline int64_t lt_stream_offset(const lt_stream *s) { return s->packed_bytes - (s->end - s->begin); }
