/* Element types: names, sizes, promotion, and the two 16-bit floats' conversions. */
#include "tensor.h"

#include <math.h>
#include <string.h>

static const struct {
  const char *name;
  int size;
} types[LT_DTYPE_COUNT] = {{"float32", 4}, {"float64", 8}, {"bfloat16", 2}, {"float16", 2},
                           {"int64", 8},   {"int32", 4},   {"uint8", 1},    {"bool", 1}};

const char *lt_dtype_name(int dtype) { return dtype >= 0 && dtype < LT_DTYPE_COUNT ? types[dtype].name : "?"; }
int64_t lt_dtype_size(int dtype) { return dtype >= 0 && dtype < LT_DTYPE_COUNT ? types[dtype].size : 0; }

int lt_promote(int a, int b) {
  /* bool < uint8 < int32 < int64 < the 16-bit floats < float32 < float64; the two 16-bit floats meet in float32 */
  static const int rank[LT_DTYPE_COUNT] = {[LT_BOOL] = 0,     [LT_UINT8] = 1,   [LT_INT32] = 2,   [LT_INT64] = 3,
                                           [LT_BFLOAT16] = 4, [LT_FLOAT16] = 4, [LT_FLOAT32] = 5, [LT_FLOAT64] = 6};
  if (a == b) return a;
  if (rank[a] == 4 && rank[b] == 4) return LT_FLOAT32;
  return rank[a] > rank[b] ? a : b;
}

void lt_bf16_to_f32(float *out, const uint16_t *in, int64_t n) {
  uint32_t *bits = (uint32_t *)out;
  for (int64_t i = 0; i < n; i++) bits[i] = (uint32_t)in[i] << 16;
}

/* Round to nearest, ties to even; a NaN keeps a set fraction bit. */
void lt_f32_to_bf16(uint16_t *out, const float *in, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t u;
    memcpy(&u, in + i, 4);
    uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    out[i] = (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? (u >> 16) | 0x40 : rounded);
  }
}

static float half_to_float(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, fraction = h & 0x3ff, u;
  if (exponent == 31)
    u = sign | 0x7f800000 | fraction << 13;
  else if (exponent)
    u = sign | (exponent + 112) << 23 | fraction << 13;
  else { /* zero or subnormal: fraction * 2^-24 is exact in float32 */
    float f = (float)fraction * 0x1p-24f;
    memcpy(&u, &f, 4);
    u |= sign;
  }
  float f;
  memcpy(&f, &u, 4);
  return f;
}

static uint16_t float_to_half(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  uint32_t sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
  if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00);
  if (a >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 and above round to infinity */
  if (a < 0x38800000) {                                  /* subnormal: let the adder round at 2^-24 */
    float magic = 0.5f, x;
    memcpy(&x, &a, 4);
    x += magic;
    memcpy(&a, &x, 4);
    return (uint16_t)(sign | (a - 0x3f000000));
  }
  uint32_t odd = a >> 13 & 1;
  a += 0xc8000fff + odd; /* exponent bias 127 -> 15, and half an ulp less one */
  return (uint16_t)(sign | a >> 13);
}

void lt_f16_to_f32(float *out, const uint16_t *in, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = half_to_float(in[i]);
}
void lt_f32_to_f16(uint16_t *out, const float *in, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = float_to_half(in[i]);
}

double lt_load_double(const void *data, int dtype, int64_t i) {
  float f;
  switch (dtype) {
  case LT_FLOAT32: return ((const float *)data)[i];
  case LT_FLOAT64: return ((const double *)data)[i];
  case LT_BFLOAT16: lt_bf16_to_f32(&f, (const uint16_t *)data + i, 1); return f;
  case LT_FLOAT16: return half_to_float(((const uint16_t *)data)[i]);
  default: return (double)lt_load_int(data, dtype, i);
  }
}

int64_t lt_load_int(const void *data, int dtype, int64_t i) {
  switch (dtype) {
  case LT_INT64: return ((const int64_t *)data)[i];
  case LT_INT32: return ((const int32_t *)data)[i];
  case LT_UINT8:
  case LT_BOOL: return ((const uint8_t *)data)[i];
  default: return (int64_t)lt_load_double(data, dtype, i);
  }
}

void lt_store_double(void *data, int dtype, int64_t i, double value) {
  float f = (float)value;
  switch (dtype) {
  case LT_FLOAT32: ((float *)data)[i] = f; break;
  case LT_FLOAT64: ((double *)data)[i] = value; break;
  case LT_BFLOAT16: lt_f32_to_bf16((uint16_t *)data + i, &f, 1); break;
  case LT_FLOAT16: ((uint16_t *)data)[i] = float_to_half(f); break;
  case LT_BOOL: ((uint8_t *)data)[i] = value != 0; break;
  default: lt_store_int(data, dtype, i, value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : INT64_MIN);
  }
}

void lt_store_int(void *data, int dtype, int64_t i, int64_t value) {
  switch (dtype) {
  case LT_INT64: ((int64_t *)data)[i] = value; break;
  case LT_INT32: ((int32_t *)data)[i] = (int32_t)value; break;
  case LT_UINT8: ((uint8_t *)data)[i] = (uint8_t)value; break;
  case LT_BOOL: ((uint8_t *)data)[i] = value != 0; break;
  default: lt_store_double(data, dtype, i, (double)value);
  }
}
