/* xz, zstd and bzip2 through libarchive's raw format, each filter switched on by name: nothing is guessed, and none of
 * its other parsers can be reached. libarchive reads through our input buffer, so that pipes can be cancelled. */
#include "stream.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct unpack_state {
  struct archive *archive;
  int fed; /* the bytes that were read to tell the packing have been handed on */
} unpack_state;

static la_ssize_t feed(struct archive *a, void *context, const void **out) {
  lt_stream *s = context;
  unpack_state *u = s->state;
  if (u->fed) {
    s->begin = s->end; /* what the last call gave is used up */
    if (!s->input_ended && lt_stream_fill(s) < 0) {
      archive_set_error(a, EIO, "%s", lt_last_error());
      return -1;
    }
  }
  u->fed = 1;
  *out = s->input + s->begin;
  return s->end - s->begin;
}

static int failed(lt_stream *s, struct archive *a) {
  const char *why = archive_error_string(a);
  if (s->input_ended && s->begin == s->end && why && (strstr(why, "runcat") || strstr(why, "premature")))
    return lt_fail(LT_ERR_FORMAT,
                   "%s: truncated at compressed byte %lld (%lld bytes of text were read); the copy is incomplete, "
                   "fetch it again",
                   s->path, (long long)s->packed_bytes, (long long)s->text_bytes);
  return lt_fail(LT_ERR_FORMAT, "%s: unpacking %s failed after %lld bytes of text: %s", s->path, s->unpacker->name,
                 (long long)s->text_bytes, why ? why : "no reason given");
}

static int start(lt_stream *s, struct archive *a, int code) {
  struct archive_entry *entry;
  archive_read_support_format_raw(a);
  archive_read_set_read_callback(a, feed);
  archive_read_set_callback_data(a, s);
  int status = archive_read_open1(a);
  if (status == ARCHIVE_OK) status = archive_read_next_header(a, &entry);
  if (status != ARCHIVE_OK) return failed(s, a);
  if (archive_filter_code(a, 0) != code)
    return lt_fail(LT_ERR_FORMAT, "%s: begins like %s data but is not", s->path, s->unpacker->name);
  return LT_OK;
}

static int open_with(lt_stream *s, int (*filter)(struct archive *), int code) {
  struct archive *a = archive_read_new();
  unpack_state *u = calloc(1, sizeof *u);
  if (!a || !u) {
    archive_read_free(a), free(u);
    return lt_fail(LT_ERR_MEMORY, "%s: no memory to unpack it", s->path);
  }
  u->archive = a;
  s->state = u;
  if (filter(a) != ARCHIVE_OK) /* ARCHIVE_WARN: libarchive would run an outside program */
    return lt_fail(LT_ERR_FORMAT, "%s: this libarchive was built without %s", s->path, s->unpacker->name);
  return start(s, a, code);
}

static int unpack_read(lt_stream *s, char *out, int64_t capacity, int64_t *got) {
  struct archive *a = ((unpack_state *)s->state)->archive;
  la_ssize_t n = archive_read_data(a, out, (size_t)capacity);
  if (n < 0) return failed(s, a);
  *got = n;
  return LT_OK;
}

static void unpack_close(lt_stream *s) {
  archive_read_free(((unpack_state *)s->state)->archive);
  free(s->state);
}

static int xz_open(lt_stream *s) { return open_with(s, archive_read_support_filter_xz, ARCHIVE_FILTER_XZ); }
static int zstd_open(lt_stream *s) { return open_with(s, archive_read_support_filter_zstd, ARCHIVE_FILTER_ZSTD); }
static int bzip2_open(lt_stream *s) { return open_with(s, archive_read_support_filter_bzip2, ARCHIVE_FILTER_BZIP2); }

const lt_unpacker lt_unpacker_xz = {"xz", xz_open, unpack_read, unpack_close};
const lt_unpacker lt_unpacker_zstd = {"zstd", zstd_open, unpack_read, unpack_close};
const lt_unpacker lt_unpacker_bzip2 = {"bzip2", bzip2_open, unpack_read, unpack_close};
