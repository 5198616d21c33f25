/* Replaces a file in one step: a temporary file in the same folder, fsync, rename, fsync of the folder.
 * A symbolic link is followed: the file it points to is replaced and the link stays (a hard link is cut, as rename
 * does). Mode and, where allowed, owner of the old file carry over; a write-protected file is refused, not replaced.
 * The temporary file is held under flock for its life, so a later save of the same target can tell what a killed
 * process left behind from what a living one still writes, and removes the former. */
#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { HEX = 12, KEPT_BASE = 200 }; /* of the temporary name: random digits; bytes of the target's name */
static const char suffix[] = ".unsaved";

struct lt_file_writer {
  char *path;              /* as the caller gave it */
  char base[NAME_MAX + 1]; /* name of the target inside its folder, links followed */
  char temp[NAME_MAX + 1]; /* ".base.<hex>.unsaved" */
  int folder, fd;          /* the folder stays open: a chdir in between moves nothing */
  bool existed, committed;
};

static const char *intact(const lt_file_writer *f) {
  return f->existed ? "the file that was there is unchanged" : "nothing was left behind";
}

/* One message for every way in which a disk refuses. `bytes`: what was to be written. */
static int refuse(const lt_file_writer *f, int err, int64_t bytes) {
  struct statvfs disk;
  long long n = (long long)bytes;
  if (err == ENOSPC && fstatvfs(f->folder, &disk) == 0)
    return lt_fail(LT_ERR_IO, "%s: disk full: %lld bytes to write, %lld free; %s, free some space and save again",
                   f->path, n, (long long)disk.f_bavail * (long long)disk.f_frsize, intact(f));
  if (err == EDQUOT)
    return lt_fail(LT_ERR_IO, "%s: your disk quota is used up: %lld bytes to write; %s, free some space and save again",
                   f->path, n, intact(f));
  if (err == EFBIG)
    return lt_fail(LT_ERR_IO, "%s: %lld bytes are more than this process may write to a file (ulimit -f); %s", f->path,
                   n, intact(f));
  if (err == EACCES || err == EPERM)
    return lt_fail(LT_ERR_IO, "%s: its folder may not be written; %s, check the folder's permissions", f->path,
                   intact(f));
  if (err == EROFS)
    return lt_fail(LT_ERR_IO, "%s: the file system is read-only; %s, save elsewhere", f->path, intact(f));
  if (err == EIO)
    return lt_fail(LT_ERR_IO, "%s: the disk failed while writing %lld bytes (EIO); %s, check the disk", f->path, n,
                   intact(f));
  return lt_fail(LT_ERR_IO, "%s: writing %lld bytes failed: %s; %s", f->path, n, strerrordesc_np(err), intact(f));
}

/* Follows symbolic links by hand, since realpath fails on a link whose target is still to be made. */
static int follow_links(const char *path, char out[PATH_MAX]) {
  if (strlen(path) >= PATH_MAX) return lt_fail(LT_ERR_IO, "%s: path is too long", path);
  strcpy(out, path);
  for (int hops = 0; hops < 40; hops++) {
    char link[PATH_MAX], joined[PATH_MAX];
    ssize_t n = readlink(out, link, sizeof link - 1);
    if (n < 0) return LT_OK; /* no link, or nothing there yet */
    link[n] = 0;
    char *slash = strrchr(out, '/');
    int keep = link[0] == '/' || !slash ? 0 : (int)(slash - out) + 1;
    if (snprintf(joined, sizeof joined, "%.*s%s", keep, out, link) >= (int)sizeof joined)
      return lt_fail(LT_ERR_IO, "%s: the symbolic link leads to a path that is too long", path);
    strcpy(out, joined);
  }
  return lt_fail(LT_ERR_IO, "%s: symbolic links go round in a circle", path);
}

/* Opens the target's folder and checks what is there already. */
static int find_target(lt_file_writer *f, struct stat *old) {
  char target[PATH_MAX];
  LT_TRY(follow_links(f->path, target));
  char *slash = strrchr(target, '/');
  const char *base = slash ? slash + 1 : target;
  if (!*base || !strcmp(base, ".") || !strcmp(base, ".."))
    return lt_fail(LT_ERR_IO, "%s: names a folder; add a file name", f->path);
  if (strlen(base) > NAME_MAX) return lt_fail(LT_ERR_IO, "%s: file name is longer than %d bytes", f->path, NAME_MAX);
  strcpy(f->base, base);
  if (slash) slash[slash == target] = 0; /* "/x" lies in "/" */
  const char *folder = slash ? target : ".";
  f->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (f->folder < 0 && errno == EACCES) f->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (f->folder < 0 && errno == ENOENT)
    return lt_fail(LT_ERR_IO, "%s: its folder does not exist; make it first", f->path);
  if (f->folder < 0 && errno == ENOTDIR)
    return lt_fail(LT_ERR_IO, "%s: part of the path is a file, not a folder; check the path", f->path);
  if (f->folder < 0) return lt_fail(LT_ERR_IO, "%s: its folder cannot be opened: %s", f->path, strerrordesc_np(errno));
  f->existed = fstatat(f->folder, f->base, old, AT_SYMLINK_NOFOLLOW) == 0;
  if (!f->existed) return LT_OK;
  if (S_ISDIR(old->st_mode)) return lt_fail(LT_ERR_IO, "%s: is a folder; name a file in it", f->path);
  if (!S_ISREG(old->st_mode)) return lt_fail(LT_ERR_IO, "%s: is a device or pipe, not a file", f->path);
  if (faccessat(f->folder, f->base, W_OK, AT_EACCESS) < 0 && errno == EACCES)
    return lt_fail(LT_ERR_IO, "%s: is write-protected and stays as it is; change its mode or save elsewhere", f->path);
  return LT_OK;
}

