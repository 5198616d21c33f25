/* Loops over the few values of a table row, eight at a time, then two, then one: short rows (10 or 11 values) are the
 * rule, and compilers make scalar code of them. BY_EIGHT(OP) runs OP(T, CT) with `k` in steps as long as the vector T
 * for k = 0 .. dim - 1; where `dim` is a constant the loops unroll and sums stay in registers. */
#pragma once
#define EIGHT_OF(T) __attribute__((vector_size(8 * sizeof(T)), aligned(sizeof(T)), may_alias))
#define TWO_OF(T) __attribute__((vector_size(2 * sizeof(T)), aligned(sizeof(T)), may_alias))
typedef float eight_f32 EIGHT_OF(float);
typedef float two_f32 TWO_OF(float);
typedef double eight_f64 EIGHT_OF(double);
typedef double two_f64 TWO_OF(double);

#define AT(T, base, k) (*(T *)((base) + (k)))
#define BY_EIGHT(OP)                                                                                                   \
  do {                                                                                                                 \
    int64_t k = 0;                                                                                                     \
    _Pragma("GCC unroll 2") for (; k + 8 <= dim; k += 8) OP(NAME(eight), const NAME(eight));                           \
    _Pragma("GCC unroll 3") for (; k + 2 <= dim; k += 2) OP(NAME(two), const NAME(two));                               \
    for (; k < dim; k++) OP(ELEM, const ELEM);                                                                         \
  } while (0)
