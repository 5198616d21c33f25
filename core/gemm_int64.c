/* The int64 tiles. Sums wrap around, so the element is unsigned: signed overflow is undefined in C. AVX-512 DQ has a
 * 64-bit product, elsewhere the compiler composes it from 32-bit halves. */
#include "gemm_kernels.h"

#include <immintrin.h>
#include <string.h>

typedef uint64_t wide __attribute__((vector_size(64)));
typedef uint64_t pair __attribute__((vector_size(16)));

static inline void transpose_2(uint64_t *to, int64_t width, const uint64_t *from, int64_t stride) {
  to[0] = from[0];
  to[1] = from[stride];
  to[width] = from[1];
  to[width + 1] = from[stride + 1];
}

#define ELEM uint64_t
#define VEC wide
#define LANES 8
#define ROWS 8
#define TARGET __attribute__((target("avx512f,avx512dq")))
#define NAME(x) x##_avx512
#define LOAD(p) ((wide)_mm512_loadu_si512(p))
#define STORE(p, v) _mm512_storeu_si512(p, (__m512i)(v))
#define SPLAT(x) ((wide)_mm512_set1_epi64((long long)(x)))
#define MADD(x, y, z) ((x) * (y) + (z))
#define ADD(x, y) ((x) + (y))
#define SUM(x) ((x)[0] + (x)[1] + (x)[2] + (x)[3] + (x)[4] + (x)[5] + (x)[6] + (x)[7])
#define TRANSPOSE 2
#define TRANSPOSE_SQUARE transpose_2
#include "gemm_template.h"

#define ELEM uint64_t
#define VEC pair
#define LANES 2
#define ROWS 4
#define TARGET
#define NAME(x) x##_sse2
#define LOAD(p) ((pair)_mm_loadu_si128((const void *)(p)))
#define STORE(p, v) _mm_storeu_si128((void *)(p), (__m128i)(v))
#define SPLAT(x) ((pair)_mm_set1_epi64x((long long)(x)))
#define MADD(x, y, z) ((x) * (y) + (z))
#define ADD(x, y) ((x) + (y))
#define SUM(x) ((x)[0] + (x)[1])
#define TRANSPOSE 2
#define TRANSPOSE_SQUARE transpose_2
#include "gemm_template.h"

const gemm_kernels *gemm_kernels_int64(void) {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return &kernels_avx512;
  return &kernels_sse2;
}
