/* How C reports failure: a negative status and a message in a thread-local buffer.
 * Every function that can fail returns int: 0 done, < 0 one of lt_status, > 0 done and a collection is due.
 * The message is written where the failure is seen, in the user's terms: "op: fact with the values; rule or remedy". */
#pragma once
#include "ltrain.h"

/* Writes the message (printf rules). A failing line reads `return lt_fail(LT_ERR_SHAPE, "...", ...)`; a macro, so that
 * the compiler sees the negative constant and knows that out-pointers are not read afterwards. */
void lt_fail_message(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define lt_fail(code, ...) (lt_fail_message(__VA_ARGS__), (code))
/* Puts "prefix: " before the message of a failure that is passing through. Returns `code`. */
int lt_fail_in(int code, const char *prefix);

#define LT_TRY(expr)                                                                                                   \
  do {                                                                                                                 \
    int status_ = (expr);                                                                                              \
    if (status_ < 0) return status_;                                                                                   \
  } while (0)
