/* The ordered pool behind the CSV reader and the batcher. Two locks: `source` lets one thread at a time take, which may
 * read a file; `state` guards the queue and is held for moments. Taking and queueing happen under `source`, so that the
 * queue has the source's order. Everybody blocks on conditions; the consumer looks up every 50 ms for Ctrl-C. */
#include "ordered.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <xmmintrin.h>

typedef struct worker {
  lt_ordered *owner;
  int index;
  pthread_t thread;
} worker;

struct lt_ordered {
  lt_source source;
  int threads;
  int64_t max_bytes;
  worker *workers;
  pthread_mutex_t source_lock, state;
  pthread_cond_t space, ready; /* room for one more item; the oldest item is done, or there will be none */
  lt_item *head, *tail;
  int64_t bytes; /* held by queued items */
  int closing, ended;
  int64_t waits;
  double waited;
};

enum { DEFAULT_CSR = 0x1f80 }; /* parsers need denormals, whatever the compute threads set */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static lt_item *take_and_queue(lt_ordered *o, int index) {
  lt_item *item = NULL;
  pthread_mutex_lock(&o->state);
  while (!o->closing && !o->ended && o->head && o->bytes >= o->max_bytes) pthread_cond_wait(&o->space, &o->state);
  int stop = o->closing || o->ended;
  pthread_mutex_unlock(&o->state);
  if (!stop) o->source.take(o->source.context, index, &item);
  pthread_mutex_lock(&o->state);
  if (item) {
    item->next = NULL, item->done = 0;
    if (o->head)
      o->tail->next = item;
    else
      o->head = item;
    o->tail = item;
    o->bytes += item->bytes;
  } else {
    o->ended = 1;
    pthread_cond_signal(&o->ready);
    pthread_cond_broadcast(&o->space);
  }
  pthread_mutex_unlock(&o->state);
  return item;
}

static void *worker_main(void *argument) {
  worker *w = argument;
  lt_ordered *o = w->owner;
  _mm_setcsr(DEFAULT_CSR);
  for (;;) {
    pthread_mutex_lock(&o->source_lock);
    lt_item *item = take_and_queue(o, w->index);
    pthread_mutex_unlock(&o->source_lock);
    if (!item) return NULL;
    o->source.work(o->source.context, w->index, item);
    pthread_mutex_lock(&o->state);
    item->done = 1;
    if (item == o->head) pthread_cond_signal(&o->ready);
    pthread_mutex_unlock(&o->state);
  }
}

int lt_thread_start(pthread_t *thread, void *(*main)(void *), void *argument) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(thread, NULL, main, argument);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return error;
}

static int start_worker(lt_ordered *o, int index) {
  worker *w = &o->workers[index];
  *w = (worker){.owner = o, .index = index};
  if (lt_thread_start(&w->thread, worker_main, w))
    return lt_fail(LT_ERR_MEMORY, "data: cannot start reader thread %d; use fewer threads", index + 1);
  o->threads = index + 1;
  return LT_OK;
}

int lt_ordered_new(const lt_source *source, int threads, int64_t max_bytes, lt_ordered **out) {
  lt_ordered *o = calloc(1, sizeof *o);
  worker *workers = calloc((size_t)threads + 1, sizeof *workers);
  if (!o || !workers) {
    free(o), free(workers);
    return lt_fail(LT_ERR_MEMORY, "data: no memory for %d reader threads", threads);
  }
  o->source = *source, o->max_bytes = max_bytes, o->workers = workers;
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_mutex_init(&o->source_lock, NULL);
  pthread_mutex_init(&o->state, NULL);
  pthread_cond_init(&o->space, NULL);
  pthread_cond_init(&o->ready, &monotonic);
  pthread_condattr_destroy(&monotonic);
  for (int i = 0; i < threads; i++) {
    int status = start_worker(o, i);
    if (status < 0) return lt_ordered_close(o), status;
  }
  *out = o;
  return LT_OK;
}

static int wait_for_head(lt_ordered *o) {
  double start = now();
  int waited = 0;
  while (!(o->head && o->head->done) && !(o->ended && !o->head)) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 50 * 1000 * 1000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    waited = 1;
    pthread_cond_timedwait(&o->ready, &o->state, &until);
    if (lt_interrupted()) return LT_ERR_INTERRUPT;
  }
  if (waited) o->waits++, o->waited += now() - start;
  return LT_OK;
}

static int interrupted(void) { return lt_fail(LT_ERR_INTERRUPT, "data: interrupted while waiting for rows"); }

int lt_ordered_next(lt_ordered *o, lt_item **out) {
  *out = NULL;
  if (o->threads == 0) {
    if (o->ended) return LT_OK;
    if (lt_interrupted()) return interrupted();
    unsigned csr = _mm_getcsr();
    _mm_setcsr(DEFAULT_CSR);
    o->source.take(o->source.context, 0, out);
    if (*out)
      o->source.work(o->source.context, 0, *out);
    else
      o->ended = 1;
    _mm_setcsr(csr);
    return LT_OK;
  }
  pthread_mutex_lock(&o->state);
  if (wait_for_head(o) < 0) {
    pthread_mutex_unlock(&o->state);
    return interrupted();
  }
  lt_item *item = o->head;
  if (item) {
    o->head = item->next;
    o->bytes -= item->bytes;
    pthread_cond_signal(&o->space);
  }
  pthread_mutex_unlock(&o->state);
  *out = item;
  return LT_OK;
}

void lt_ordered_close(lt_ordered *o) {
  if (!o) return;
  pthread_mutex_lock(&o->state);
  o->closing = 1;
  pthread_cond_broadcast(&o->space);
  pthread_mutex_unlock(&o->state);
  if (o->source.cancel) o->source.cancel(o->source.context);
  for (int i = 0; i < o->threads; i++) pthread_join(o->workers[i].thread, NULL);
  while (o->head) {
    lt_item *item = o->head;
    o->head = item->next;
    o->source.drop(o->source.context, item);
  }
  pthread_mutex_destroy(&o->source_lock);
  pthread_mutex_destroy(&o->state);
  pthread_cond_destroy(&o->space);
  pthread_cond_destroy(&o->ready);
  free(o->workers);
  free(o);
}

void lt_ordered_waits(lt_ordered *o, int64_t *consumer_waits, double *consumer_seconds) {
  *consumer_waits = o->waits;
  *consumer_seconds = o->waited;
}
