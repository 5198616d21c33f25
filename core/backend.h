/* A device as a table of functions. Operators reach memory and kernels through it and never name a device themselves.
 * Streams and events exist from the first day: the CPU's are trivial, but callers already order releases by them. */
#pragma once
#include "tensor.h"

struct lt_args;
typedef int (*lt_kernel)(struct lt_args *call);

struct lt_backend {
  const char *name;
  int index;         /* what lt_attr.device holds */
  bool host_visible; /* data pointers may be read by the host */
  int (*alloc)(lt_backend *self, int64_t bytes, lt_storage **out);
  void (*release)(lt_backend *self, lt_storage *s); /* ordered after work already queued */
  int (*copy_in)(lt_backend *self, void *device, const void *host, int64_t bytes);
  int (*copy_out)(lt_backend *self, void *host, const void *device, int64_t bytes);
  int (*synchronize)(lt_backend *self);
  int (*event_record)(lt_backend *self, void **event); /* optional: NULL where work is done on return */
  int (*event_wait)(lt_backend *self, void *event);    /* optional, as above */
  lt_kernel (*kernel)(lt_backend *self, int op);       /* NULL: this device has none */
};

lt_backend *lt_backend_cpu(void);
int lt_backend_get(int index, lt_backend **out); /* by number, opening a plug-in at first use */
