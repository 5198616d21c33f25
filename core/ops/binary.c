/* Elementwise operators of two inputs, made from binary.def, with their rules; and where(), of three. */
#include "elementwise.h"
#include <tgmath.h>

static _Atomic int divided_by_zero; /* raised in a loop, read once the operator is through */

static int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == 0) {
    atomic_store_explicit(&divided_by_zero, 1, memory_order_relaxed);
    return 0;
  }
  if (b == -1) return (int64_t)(0 - (uint64_t)a); /* the smallest integer has no positive twin */
  int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}
static int64_t int_mod(int64_t a, int64_t b) {
  return b == 0 || b == -1 ? (floor_quotient(0, b), 0) : lt_wrap_sub(a, lt_wrap_mul(floor_quotient(a, b), b));
}
static int64_t int_pow(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  uint64_t y = 1, x = (uint64_t)a;
  for (; b; b >>= 1, x *= x)
    if (b & 1) y *= x;
  return (int64_t)y;
}
#define float_mod(a, b) ((a)-floor((a) / (b)) * (b))

/* ---- rules ---- */
#define NONE_rule NULL
static void add_rule(lt_back *b) {
  lt_give(b, 0, b->grad[0]);
  lt_give(b, 1, b->grad[0]);
}
static void sub_rule(lt_back *b) {
  lt_give(b, 0, b->grad[0]);
  if (lt_wants(b, 1)) LT_GRAD(b, 1, neg, b->grad[0]);
}
static void mul_rule(lt_back *b) {
  if (lt_wants(b, 0)) LT_GRAD(b, 0, mul, b->grad[0], b->in[1]);
  if (lt_wants(b, 1)) LT_GRAD(b, 1, mul, b->grad[0], b->in[0]);
}
static void div_rule(lt_back *b) {
  if (lt_wants(b, 0)) LT_GRAD(b, 0, div, b->grad[0], b->in[1]);
  if (lt_wants(b, 1)) LT_GRAD(b, 1, neg, LT_DO(b, mul, b->grad[0], LT_DO(b, div, b->out[0], b->in[1])));
}
static void mod_rule(lt_back *b) {
  lt_give(b, 0, b->grad[0]);
  if (lt_wants(b, 1)) LT_GRAD(b, 1, neg, LT_DO(b, mul, b->grad[0], LT_DO(b, floordiv, b->in[0], b->in[1])));
}
/* Where b is 0 the slope in a is 0, also at a = 0; the slope in b counts only where log(a) exists. */
static void pow_rule(lt_back *b) {
  lt_tensor *x = b->in[0], *e = b->in[1];
  if (lt_wants(b, 0)) {
    lt_tensor *zero = lt_number(b, 0, e->dtype), *one = lt_number(b, 1, e->dtype);
    lt_tensor *slope = LT_DO(b, mul, e, LT_DO(b, pow, x, LT_DO(b, sub, e, one)));
    lt_tensor *none = lt_number(b, 0, b->edge[0].dtype);
    LT_GRAD(b, 0, mul, b->grad[0], LT_DO(b, where, LT_DO(b, eq, e, zero), none, slope));
  }
  if (lt_wants(b, 1)) {
    lt_tensor *zero = lt_number(b, 0, x->dtype), *none = lt_number(b, 0, b->edge[1].dtype);
    lt_tensor *one = lt_number(b, 1, x->dtype);
    lt_tensor *positive = LT_DO(b, gt, x, zero), *safe = LT_DO(b, where, positive, x, one);
    lt_tensor *slope = LT_DO(b, mul, b->out[0], LT_DO(b, log, safe));
    LT_GRAD(b, 1, mul, b->grad[0], LT_DO(b, where, positive, slope, none));
  }
}
static void atan2_rule(lt_back *b) {
  lt_tensor *a = b->in[0], *x = b->in[1];
  lt_tensor *r = LT_DO(b, div, b->grad[0], LT_DO(b, add, LT_DO(b, mul, a, a), LT_DO(b, mul, x, x)));
  if (lt_wants(b, 0)) LT_GRAD(b, 0, mul, r, x);
  if (lt_wants(b, 1)) LT_GRAD(b, 1, neg, LT_DO(b, mul, r, a));
}
static void extreme_rule(lt_back *b, int wins) {
  lt_tensor *tie = LT_DO(b, mul, LT_DO(b, eq, b->in[0], b->in[1]), lt_number(b, 0.5, b->grad[0]->dtype));
  for (int i = 0; i < 2; i++)
    if (lt_wants(b, i)) {
      lt_tensor *pair[] = {b->in[i], b->in[1 - i]};
      LT_GRAD(b, i, mul, b->grad[0], LT_DO(b, add, lt_do(b, wins, NULL, 2, pair), tie));
    }
}
static void minimum_rule(lt_back *b) { extreme_rule(b, LT_OP_lt); }
static void maximum_rule(lt_back *b) { extreme_rule(b, LT_OP_gt); }

enum {
  NONE_keep = LT_OUT(12),
  add_keep = 0,
  sub_keep = 0, /* NONE_keep only marks: an operator without a rule keeps nothing */
  mul_keep = LT_IN(0) | LT_IN(1),
  div_keep = LT_IN(1) | LT_OUT(0),
  mod_keep = LT_IN(0) | LT_IN(1),
  pow_keep = LT_IN(0) | LT_IN(1) | LT_OUT(0),
  atan2_keep = mul_keep,
  minimum_keep = mul_keep,
  maximum_keep = mul_keep
};

