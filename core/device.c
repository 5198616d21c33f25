/* The list of devices and the CPU's entry in it. Its streams are trivial: work is done when a call returns. */
#include "op.h"

static int cpu_alloc(lt_backend *self, int64_t bytes, lt_storage **out) {
  int64_t block = 64 + (bytes > 0 ? bytes : 1);
  lt_storage *s = bytes < 0 ? NULL : lt_alloc(block);
  if (!s) return bytes < 0 ? lt_fail(LT_ERR_MEMORY, "out of memory: the tensor's size overflows") : LT_ERR_MEMORY;
  *s = (lt_storage){.refs = 1, .backend = self, .data = (char *)s + 64, .bytes = bytes, .block = block};
  atomic_fetch_add_explicit(&lt_live_storages, 1, memory_order_relaxed);
  *out = s;
  return LT_OK;
}
static void cpu_release(lt_backend *self, lt_storage *s) {
  (void)self;
  lt_free(s, s->block);
}
static int cpu_copy(lt_backend *self, void *to, const void *from, int64_t bytes) {
  (void)self;
  memcpy(to, from, (size_t)bytes);
  return LT_OK;
}
static int cpu_synchronize(lt_backend *self) {
  (void)self;
  return LT_OK;
}
static lt_kernel cpu_kernel(lt_backend *self, int op) {
  (void)self;
  return lt_op_at(op)->cpu;
}

static lt_backend cpu = {.name = "cpu",
                         .index = 0,
                         .host_visible = true,
                         .alloc = cpu_alloc,
                         .release = cpu_release,
                         .copy_in = cpu_copy,
                         .copy_out = cpu_copy,
                         .synchronize = cpu_synchronize,
                         .kernel = cpu_kernel};
static lt_backend *backends[] = {&cpu};

lt_backend *lt_backend_cpu(void) { return &cpu; }

int lt_backend_get(int index, lt_backend **out) {
  if (index < 0 || index >= (int)(sizeof backends / sizeof *backends))
    return lt_fail(LT_ERR_DEVICE, "device: there is no device %d; this build has: cpu", index);
  *out = backends[index];
  return LT_OK;
}
