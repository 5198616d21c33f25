/* Broadcasting, strides and dtypes for elementwise operators; see the header. Dims whose strides line up for every
 * operand are merged first, so most calls become one run; work is cut in fixed chunks of runs. */
#include "elementwise.h"

enum { MAX_OPERANDS = 6, CHUNK = 16384 };

typedef struct operand {
  char *data;
  int dtype;
  int64_t size, stride[LT_MAX_DIMS];
} operand;
typedef struct plan {
  int ndim, n_in, kind;
  int64_t shape[LT_MAX_DIMS];
  operand op[MAX_OPERANDS]; /* 0 is the output */
  lt_loop loop;
  const lt_attr *attr;
  bool truth, accumulate;
} plan;

/* ---- blocks between dtypes ---- */

#define COPY(TO, FROM)                                                                                                 \
  for (int64_t i = 0; i < n; i++) ((TO *)out)[i] = (TO)((const FROM *)in)[i * stride]
#define LOAD_AS(TO)                                                                                                    \
  switch (dtype) {                                                                                                     \
  case LT_FLOAT32: COPY(TO, float); return;                                                                            \
  case LT_FLOAT64: COPY(TO, double); return;                                                                           \
  case LT_INT64: COPY(TO, int64_t); return;                                                                            \
  case LT_INT32: COPY(TO, int32_t); return;                                                                            \
  case LT_UINT8:                                                                                                       \
  case LT_BOOL: COPY(TO, uint8_t); return;                                                                             \
  }

static void load_half(void *out, int kind, const uint16_t *in, int dtype, int64_t stride, int64_t n) {
  uint16_t packed[LT_BLOCK] = {0};
  float wide[LT_BLOCK] = {0};
  for (int64_t i = 0; i < n; i++) packed[i] = in[i * stride];
  if (dtype == LT_BFLOAT16)
    lt_bf16_to_f32(wide, packed, n);
  else
    lt_f16_to_f32(wide, packed, n);
  lt_load_block(out, kind, wide, LT_FLOAT32, 1, n);
}

void lt_load_block(void *out, int kind, const void *in, int dtype, int64_t stride, int64_t n) {
  if (dtype == LT_BFLOAT16 || dtype == LT_FLOAT16) {
    load_half(out, kind, in, dtype, stride, n);
    return;
  }
  switch (kind) {
  case LT_FLOAT32: LOAD_AS(float) break;
  case LT_FLOAT64: LOAD_AS(double) break;
  default: LOAD_AS(int64_t)
  }
}

/* A float outside the integer's range becomes its smallest value, as the processor's conversion does for int64. */
static int64_t whole(double v) { return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN; }

#define STORE(TO, FROM, CONVERT)                                                                                       \
  for (int64_t i = 0; i < n; i++) ((TO *)out)[i * stride] = (TO)CONVERT(((const FROM *)in)[i])
#define STORE_AS(FROM, WHOLE)                                                                                          \
  switch (dtype) {                                                                                                     \
  case LT_FLOAT32: STORE(float, FROM, ); return;                                                                       \
  case LT_FLOAT64: STORE(double, FROM, ); return;                                                                      \
  case LT_INT64: STORE(int64_t, FROM, WHOLE); return;                                                                  \
  case LT_INT32: STORE(int32_t, FROM, WHOLE); return;                                                                  \
  case LT_UINT8: STORE(uint8_t, FROM, WHOLE); return;                                                                  \
  case LT_BOOL:                                                                                                        \
    for (int64_t i = 0; i < n; i++) ((uint8_t *)out)[i * stride] = ((const FROM *)in)[i] != 0;                         \
    return;                                                                                                            \
  }

void lt_store_block(void *out, int dtype, int64_t stride, const void *in, int kind, int64_t n) {
  if (dtype == LT_BFLOAT16 || dtype == LT_FLOAT16) {
    float wide[LT_BLOCK] = {0};
    uint16_t packed[LT_BLOCK] = {0};
    const float *from = in;
    if (kind != LT_FLOAT32) {
      lt_load_block(wide, LT_FLOAT32, in, kind, 1, n);
      from = wide;
    }
    if (dtype == LT_BFLOAT16)
      lt_f32_to_bf16(packed, from, n);
    else
      lt_f32_to_f16(packed, from, n);
    for (int64_t i = 0; i < n; i++) ((uint16_t *)out)[i * stride] = packed[i];
    return;
  }
  switch (kind) {
  case LT_FLOAT32: STORE_AS(float, whole) break;
  case LT_FLOAT64: STORE_AS(double, whole) break;
  case LT_UINT8: STORE_AS(uint8_t, ) break; /* truth values */
  default: STORE_AS(int64_t, )
  }
}

static void add_block(void *to, const void *x, int kind, int64_t n) {
  switch (kind) {
  case LT_FLOAT32:
    for (int64_t i = 0; i < n; i++) ((float *)to)[i] += ((const float *)x)[i];
    break;
  case LT_FLOAT64:
    for (int64_t i = 0; i < n; i++) ((double *)to)[i] += ((const double *)x)[i];
    break;
  default:
    for (int64_t i = 0; i < n; i++) ((int64_t *)to)[i] += ((const int64_t *)x)[i];
  }
}