/* A factor is read only for the gradient of the other one: x:mul_(2) may overwrite x. */
static bool wanted(const lt_args *c, int i) { return c->in[i]->requires_grad; }
static uint32_t mul_reads(const lt_args *c) { return (wanted(c, 1) ? LT_IN(0) : 0) | (wanted(c, 0) ? LT_IN(1) : 0); }
static uint32_t div_reads(const lt_args *c) { return LT_IN(1) | (wanted(c, 1) ? LT_OUT(0) : 0); }
#define NONE_reads NULL
#define add_reads NULL
#define sub_reads NULL
#define mod_reads NULL
#define pow_reads NULL
#define atan2_reads NULL
#define minimum_reads NULL
#define maximum_reads NULL

static int dividing_cpu(lt_args *c) {
  atomic_store(&divided_by_zero, 0);
  LT_TRY(lt_elementwise_cpu(c));
  if (atomic_exchange(&divided_by_zero, 0))
    return lt_fail(LT_ERR_ARGUMENT, "%s: an integer is divided by 0; check b, or convert a to a floating type",
                   c->op->name);
  return LT_OK;
}

/* ---- loops and descriptors ---- */
#define LOOP(name, CT, OUT, body)                                                                                      \
  LT_CLONES static void name(int64_t n, void *out, const void *const *in, const lt_attr *attr) {                       \
    (void)attr;                                                                                                        \
    const CT *as = in[0], *bs = in[1];                                                                                 \
    OUT *ys = out;                                                                                                     \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      const CT a = as[i], b = bs[i];                                                                                   \
      (void)a, (void)b;                                                                                                \
      ys[i] = (OUT)(body);                                                                                             \
    }                                                                                                                  \
  }
#define OUT_SAME(T) T
#define OUT_REAL(T) T
#define OUT_TRUTH(T) uint8_t
#define FLAGS_SAME LT_OP_INPLACE | LT_OP_ACCUMULATE
#define FLAGS_REAL LT_OP_INPLACE | LT_OP_ACCUMULATE
#define FLAGS_TRUTH 0
#define CPU_FOR(NAME) (LT_OP_##NAME == LT_OP_floordiv || LT_OP_##NAME == LT_OP_mod ? dividing_cpu : lt_elementwise_cpu)
#define LT_BINARY(NAME, RESULT, FLOAT, INT, RULE, DOC)                                                                 \
  LOOP(NAME##_f32, float, OUT_##RESULT(float), FLOAT)                                                                  \
  LOOP(NAME##_f64, double, OUT_##RESULT(double), FLOAT)                                                                \
  LOOP(NAME##_i64, int64_t, OUT_##RESULT(int64_t), INT)                                                                \
  static const lt_loop_set NAME##_loops = {NAME##_f32, NAME##_f64, NAME##_i64, LT_##RESULT};                           \
  const lt_op lt_op_##NAME = {.name = #NAME,                                                                           \
                              .signature = #NAME "(a: operand, b: operand)",                                           \
                              .doc = DOC,                                                                              \
                              .flags = LT_OP_ELEMENTWISE | FLAGS_##RESULT |                                            \
                                       ((int)RULE##_keep == (int)NONE_keep ? LT_OP_NO_GRADIENT : 0),                   \
                              .shape = lt_elementwise_shape,                                                           \
                              .cpu = CPU_FOR(NAME),                                                                    \
                              .backward = RULE##_rule,                                                                 \
                              .keep = RULE##_keep,                                                                     \
                              .reads = RULE##_reads,                                                                   \
                              .table = &NAME##_loops};
#include "binary.def"

/* ---- where ---- */
LOOP(choose_f32, float, float, a != 0 ? b : ((const float *)in[2])[i])
LOOP(choose_f64, double, double, a != 0 ? b : ((const double *)in[2])[i])
LOOP(choose_i64, int64_t, int64_t, a != 0 ? b : ((const int64_t *)in[2])[i])

static int where_shape(lt_args *c) {
  int64_t shape[LT_MAX_DIMS];
  int ndim;
  LT_TRY(lt_need_dtype(c, 0, LT_BOOL));
  LT_TRY(lt_broadcast(c, 0, 2, &ndim, shape));
  return lt_out(c, 0, c->bound ? c->out[0]->dtype : lt_promote(c->in[1]->dtype, c->in[2]->dtype), ndim, shape);
}
static int where_cpu(lt_args *c) {
  int dtype = lt_promote(c->in[1]->dtype, c->in[2]->dtype);
  if (dtype == LT_FLOAT64) return lt_elementwise_run(c, LT_FLOAT64, choose_f64, false);
  if (lt_is_float(dtype)) return lt_elementwise_run(c, LT_FLOAT32, choose_f32, false);
  return lt_elementwise_run(c, LT_INT64, choose_i64, false);
}
static void where_rule(lt_back *b) {
  lt_tensor *zero = lt_number(b, 0, b->grad[0]->dtype);
  if (lt_wants(b, 1)) LT_GRAD(b, 1, where, b->in[0], b->grad[0], zero);
  if (lt_wants(b, 2)) LT_GRAD(b, 2, where, b->in[0], zero, b->grad[0]);
}
const lt_op lt_op_where = {.name = "where",
                           .signature = "where(condition, a: operand, b: operand)",
                           .doc = "a where the condition (bool) is true, b elsewhere; all three broadcast.",
                           .flags = LT_OP_ELEMENTWISE | LT_OP_ACCUMULATE,
                           .shape = where_shape,
                           .cpu = where_cpu,
                           .backward = where_rule,
                           .keep = LT_IN(0)};
