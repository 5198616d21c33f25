/* gzip (RFC 1952) and zlib (RFC 1950) around ISA-L's raw inflate, which does 2-3 times what zlib does.
 * Owns every check that packaged readers let pass: header checksum, CRC-32 or Adler-32, length, members that follow one
 * another, bytes behind the last one, a file that stops early. Each message says where, in bytes of the packed file. */
#include "stream.h"

#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>
#include <stdlib.h>
#include <string.h>

enum phase { HEADER, BODY, TRAILER, PADDING, DAMAGED };
enum { FLAG_HCRC = 2, FLAG_EXTRA = 4, FLAG_NAME = 8, FLAG_COMMENT = 16, FLAG_RESERVED = 0xe0 };

typedef struct gzip_state {
  struct inflate_state inflate;
  enum phase phase;
  int zlib;
  uint32_t checksum;   /* of this member's text: CRC-32, or Adler-32 */
  uint32_t header_crc; /* of this member's header so far */
  int64_t member_text; /* bytes of text this member gave */
  int64_t members;
} gzip_state;

static int truncated(const lt_stream *s) {
  return lt_fail(LT_ERR_FORMAT,
                 "%s: truncated at compressed byte %lld (%lld bytes of text were read); the copy is incomplete, fetch "
                 "it again",
                 s->path, (long long)s->packed_bytes, (long long)s->text_bytes);
}

static int damaged(const lt_stream *s, const char *what) {
  return lt_fail(
      LT_ERR_FORMAT,
      "%s: %s before compressed byte %lld (%lld bytes of text were read); the copy is damaged, fetch it again", s->path,
      what, (long long)lt_stream_offset(s), (long long)s->text_bytes);
}

static int next_byte(lt_stream *s, int *out) {
  if (s->begin == s->end && !s->input_ended) LT_TRY(lt_stream_fill(s));
  if (s->begin == s->end) return truncated(s);
  *out = s->input[s->begin++];
  return LT_OK;
}

static int header_byte(lt_stream *s, int *out) {
  gzip_state *g = s->state;
  LT_TRY(next_byte(s, out));
  unsigned char byte = (unsigned char)*out;
  g->header_crc = crc32_gzip_refl(g->header_crc, &byte, 1);
  return LT_OK;
}

static int header_skip(lt_stream *s, int n) {
  for (int i = 0, byte; i < n; i++) LT_TRY(header_byte(s, &byte));
  return LT_OK;
}

static int header_string(lt_stream *s) {
  int byte;
  do LT_TRY(header_byte(s, &byte));
  while (byte != 0);
  return LT_OK;
}

static int gzip_header(lt_stream *s) {
  gzip_state *g = s->state;
  int b[4], flags;
  g->header_crc = 0;
  for (int i = 0; i < 3; i++) LT_TRY(header_byte(s, &b[i]));
  if (b[0] != 0x1f || b[1] != 0x8b) return damaged(s, "no gzip header");
  if (b[2] != 8) return damaged(s, "a gzip header with an unknown method");
  LT_TRY(header_byte(s, &flags));
  if (flags & FLAG_RESERVED) return damaged(s, "a gzip header with unknown flags");
  LT_TRY(header_skip(s, 6)); /* time, extra flags, system */
  if (flags & FLAG_EXTRA) {
    LT_TRY(header_byte(s, &b[0]));
    LT_TRY(header_byte(s, &b[1]));
    LT_TRY(header_skip(s, b[0] + b[1] * 256));
  }
  if (flags & FLAG_NAME) LT_TRY(header_string(s));
  if (flags & FLAG_COMMENT) LT_TRY(header_string(s));
  if (flags & FLAG_HCRC) {
    uint32_t want = g->header_crc & 0xffff;
    LT_TRY(next_byte(s, &b[0]));
    LT_TRY(next_byte(s, &b[1]));
    if ((uint32_t)(b[0] + b[1] * 256) != want) return damaged(s, "a gzip header with a wrong checksum");
  }
  return LT_OK;
}

static int zlib_header(lt_stream *s) {
  int method, flags;
  LT_TRY(next_byte(s, &method));
  LT_TRY(next_byte(s, &flags));
  if ((method * 256 + flags) % 31 || (method & 15) != 8) return damaged(s, "no zlib header");
  if (flags & 0x20) return damaged(s, "a zlib stream that needs a preset dictionary");
  return LT_OK;
}

static int begin_member(lt_stream *s) {
  gzip_state *g = s->state;
  LT_TRY(g->zlib ? zlib_header(s) : gzip_header(s));
  isal_inflate_init(&g->inflate);
  g->inflate.crc_flag = ISAL_DEFLATE;
  g->checksum = (uint32_t)g->zlib; /* Adler-32 starts at 1 */
  g->member_text = 0;
  g->phase = BODY;
  return LT_OK;
}

