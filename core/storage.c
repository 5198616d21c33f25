/* Storages: counted bytes that tensors view. On the CPU a storage and its data are one block of the allocator. */
#include "backend.h"

enum { HEADER = 64 };
_Static_assert(sizeof(lt_storage) <= HEADER, "a storage's struct must fit in front of its data");

int lt_storage_new(lt_backend *backend, int64_t bytes, lt_storage **out) { return backend->alloc(backend, bytes, out); }

int lt_storage_wrap(lt_backend *backend, void *data, int64_t bytes, void *owner, void (*release)(void *),
                    lt_storage **out) {
  lt_storage *s = lt_alloc(HEADER);
  if (!s) return LT_ERR_MEMORY;
  *s = (lt_storage){
      .refs = 1, .backend = backend, .data = data, .bytes = bytes, .owner = owner, .release = release, .block = HEADER};
  atomic_fetch_add(&lt_live_storages, 1);
  *out = s;
  return LT_OK;
}

void lt_storage_free(lt_storage *s) {
  atomic_fetch_sub(&lt_live_storages, 1);
  if (s->owner) {
    if (s->release) s->release(s->owner);
    lt_free(s, s->block);
  } else {
    s->backend->release(s->backend, s);
  }
}
