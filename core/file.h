/* Files as the formats use them: whole reads that tell a short file from a failing disk, and replacement in one step
 * (written beside the target, flushed, renamed), so that a crash, a kill or a full disk leaves the old file whole.
 * The formats themselves are core/data's. Messages begin with the path as the caller gave it. */
#pragma once
#include "error.h"

/* ---- file.c ---- */
int lt_file_open(const char *path, int *fd, int64_t *size); /* a regular file, for reading */
/* Reads exactly n bytes at offset; fewer mean that the file shrank since it was opened. */
int lt_file_read(int fd, const char *path, void *out, int64_t n, int64_t offset);
/* Control bytes and what is not ASCII-safe on a terminal become '?', long names are cut: for names out of hostile
 * files in messages. Eight texts are alive at a time in a thread. */
const char *lt_shown(const char *name);

/* ---- atomic_file.c ---- */
typedef struct lt_file_writer lt_file_writer;
int lt_file_create(const char *path, lt_file_writer **out);
int lt_file_reserve(lt_file_writer *f,
                    int64_t bytes); /* asks the disk for the whole size now: a full disk shows early */
int lt_file_write(lt_file_writer *f, const void *bytes, int64_t n, int64_t offset);
int lt_file_commit(lt_file_writer *f); /* flush, rename, flush the folder; the new file is there and durable after 0 */
void lt_file_free(lt_file_writer *f);  /* without a commit before: removes the temporary file, the old one stays */
