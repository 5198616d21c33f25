/* Threads that make a stream of items whose order never depends on them: each takes the next piece of the source (one
 * at a time, in order), works on it beside the others, and the consumer gets the results in the order they were taken.
 * Bounded by the bytes of items that are made but not yet consumed. With 0 threads the consumer does the work itself.
 */
#pragma once
#include "error.h"

#include <pthread.h>

/* Starts a thread that takes no signals: they are the main thread's, whose handlers reach into Lua. 0: it runs. */
int lt_thread_start(pthread_t *thread, void *(*main)(void *), void *argument);

typedef struct lt_item {
  struct lt_item *next; /* the rest belongs to ordered.c */
  int done;
  int64_t bytes; /* set by take: what it holds until it is consumed */
} lt_item;

typedef struct lt_source {
  void *context;
  /* The next item, *out = NULL: no more. One thread at a time; a failure belongs into an item, at its place. */
  void (*take)(void *context, int worker, lt_item **out);
  void (*work)(void *context, int worker, lt_item *item); /* many threads at a time */
  void (*drop)(void *context, lt_item *item);             /* frees one that nobody will consume */
  void (*cancel)(void *context);                          /* ends a take that waits; NULL: takes never wait long */
} lt_source;

typedef struct lt_ordered lt_ordered;

int lt_ordered_new(const lt_source *source, int threads, int64_t max_bytes, lt_ordered **out);
/* The next item, the caller's from now on; *out = NULL: the end. LT_ERR_INTERRUPT when Ctrl-C comes while waiting. */
int lt_ordered_next(lt_ordered *o, lt_item **out);
void lt_ordered_close(lt_ordered *o); /* stops and joins the threads, drops what is left */
void lt_ordered_waits(lt_ordered *o, int64_t *consumer_waits, double *consumer_seconds);
