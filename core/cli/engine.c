/* Loads libltrain.so, instead of being linked with it, so that the OpenMP runtime behind it finds its settings: it
 * reads the environment in its constructor. What matters is how long an idle thread spins before it sleeps. The
 * runtime's default is milliseconds, and on a machine shared with other work the threads then burn each other's time
 * (seen: steps 50 times slower); ours covers the gaps inside a step. */
#include "host.h"
#include "ltrain.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
  const char *(*version)(void);
  int (*interrupted)(void);
  void (*request)(void), (*clear)(void);
} engine;

static bool find(void *library, const char *name, void *slot) {
  void *symbol = dlsym(library, name);
  memcpy(slot, &symbol, sizeof symbol); /* an object pointer into a function pointer, as POSIX allows */
  return symbol != NULL;
}

bool engine_load(const char *exe) {
  char path[PATH_MAX + 16];
  const char *slash = strrchr(exe, '/');
  if (!getenv("OMP_WAIT_POLICY")) setenv("GOMP_SPINCOUNT", "3000", 0);
  snprintf(path, sizeof path, "%.*s/libltrain.so", slash ? (int)(slash - exe) : 0, exe);
  void *library = dlopen(path, RTLD_LAZY | RTLD_GLOBAL); /* global: Lua finds its symbols through ffi.C */
  if (library && find(library, "lt_version", &engine.version) && find(library, "lt_interrupted", &engine.interrupted) &&
      find(library, "lt_interrupt_request", &engine.request) && find(library, "lt_interrupt_clear", &engine.clear))
    return true;
  fprintf(stderr, "ltrain: %s; build or install again\n", dlerror());
  return false;
}

const char *lt_version(void) { return engine.version(); }
int lt_interrupted(void) { return engine.interrupted(); }
void lt_interrupt_request(void) { engine.request(); }
void lt_interrupt_clear(void) { engine.clear(); }
