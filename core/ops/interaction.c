/* The second-order term of factorization machines (Rendle 2010): the sum of inner products of all pairs of fields,
 * 1/2 sum_k ((sum_f e_fk)^2 - sum_f e_fk^2), in one pass over e [batch, fields, dim]. Its gradient g (S - e) is an
 * operator too, linear in g and in e, so it is its own derivative. */
#include "lookup.h"

enum { SAMPLES = 32 };

#define KERNELS(T, suffix)                                                                                             \
  /* S [dim] is scratch: the sums over fields */                                                                       \
  LT_CLONES static void term_##suffix(const T *restrict e, int64_t fields, int64_t dim, T *restrict out,               \
                                      T *restrict s, int64_t samples) {                                                \
    for (int64_t b = 0; b < samples; b++, e += fields * dim) {                                                         \
      T both = 0, own = 0;                                                                                             \
      for (int64_t k = 0; k < dim; k++) s[k] = 0, s[dim + k] = 0;                                                      \
      for (int64_t f = 0; f < fields; f++)                                                                             \
        for (int64_t k = 0; k < dim; k++) {                                                                            \
          T v = e[f * dim + k];                                                                                        \
          s[k] += v;                                                                                                   \
          s[dim + k] += v * v;                                                                                         \
        }                                                                                                              \
      for (int64_t k = 0; k < dim; k++) both += s[k] * s[k], own += s[dim + k];                                        \
      out[b] = (T)0.5 * (both - own);                                                                                  \
    }                                                                                                                  \
  }                                                                                                                    \
  LT_CLONES static void slope_##suffix(const T *restrict g, const T *restrict e, int64_t fields, int64_t dim,          \
                                       T *restrict out, T *restrict s, int64_t samples) {                              \
    for (int64_t b = 0; b < samples; b++, e += fields * dim, out += fields * dim) {                                    \
      const T w = g[b];                                                                                                \
      for (int64_t k = 0; k < dim; k++) s[k] = 0;                                                                      \
      for (int64_t f = 0; f < fields; f++)                                                                             \
        for (int64_t k = 0; k < dim; k++) s[k] += e[f * dim + k];                                                      \
      for (int64_t f = 0; f < fields; f++)                                                                             \
        for (int64_t k = 0; k < dim; k++) out[f * dim + k] = w * (s[k] - e[f * dim + k]);                              \
    }                                                                                                                  \
  }
KERNELS(float, f32)
KERNELS(double, f64)

/* [batch, fields, dim], or [batch, fields * dim] with the number of fields as attribute. */
static int split(const lt_args *c, const lt_tensor *x, int64_t *fields, int64_t *dim) {
  *fields = c->attr->i[0];
  if (x->dtype != LT_FLOAT32 && x->dtype != LT_FLOAT64)
    return lt_fail(LT_ERR_DTYPE,
                   "%s: the embeddings are %s; they must be float32 or float64: convert with x:to(\"float32\")",
                   c->op->name, lt_dtype_name(x->dtype));
  if (x->ndim == 3) {
    if (*fields && *fields != x->shape[1])
      return lt_fail(LT_ERR_SHAPE, "%s: the embeddings are %s, so fields is %lld; it was given as %lld", c->op->name,
                     lt_shape_text(x), (long long)x->shape[1], (long long)*fields);
    *fields = x->shape[1];
    *dim = x->shape[2];
    return LT_OK;
  }
  if (x->ndim != 2)
    return lt_fail(LT_ERR_SHAPE,
                   "%s: the embeddings are %s; they must be [batch, fields, dim] or [batch, fields * dim]", c->op->name,
                   lt_shape_text(x));
  if (*fields < 1 || x->shape[1] % *fields)
    return lt_fail(LT_ERR_SHAPE,
                   "%s: the embeddings are %s and fields is %lld; give a number of fields that divides %lld",
                   c->op->name, lt_shape_text(x), (long long)*fields, (long long)x->shape[1]);
  *dim = x->shape[1] / *fields;
  return LT_OK;
}

