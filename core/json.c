/* Checks JSON text before cJSON may see it (json.h says why). One loop over the bytes with a stack of one bit a level:
 * the expected token is a state, so that no input, however nested, costs stack or memory. */
#include "json.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 60, MAX_NUMBER = 40 };

int lt_utf8_length(const char *text, int64_t n) {
  const uint8_t *p = (const uint8_t *)text;
  if (n < 1) return 0;
  if (p[0] < 0x80) return 1;
  int length = p[0] >= 0xC2 && p[0] < 0xE0 ? 2 : p[0] >= 0xE0 && p[0] < 0xF0 ? 3 : p[0] >= 0xF0 && p[0] < 0xF5 ? 4 : 0;
  if (length == 0 || n < length) return 0;
  for (int i = 1; i < length; i++)
    if ((p[i] & 0xC0) != 0x80) return 0;
  if (p[0] == 0xE0 && p[1] < 0xA0) return 0; /* longer than needed */
  if (p[0] == 0xED && p[1] > 0x9F) return 0; /* a surrogate */
  if (p[0] == 0xF0 && p[1] < 0x90) return 0;
  if (p[0] == 0xF4 && p[1] > 0x8F) return 0; /* above U+10FFFF */
  return length;
}

typedef struct scanner {
  const char *what, *text;
  int64_t n, at;
} scanner;

static int bad(const scanner *s, int64_t at, const char *fact) {
  return lt_fail(LT_ERR_FORMAT, "%s: byte %lld: %s", s->what, (long long)at, fact);
}

static int64_t skip_space(lt_json_slice s, int64_t at) {
  while (at < s.n && (s.text[at] == ' ' || s.text[at] == '\n' || s.text[at] == '\t' || s.text[at] == '\r')) at++;
  return at;
}

