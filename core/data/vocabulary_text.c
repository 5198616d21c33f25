/* Vocabularies as text, to be saved beside a model and read by people: one head line, then for a map one line
 * "count TAB value" an id, from id 2 on. Tabs, line ends and backslashes in values are escaped. Loading trusts nothing.
 */
#include "buffer.h"
#include "number.h"
#include "vocabulary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char magic[] = "ltrain-vocabulary 1";

static int put(lt_buffer *b, const char *text, int64_t n) {
  int64_t at = b->bytes;
  LT_TRY(lt_buffer_resize(b, at + n));
  memcpy((char *)b->data + at, text, (size_t)n);
  return LT_OK;
}

static int put_escaped(lt_buffer *b, const char *text, int64_t n) {
  for (int64_t i = 0, from = 0; i <= n; i++) {
    char letter = i == n            ? 0
                  : text[i] == '\\' ? '\\'
                  : text[i] == '\n' ? 'n'
                  : text[i] == '\t' ? 't'
                  : text[i] == '\r' ? 'r'
                                    : 0;
    if (i < n && !letter) continue;
    LT_TRY(put(b, text + from, i - from));
    if (letter) LT_TRY(put(b, (char[]){'\\', letter}, 2));
    from = i + 1;
  }
  return LT_OK;
}

static int save(const lt_vocabulary *v, lt_buffer *b) {
  char head[160];
  int n;
  if (v->kind == LT_VOCABULARY_MAP)
    n = snprintf(head, sizeof head, "%s map %" PRId64 " %" PRId64 " %" PRId64 "\t", magic, v->min_count, v->dropped,
                 v->values->count);
  else
    n = snprintf(head, sizeof head, "%s %s %" PRId64 " %" PRIu64 " 0\t", magic,
                 v->kind == LT_VOCABULARY_HASH ? "hash" : "whole", v->buckets, v->seed);
  LT_TRY(put(b, head, n));
  LT_TRY(put_escaped(b, v->name, (int64_t)strlen(v->name)));
  LT_TRY(put(b, "\n", 1));
  if (v->kind != LT_VOCABULARY_MAP) return LT_OK;
  for (int64_t code = 0; code < v->values->count; code++) {
    int64_t length;
    const char *text = lt_strings_text(v->values, code, &length);
    n = snprintf(head, sizeof head, "%" PRId64 "\t", v->values->uses[code]);
    LT_TRY(put(b, head, n));
    LT_TRY(put_escaped(b, text, length));
    LT_TRY(put(b, "\n", 1));
  }
  return LT_OK;
}

int lt_vocabulary_save(const lt_vocabulary *v, lt_buffer **out) {
  lt_buffer *b;
  LT_TRY(lt_buffer_new(0, &b));
  int status = save(v, b);
  if (status < 0) return lt_buffer_release(b), status;
  *out = b;
  return LT_OK;
}

typedef struct lines {
  const char *at, *end;
  int64_t number; /* of the line last read */
} lines;

static int broken(const lines *l, const char *what) {
  return lt_fail(LT_ERR_FORMAT, "vocabulary load: line %lld: %s; the text was cut or edited", (long long)l->number,
                 what);
}

static int next_line(lines *l, const char **text, int64_t *n) {
  l->number++;
  const char *feed = memchr(l->at, '\n', (size_t)(l->end - l->at));
  if (!feed) return broken(l, l->at == l->end ? "missing" : "has no end");
  *text = l->at, *n = feed - l->at;
  l->at = feed + 1;
  return LT_OK;
}

static int unescape(lines *l, const char *from, int64_t n, char *to, int64_t *length) {
  int64_t at = 0;
  for (int64_t i = 0; i < n; i++) {
    char c = from[i];
    if (c == '\\') {
      c = ++i < n ? from[i] : 0;
      if (c == 'n')
        c = '\n';
      else if (c == 't')
        c = '\t';
      else if (c == 'r')
        c = '\r';
      else if (c != '\\')
        return broken(l, "an escape that is none of \\\\ \\n \\t \\r");
    }
    to[at++] = c;
  }
  to[at] = 0;
  *length = at;
  return LT_OK;
}

static int load_values(lines *l, lt_vocabulary *v, int64_t count, char *scratch) {
  for (int64_t i = 0; i < count; i++) {
    const char *text;
    int64_t n, uses, length;
    LT_TRY(next_line(l, &text, &n));
    const char *tab = memchr(text, '\t', (size_t)n);
    if (!tab || lt_number_int64(text, tab - text, &uses) || uses < 0) return broken(l, "no count before a tab");
    LT_TRY(unescape(l, tab + 1, n - (tab + 1 - text), scratch, &length));
    LT_TRY(lt_vocabulary_add(v, scratch, length, uses));
  }
  if (l->at != l->end) return l->number++, broken(l, "more lines than the first line says");
  return LT_OK;
}

static int load(lines *l, char *scratch, lt_vocabulary **out) {
  const char *text;
  int64_t n, length, numbers[2], count;
  uint64_t second;
  char head[160], kind[8];
  int used = 0;
  LT_TRY(next_line(l, &text, &n));
  const char *tab = memchr(text, '\t', (size_t)n);
  if (!tab || tab - text >= (int64_t)sizeof head || strncmp(text, magic, sizeof magic - 1))
    return broken(l, "does not begin with \"ltrain-vocabulary 1\"");
  memcpy(head, text, (size_t)(tab - text));
  head[tab - text] = 0;
  if (sscanf(head + sizeof magic - 1, " %7[a-z] %" SCNd64 " %" SCNu64 " %" SCNd64 "%n", kind, &numbers[0], &second,
             &count, &used) != 4 ||
      head[sizeof magic - 1 + (size_t)used])
    return broken(l, "a kind and three numbers should follow");
  LT_TRY(unescape(l, tab + 1, n - (tab + 1 - text), scratch, &length));
  if (strcmp(kind, "hash") == 0) {
    LT_TRY(lt_vocabulary_hash(scratch, numbers[0], 0, out));
    (*out)->seed = second;
    return LT_OK;
  }
  if (strcmp(kind, "whole") == 0) return lt_vocabulary_whole(scratch, numbers[0], out);
  if (strcmp(kind, "map")) return broken(l, "the kind is none of map, hash, whole");
  LT_TRY(lt_vocabulary_new(scratch, numbers[0], out));
  (*out)->dropped = (int64_t)second;
  return load_values(l, *out, count, scratch);
}

int lt_vocabulary_load(const char *text, int64_t length, lt_vocabulary **out) {
  lines l = {.at = text, .end = text + length};
  char *scratch = malloc((size_t)length + 1);
  if (!scratch) return lt_fail(LT_ERR_MEMORY, "vocabulary load: no memory");
  lt_vocabulary *v = NULL;
  int status = load(&l, scratch, &v);
  free(scratch);
  if (status < 0) return lt_vocabulary_release(v), status;
  *out = v;
  return LT_OK;
}