/* Scratch of 2 dim sums for each thread's chunk; on the stack where it fits. */
enum { ON_STACK = 512 };

static int fm_shape(lt_args *c) {
  int64_t fields, dim;
  LT_TRY(split(c, c->in[0], &fields, &dim));
  LT_TRY(lt_need_whole_out(c));
  return lt_out(c, 0, c->in[0]->dtype, 1, c->in[0]->shape);
}
static int run(const lt_args *c, lt_tensor *e, lt_tensor *g, int64_t fields, int64_t dim) {
  int64_t batch = e->shape[0], chunks = (batch + SAMPLES - 1) / SAMPLES, row = fields * dim, pitch = 2 * dim;
  bool wide = e->dtype == LT_FLOAT64;
  double *shared = pitch > ON_STACK ? lt_alloc(chunks * pitch * (int64_t)sizeof *shared) : NULL;
  if (pitch > ON_STACK && !shared) return LT_ERR_MEMORY;
  void *out = lt_ptr(c->out[0]);
  const void *x = lt_ptr(e), *w = g ? lt_ptr(g) : NULL;
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(e->n))
  for (int64_t k = 0; k < chunks; k++) {
    double own[ON_STACK], *s = shared ? shared + k * pitch : own;
    int64_t b = k * SAMPLES, n = batch - b < SAMPLES ? batch - b : SAMPLES;
    if (g && wide)
      slope_f64((const double *)w + b, (const double *)x + b * row, fields, dim, (double *)out + b * row, s, n);
    else if (g)
      slope_f32((const float *)w + b, (const float *)x + b * row, fields, dim, (float *)out + b * row, (float *)s, n);
    else if (wide)
      term_f64((const double *)x + b * row, fields, dim, (double *)out + b, s, n);
    else
      term_f32((const float *)x + b * row, fields, dim, (float *)out + b, (float *)s, n);
  }
  if (shared) lt_free(shared, chunks * pitch * (int64_t)sizeof *shared);
  return LT_OK;
}
static int fm_cpu(lt_args *c) {
  lt_tensor *e;
  int64_t fields, dim;
  LT_TRY(split(c, c->in[0], &fields, &dim));
  LT_TRY(lt_contiguous(c->in[0], &e));
  int status = run(c, e, NULL, fields, dim);
  lt_tensor_release(e);
  return status;
}
static void fm_rule(lt_back *b) { LT_GRAD_ATTR(b, 0, fm_interaction_backward, b->attr, b->grad[0], b->in[0]); }

/* The same by plain operators, for devices without a kernel: (sum(e)^2 - sum(e^2)) / 2. */
static int fm_fallback(lt_args *c) {
  lt_tensor *t[6] = {0}, *pair[2];
  int64_t fields, dim;
  LT_TRY(split(c, c->in[0], &fields, &dim));
  lt_attr shape = {.n_list = 3, .list = {c->in[0]->shape[0], fields, dim}}, over_fields = {.n_list = 1, .list = {1}};
  lt_attr half = {.scalars = 2, .f = {0, 0.5}}, last = {.n_list = 1, .list = {1}};
  bool was = lt_grad_enable(false);
  int status = lt_run(LT_OP_reshape, &c->in[0], 1, &shape, &t[0], 1);
  if (status >= 0) status = lt_run(LT_OP_sum, &t[0], 1, &over_fields, &t[1], 1);
  if (status >= 0) status = lt_run(LT_OP_square, &t[1], 1, NULL, &t[2], 1);
  if (status >= 0) status = lt_run(LT_OP_square, &t[0], 1, NULL, &t[3], 1);
  lt_tensor_release(t[1]);
  t[1] = NULL;
  if (status >= 0) status = lt_run(LT_OP_sum, &t[3], 1, &over_fields, &t[1], 1);
  if (status >= 0) status = (pair[0] = t[2], pair[1] = t[1], lt_run(LT_OP_sub, pair, 2, NULL, &t[4], 1));
  lt_tensor_release(t[3]);
  t[3] = NULL;
  if (status >= 0) status = lt_run(LT_OP_sum, &t[4], 1, &last, &t[3], 1);
  if (status >= 0) status = lt_tensor_scalar(half.f[1], c->in[0]->dtype, &t[5]);
  if (status >= 0) status = (pair[0] = t[3], pair[1] = t[5], lt_run_into(LT_OP_mul, pair, 2, NULL, c->out[0], false));
  lt_grad_enable(was);
  for (int k = 0; k < 6; k++) lt_tensor_release(t[k]);
  return status;
}
const lt_op lt_op_fm_interaction = {.name = "fm_interaction",
                                    .signature = "fm_interaction(x, fields: int = 0)",
                                    .doc = "Sum of inner products of all pairs of fields, 1/2 sum_k ((sum_f x)^2 - "
                                           "sum_f x^2): from [batch, fields, dim], or "
                                           "[batch, fields * dim] with fields given, to [batch].",
                                    .shape = fm_shape,
                                    .cpu = fm_cpu,
                                    .backward = fm_rule,
                                    .keep = LT_IN(0),
                                    .fallback = fm_fallback};

