/* What the core knows of a tensor: header, storage, step scope. Only core/tensor.c, storage.c, scope.c and autograd.c
 * write these fields. */
#pragma once
#include "error.h"
#include <math.h>
#include <sched.h>
#include <stdatomic.h>

typedef struct lt_backend lt_backend;
typedef struct lt_node lt_node;
typedef struct lt_leaf lt_leaf;
typedef struct lt_scope lt_scope;

/* Bytes with one owner count. On the CPU the 64 bytes in front of the data are this struct. */
typedef struct lt_storage {
  _Atomic int32_t refs;
  int16_t writer;            /* 1 + the operator that wrote in place last, for messages; 0: none */
  _Atomic uint16_t rewrites; /* recorded writes in place: views with a history are stale after one */
  lt_backend *backend;
  void *data;
  int64_t bytes;
  _Atomic int64_t version;      /* writes so far; saved values compare it */
  void *owner;                  /* foreign memory: what release() gets */
  void (*release)(void *owner); /* NULL: the backend's own memory */
  int64_t block;                /* bytes asked of the allocator, header included */
} lt_storage;

/* Where a header stands with step scopes. */
enum lt_place { LT_LOOSE, LT_SCOPED, LT_KEPT /* out of every scope by the user's wish */ };

/* In cache lines, by when they are touched: a small operator costs what it misses. The first holds all that making and
 * destroying reads, the last is for members of a scope. */
struct lt_tensor {
  _Alignas(64) _Atomic int32_t refs; /* handles and C references together */
  int32_t gen;                       /* moves when the header is recycled or its scope ends */
  _Atomic int32_t handles;           /* how many of the references are handles of this generation */
  int16_t op;                        /* maker, for messages */
  uint8_t dtype, ndim;
  bool requires_grad, is_scalar; /* is_scalar: a number from the script, promotes weakly, lives on the host */
  uint8_t place;                 /* enum lt_place */
  bool is_view;
  uint16_t rewrites; /* of the storage, when this view was made */
  int16_t out_index; /* which output of `node` */
  lt_storage *storage;
  int64_t offset; /* elements */
  int64_t n;      /* elements */
  union {
    lt_node *node;        /* NULL: leaf */
    lt_tensor *next_free; /* in the pool */
  };
  lt_leaf *leaf; /* gradient and hooks, made when first needed */
  int64_t shape[LT_MAX_DIMS];
  int64_t stride[LT_MAX_DIMS];
  lt_scope *scope;        /* when place is LT_SCOPED */
  lt_tensor *prev, *next; /* within the scope */
  int64_t died_in;        /* number of the scope that ended a generation ... */
  int32_t died_gen;       /* ... and which */
};

/* A lock for sections of a few instructions: uncontended it costs one exchange; a waiter yields, because the holder may
 * have lost its core. */
typedef _Atomic int lt_spin;
static inline void lt_spin_lock(lt_spin *lock) {
  for (int tries = 0; atomic_exchange_explicit(lock, 1, memory_order_acquire); tries++)
    if (tries > 64) sched_yield();
}
static inline void lt_spin_unlock(lt_spin *lock) { atomic_store_explicit(lock, 0, memory_order_release); }

/* ---- dtype.c ---- */
static inline bool lt_is_float(int dtype) { return dtype <= LT_FLOAT16; }
static inline bool lt_is_int(int dtype) { return dtype >= LT_INT64 && dtype <= LT_UINT8; }
int lt_promote(int a, int b); /* the smallest dtype that holds both, by the field's usual table */
void lt_bf16_to_f32(float *out, const uint16_t *in, int64_t n);
void lt_f32_to_bf16(uint16_t *out, const float *in, int64_t n);
void lt_f16_to_f32(float *out, const uint16_t *in, int64_t n);
void lt_f32_to_f16(uint16_t *out, const float *in, int64_t n);
double lt_load_double(const void *data, int dtype, int64_t i);
/* Arithmetic of whole numbers in tensors wraps round, as the field expects; C leaves overflow of signed ones undefined.
 */
