/* Opens a file and hands out its text: plain, or unpacked by what the first bytes say. Bounded memory: one input
 * buffer. Waiting for a pipe or a terminal can be cut short by lt_stream_cancel from another thread (an eventfd beside
 * the file in poll), so that closing a reader never hangs on a silent writer. */
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_file(lt_stream *s, void *out, int64_t capacity, int64_t *got) {
  for (;;) {
    if (s->cancel_fd >= 0) {
      struct pollfd fds[2] = {{.fd = s->fd, .events = POLLIN}, {.fd = s->cancel_fd, .events = POLLIN}};
      if (poll(fds, 2, -1) < 0 && errno != EINTR)
        return lt_fail(LT_ERR_IO, "%s: waiting for data failed: %s", s->path, strerror(errno));
      if (lt_interrupted()) return lt_fail(LT_ERR_INTERRUPT, "%s: interrupted", s->path);
      if (fds[1].revents) return lt_fail(LT_ERR_INTERRUPT, "%s: reading was cancelled", s->path);
      if (!fds[0].revents) continue;
    }
    ssize_t n = read(s->fd, out, (size_t)capacity);
    if (n >= 0) {
      if (n == 0 && s->packed_bytes < s->size)
        return lt_fail(LT_ERR_IO,
                       "%s: ends at byte %lld while it is read and had %lld bytes before; somebody is writing it, try "
                       "again",
                       s->path, (long long)s->packed_bytes, (long long)s->size);
      s->packed_bytes += n;
      *got = n;
      return LT_OK;
    }
    if (errno != EINTR && errno != EAGAIN)
      return lt_fail(LT_ERR_IO, "%s: reading at byte %lld failed: %s", s->path, (long long)s->packed_bytes,
                     strerror(errno));
  }
}

int lt_stream_fill(lt_stream *s) {
  if (s->begin > 0) {
    memmove(s->input, s->input + s->begin, (size_t)(s->end - s->begin));
    s->end -= s->begin, s->begin = 0;
  }
  int64_t got = 0;
  if (s->end < LT_STREAM_INPUT) LT_TRY(read_file(s, s->input + s->end, LT_STREAM_INPUT - s->end, &got));
  if (got == 0) s->input_ended = 1;
  s->end += got;
  return LT_OK;
}

/* "x^2,y" begins like a zlib stream: believe in zlib only when the start holds bytes that no text has. */
static int has_binary(const unsigned char *p, int64_t n) {
  for (int64_t i = 0; i < n && i < 64; i++)
    if (p[i] < 9 || (p[i] > 13 && p[i] < 32)) return 1;
  return 0;
}

typedef struct magic {
  const char *bytes;
  int n;
  const lt_unpacker *unpacker;
} magic;

static const magic known[] = {{"\x1f\x8b", 2, &lt_unpacker_gzip},
                              {"\xfd"
                               "7zXZ\0",
                               6, &lt_unpacker_xz},
                              {"\x28\xb5\x2f\xfd", 4, &lt_unpacker_zstd},
                              {"BZh", 3, &lt_unpacker_bzip2}};
enum { KNOWN = sizeof known / sizeof *known };

static int zlib_head(const unsigned char *p) { return p[0] == 0x78 && (p[0] * 256 + p[1]) % 31 == 0; }

/* Could the few bytes so far still become a packing's? A pipe may give its first bytes one by one. */
static int undecided(const lt_stream *s) {
  const unsigned char *p = s->input;
  int64_t n = s->end;
  if (n < 2) return 1;
  for (int i = 0; i < KNOWN; i++)
    if (n < known[i].n && memcmp(p, known[i].bytes, (size_t)n) == 0) return 1;
  return (memcmp(p, "BZ", 2) == 0 && n < 10) || (zlib_head(p) && n < 64) || (memcmp(p, "PK", 2) == 0 && n < 4);
}

static int detect(lt_stream *s) {
  const unsigned char *p = s->input;
  int64_t n = s->end;
  for (int i = 0; i < KNOWN; i++)
    if (n >= known[i].n && memcmp(p, known[i].bytes, (size_t)known[i].n) == 0) s->unpacker = known[i].unpacker;
  if (s->unpacker == &lt_unpacker_bzip2 && !(n >= 10 && memcmp(p + 4, "1AY&SY", 6) == 0)) s->unpacker = NULL;
  if (n >= 2 && zlib_head(p) && has_binary(p, n)) s->unpacker = &lt_unpacker_zlib;
  if (n >= 4 && memcmp(p, "PK\3\4", 4) == 0)
    return lt_fail(LT_ERR_FORMAT, "%s: a zip archive, not one packed file; unpack it first", s->path);
  return LT_OK;
}

static int prepare(lt_stream *s) {
  s->fd = open(s->path, O_RDONLY | O_CLOEXEC);
  if (s->fd < 0) return lt_fail(LT_ERR_IO, "%s: cannot be opened: %s", s->path, strerror(errno));
  struct stat st;
  if (fstat(s->fd, &st) < 0) return lt_fail(LT_ERR_IO, "%s: cannot be examined: %s", s->path, strerror(errno));
  if (S_ISDIR(st.st_mode)) return lt_fail(LT_ERR_IO, "%s: a folder; name a file in it", s->path);
  if (S_ISREG(st.st_mode)) s->size = st.st_size;
  if (S_ISREG(st.st_mode))
    posix_fadvise(s->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  else if ((s->cancel_fd = eventfd(0, EFD_CLOEXEC)) < 0)
    return lt_fail(LT_ERR_IO, "%s: no event descriptor: %s", s->path, strerror(errno));
  while (!s->input_ended && undecided(s)) LT_TRY(lt_stream_fill(s));
  LT_TRY(detect(s));
  return s->unpacker ? s->unpacker->open(s) : LT_OK;
}

int lt_stream_open(const char *path, lt_stream **out) {
  lt_stream *s = calloc(1, sizeof *s);
  char *copy = strdup(path);
  if (!s || !copy) {
    free(s), free(copy);
    return lt_fail(LT_ERR_MEMORY, "%s: no memory to open it", path);
  }
  s->path = copy, s->fd = s->cancel_fd = -1;
  int status = prepare(s);
  if (status < 0) {
    lt_stream_close(s);
    return status;
  }
  *out = s;
  return LT_OK;
}

int lt_stream_read(lt_stream *s, void *out, int64_t capacity, int64_t *got) {
  *got = 0;
  if (capacity <= 0) return LT_OK;
  if (s->unpacker) {
    LT_TRY(s->unpacker->read(s, out, capacity, got));
  } else if (s->begin < s->end) {
    *got = s->end - s->begin < capacity ? s->end - s->begin : capacity;
    memcpy(out, s->input + s->begin, (size_t)*got);
    s->begin += *got;
  } else if (!s->input_ended) {
    LT_TRY(read_file(s, out, capacity, got));
    if (*got == 0) s->input_ended = 1;
  }
  s->text_bytes += *got;
  return LT_OK;
}

const char *lt_stream_packing(const lt_stream *s) { return s->unpacker ? s->unpacker->name : "plain"; }

void lt_stream_cancel(lt_stream *s) {
  uint64_t one = 1;
  if (s->cancel_fd >= 0 && write(s->cancel_fd, &one, sizeof one) < 0) return; /* full already: cancelled before */
}

void lt_stream_close(lt_stream *s) {
  if (!s) return;
  if (s->unpacker && s->state) s->unpacker->close(s);
  if (s->fd >= 0) close(s->fd);
  if (s->cancel_fd >= 0) close(s->cancel_fd);
  free(s->path);
  free(s);
}
