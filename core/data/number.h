/* Decimal text to numbers, the same under every locale and correctly rounded; whole numbers never pass a double. */
#pragma once
#include "error.h"

enum lt_number_status {
  LT_NUMBER_OK,
  LT_NUMBER_BAD,     /* no number at all */
  LT_NUMBER_SPECIAL, /* inf or nan, spelled out */
  LT_NUMBER_RANGE,   /* a number, but beyond the type */
  LT_NUMBER_FRACTION /* a number, but not a whole one */
};
int lt_number_float(const char *text, int64_t n, float *out);
int lt_number_double(const char *text, int64_t n, double *out);
int lt_number_int64(const char *text, int64_t n, int64_t *out);
