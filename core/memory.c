/* The caching allocator: blocks by size class, kept for reuse, counted live, peak and by class. A steady training step
 * finds every block in a list and never reaches the system. Blocks of 2 MiB and more are aligned to huge pages.
 * The surprising idea: pacing. The script's collector cannot see tensor memory, so when live bytes have grown well past
 * what survived the last collection, calls answer LT_GC_DUE and the Lua side collects. */
#include "tensor.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SMALL_CLASSES = 64, CLASSES = SMALL_CLASSES + 4 * 36 };
static const int64_t HUGE_PAGE = 2 << 20, PACING_FLOOR = 256 << 20;

typedef struct block {
  struct block *next;
} block;
static struct {
  block *free;
  int64_t n_free, n_live;
} classes[CLASSES];
static lt_spin lock; /* held for a few loads and stores; a refill from the system is rare */
static int64_t live, peak, cached, foreign, system_allocations, allocations, collect_above = PACING_FLOOR;
static int64_t limit;
_Atomic int64_t lt_live_tensors, lt_live_storages, lt_live_nodes, lt_pool_headers;

/* 64-byte steps up to 4 KiB, then four steps to each doubling. */
static int class_of(int64_t bytes) {
  if (bytes <= 4096) return bytes <= 64 ? 0 : (int)((bytes + 63) / 64) - 1;
  int log = 63 - __builtin_clzll((unsigned long long)(bytes - 1)); /* 2^log < bytes <= 2^(log+1) */
  int64_t step = (int64_t)1 << (log - 2);
  return SMALL_CLASSES + (log - 12) * 4 + (int)((bytes - 1 - ((int64_t)1 << log)) / step);
}
static int64_t class_bytes(int c) {
  if (c < SMALL_CLASSES) return (int64_t)(c + 1) * 64;
  int log = 12 + (c - SMALL_CLASSES) / 4;
  return ((int64_t)1 << log) + ((c - SMALL_CLASSES) % 4 + 1) * ((int64_t)1 << (log - 2));
}

/* Limits far beyond any memory stay where sums of sizes do not overflow. */
static int64_t in_range(double bytes) { return bytes < 0x1p60 ? (int64_t)bytes : (int64_t)1 << 60; }

