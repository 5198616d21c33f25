/* What the rest of the core asks of oneDNN: two-dimensional products by cached primitives. Its types stay in onednn.c.
 */
#pragma once
#include "gemm.h"

typedef struct onednn_product onednn_product; /* a primitive, shared and kept in a cache; valid until released */

/* Everything that a primitive is made for; all of it is the cache's key. Strides count elements. */
typedef struct onednn_shape {
  int dtype, c_dtype, bias_dtype; /* bias_dtype -1: none */
  int64_t m, n, k, a_row, a_col, b_row, b_col, c_row;
  int activation; /* lt_gemm_activation */
  float slope;
  int64_t packed; /* 1: b comes in the layout that oneDNN likes best, made by onednn_pack */
  int threads;    /* that one run uses: 1, or all */
} onednn_shape;

bool onednn_has_bfloat16(void);
/* `like`: NULL, or a product whose packed b this one must take too. */
int onednn_get(const onednn_shape *shape, const onednn_product *like, onednn_product **out);
void onednn_release(onednn_product *p);
int64_t onednn_packed_bytes(const onednn_product *p);  /* 0: b is taken as it is */
int64_t onednn_scratch_bytes(const onednn_product *p); /* that every run needs for itself */
int onednn_pack(const onednn_product *p, const void *b, void *packed);
int onednn_run(const onednn_product *p, const void *a, const void *b, const void *bias, void *c, void *scratch);

/* gemm_bfloat16.c: a product whose dtype is bfloat16, no size 0 */
int gemm_bfloat16(const lt_gemm *g);
