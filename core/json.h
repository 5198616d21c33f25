/* Strict JSON for files that may be hostile, in front of cJSON: cJSON recurses, keeps numbers as doubles, takes control
 * characters and NULs in strings and repeated keys. So the text is checked here first, without recursion, and cJSON
 * only sees checked pieces. Keys that repeat are the caller's to find (it has the list). */
#pragma once
#include "error.h"

struct cJSON;

typedef struct lt_json_slice {
  const char *text; /* not terminated */
  int64_t n;
} lt_json_slice;

/* Grammar of RFC 8259, UTF-8, no "\u0000", no lone surrogate, nesting <= max_depth, numbers of <= 40 characters. The
 * message is "what: byte 17: ..." (bytes counted from 0). */
int lt_json_check(const char *what, lt_json_slice json, int max_depth);
/* Walks the members of a checked object: *cursor starts at 0. False at the end. The key keeps its quotes. */
bool lt_json_next(lt_json_slice object, int64_t *cursor, lt_json_slice *key, lt_json_slice *value);
/* A checked string, unescaped; NULL when memory is out. Freed with free(). */
char *lt_json_string(lt_json_slice string);
/* A checked piece as a tree; NULL when memory is out. Freed with cJSON_Delete. */
struct cJSON *lt_json_tree(lt_json_slice json);
/* A number of the tree as an integer in 0 .. 2^53 - 1, where doubles are exact. */
bool lt_json_count(const struct cJSON *number, int64_t *out);
/* Length of the UTF-8 character at p (n bytes are left), 0: not UTF-8. */
int lt_utf8_length(const char *p, int64_t n);
