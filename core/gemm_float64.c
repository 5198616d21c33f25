/* The float64 tiles, for AVX-512, AVX2 with FMA and plain x86-64: oneDNN has none, and gradient checks need them. */
#include "gemm_kernels.h"

#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f,avx2,fma")))

static inline void transpose_2(double *to, int64_t width, const double *from, int64_t stride) {
  __m128d a = _mm_loadu_pd(from), b = _mm_loadu_pd(from + stride);
  _mm_storeu_pd(to, _mm_unpacklo_pd(a, b));
  _mm_storeu_pd(to + width, _mm_unpackhi_pd(a, b));
}

static inline AVX2 void transpose_4(double *to, int64_t width, const double *from, int64_t stride) {
#pragma GCC unroll 2
  for (int h = 0; h < 2; h++, from += 2, to += 2 * width) {
    __m256d even = _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(from)), _mm_loadu_pd(from + 2 * stride), 1);
    __m256d odd =
        _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(from + stride)), _mm_loadu_pd(from + 3 * stride), 1);
    _mm256_storeu_pd(to, _mm256_unpacklo_pd(even, odd));
    _mm256_storeu_pd(to + width, _mm256_unpackhi_pd(even, odd));
  }
}

static inline double sum_2(__m128d v) { return _mm_cvtsd_f64(_mm_add_sd(v, _mm_unpackhi_pd(v, v))); }
static inline AVX2 double sum_4(__m256d v) {
  return sum_2(_mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1)));
}

#define ELEM double
#define VEC __m512d
#define LANES 8
#define ROWS 8
#define TARGET AVX512
#define NAME(x) x##_avx512
#define LOAD(p) _mm512_loadu_pd(p)
#define STORE(p, v) _mm512_storeu_pd(p, v)
#define SPLAT(x) _mm512_set1_pd(x)
#define MADD(x, y, z) _mm512_fmadd_pd(x, y, z)
#define ADD(x, y) _mm512_add_pd(x, y)
#define SUM(x) _mm512_reduce_add_pd(x)
#define MAX(x, y) _mm512_max_pd(x, y)
#define MIN(x, y) _mm512_min_pd(x, y)
#define TRANSPOSE 4
#define TRANSPOSE_SQUARE transpose_4
#include "gemm_template.h"

#define ELEM double
#define VEC __m256d
#define LANES 4
#define ROWS 4
#define TARGET AVX2
#define NAME(x) x##_avx2
#define LOAD(p) _mm256_loadu_pd(p)
#define STORE(p, v) _mm256_storeu_pd(p, v)
#define SPLAT(x) _mm256_set1_pd(x)
#define MADD(x, y, z) _mm256_fmadd_pd(x, y, z)
#define ADD(x, y) _mm256_add_pd(x, y)
#define SUM(x) sum_4(x)
#define MAX(x, y) _mm256_max_pd(x, y)
#define MIN(x, y) _mm256_min_pd(x, y)
#define TRANSPOSE 4
#define TRANSPOSE_SQUARE transpose_4
#include "gemm_template.h"

#define ELEM double
#define VEC __m128d
#define LANES 2
#define ROWS 4
#define TARGET
#define NAME(x) x##_sse2
#define LOAD(p) _mm_loadu_pd(p)
#define STORE(p, v) _mm_storeu_pd(p, v)
#define SPLAT(x) _mm_set1_pd(x)
#define MADD(x, y, z) _mm_add_pd(_mm_mul_pd(x, y), z)
#define ADD(x, y) _mm_add_pd(x, y)
#define SUM(x) sum_2(x)
#define MAX(x, y) _mm_max_pd(x, y)
#define MIN(x, y) _mm_min_pd(x, y)
#define TRANSPOSE 2
#define TRANSPOSE_SQUARE transpose_2
#include "gemm_template.h"

const gemm_kernels *gemm_kernels_float64(void) {
  if (__builtin_cpu_supports("avx512f")) return &kernels_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &kernels_avx2;
  return &kernels_sse2;
}
