/* What the parts of safetensors share: the element types of the format, in its own order of alignment (which is also
 * the order in which files are laid out), and the open file that safetensors.c fills and safetensors_read.c reads. */
#pragma once
#include "../error.h"

typedef struct safetensors_dtype {
  const char *name;
  int bits;  /* an element */
  int dtype; /* enum lt_dtype, -1: legal in a file, but nothing here computes with it */
} safetensors_dtype;

enum { SAFETENSORS_MAX_HEADER = 100000000 };

extern const safetensors_dtype safetensors_dtypes[];
extern const int safetensors_dtype_count;

/* ---- an open file ---- */
typedef struct safetensors_entry {
  char *name;
  int dtype; /* index into safetensors_dtypes */
  int ndim;
  int64_t *shape; /* [ndim] */
  int64_t begin, end;
} safetensors_entry;

typedef struct safetensors_pair {
  char *key, *value;
} safetensors_pair;

struct lt_safetensors {
  char *path;
  int fd;
  int64_t file_bytes, data_start;
  void *map; /* of the whole file, made when data pointers are asked for */
  int64_t n, n_metadata;
  safetensors_entry *entries; /* in the order of the data */
  int64_t *sorted;            /* [n] indices by name */
  safetensors_pair *metadata; /* by key */
};
