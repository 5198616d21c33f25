/* The one loop behind every elementwise operator. A family gives loops over contiguous blocks of the computing type
 * (float, double or int64); the engine broadcasts, walks strides, converts other dtypes block by block, and adds to a
 * bound output when asked. */
#pragma once
#include "../op.h"

typedef void (*lt_loop)(int64_t n, void *out, const void *const *in, const lt_attr *attr);
enum lt_result {
  LT_SAME, /* the promoted dtype of the inputs */
  LT_REAL, /* as SAME, but integers become float32 */
  LT_TRUTH /* bool; the loop writes uint8_t */
};
typedef struct lt_loop_set {
  lt_loop f32, f64, i64; /* i64 NULL: integers are computed as float32 */
  int result;
} lt_loop_set;

enum { LT_BLOCK = 512 }; /* elements staged at a time; three float64 operands stay within the first-level cache */

int lt_elementwise_shape(lt_args *c); /* op->table is an lt_loop_set */
int lt_elementwise_cpu(lt_args *c);
/* The engine itself: `kind` is LT_FLOAT32, LT_FLOAT64 or LT_INT64, the type `loop` computes in. */
int lt_elementwise_run(lt_args *c, int kind, lt_loop loop, bool truth);
void lt_load_block(void *out, int kind, const void *in, int dtype, int64_t stride, int64_t n);
void lt_store_block(void *out, int dtype, int64_t stride, const void *in, int kind, int64_t n);
