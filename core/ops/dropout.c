/* dropout: element i is kept when word i of the call's stream is at least p 2^32, and scaled by 1 / (1 - p). No mask is
 * stored: the rule draws the same words again from the stream that the node keeps. */
#include "../random.h"
#include "elementwise.h"
#include "stage.h"

enum { CHUNK = 16384 };

LT_CLONES static void drop_f32(const uint32_t *words, uint32_t limit, float scale, const float *x, float *y,
                               int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = words[i] >= limit ? x[i] * scale : 0;
}
static void drop_f64(const uint32_t *words, uint32_t limit, double scale, const double *x, double *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = words[i] >= limit ? x[i] * scale : 0;
}

static void drop_block(const lt_attr *a, int dtype, int64_t at, int64_t n, const char *from, char *to) {
  uint32_t words[LT_BLOCK], limit = (uint32_t)(a->f[0] * 0x1p32);
  float wide[LT_BLOCK];
  int64_t offset = at * lt_dtype_size(dtype);
  lt_random_words(a->i[LT_SEED], a->i[LT_CALL], at, n, words);
  if (dtype == LT_FLOAT64)
    drop_f64(words, limit, 1 / (1 - a->f[0]), (const double *)(from + offset), (double *)(to + offset), n);
  else if (dtype == LT_FLOAT32)
    drop_f32(words, limit, (float)(1 / (1 - a->f[0])), (const float *)(from + offset), (float *)(to + offset), n);
  else {
    lt_load_block(wide, LT_FLOAT32, from + offset, dtype, 1, n);
    drop_f32(words, limit, (float)(1 / (1 - a->f[0])), wide, wide, n);
    lt_store_block(to + offset, dtype, 1, wide, LT_FLOAT32, n);
  }
}

static int dropout_shape(lt_args *c) {
  double p = c->attr->f[0];
  LT_TRY(lt_need_float(c, 0));
  if (!(p >= 0 && p <= 1))
    return lt_fail(LT_ERR_ARGUMENT, "dropout: p is %g; the share of elements to drop is 0 to 1", p);
  return lt_out_like(c, 0, c->in[0]);
}
static int dropout_cpu(lt_args *c) {
  lt_tensor *x, *out;
  LT_TRY(lt_contiguous(c->in[0], &x));
  int status = lt_stage(c, 0, &out);
  if (status >= 0) {
    const char *from = lt_ptr(x);
    char *to = lt_ptr(out);
    int64_t n = x->n;
    if (c->attr->f[0] == 1)
      memset(to, 0, (size_t)(n * lt_dtype_size(x->dtype)));
    else {
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(n * 4))
      for (int64_t chunk = 0; chunk < n; chunk += CHUNK)
        for (int64_t at = chunk; at < n && at < chunk + CHUNK; at += LT_BLOCK)
          drop_block(c->attr, x->dtype, at, n - at < LT_BLOCK ? n - at : LT_BLOCK, from, to);
    }
    status = lt_unstage(c, 0, out, status);
  }
  lt_tensor_release(x);
  return status;
}
static void dropout_rule(lt_back *b) { LT_GRAD_ATTR(b, 0, dropout_backward, b->attr, b->grad[0]); }
const lt_op lt_op_dropout = {
    .name = "dropout",
    .signature = "dropout(x, p: number = 0.5)",
    .doc = "Zeros with probability p, else x / (1 - p) (Srivastava et al. 2014). Always active: nn.Dropout "
           "applies it while training only.",
    .flags = LT_OP_RANDOM,
    .shape = dropout_shape,
    .cpu = dropout_cpu,
    .backward = dropout_rule};

/* Linear in grad: its own rule is itself, with the same stream. */
const lt_op lt_op_dropout_backward = {.name = "dropout_backward",
                                      .signature = "dropout_backward(grad, p: number)",
                                      .doc = "grad dropped and scaled as dropout() did.",
                                      .flags = LT_OP_HIDDEN,
                                      .shape = dropout_shape,
                                      .cpu = dropout_cpu,
                                      .backward = dropout_rule};
