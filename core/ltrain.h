/* The public C API of ltrain, read twice: by C compilers, and by ffi.cdef, which gets this very text (embedded in the
 * library by header.c) without its lines that begin with '#'. Hence plain declarations only: fixed-width types, enums,
 * opaque structs; no macro, inline function, bit-field or callback type.
 *
 * A call that can fail returns int: 0 done, < 0 an lt_status with its message in lt_last_error(), > 0 done and a
 * garbage collection is due. Results come by out-pointer. An out-pointer gives the caller one reference, arguments are
 * borrowed, C retains what it keeps. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#pragma GCC visibility push(default)

/* ---- status ---- */
enum lt_status {
  LT_OK = 0,
  LT_GC_DUE = 1,         /* done, but memory pacing asks for a full collection */
  LT_ERR_ARGUMENT = -1,  /* a value the operation cannot take */
  LT_ERR_SHAPE = -2,
  LT_ERR_DTYPE = -3,
  LT_ERR_MEMORY = -4,    /* allocation failed: collect once and retry */
  LT_ERR_IO = -5,        /* the operating system said no */
  LT_ERR_FORMAT = -6,    /* a file is not what it claims to be */
  LT_ERR_STATE = -7,     /* the right call at the wrong time */
  LT_ERR_INTERRUPT = -8, /* Ctrl-C */
  LT_ERR_RANGE = -9,     /* an index or id outside its range */
  LT_ERR_DEVICE = -10
};
const char *lt_last_error(void); /* the calling thread's last message */
const char *lt_header(void);     /* this text */
const char *lt_version(void);    /* "0.1.0" */

/* ---- element types: float32 and float64 compute; bfloat16 and float16 store; the rest are ids, masks and bytes ---- */
enum lt_dtype {
  LT_FLOAT32 = 0,
  LT_FLOAT64 = 1,
  LT_BFLOAT16 = 2,
  LT_FLOAT16 = 3,
  LT_INT64 = 4,
  LT_INT32 = 5,
  LT_UINT8 = 6,
  LT_BOOL = 7,
  LT_DTYPE_COUNT = 8
};
const char *lt_dtype_name(int dtype);  /* "float32"; "?" for a number that is no dtype */
int64_t lt_dtype_size(int dtype);      /* bytes an element */

#pragma GCC visibility pop