/* Four hexadecimal digits at `at`, or -1. */
static int hex4(const scanner *s, int64_t at) {
  int value = 0;
  for (int i = 0; i < 4; i++) {
    char c = at + i < s->n ? s->text[at + i] : 0;
    int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

static int scan_escape(scanner *s) { /* at the backslash */
  char c = s->at + 1 < s->n ? s->text[s->at + 1] : 0;
  if (c && strchr("\"\\/bfnrt", c)) {
    s->at += 2;
    return LT_OK;
  }
  int code = c == 'u' ? hex4(s, s->at + 2) : -1;
  if (code < 0) return bad(s, s->at, "not an escape that JSON knows");
  if (code == 0) return bad(s, s->at, "\\u0000 in a string; names and texts here end at a zero byte");
  if (code >= 0xDC00 && code <= 0xDFFF) return bad(s, s->at, "half of a surrogate pair");
  if (code >= 0xD800 && code <= 0xDBFF) {
    bool pair = s->at + 7 < s->n && s->text[s->at + 6] == '\\' && s->text[s->at + 7] == 'u';
    int low = pair ? hex4(s, s->at + 8) : -1;
    if (low < 0xDC00 || low > 0xDFFF) return bad(s, s->at, "half of a surrogate pair");
    s->at += 6;
  }
  s->at += 6;
  return LT_OK;
}

static int scan_string(scanner *s) { /* at the opening quote */
  int64_t start = s->at++;
  while (s->at < s->n && s->text[s->at] != '"') {
    unsigned char c = (unsigned char)s->text[s->at];
    if (c < 0x20) return bad(s, s->at, "control character in a string; it has to be escaped");
    if (c == '\\') {
      LT_TRY(scan_escape(s));
      continue;
    }
    int length = lt_utf8_length(s->text + s->at, s->n - s->at);
    if (length == 0) return bad(s, s->at, "not UTF-8");
    s->at += length;
  }
  if (s->at == s->n) return bad(s, start, "string without an end");
  s->at++;
  return LT_OK;
}

static int64_t digits(const scanner *s, int64_t at) {
  while (at < s->n && s->text[at] >= '0' && s->text[at] <= '9') at++;
  return at;
}

static int scan_number(scanner *s) {
  int64_t start = s->at, at = start + (s->text[start] == '-'), whole = at;
  at = digits(s, at);
  bool ok = at > whole && (s->text[whole] != '0' || at == whole + 1);
  if (at < s->n && s->text[at] == '.') {
    int64_t fraction = at + 1;
    at = digits(s, fraction);
    ok = ok && at > fraction;
  }
  if (at < s->n && (s->text[at] | 32) == 'e') {
    at++;
    if (at < s->n && (s->text[at] == '+' || s->text[at] == '-')) at++;
    int64_t exponent = at;
    at = digits(s, at);
    ok = ok && at > exponent;
  }
  if (!ok) return bad(s, start, "not a number of JSON");
  if (at - start > MAX_NUMBER) return bad(s, start, "number of more than 40 characters");
  s->at = at;
  return LT_OK;
}

static int scan_word(scanner *s) {
  static const char *const words[] = {"true", "false", "null"};
  for (int i = 0; i < 3; i++) {
    int64_t n = (int64_t)strlen(words[i]);
    if (s->n - s->at >= n && !memcmp(s->text + s->at, words[i], (size_t)n)) {
      s->at += n;
      return LT_OK;
    }
  }
  return bad(s, s->at, "not a value of JSON");
}

int lt_json_check(const char *what, lt_json_slice json, int max_depth) {
  scanner s = {what, json.text, json.n, 0};
  enum { VALUE, VALUE_OR_END, KEY, KEY_OR_END, COLON, COMMA_OR_END } expect = VALUE;
  uint64_t objects = 0; /* bit d: the level d is an object */
  int depth = 0;
  if (max_depth > MAX_DEPTH) max_depth = MAX_DEPTH;
  for (;;) {
    s.at = skip_space(json, s.at);
    if (depth == 0 && expect == COMMA_OR_END) {
      return s.at == s.n ? LT_OK : bad(&s, s.at, "more text after the end of the value");
    }
    if (s.at == s.n) return bad(&s, s.at, "the text ends in the middle of a value");
    char c = s.text[s.at];
    bool in_object = objects >> depth & 1;
    if ((expect == KEY_OR_END || (expect == COMMA_OR_END && in_object)) && c == '}') {
      s.at++, depth--, expect = COMMA_OR_END;
    } else if ((expect == VALUE_OR_END || (expect == COMMA_OR_END && !in_object)) && c == ']') {
      s.at++, depth--, expect = COMMA_OR_END;
    } else if (expect == COMMA_OR_END) {
      if (c != ',') return bad(&s, s.at, in_object ? "expected ',' or '}'" : "expected ',' or ']'");
      s.at++, expect = in_object ? KEY : VALUE;
    } else if (expect == COLON) {
      if (c != ':') return bad(&s, s.at, "expected ':' after the key");
      s.at++, expect = VALUE;
    } else if (expect == KEY || expect == KEY_OR_END) {
      if (c != '"') return bad(&s, s.at, "expected a key in double quotes");
      LT_TRY(scan_string(&s));
      expect = COLON;
    } else if (c == '{' || c == '[') {
      if (++depth > max_depth) return bad(&s, s.at, "nested too deeply");
      objects = (objects & ~(1ULL << depth)) | ((uint64_t)(c == '{') << depth);
      s.at++, expect = c == '{' ? KEY_OR_END : VALUE_OR_END;
    } else {
      LT_TRY(c == '"' ? scan_string(&s) : c == '-' || (c >= '0' && c <= '9') ? scan_number(&s) : scan_word(&s));
      expect = COMMA_OR_END;
    }
  }
}

static int64_t string_end(lt_json_slice s, int64_t at) { /* past the closing quote */
  for (at++; s.text[at] != '"'; at++)
    if (s.text[at] == '\\') at++;
  return at + 1;
}

static int64_t value_end(lt_json_slice s, int64_t at) {
  for (int depth = 0;;) {
    char c = s.text[at];
    if (c == '"') {
      at = string_end(s, at);
    } else if (c && strchr("{}[],: \n\t\r", c)) {
      depth += (c == '{' || c == '[') - (c == '}' || c == ']');
      at++;
    } else { /* a number or a word */
      while (!strchr("]}, \n\t\r", s.text[at])) at++;
    }
    if (depth == 0) return at;
  }
}

bool lt_json_next(lt_json_slice object, int64_t *cursor, lt_json_slice *key, lt_json_slice *value) {
  int64_t at = skip_space(object, *cursor);
  if (object.text[at] == '{' && *cursor == 0) at = skip_space(object, at + 1);
  if (object.text[at] == '}') return false;
  if (object.text[at] == ',') at = skip_space(object, at + 1);
  key->text = object.text + at;
  at = string_end(object, at);
  key->n = object.text + at - key->text;
  at = skip_space(object, skip_space(object, at) + 1); /* past the colon */
  value->text = object.text + at;
  at = value_end(object, at);
  value->n = object.text + at - value->text;
  *cursor = at;
  return true;
}

struct cJSON *lt_json_tree(lt_json_slice json) {
  return cJSON_ParseWithLength(json.text, (size_t)json.n);
}

char *lt_json_string(lt_json_slice string) {
  cJSON *node = lt_json_tree(string);
  char *text = node && cJSON_IsString(node) ? strdup(node->valuestring) : NULL;
  cJSON_Delete(node);
  return text;
}

bool lt_json_count(const struct cJSON *number, int64_t *out) {
  if (!cJSON_IsNumber(number)) return false;
  double value = number->valuedouble;
  if (!(value >= 0 && value < 9007199254740992.0)) return false;
  *out = (int64_t)value;
  return (double)*out == value;
}
