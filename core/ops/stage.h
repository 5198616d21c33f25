/* What kernels that move elements share: a contiguous output to write, dims and ids checked. */
#pragma once
#include "../op.h"

/* Output k if it is contiguous and not added to, else a temporary of its shape; lt_unstage copies or adds it over. */
int lt_stage(lt_args *c, int k, lt_tensor **out);
int lt_unstage(lt_args *c, int k, lt_tensor *staged, int status); /* returns status, or why it failed */
/* In a kernel: output k, whose size depended on values, in its real size. */
int lt_out_sized(lt_args *c, int k, int ndim, const int64_t *shape);

int lt_out_listed(lt_args *c, int dtype); /* output 0 with the sizes in the attributes' list */

int lt_check_dim(const lt_args *c, const lt_tensor *x, int64_t dim); /* 0-based */
/* ids: contiguous; every one must be 0 .. limit - 1. `what` ends the message: "dim 2 of [3, 4]". */
int lt_check_ids(const lt_args *c, const lt_tensor *ids, int64_t limit, const char *what, ...)
    __attribute__((format(printf, 4, 5)));
static inline int64_t lt_id_at(const void *ids, int dtype, int64_t i) {
  return dtype == LT_INT64 ? ((const int64_t *)ids)[i] : ((const int32_t *)ids)[i];
}

/* Sizes around one dim: x is [outer, length, inner]. */
typedef struct lt_split {
  int64_t outer, length, inner;
} lt_split;
lt_split lt_split_at(const lt_tensor *x, int64_t dim);

/* Runs the statements with T an unsigned integer of the element size: data that is only moved has no type. */
#define LT_BY_SIZE(size, ...)                                                                                          \
  switch (size) {                                                                                                      \
  case 1: {                                                                                                            \
    typedef uint8_t T;                                                                                                 \
    __VA_ARGS__                                                                                                        \
  } break;                                                                                                             \
  case 2: {                                                                                                            \
    typedef uint16_t T;                                                                                                \
    __VA_ARGS__                                                                                                        \
  } break;                                                                                                             \
  case 4: {                                                                                                            \
    typedef uint32_t T;                                                                                                \
    __VA_ARGS__                                                                                                        \
  } break;                                                                                                             \
  default: {                                                                                                           \
    typedef uint64_t T;                                                                                                \
    __VA_ARGS__                                                                                                        \
  }                                                                                                                    \
  }