/* ---- fm_interaction_backward(grad [batch], x): grad (sum over fields of x - x), in x's shape ---- */
static int fm_backward_shape(lt_args *c) {
  const lt_tensor *g = c->in[0], *x = c->in[1];
  int64_t fields, dim;
  LT_TRY(split(c, x, &fields, &dim));
  if (g->ndim != 1 || g->n != x->shape[0] || g->dtype != x->dtype)
    return lt_fail(LT_ERR_SHAPE, "%s: the gradient is %s %s and the embeddings %s %s; they do not go together",
                   c->op->name, lt_shape_text(g), lt_dtype_name(g->dtype), lt_shape_text(x), lt_dtype_name(x->dtype));
  LT_TRY(lt_need_whole_out(c));
  return lt_out_like(c, 0, x);
}
static int fm_backward_cpu(lt_args *c) {
  lt_tensor *g, *e;
  int64_t fields, dim;
  LT_TRY(split(c, c->in[1], &fields, &dim));
  LT_TRY(lt_contiguous(c->in[0], &g));
  int status = lt_contiguous(c->in[1], &e);
  if (status >= 0) {
    status = run(c, e, g, fields, dim);
    lt_tensor_release(e);
  }
  lt_tensor_release(g);
  return status;
}
/* With h the gradient of the result: grad gets sum h (S(x) - x), and x gets grad (S(h) - h). */
static void fm_backward_rule(lt_back *b) {
  lt_tensor *h = b->grad[0];
  if (lt_wants(b, 1)) LT_GRAD_ATTR(b, 1, fm_interaction_backward, b->attr, b->in[0], h);
  if (!lt_wants(b, 0)) return;
  lt_attr one = {.n_list = 1, .list = {b->edge[0].shape[0]}, .f = {1}, .i = {b->edge[0].dtype}};
  lt_attr dims = {.n_list = b->edge[1].ndim - 1, .list = {1, 2}};
  lt_tensor *ones = lt_do(b, LT_OP_full, &one, 0, NULL);
  LT_GRAD_ATTR(b, 0, sum, &dims, LT_DO(b, mul, h, LT_DO_ATTR(b, fm_interaction_backward, b->attr, ones, b->in[1])));
}
const lt_op lt_op_fm_interaction_backward = {
    .name = "fm_interaction_backward",
    .signature = "fm_interaction_backward(grad, x, fields: int = 0)",
    .doc = "Gradient of fm_interaction: grad times (sum over fields of x, minus x).",
    .flags = LT_OP_HIDDEN,
    .shape = fm_backward_shape,
    .cpu = fm_backward_cpu,
    .backward = fm_backward_rule,
    .keep = LT_IN(0) | LT_IN(1)};
