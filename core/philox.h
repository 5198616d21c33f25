/* Random numbers as a function: words of Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as
 * easy as 1, 2, 3") and what is made of one word. The stream (seed, call) is a sequence of 32-bit words; word i is
 * number i % 4 of the block whose key is the seed and whose counter is (i / 4, call). Who needs word i computes word i:
 * no state, no order, the same bits on every device and for any number of threads. Only integer arithmetic and
 * correctly rounded double operations are used, and the compiler is told not to fuse them (nvcc: -fmad=false). */
#pragma once
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifndef LT_BOTH
#define LT_BOTH static inline /* nvcc: __host__ __device__ */
#endif

/* counter and key: least significant word first */
LT_BOTH void lt_philox_block(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++) {
    uint64_t p = (uint64_t)0xD2511F53u * c0, q = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(q >> 32) ^ c1 ^ k0;
    c2 = (uint32_t)(p >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)q;
    c3 = (uint32_t)p;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* Uniform in [0, 1), a multiple of 2^-bits; bits 24 fits float32, 53 (of two words) float64. */
LT_BOTH double lt_unit32(uint32_t word, int bits) { return (double)(word >> (32 - bits)) / (double)(1u << bits); }
LT_BOTH double lt_unit64(uint64_t words) { return (double)(words >> 11) * 0x1p-53; }
/* Uniform in the open interval (0, 1), symmetric about 1/2. */
LT_BOTH double lt_open32(uint32_t word) { return ((double)word + 0.5) * 0x1p-32; }
LT_BOTH double lt_open64(uint64_t words) { return ((double)(words >> 12) + 0.5) * 0x1p-52; }

/* 0 .. n - 1 from 64 bits, n > 0: the high half of the product (Lemire 2019); off uniform by less than n / 2^64. */
LT_BOTH uint64_t lt_below(uint64_t words, uint64_t n) { return (uint64_t)((unsigned __int128)words * n >> 64); }

/* Natural logarithm of a positive normal number, by log x = e log 2 + 2 artanh((m - 1) / (m + 1)), m in [sqrt 1/2, sqrt
 * 2). */
LT_BOTH double lt_exact_log(double x) {
  int64_t bits;
  memcpy(&bits, &x, 8);
  int64_t e = ((bits - 0x3FE6A09E667F3BCD) >> 52); /* so that m >= sqrt(1/2) */
  bits -= e * ((int64_t)1 << 52);
  double m;
  memcpy(&m, &bits, 8);
  double s = (m - 1) / (m + 1), t = s * s, series = 0;
  for (int k = 23; k >= 3; k -= 2) series = (series + 1.0 / k) * t;
  return (double)e * 0.69314718055994530942 + 2 * (s + s * series);
}

/* The z with Phi(z) = p, 0 < p < 1: algorithm AS 241 (Wichura 1988, "The percentage points of the normal
 * distribution"), relative error about 1e-16. In two parts, because 85 % of numbers need only the first, which has no
 * branches. */
LT_BOTH double lt_degree7(const double *c, double x) {
  double y = c[7];
  for (int k = 6; k >= 0; k--) y = y * x + c[k];
  return y;
}
LT_BOTH bool lt_quantile_is_middle(double p) { return fabs(p - 0.5) <= 0.425; }
LT_BOTH double lt_quantile_middle(double p) {
  const double above[] = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                          1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                          3.3430575583588128105e4, 2.5090809287301226727e3};
  const double below[] = {1,
                          4.2313330701600911252e1,
                          6.8718700749205790830e2,
                          5.3941960214247511077e3,
                          2.1213794301586595867e4,
                          3.9307895800092710610e4,
                          2.8729085735721942674e4,
                          5.2264952788528545610e3};
  double q = p - 0.5, r = 0.180625 - q * q;
  return q * lt_degree7(above, r) / lt_degree7(below, r);
}
LT_BOTH double lt_quantile_tail(double p) {
  const double above[] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                          3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                          2.27238449892691845833e-2, 7.74545014278341407640e-4};
  const double below[] = {1,
                          2.05319162663775882187e0,
                          1.67638483018380384940e0,
                          6.89767334985100004550e-1,
                          1.48103976427480074590e-1,
                          1.51986665636164571966e-2,
                          5.47593808499534494600e-4,
                          1.05075007164441684324e-9};
  const double far_above[] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                              2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                              2.71155556874348757815e-5, 2.01033439929228813265e-7};
  const double far_below[] = {1,
                              5.99832206555887937690e-1,
                              1.36929880922735805310e-1,
                              1.48753612908506148525e-2,
                              7.86869131145613259100e-4,
                              1.84631831751005468180e-5,
                              1.42151175831644588870e-7,
                              2.04426310338993978564e-15};
  double r = sqrt(-lt_exact_log(p < 0.5 ? p : 1 - p));
  double z = r <= 5 ? lt_degree7(above, r - 1.6) / lt_degree7(below, r - 1.6)
                    : lt_degree7(far_above, r - 5) / lt_degree7(far_below, r - 5);
  return p < 0.5 ? -z : z;
}
LT_BOTH double lt_normal_quantile(double p) {
  return lt_quantile_is_middle(p) ? lt_quantile_middle(p) : lt_quantile_tail(p);
}
