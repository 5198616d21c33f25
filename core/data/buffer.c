/* Reference-counted buffers and the pool that recycles those of a stream of batches.
 * From 1 MiB on a buffer is a mapping of its own (huge pages asked for), grown by mremap: the pages move, not the
 * bytes. A pooled buffer outlives its pool: the pool is counted too, by every buffer that is out. */
#include "buffer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 64, PAGE = 4096, MAPPED_FROM = 1 << 20 };

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

static int no_memory(int64_t bytes) {
  return lt_fail(LT_ERR_MEMORY, "data: no memory for a buffer of %lld bytes; read fewer rows or columns at once",
                 (long long)bytes);
}

static int allocate(lt_buffer *b, int64_t bytes) {
  b->mapped = bytes >= MAPPED_FROM;
  b->capacity = round_up(bytes > 0 ? bytes : 1, b->mapped ? PAGE : ALIGN);
  if (b->mapped) {
    b->data = mmap(NULL, (size_t)b->capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b->data == MAP_FAILED) return b->data = NULL, no_memory(bytes);
    madvise(b->data, (size_t)b->capacity, MADV_HUGEPAGE); /* advice: its failure costs speed only */
  } else {
    b->data = aligned_alloc(ALIGN, (size_t)b->capacity);
    if (!b->data) return no_memory(bytes);
  }
  return LT_OK;
}

static void deallocate(lt_buffer *b) {
  if (b->mapped)
    munmap(b->data, (size_t)b->capacity);
  else
    free(b->data);
}

int lt_buffer_new(int64_t bytes, lt_buffer **out) {
  if (bytes < 0 || bytes > INT64_MAX / 2)
    return lt_fail(LT_ERR_ARGUMENT, "data: a buffer of %lld bytes; sizes are from 0 to 2^62", (long long)bytes);
  lt_buffer *b = calloc(1, sizeof *b);
  if (!b) return no_memory(bytes);
  int status = allocate(b, bytes);
  if (status < 0) return free(b), status;
  if (!b->mapped) memset(b->data, 0, (size_t)b->capacity);
  atomic_init(&b->refs, 1);
  b->bytes = bytes;
  *out = b;
  return LT_OK;
}

int lt_buffer_resize(lt_buffer *b, int64_t bytes) {
  if (bytes <= b->capacity) return b->bytes = bytes, LT_OK;
  int64_t want = bytes > b->capacity + b->capacity / 2 ? bytes : b->capacity + b->capacity / 2;
  if (b->mapped) {
    want = round_up(want, PAGE);
    void *moved = mremap(b->data, (size_t)b->capacity, (size_t)want, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) return no_memory(bytes);
    b->data = moved, b->capacity = want;
  } else {
    lt_buffer grown = {0};
    LT_TRY(allocate(&grown, want));
    memcpy(grown.data, b->data, (size_t)b->bytes);
    free(b->data);
    b->data = grown.data, b->capacity = grown.capacity, b->mapped = grown.mapped;
  }
  b->bytes = bytes;
  return LT_OK;
}

struct lt_buffer_pool {
  pthread_mutex_t lock;
  int out;    /* buffers in somebody's hands */
  int closed; /* no more takers: free what comes back, and the pool with the last */
  lt_buffer *free;
};

int lt_buffer_pool_new(lt_buffer_pool **out) {
  lt_buffer_pool *pool = calloc(1, sizeof *pool);
  if (!pool) return lt_fail(LT_ERR_MEMORY, "data: no memory for a pool of buffers");
  pthread_mutex_init(&pool->lock, NULL);
  *out = pool;
  return LT_OK;
}

int lt_buffer_pool_take(lt_buffer_pool *pool, int64_t bytes, lt_buffer **out) {
  pthread_mutex_lock(&pool->lock);
  lt_buffer **best = NULL; /* the smallest that is big enough: batches ask for few sizes, again and again */
  for (lt_buffer **link = &pool->free; *link; link = &(*link)->next)
    if ((*link)->capacity >= bytes && (!best || (*link)->capacity < (*best)->capacity)) best = link;
  lt_buffer *b = best ? *best : NULL;
  if (b) *best = b->next;
  pool->out++;
  pthread_mutex_unlock(&pool->lock);
  if (b) {
    atomic_store(&b->refs, 1);
    b->bytes = bytes;
    *out = b;
    return LT_OK;
  }
  int status = lt_buffer_new(bytes, &b);
  if (status < 0) {
    pthread_mutex_lock(&pool->lock);
    pool->out--;
    pthread_mutex_unlock(&pool->lock);
    return status;
  }
  b->pool = pool;
  *out = b;
  return LT_OK;
}

static void destroy(lt_buffer *b) {
  deallocate(b);
  free(b);
}

static void pool_destroy(lt_buffer_pool *pool) {
  pthread_mutex_destroy(&pool->lock);
  free(pool);
}

void lt_buffer_pool_close(lt_buffer_pool *pool) {
  if (!pool) return;
  pthread_mutex_lock(&pool->lock);
  lt_buffer *list = pool->free;
  pool->free = NULL;
  pool->closed = 1;
  int last = pool->out == 0;
  pthread_mutex_unlock(&pool->lock);
  while (list) {
    lt_buffer *next = list->next;
    destroy(list);
    list = next;
  }
  if (last) pool_destroy(pool);
}

void lt_buffer_retain(lt_buffer *b) { atomic_fetch_add(&b->refs, 1); }

void lt_buffer_release(lt_buffer *b) {
  if (!b || atomic_fetch_sub(&b->refs, 1) != 1) return;
  lt_buffer_pool *pool = b->pool;
  if (!pool) return destroy(b);
  pthread_mutex_lock(&pool->lock);
  pool->out--;
  int keep = !pool->closed, last = pool->closed && pool->out == 0;
  if (keep) b->next = pool->free, pool->free = b;
  pthread_mutex_unlock(&pool->lock);
  if (!keep) destroy(b);
  if (last) pool_destroy(pool);
}

void *lt_buffer_data(const lt_buffer *b) { return b->data; }

int64_t lt_buffer_bytes(const lt_buffer *b) { return b->bytes; }
