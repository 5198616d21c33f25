/* Counted, 64-byte aligned memory: what columns, batches and idx files are read into, and what a tensor may adopt
 * (lt_from_memory with lt_buffer_release). Big buffers are mappings of their own: growing them moves no bytes. */
#pragma once
#include "error.h"

#include <stdatomic.h>

/* Buffers of one size that come back when their last reader lets go, so that a steady stream allocates nothing. */
typedef struct lt_buffer_pool lt_buffer_pool;

struct lt_buffer {
  atomic_int refs;
  int mapped;       /* 1: from mmap, else from aligned_alloc */
  int64_t bytes;    /* in use */
  int64_t capacity; /* allocated */
  void *data;
  lt_buffer_pool *pool;   /* where it returns to; NULL: freed */
  struct lt_buffer *next; /* in the pool's free list */
};

/* Makes room for `bytes` and sets the size; contents up to the old size stay. The caller holds the only reference. */
int lt_buffer_resize(lt_buffer *b, int64_t bytes);

int lt_buffer_pool_new(lt_buffer_pool **out);
int lt_buffer_pool_take(lt_buffer_pool *pool, int64_t bytes, lt_buffer **out);
void lt_buffer_pool_close(lt_buffer_pool *pool); /* buffers still out are freed as they come back */