static inline int64_t lt_wrap_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t lt_wrap_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static inline int64_t lt_wrap_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
/* LuaJIT keeps pointers and types in the payloads of NaNs and takes doubles from C as they are: each number that a
 * script gets out of memory passes here, or a NaN of a file becomes a pointer of the file's choice. */
static inline double lt_plain_nan(double v) { return v == v ? v : (double)NAN; }
void lt_store_double(void *data, int dtype, int64_t i, double value);
int64_t lt_load_int(const void *data, int dtype, int64_t i);
void lt_store_int(void *data, int dtype, int64_t i, int64_t value);

/* ---- memory.c: the caching allocator ---- */
double lt_env_number(const char *name);   /* a variable that is wholly a finite number, else 0 */
void *lt_alloc(int64_t bytes);            /* 64-byte aligned; NULL and a message when there is none */
void lt_free(void *block, int64_t bytes); /* the same bytes as asked for */
void lt_count_bytes(int64_t bytes);       /* memory that counts as live but is not lt_alloc's; negative: gone */
bool lt_gc_due(void);
extern _Atomic int64_t lt_live_tensors, lt_live_storages, lt_live_nodes, lt_pool_headers;

/* ---- storage.c ---- */
int lt_storage_new(lt_backend *backend, int64_t bytes, lt_storage **out);
int lt_storage_wrap(lt_backend *backend, void *data, int64_t bytes, void *owner, void (*release)(void *),
                    lt_storage **out);
void lt_storage_free(lt_storage *s);
static inline lt_storage *lt_storage_retain(lt_storage *s) {
  atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
  return s;
}
static inline void lt_storage_release(lt_storage *s) {
  if (s && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1) lt_storage_free(s);
}

/* ---- tensor.c ---- */
int lt_tensor_new(lt_backend *backend, int dtype, int ndim, const int64_t *shape, lt_tensor **out); /* one reference */
int lt_tensor_like(const lt_tensor *t, lt_tensor **out); /* contiguous, same shape and dtype */
int lt_tensor_view(lt_tensor *base, int ndim, const int64_t *shape, const int64_t *stride, int64_t offset,
                   lt_tensor **out);                            /* offset: elements from the storage's start */
int lt_tensor_alias(lt_tensor *t, lt_tensor **out);             /* same view, no history */
int lt_tensor_scalar(double value, int dtype, lt_tensor **out); /* a number as a host tensor, is_scalar */
void lt_tensor_destroy(lt_tensor *t);
static inline lt_tensor *lt_tensor_retain(lt_tensor *t) {
  if (t) atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
  return t;
}
static inline void lt_tensor_release(lt_tensor *t) {
  if (t && atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) == 1) lt_tensor_destroy(t);
}
void lt_own(lt_tensor *t, lt_handle *out);           /* turns one reference into a handle */
int lt_resolve(const lt_handle *h, lt_tensor **out); /* borrowed; checks the generation */
bool lt_tensor_is_contiguous(const lt_tensor *t);
static inline bool lt_same_shape(const lt_tensor *a, const lt_tensor *b) {
  if (a->ndim != b->ndim) return false;
  for (int d = 0; d < a->ndim; d++)
    if (a->shape[d] != b->shape[d]) return false;
  return true;
}
void lt_contiguous_strides(int ndim, const int64_t *shape, int64_t *stride);
static inline int64_t lt_size_of(int dtype) { /* lt_dtype_size without the call */
  return (int64_t)(0x11482284 >> (dtype * 4) & 0xf);
}
static inline void *lt_ptr(const lt_tensor *t) { return (char *)t->storage->data + t->offset * lt_size_of(t->dtype); }
const char *lt_shape_text(const lt_tensor *t); /* "[32, 784]"; eight texts alive at a time a thread */
const char *lt_dims_text(int ndim, const int64_t *shape);

/* ---- scope.c ---- */
void lt_scope_link(lt_tensor *t, lt_tensor *base); /* base: a view's or gradient's owner, or NULL */
void lt_scope_unlink(lt_tensor *t);
void lt_pool_lock(void); /* guards header pool and scope lists */
void lt_pool_unlock(void);
