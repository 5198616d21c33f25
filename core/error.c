/* The thread-local message behind a negative status. Nothing here allocates, so that out of memory can be reported. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[2048];

void lt_fail_message(const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
}

int lt_fail_in(int code, const char *prefix) {
  size_t add = strlen(prefix) + 2, old = strlen(message);
  if (add >= sizeof message) return code;
  if (old + add >= sizeof message) old = sizeof message - add - 1;
  memmove(message + add, message, old);
  message[add + old] = 0;
  memcpy(message, prefix, add - 2);
  memcpy(message + add - 2, ": ", 2);
  return code;
}

const char *lt_last_error(void) { return message; }
