/* The float32 tiles, for AVX-512, AVX2 with FMA and plain x86-64. */
#include "gemm_kernels.h"

#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f,avx2,fma")))

static inline void transpose_4(float *to, int64_t width, const float *from, int64_t stride) {
  __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + stride), c = _mm_loadu_ps(from + 2 * stride),
         d = _mm_loadu_ps(from + 3 * stride);
  _MM_TRANSPOSE4_PS(a, b, c, d);
  _mm_storeu_ps(to, a);
  _mm_storeu_ps(to + width, b);
  _mm_storeu_ps(to + 2 * width, c);
  _mm_storeu_ps(to + 3 * width, d);
}

/* Row i of the square beside row i + 4, so that two 4 x 4 transposes happen in the halves of each vector. */
static inline AVX2 void transpose_8(float *to, int64_t width, const float *from, int64_t stride) {
#pragma GCC unroll 2
  for (int h = 0; h < 2; h++, from += 4, to += 4 * width) {
    __m256 r[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
      r[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from + i * stride)),
                                  _mm_loadu_ps(from + (i + 4) * stride), 1);
    __m256d ab = _mm256_castps_pd(_mm256_unpacklo_ps(r[0], r[1])),
            cd = _mm256_castps_pd(_mm256_unpacklo_ps(r[2], r[3])),
            AB = _mm256_castps_pd(_mm256_unpackhi_ps(r[0], r[1])),
            CD = _mm256_castps_pd(_mm256_unpackhi_ps(r[2], r[3]));
    _mm256_storeu_ps(to, _mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd)));
    _mm256_storeu_ps(to + width, _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd)));
    _mm256_storeu_ps(to + 2 * width, _mm256_castpd_ps(_mm256_unpacklo_pd(AB, CD)));
    _mm256_storeu_ps(to + 3 * width, _mm256_castpd_ps(_mm256_unpackhi_pd(AB, CD)));
  }
}

static inline float sum_4(__m128 v) {
  v = _mm_add_ps(v, _mm_movehl_ps(v, v));
  return _mm_cvtss_f32(_mm_add_ss(v, _mm_shuffle_ps(v, v, 1)));
}
static inline AVX2 float sum_8(__m256 v) {
  return sum_4(_mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)));
}

#define ELEM float
#define VEC __m512
#define LANES 16
#define ROWS 8
#define TARGET AVX512
#define NAME(x) x##_avx512
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define SPLAT(x) _mm512_set1_ps(x)
#define MADD(x, y, z) _mm512_fmadd_ps(x, y, z)
#define ADD(x, y) _mm512_add_ps(x, y)
#define SUM(x) _mm512_reduce_add_ps(x)
#define MAX(x, y) _mm512_max_ps(x, y)
#define MIN(x, y) _mm512_min_ps(x, y)
#define TRANSPOSE 8
#define TRANSPOSE_SQUARE transpose_8
#include "gemm_template.h"

#define ELEM float
#define VEC __m256
#define LANES 8
#define ROWS 4
#define TARGET AVX2
#define NAME(x) x##_avx2
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define SPLAT(x) _mm256_set1_ps(x)
#define MADD(x, y, z) _mm256_fmadd_ps(x, y, z)
#define ADD(x, y) _mm256_add_ps(x, y)
#define SUM(x) sum_8(x)
#define MAX(x, y) _mm256_max_ps(x, y)
#define MIN(x, y) _mm256_min_ps(x, y)
#define TRANSPOSE 8
#define TRANSPOSE_SQUARE transpose_8
#include "gemm_template.h"

#define ELEM float
#define VEC __m128
#define LANES 4
#define ROWS 4
#define TARGET
#define NAME(x) x##_sse2
#define LOAD(p) _mm_loadu_ps(p)
#define STORE(p, v) _mm_storeu_ps(p, v)
#define SPLAT(x) _mm_set1_ps(x)
#define MADD(x, y, z) _mm_add_ps(_mm_mul_ps(x, y), z)
#define ADD(x, y) _mm_add_ps(x, y)
#define SUM(x) sum_4(x)
#define MAX(x, y) _mm_max_ps(x, y)
#define MIN(x, y) _mm_min_ps(x, y)
#define TRANSPOSE 4
#define TRANSPOSE_SQUARE transpose_4
#include "gemm_template.h"

const gemm_kernels *gemm_kernels_float32(void) {
  if (__builtin_cpu_supports("avx512f")) return &kernels_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &kernels_avx2;
  return &kernels_sse2;
}
