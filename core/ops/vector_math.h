/* e^x in float32 as arithmetic without a branch, so that loops over it become vector code; the C library's does not.
 * Within 2 units in the last place from -86.6 to 88.7; below is 0, above infinity, NaN stays NaN. */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float lt_exp_f32(float x) {
  const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number, kept in the low bits */
  float clamped = x < -86.6f ? -86.6f : x > 89.0f ? 89.0f : x; /* NaN passes */
  float shifted = clamped * 1.44269504f + magic, n = shifted - magic;
  float r =
      clamped - n * 0.693359375f + n * 2.12194440e-4f; /* n ln 2 in two parts: the first has few bits, so it is exact */
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  int32_t bits;
  float scale;
  memcpy(&bits, &shifted, sizeof bits);
  bits = (int32_t)((uint32_t)(bits - 0x4b400000 + 126) << 23); /* 2^(n - 1): n may be 128 */
  memcpy(&scale, &bits, sizeof scale);
  float y = p * scale * 2.0f;
  return x < -86.6f ? 0.0f : x > 88.8f ? INFINITY : y;
}