/* Removes temporary files of the same target whose writers are dead: nobody holds their lock. */
static void sweep(const lt_file_writer *f, const char *prefix) {
  int again = openat(f->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = again < 0 ? NULL : fdopendir(again);
  if (!list) {
    if (again >= 0) close(again);
    return;
  }
  size_t head = strlen(prefix);
  for (struct dirent *e; (e = readdir(list));) {
    if (strncmp(e->d_name, prefix, head) || strlen(e->d_name) != head + HEX + sizeof suffix - 1) continue;
    if (strspn(e->d_name + head, "0123456789abcdef") != HEX || strcmp(e->d_name + head + HEX, suffix)) continue;
    int fd = openat(f->folder, e->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlinkat(f->folder, e->d_name, 0);
    close(fd);
  }
  closedir(list);
}

static int open_temp(lt_file_writer *f, const struct stat *old) {
  char prefix[KEPT_BASE + 8];
  snprintf(prefix, sizeof prefix, ".%.*s.", KEPT_BASE, f->base);
  sweep(f, prefix);
  for (int attempt = 0; attempt < 100; attempt++) {
    uint64_t random = (uint64_t)attempt + (uint64_t)getpid();
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0 && errno != EAGAIN && errno != ENOSYS) break;
    snprintf(f->temp, sizeof f->temp, "%s%012llx%s", prefix, (unsigned long long)(random & 0xffffffffffffULL), suffix);
    f->fd = openat(f->folder, f->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (f->fd < 0 && errno == EEXIST) continue;
    if (f->fd < 0) break;
    struct stat made = {0};
    flock(f->fd, LOCK_EX | LOCK_NB);                      /* where locks do not exist, nothing is swept either */
    if (fstat(f->fd, &made) == 0 && made.st_nlink == 0) { /* swept between open and lock */
      close(f->fd);
      f->fd = -1;
      continue;
    }
    /* owner and mode of the old file, as far as we may: a failure to copy them is no reason not to save */
    if (f->existed && (fchown(f->fd, old->st_uid, old->st_gid) == 0 || errno == EPERM))
      fchmod(f->fd, old->st_mode & 0777);
    return LT_OK;
  }
  int err = errno;
  f->temp[0] = 0;
  return refuse(f, err, 0);
}

int lt_file_create(const char *path, lt_file_writer **out) {
  struct stat old;
  lt_file_writer *f = calloc(1, sizeof *f);
  char *copy = strdup(path);
  if (!f || !copy) {
    free(f);
    free(copy);
    return lt_fail(LT_ERR_MEMORY, "%s: out of memory while opening it for writing", path);
  }
  f->path = copy;
  f->folder = f->fd = -1;
  int status = find_target(f, &old);
  if (status == LT_OK) status = open_temp(f, &old);
  if (status < 0) {
    lt_file_free(f);
    return status;
  }
  *out = f;
  return LT_OK;
}

/* Crossing the limit would raise SIGXFSZ, which kills; so it is checked first. */
static bool over_limit(int64_t end) {
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && (rlim_t)end > limit.rlim_cur;
}

int lt_file_reserve(lt_file_writer *f, int64_t bytes) {
  if (bytes <= 0) return LT_OK;
  if (over_limit(bytes)) return refuse(f, EFBIG, bytes);
  int rc;
  do rc = fallocate(f->fd, 0, 0, bytes);
  while (rc < 0 && errno == EINTR);
  if (rc < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO)) return refuse(f, errno, bytes);
  return LT_OK; /* a file system without fallocate: the writes themselves will tell */
}

int lt_file_write(lt_file_writer *f, const void *bytes, int64_t n, int64_t offset) {
  if (over_limit(offset + n)) return refuse(f, EFBIG, n);
  for (int64_t done = 0; done < n;) {
    ssize_t put = pwrite(f->fd, (const char *)bytes + done, (size_t)(n - done), offset + done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return refuse(f, errno, n - done);
    done += put;
  }
  return LT_OK;
}

int lt_file_commit(lt_file_writer *f) {
  struct stat st = {0};
  fstat(f->fd, &st);
  if (fsync(f->fd) < 0) return refuse(f, errno, st.st_size);
  if (renameat(f->folder, f->temp, f->folder, f->base) < 0) return refuse(f, errno, st.st_size);
  f->committed = true;
  /* EINVAL, EBADF: a folder that cannot be flushed (some network and FUSE file systems, no read permission) */
  if (fsync(f->folder) < 0 && errno != EINVAL && errno != EBADF)
    return lt_fail(LT_ERR_IO, "%s: is written, but its folder could not be flushed (%s): it may be lost in a power cut",
                   f->path, strerrordesc_np(errno));
  return LT_OK;
}

void lt_file_free(lt_file_writer *f) {
  if (!f) return;
  if (f->temp[0] && !f->committed) unlinkat(f->folder, f->temp, 0);
  if (f->fd >= 0) close(f->fd);
  if (f->folder >= 0) close(f->folder);
  free(f->path);
  free(f);
}

int lt_file_replace(const char *path, const void *bytes, int64_t n) {
  lt_file_writer *f;
  LT_TRY(lt_file_create(path, &f));
  int status = lt_file_reserve(f, n);
  if (status == LT_OK) status = lt_file_write(f, bytes, n, 0);
  if (status == LT_OK) status = lt_file_commit(f);
  lt_file_free(f);
  return status;
}
