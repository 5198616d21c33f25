/* Reading side of files: open what is a regular file, read exactly what was asked for, show names safely.
 * Reads are pread, not a mapping: a file that is cut while it is read gives an error here and SIGBUS there. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int lt_file_open(const char *path, int *fd, int64_t *size) {
  /* O_NONBLOCK: opening a pipe that nobody writes to must not hang */
  int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat st;
  if (opened < 0 && errno == ENOENT) return lt_fail(LT_ERR_IO, "%s: no such file; check the path", path);
  if (opened < 0 && errno == EACCES) return lt_fail(LT_ERR_IO, "%s: may not be read; check its permissions", path);
  if (opened < 0) return lt_fail(LT_ERR_IO, "%s: cannot be opened: %s", path, strerrordesc_np(errno));
  if (fstat(opened, &st) < 0) {
    int err = errno;
    close(opened);
    return lt_fail(LT_ERR_IO, "%s: cannot be examined: %s", path, strerrordesc_np(err));
  }
  if (!S_ISREG(st.st_mode)) {
    close(opened);
    if (S_ISDIR(st.st_mode)) return lt_fail(LT_ERR_IO, "%s: is a folder; name a file in it", path);
    return lt_fail(LT_ERR_IO, "%s: is a device or pipe; copy its content into a file first", path);
  }
  *fd = opened;
  *size = st.st_size;
  return LT_OK;
}

int lt_file_read(int fd, const char *path, void *out, int64_t n, int64_t offset) {
  for (int64_t done = 0; done < n;) {
    ssize_t got = pread(fd, (char *)out + done, (size_t)(n - done), offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return lt_fail(LT_ERR_IO, "%s: reading %lld bytes at byte %lld failed: %s", path, (long long)(n - done),
                     (long long)(offset + done), strerrordesc_np(errno));
    if (got == 0)
      return lt_fail(LT_ERR_IO, "%s: ends at byte %lld while it is read; somebody is writing it, try again", path,
                     (long long)(offset + done));
    done += got;
  }
  return LT_OK;
}

const char *lt_shown(const char *name) {
  static _Thread_local char ring[8][128];
  static _Thread_local unsigned turn;
  char *out = ring[turn++ % 8];
  size_t n = 0;
  for (; name[n] && n < 120; n++) out[n] = (unsigned char)name[n] < 32 || name[n] == 127 ? '?' : name[n];
  if (name[n]) {
    while (n > 0 && ((unsigned char)out[n - 1] & 0xC0) == 0x80) n--; /* not in the middle of a character */
    if (n > 0 && (unsigned char)out[n - 1] >= 0xC0) n--;
    memcpy(out + n, "...", 3);
    n += 3;
  }
  out[n] = 0;
  return out;
}