/* ---- one run: n elements, each operand with its own stride ---- */

typedef union block {
  float f32[LT_BLOCK];
  double f64[LT_BLOCK];
  int64_t i64[LT_BLOCK];
  uint8_t truth[LT_BLOCK];
} block;

static bool direct(const plan *p, int k, int64_t stride) {
  int want = k == 0 && p->truth ? LT_BOOL : p->kind;
  bool same = p->op[k].dtype == want || (want == LT_BOOL && p->op[k].dtype == LT_UINT8);
  return same && stride == 1;
}

static void run(const plan *p, char *const *data, const int64_t *stride, int64_t n) {
  block staged[MAX_OPERANDS], sum;
  const void *in[MAX_OPERANDS];
  bool is_direct[MAX_OPERANDS], all = true;
  for (int k = 0; k <= p->n_in; k++) {
    is_direct[k] = direct(p, k, stride[k]) && !(k == 0 && p->accumulate);
    all = all && is_direct[k];
  }
  if (all) {
    for (int k = 1; k <= p->n_in; k++) in[k - 1] = data[k];
    p->loop(n, data[0], in, p->attr);
    return;
  }
  for (int k = 1; k <= p->n_in; k++)
    if (!is_direct[k] && stride[k] == 0) /* one value: staged once for all blocks */
      lt_load_block(&staged[k], p->kind, data[k], p->op[k].dtype, 0, n < LT_BLOCK ? n : LT_BLOCK);
  for (int64_t at = 0; at < n; at += LT_BLOCK) {
    int64_t m = n - at < LT_BLOCK ? n - at : LT_BLOCK;
    for (int k = 1; k <= p->n_in; k++) {
      char *from = data[k] + at * stride[k] * p->op[k].size;
      if (!is_direct[k] && stride[k] != 0) lt_load_block(&staged[k], p->kind, from, p->op[k].dtype, stride[k], m);
      in[k - 1] = is_direct[k] ? (void *)from : (void *)&staged[k];
    }
    char *to = data[0] + at * stride[0] * p->op[0].size;
    if (is_direct[0]) {
      p->loop(m, to, in, p->attr);
      continue;
    }
    p->loop(m, &staged[0], in, p->attr);
    if (p->accumulate) {
      lt_load_block(&sum, p->kind, to, p->op[0].dtype, stride[0], m);
      add_block(&staged[0], &sum, p->kind, m);
    }
    lt_store_block(to, p->op[0].dtype, stride[0], &staged[0], p->truth ? LT_UINT8 : p->kind, m);
  }
}

/* ---- the plan ---- */

static void merge_dims(plan *p) {
  int last = 0;
  for (int d = 1; d < p->ndim; d++) {
    bool lines_up = p->shape[last] == 1 || p->shape[d] == 1;
    if (!lines_up) {
      lines_up = true;
      for (int k = 0; k <= p->n_in; k++)
        lines_up = lines_up && p->op[k].stride[last] == p->op[k].stride[d] * p->shape[d];
    }
    if (lines_up) {
      for (int k = 0; k <= p->n_in; k++)
        if (p->shape[d] != 1) p->op[k].stride[last] = p->op[k].stride[d];
      p->shape[last] *= p->shape[d];
    } else {
      last++;
      p->shape[last] = p->shape[d];
      for (int k = 0; k <= p->n_in; k++) p->op[k].stride[last] = p->op[k].stride[d];
    }
  }
  p->ndim = last + 1;
}

static void run_outer(const plan *p, int64_t first, int64_t last) {
  int inner = p->ndim - 1;
  char *data[MAX_OPERANDS];
  int64_t stride[MAX_OPERANDS];
  for (int k = 0; k <= p->n_in; k++) stride[k] = p->op[k].stride[inner];
  for (int64_t i = first; i < last; i++) {
    int64_t rest = i;
    for (int k = 0; k <= p->n_in; k++) data[k] = p->op[k].data;
    for (int d = inner - 1; d >= 0; d--) {
      int64_t at = rest % p->shape[d];
      rest /= p->shape[d];
      for (int k = 0; k <= p->n_in; k++) data[k] += at * p->op[k].stride[d] * p->op[k].size;
    }
    run(p, data, stride, p->shape[inner]);
  }
}

static void run_flat(const plan *p, int64_t first, int64_t n) {
  char *data[MAX_OPERANDS];
  int64_t stride[MAX_OPERANDS];
  for (int k = 0; k <= p->n_in; k++) {
    stride[k] = p->op[k].stride[0];
    data[k] = p->op[k].data + first * stride[k] * p->op[k].size;
  }
  run(p, data, stride, n);
}