/* ISA-L reads whole words ahead: what it took beyond the end of the deflate data goes back in front of the input. */
static void give_back(lt_stream *s) {
  gzip_state *g = s->state;
  int64_t n = g->inflate.read_in_length / 8;
  uint64_t ahead = g->inflate.read_in >> (g->inflate.read_in_length % 8);
  if (n <= 0) return;
  if (s->begin < n) {
    memmove(s->input + n, s->input + s->begin, (size_t)(s->end - s->begin));
    s->end += n - s->begin, s->begin = n;
  }
  s->begin -= n;
  memcpy(s->input + s->begin, &ahead, (size_t)n);
}

static int inflate_some(lt_stream *s, char *out, int64_t capacity, int64_t *got) {
  gzip_state *g = s->state;
  struct inflate_state *f = &g->inflate;
  f->next_in = s->input + s->begin, f->avail_in = (uint32_t)(s->end - s->begin);
  f->next_out = (uint8_t *)out, f->avail_out = (uint32_t)(capacity < (1 << 30) ? capacity : 1 << 30);
  uint32_t room = f->avail_out;
  int status = isal_inflate(f);
  s->begin = s->end - f->avail_in;
  *got = room - f->avail_out;
  if (g->zlib)
    g->checksum = isal_adler32(g->checksum, (uint8_t *)out, (uint64_t)*got);
  else
    g->checksum = crc32_gzip_refl(g->checksum, (uint8_t *)out, (uint64_t)*got);
  g->member_text += *got;
  if (status < 0) {
    g->phase = DAMAGED; /* said once the text before the damage has been handed out */
  } else if (f->block_state == ISAL_BLOCK_FINISH) {
    give_back(s);
    g->phase = TRAILER;
  }
  return LT_OK;
}

static int trailer(lt_stream *s) {
  gzip_state *g = s->state;
  uint32_t word[2] = {0, 0};
  for (int i = 0, byte; i < (g->zlib ? 4 : 8); i++) {
    LT_TRY(next_byte(s, &byte));
    word[i / 4] |= (uint32_t)byte << (g->zlib ? 24 - 8 * i : 8 * (i % 4));
  }
  if (word[0] != g->checksum) return damaged(s, "text with a wrong checksum");
  if (!g->zlib && word[1] != (uint32_t)g->member_text) return damaged(s, "text of a wrong length");
  g->members++;
  g->phase = PADDING;
  return LT_OK;
}

/* Behind a member: another one, zeros up to the end (tapes and some copiers pad), or something that has no place. */
static int padding(lt_stream *s, int *ended) {
  gzip_state *g = s->state;
  int zeros = 0;
  *ended = 0;
  for (;;) {
    if (s->begin == s->end && !s->input_ended) LT_TRY(lt_stream_fill(s));
    if (s->begin == s->end) return *ended = 1, LT_OK;
    if (s->input[s->begin] != 0) break;
    s->begin++, zeros = 1;
  }
  if (!zeros && !g->zlib && s->input[s->begin] == 0x1f) return g->phase = HEADER, LT_OK;
  return lt_fail(LT_ERR_FORMAT,
                 "%s: bytes that are not %s data from compressed byte %lld on; the file was added to or "
                 "mixed with another, fetch it again",
                 s->path, s->unpacker->name, (long long)lt_stream_offset(s));
}

static int gzip_read(lt_stream *s, char *out, int64_t capacity, int64_t *got) {
  gzip_state *g = s->state;
  int ended = 0;
  *got = 0;
  while (*got == 0 && !ended) {
    switch (g->phase) {
    case HEADER: LT_TRY(begin_member(s)); break;
    case BODY:
      LT_TRY(inflate_some(s, out, capacity, got));
      if (*got == 0 && g->phase == BODY && s->begin == s->end) {
        if (s->input_ended) return truncated(s);
        LT_TRY(lt_stream_fill(s));
      }
      break;
    case TRAILER: LT_TRY(trailer(s)); break;
    case PADDING: LT_TRY(padding(s, &ended)); break;
    case DAMAGED: return damaged(s, "invalid compressed data");
    }
  }
  return LT_OK;
}

static int open_state(lt_stream *s, int zlib) {
  gzip_state *g = calloc(1, sizeof *g);
  if (!g) return lt_fail(LT_ERR_MEMORY, "%s: no memory to unpack it", s->path);
  g->zlib = zlib;
  s->state = g;
  return LT_OK;
}

static int gzip_open(lt_stream *s) { return open_state(s, 0); }
static int zlib_open(lt_stream *s) { return open_state(s, 1); }
static void gzip_close(lt_stream *s) { free(s->state); }

const lt_unpacker lt_unpacker_gzip = {"gzip", gzip_open, gzip_read, gzip_close};
const lt_unpacker lt_unpacker_zlib = {"zlib", zlib_open, gzip_read, gzip_close};
