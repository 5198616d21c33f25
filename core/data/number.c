/* Numbers from text. Up to 19 digits are exact in 64 bits, and one operation with an exact power of ten rounds once:
 * in double when the digits fit 2^53 and the power is <= 10^22 (Clinger), else in x87's 64-bit significand up to 10^27.
 * Rounding a second time to a narrower type errs only where the first result is exactly half way between two of its
 * values; those, and everything else, go to strtod in the C locale. */
#include "number.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(LDBL_MANT_DIG == 64, "the middle path needs x87's 64-bit significand");

enum { MAX_TEXT = 1200 }; /* longer digit strings are no numbers to us */

static const double tens[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
static const long double long_tens[28] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,  1e8L,  1e9L,
                                          1e10L, 1e11L, 1e12L, 1e13L, 1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L,
                                          1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;
static void make_c_locale(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

typedef struct decimal {
  uint64_t digits; /* the first 19 significant ones */
  int exponent;    /* value = digits * 10^exponent, when exact */
  int negative, exact;
} decimal;

static int is_digit(char c) { return (unsigned char)(c - '0') < 10; }

static int is_special(const char *p, const char *end) {
  static const char *const words[] = {"inf", "infinity", "nan"};
  if (p < end && (*p == '+' || *p == '-')) p++;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if ((size_t)(end - p) == strlen(words[i]) && strncasecmp(p, words[i], (size_t)(end - p)) == 0) return 1;
  return 0;
}

/* Reads [+-] digits [. digits] [e [+-] digits]. */
static int scan_decimal(const char *p, const char *end, decimal *out) {
  const char *start = p;
  uint64_t digits = 0;
  int significant = 0, seen = 0, exponent = 0, exact = 1, negative = 0;
  if (p < end && (*p == '-' || *p == '+')) negative = *p++ == '-';
  for (int fraction = 0; p < end; p++) {
    if (*p == '.' && !fraction) {
      fraction = 1;
      continue;
    }
    if (!is_digit(*p)) break;
    seen = 1;
    if (significant < 19) {
      digits = digits * 10 + (uint64_t)(*p - '0');
      significant += digits != 0;
      exponent -= fraction;
    } else {
      exact = 0; /* the slow path reads the text itself */
    }
  }
  if (!seen) return is_special(start, end) ? LT_NUMBER_SPECIAL : LT_NUMBER_BAD;
  if (p < end && (*p == 'e' || *p == 'E')) {
    p++;
    int down = 0, power = 0, any = 0;
    if (p < end && (*p == '-' || *p == '+')) down = *p++ == '-';
    for (; p < end && is_digit(*p); p++, any = 1)
      if (power < 100000) power = power * 10 + (*p - '0');
    if (!any) return LT_NUMBER_BAD;
    exponent += down ? -power : power;
  }
  if (p != end) return LT_NUMBER_BAD;
  *out = (decimal){digits, exponent, negative, exact};
  return LT_NUMBER_OK;
}

/* The slow path; the text has passed scan_decimal, so that hexadecimal and the like cannot reach strtod. */
static int copy_text(const char *text, int64_t n, char *copy) {
  if (n >= MAX_TEXT) return LT_NUMBER_BAD;
  memcpy(copy, text, (size_t)n);
  copy[n] = 0;
  pthread_once(&c_locale_once, make_c_locale);
  return LT_NUMBER_OK;
}

static int slow_double(const char *text, int64_t n, double *out) {
  char copy[MAX_TEXT];
  if (copy_text(text, n, copy)) return LT_NUMBER_BAD;
  *out = strtod_l(copy, NULL, c_locale);
  return isfinite(*out) ? LT_NUMBER_OK : LT_NUMBER_RANGE;
}

static int slow_float(const char *text, int64_t n, float *out) {
  char copy[MAX_TEXT];
  if (copy_text(text, n, copy)) return LT_NUMBER_BAD;
  *out = strtof_l(copy, NULL, c_locale);
  return isfinite(*out) ? LT_NUMBER_OK : LT_NUMBER_RANGE;
}

static int fits_double(const decimal *d) {
  return d->exact && d->digits <= 1ULL << 53 && d->exponent >= -22 && d->exponent <= 22;
}

static double exact_double(const decimal *d) {
  double value = (double)d->digits;
  value = d->exponent < 0 ? value / tens[-d->exponent] : value * tens[d->exponent];
  return d->negative ? -value : value;
}

/* digits * 10^exponent rounded to 64 bits; `half_bits` are the low bits that a narrower type drops. 0: not decidable.
 */
static int middle_path(const decimal *d, int half_bits, long double *out) {
  if (!d->exact || d->exponent < -27 || d->exponent > 27) return 0;
  long double value = (long double)d->digits;
  value = d->exponent < 0 ? value / long_tens[-d->exponent] : value * long_tens[d->exponent];
  uint64_t significand;
  memcpy(&significand, &value, 8);
  uint64_t dropped = significand & ((1ULL << half_bits) - 1);
  if (dropped == 1ULL << (half_bits - 1)) return 0;
  *out = d->negative ? -value : value;
  return 1;
}

int lt_number_double(const char *text, int64_t n, double *out) {
  decimal d;
  int status = scan_decimal(text, text + n, &d);
  if (status) return status;
  if (fits_double(&d)) return *out = exact_double(&d), LT_NUMBER_OK;
  long double value;
  if (middle_path(&d, 64 - DBL_MANT_DIG, &value)) return *out = (double)value, LT_NUMBER_OK;
  return slow_double(text, n, out);
}

int lt_number_float(const char *text, int64_t n, float *out) {
  decimal d;
  int status = scan_decimal(text, text + n, &d);
  if (status) return status;
  if (d.digits == 0 && d.exact) return *out = d.negative ? -0.0f : 0.0f, LT_NUMBER_OK;
  if (fits_double(&d)) {
    double value = exact_double(&d);
    uint64_t bits;
    memcpy(&bits, &value, 8);
    if (d.exponent == 0 && d.digits <= 1 << 24) return *out = (float)value, LT_NUMBER_OK;
    if ((bits & 0x1fffffff) != 0x10000000 && fabs(value) >= (double)FLT_MIN && fabs(value) <= (double)FLT_MAX)
      return *out = (float)value, LT_NUMBER_OK;
    return slow_float(text, n, out);
  }
  long double value;
  if (middle_path(&d, 64 - FLT_MANT_DIG, &value) && fabsl(value) >= FLT_MIN && fabsl(value) <= FLT_MAX)
    return *out = (float)value, LT_NUMBER_OK;
  return slow_float(text, n, out);
}

int lt_number_int64(const char *text, int64_t n, int64_t *out) {
  const char *p = text, *end = text + n;
  int negative = 0;
  if (p < end && (*p == '-' || *p == '+')) negative = *p++ == '-';
  if (p == end) return LT_NUMBER_BAD;
  uint64_t value = 0, limit = (uint64_t)INT64_MAX + (uint64_t)negative;
  for (; p < end && is_digit(*p); p++) {
    uint64_t digit = (uint64_t)(*p - '0');
    if (value > (limit - digit) / 10) {
      while (p < end && is_digit(*p)) p++;
      return p == end ? LT_NUMBER_RANGE : LT_NUMBER_BAD;
    }
    value = value * 10 + digit;
  }
  if (p != end) {
    decimal d;
    int status = scan_decimal(text, end, &d);
    return status == LT_NUMBER_OK ? LT_NUMBER_FRACTION : status;
  }
  *out = negative ? (int64_t)(0 - value) : (int64_t)value;
  return LT_NUMBER_OK;
}
