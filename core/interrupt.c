/* The one flag behind Ctrl-C. The program's signal handler raises it (cli/interrupt.c); long C loops poll it between
 * chunks and return LT_ERR_INTERRUPT; whoever takes the interrupt in hand (the program's top level, the REPL, a
 * training loop that stops at a step) clears it. It stays up in between, so that a pcall cannot swallow it. */
#include "ltrain.h"

#include <stdatomic.h>

static atomic_int requested; /* lock-free, so a signal handler may touch it */

int lt_interrupted(void) { return atomic_load_explicit(&requested, memory_order_relaxed); }

void lt_interrupt_request(void) { atomic_store_explicit(&requested, 1, memory_order_relaxed); }

void lt_interrupt_clear(void) { atomic_store_explicit(&requested, 0, memory_order_relaxed); }