/* LTRAIN_MEMORY_MIB, or the smaller of the machine's memory and the control group's limit (version 2, then 1). */
static int64_t machine_limit(void) {
  double mib = lt_env_number("LTRAIN_MEMORY_MIB");
  if (mib > 0) return in_range(mib * 1048576);
  int64_t bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  const char *files[] = {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
  for (int i = 0; i < 2; i++) {
    FILE *f = fopen(files[i], "re");
    long long value;
    if (!f) continue;
    if (fscanf(f, "%lld", &value) == 1 && value > 0 && value < bytes) bytes = value;
    fclose(f);
  }
  return bytes;
}

static void trim_locked(void) {
  for (int c = 0; c < CLASSES; c++) {
    for (block *b = classes[c].free, *next; b; b = next) {
      next = b->next;
      free(b);
    }
    cached -= classes[c].n_free * class_bytes(c);
    classes[c].free = NULL;
    classes[c].n_free = 0;
  }
  malloc_trim(0);
}

static int fail_memory(int64_t bytes) {
  int64_t fits = limit - live - foreign;
  return lt_fail(LT_ERR_MEMORY,
                 "out of memory: a block of %.1f MiB was asked for; live %.1f MiB, peak %.1f MiB, limit %.1f MiB, so "
                 "at most %.1f MiB would fit; use a smaller batch or model, or raise LTRAIN_MEMORY_MIB",
                 bytes / 1048576.0, (live + foreign) / 1048576.0, peak / 1048576.0, limit / 1048576.0,
                 (fits > 0 ? fits : 0) / 1048576.0);
}

/* not aligned_alloc: its sizes must be multiples of the alignment */
static void *from_system(int64_t size) {
  void *p;
  return posix_memalign(&p, size >= HUGE_PAGE ? (size_t)HUGE_PAGE : 64, (size_t)size) == 0 ? p : NULL;
}

void *lt_alloc(int64_t bytes) {
  if (bytes < 1) bytes = 1;
  if (bytes > (int64_t)1 << 46) {
    lt_spin_lock(&lock);
    fail_memory(bytes);
    lt_spin_unlock(&lock);
    return NULL;
  }
  int c = class_of(bytes);
  int64_t size = class_bytes(c);
  lt_spin_lock(&lock);
  block *b = classes[c].free;
  if (b) {
    classes[c].free = b->next;
    classes[c].n_free--;
    cached -= size;
  } else {
    if (!limit) limit = machine_limit();
    if (live + foreign + cached + size > limit) trim_locked();
    if (live + foreign + size <= limit) {
      b = from_system(size);
      if (!b && cached) {
        trim_locked();
        b = from_system(size);
      }
    }
    if (!b) {
      fail_memory(bytes);
      lt_spin_unlock(&lock);
      return NULL;
    }
    system_allocations++;
    if (size >= HUGE_PAGE) madvise(b, (size_t)size, MADV_HUGEPAGE);
  }
  classes[c].n_live++;
  allocations++;
  live += size;
  if (live + foreign > peak) peak = live + foreign;
  lt_spin_unlock(&lock);
  return b;
}

void lt_free(void *p, int64_t bytes) {
  if (!p) return;
  int c = class_of(bytes < 1 ? 1 : bytes);
  int64_t size = class_bytes(c);
  lt_spin_lock(&lock);
  block *b = p;
  b->next = classes[c].free;
  classes[c].free = b;
  classes[c].n_free++;
  classes[c].n_live--;
  cached += size;
  live -= size;
  lt_spin_unlock(&lock);
}

void lt_count_bytes(int64_t bytes) {
  lt_spin_lock(&lock);
  foreign += bytes;
  if (live + foreign > peak) peak = live + foreign;
  lt_spin_unlock(&lock);
}

bool lt_gc_due(void) { return live + foreign > collect_above; } /* a stale read only delays the collection */

void lt_memory_collected(void) {
  lt_spin_lock(&lock);
  if (!limit) limit = machine_limit();
  int64_t floor = limit / 8 > PACING_FLOOR * 4 ? PACING_FLOOR * 4 : PACING_FLOOR;
  collect_above = live + foreign + (live + foreign) / 2 + floor;
  lt_spin_unlock(&lock);
}

void lt_memory(lt_memory_stats *out) {
  lt_spin_lock(&lock);
  if (!limit) limit = machine_limit();
  int64_t idle = (lt_pool_headers - lt_live_tensors) * (int64_t)sizeof(lt_tensor); /* headers waiting for reuse */
  *out = (lt_memory_stats){.live = (double)(live + foreign - idle),
                           .peak = (double)peak,
                           .cached = (double)(cached + idle),
                           .limit = (double)limit,
                           .system_allocations = (double)system_allocations,
                           .allocations = (double)allocations,
                           .tensors = (double)lt_live_tensors,
                           .storages = (double)lt_live_storages,
                           .nodes = (double)lt_live_nodes};
  lt_spin_unlock(&lock);
}

int lt_memory_class(int index, double *size, double *n_live, double *n_cached) {
  if (index < 0 || index >= CLASSES) return 0;
  lt_spin_lock(&lock);
  *size = (double)class_bytes(index);
  *n_live = (double)classes[index].n_live;
  *n_cached = (double)classes[index].n_free;
  lt_spin_unlock(&lock);
  return 1;
}

void lt_memory_reset_peak(void) {
  lt_spin_lock(&lock);
  peak = live + foreign;
  lt_spin_unlock(&lock);
}

void lt_memory_trim(void) {
  lt_spin_lock(&lock);
  trim_locked();
  lt_spin_unlock(&lock);
}

void lt_memory_set_limit(double bytes) {
  lt_spin_lock(&lock);
  limit = bytes > 0 ? in_range(bytes) : machine_limit();
  lt_spin_unlock(&lock);
}