/* Most small calls: every operand is the result's shape, contiguous, in the computing type. */
static bool is_plain(const lt_args *c, int kind, bool truth) {
  const lt_tensor *o = c->out[0];
  if (c->accumulate || o->n > CHUNK || o->dtype != (truth ? LT_BOOL : kind) || !lt_tensor_is_contiguous(o))
    return false;
  for (int i = 0; i < c->n_in; i++) {
    const lt_tensor *t = c->in[i];
    if (t->n != o->n || t->ndim != o->ndim || t->dtype != kind || !lt_tensor_is_contiguous(t)) return false;
  }
  return true;
}

int lt_elementwise_run(lt_args *c, int kind, lt_loop loop, bool truth) {
  const lt_tensor *o = c->out[0];
  if (is_plain(c, kind, truth)) {
    const void *in[MAX_OPERANDS];
    for (int i = 0; i < c->n_in; i++) in[i] = lt_ptr(c->in[i]);
    loop(o->n, lt_ptr(o), in, c->attr);
    return LT_OK;
  }
  plan p = {.ndim = o->ndim,
            .n_in = c->n_in,
            .kind = kind,
            .loop = loop,
            .attr = c->attr,
            .truth = truth,
            .accumulate = c->accumulate};
  if (o->n == 0) return LT_OK;
  for (int d = 0; d < o->ndim; d++) p.shape[d] = o->shape[d];
  for (int k = 0; k <= c->n_in; k++) {
    const lt_tensor *t = k ? c->in[k - 1] : o;
    p.op[k].data = lt_ptr(t);
    p.op[k].dtype = t->dtype;
    p.op[k].size = lt_dtype_size(t->dtype);
    for (int d = 0; d < o->ndim; d++) {
      int from = t->ndim - o->ndim + d;
      p.op[k].stride[d] = from < 0 || t->shape[from] == 1 ? 0 : t->stride[from];
    }
  }
  if (p.ndim == 0) {
    p.ndim = 1;
    p.shape[0] = 1;
    for (int k = 0; k <= c->n_in; k++) p.op[k].stride[0] = 1;
  }
  merge_dims(&p);
  if (p.ndim == 1) {
    int64_t n = p.shape[0], chunks = (n + CHUNK - 1) / CHUNK;
    if (chunks <= 2) {
      run_flat(&p, 0, n);
      return LT_OK;
    }
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(n))
    for (int64_t i = 0; i < chunks; i++) run_flat(&p, i * CHUNK, n - i * CHUNK < CHUNK ? n - i * CHUNK : CHUNK);
    return LT_OK;
  }
  int64_t outer = 1, inner = p.shape[p.ndim - 1];
  for (int d = 0; d < p.ndim - 1; d++) outer *= p.shape[d];
  int64_t per = inner >= CHUNK ? 1 : CHUNK / inner, chunks = (outer + per - 1) / per;
  if (chunks <= 2) {
    run_outer(&p, 0, outer);
    return LT_OK;
  }
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(o->n))
  for (int64_t i = 0; i < chunks; i++) run_outer(&p, i * per, (i + 1) * per < outer ? (i + 1) * per : outer);
  return LT_OK;
}

/* ---- operators with a table of loops ---- */

static int promoted(const lt_args *c) {
  int dtype = c->in[0]->dtype;
  for (int i = 1; i < c->n_in; i++) dtype = lt_promote(dtype, c->in[i]->dtype);
  return dtype;
}

/* The dtype that inputs are computed in, before a truth result. */
static int working_dtype(const lt_args *c) {
  const lt_loop_set *l = c->op->table;
  int dtype = promoted(c);
  return !lt_is_float(dtype) && (!l->i64 || l->result == LT_REAL) ? LT_FLOAT32 : dtype;
}

int lt_elementwise_shape(lt_args *c) {
  const lt_loop_set *l = c->op->table;
  int64_t shape[LT_MAX_DIMS];
  int ndim;
  LT_TRY(lt_broadcast(c, 0, c->n_in - 1, &ndim, shape));
  int dtype = working_dtype(c);
  if (dtype == LT_BOOL && l->result == LT_SAME) dtype = LT_INT64; /* arithmetic on truth values counts */
  if (l->result == LT_TRUTH)
    dtype = LT_BOOL;
  else if (c->bound && lt_is_float(c->out[0]->dtype) && lt_is_float(dtype))
    dtype = c->out[0]->dtype;
  else if (c->bound && lt_is_int(c->out[0]->dtype) && !lt_is_float(dtype))
    dtype = c->out[0]->dtype;
  else if (c->bound && lt_is_float(c->out[0]->dtype))
    dtype = c->out[0]->dtype;
  return lt_out(c, 0, dtype, ndim, shape);
}

int lt_elementwise_cpu(lt_args *c) {
  const lt_loop_set *l = c->op->table;
  switch (working_dtype(c)) {
  case LT_FLOAT64: return lt_elementwise_run(c, LT_FLOAT64, l->f64, l->result == LT_TRUTH);
  case LT_FLOAT32:
  case LT_BFLOAT16:
  case LT_FLOAT16: return lt_elementwise_run(c, LT_FLOAT32, l->f32, l->result == LT_TRUTH);
  default: return lt_elementwise_run(c, LT_INT64, l->i64, l->result == LT_TRUTH);
  }
}
