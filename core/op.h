/* All that a file in core/ops may use: the description of an operator, one call of it, and the words of backward rules.
 * An operator is one descriptor (signature, doc, shape, cpu, backward, keep) beside its CPU code and one line in
 * ops.def. Nothing else knows it: dispatch, autograd, Lua binding, help and tests read the descriptor. */
#pragma once
#include "backend.h"
#include <string.h>

typedef struct lt_op lt_op;
typedef struct lt_back lt_back;

/* One call, as shape() and kernels see it. */
typedef struct lt_args {
  const lt_op *op;
  int id;
  int n_in, n_out;
  lt_tensor **in;             /* an optional tensor that was not given is NULL */
  lt_tensor *out[LT_MAX_OUT]; /* made by lt_out in shape(); a bound output is there before */
  const lt_attr *attr;
  lt_backend *backend;
  bool bound, accumulate; /* out[0] came from the caller; its old value is added to */
  bool plain;             /* by the fallback, though there may be a kernel */
} lt_args;

struct lt_op {
  const char *name;
  const char *signature;   /* "softmax(x, dim: dim = -1)": read once by lua/ltrain/op.lua; grammar in op.c's banner */
  const char *doc;         /* first sentence: what it gives. Then shapes, rules, errors */
  int flags, n_out;        /* lt_op_flags; n_out 0 counts as 1 */
  int (*shape)(lt_args *); /* checks inputs, makes every output through lt_out or lt_out_view */
  lt_kernel cpu;           /* NULL for views */
  void (*backward)(lt_back *);        /* NULL: no gradient */
  uint32_t keep;                      /* what the rule reads: LT_IN(i) | LT_OUT(i) */
  uint32_t (*reads)(const lt_args *); /* optional: what of `keep` this call's rule reads; the rest is NULL there */
  int (*fallback)(lt_args *);         /* optional: the same result by other operators */
  const void *table;                  /* private to a family, e.g. elementwise loops */
};
#define LT_IN(i) (1u << (i))
#define LT_OUT(i) (1u << (16 + (i)))

enum {
#define LT_OP(name) LT_OP_##name,
#include "ops.def"
#undef LT_OP
  LT_OP_COUNT
};
const lt_op *lt_op_at(int id);

/* ---- for shape() ---- */
int lt_out(lt_args *c, int k, int dtype, int ndim, const int64_t *shape); /* makes output k, or checks the bound one */
int lt_out_like(lt_args *c, int k, const lt_tensor *t);
int lt_out_view(lt_args *c, int k, lt_tensor *base, int ndim, const int64_t *shape, const int64_t *stride,
                int64_t offset); /* offset from the storage's start */
int lt_out_narrow(lt_args *c, int k, int ndim,
                  const int64_t *shape); /* in a kernel: output k is smaller than its bound */
int lt_broadcast(const lt_args *c, int first, int last, int *ndim, int64_t *shape); /* of inputs first..last */
int lt_need_float(const lt_args *c, int i); /* input i must have a floating dtype */
int lt_need_dtype(const lt_args *c, int i, int dtype);
int lt_need_ids(const lt_args *c, int i); /* int32 or int64 */
int lt_dim_text(int64_t dim);             /* 0-based to the user's 1-based */

/* ---- running operators from C ---- */
/* in: borrowed. out: one reference each. attr NULL: all zero. Records when gradients are enabled. */
int lt_run(int id, lt_tensor *const *in, int n_in, const lt_attr *attr, lt_tensor **out, int n_out);
/* The same into a tensor that exists, adding to it if `accumulate`; history is not recorded. */
int lt_run_into(int id, lt_tensor *const *in, int n_in, const lt_attr *attr, lt_tensor *out, bool accumulate);
int lt_contiguous(lt_tensor *t, lt_tensor **out); /* t itself (retained) or a contiguous copy */

extern bool lt_profile_on;
void lt_profile_add(int id, double seconds); /* profile.c */

/* ---- backward rules ----
 * A rule is mathematics on operators. It has no error or free noise: lt_back remembers the first failure and owns the
 * temporaries; an lt_do after a failure gives NULL and does nothing. */
struct lt_back {
  const lt_op *op;
  const lt_attr *attr;
  int n_in, n_out;
  lt_tensor **in;             /* saved inputs, NULL where not kept */
  lt_tensor **out;            /* saved outputs, NULL where not kept */
  lt_tensor **grad;           /* of each output; NULL: nobody used it */
  const struct lt_edge *edge; /* shape and dtype of each input: edge[i].shape */
  int status;
  struct lt_record *record; /* the engine's */
  struct lt_backward *pass;
  lt_tensor *temporary[64];
  int n_temporary;
};
typedef struct lt_edge {
  lt_node *node;   /* the maker of the input ... */
  lt_tensor *leaf; /* ... or the leaf itself; both NULL: wants no gradient */
  int16_t out_index;
  uint8_t dtype, ndim;
  int64_t shape[LT_MAX_DIMS];
} lt_edge;

bool lt_wants(const lt_back *b, int i); /* does input i want a gradient? */
lt_tensor *lt_do(lt_back *b, int id, const lt_attr *attr, int n_in, lt_tensor *const *in); /* owned by b */
lt_tensor *lt_do_n(lt_back *b, int id, const lt_attr *attr, int n_in, lt_tensor *const *in, int n_out, lt_tensor **out);
/* Gradient of input i is this operator's result; a leaf's bucket is written directly where the kernel can add. */
void lt_grad_by(lt_back *b, int i, int id, const lt_attr *attr, int n_in, lt_tensor *const *in);
void lt_give(lt_back *b, int i, lt_tensor *grad);                         /* gradient of input i is this tensor */
void lt_give_rows(lt_back *b, int i, lt_tensor *rows, lt_tensor *values); /* only these rows of it: [u] and [u, ...] */
lt_tensor *lt_number(lt_back *b, double value, int dtype);                /* a scalar operand for rules */

#define LT_COUNT(...) (int)(sizeof((lt_tensor *[]){__VA_ARGS__}) / sizeof(lt_tensor *))
#define LT_DO(b, op, ...) lt_do(b, LT_OP_##op, NULL, LT_COUNT(__VA_ARGS__), (lt_tensor *[]){__VA_ARGS__})
#define LT_DO_ATTR(b, op, attr, ...) lt_do(b, LT_OP_##op, attr, LT_COUNT(__VA_ARGS__), (lt_tensor *[]){__VA_ARGS__})
#define LT_GRAD(b, i, op, ...) lt_grad_by(b, i, LT_OP_##op, NULL, LT_COUNT(__VA_ARGS__), (lt_tensor *[]){__VA_ARGS__})
#define LT_GRAD_ATTR(b, i, op, attr, ...)                                                                              \
  lt_grad_by(b, i, LT_OP_##op, attr, LT_COUNT(__VA_ARGS__), (lt_tensor *[]){__VA_ARGS__})

/* ---- parallel loops: fixed chunks, so that no result depends on the number of threads ---- */
int lt_threads(void);
/* Threads worth waking for this much work (elements or so): 1 for small loops. */
static inline int lt_threads_for(int64_t work) { return work < 131072 ? 1 : lt_threads(); }
#define LT_PARALLEL_FOR(work) _Pragma("omp parallel for schedule(static) num_threads(lt_threads_for(work))")
/* Bodies compiled for AVX-512, AVX2 and plain x86-64, chosen when the program is loaded. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&               \
    !defined(__SANITIZE_THREAD__)
#define LT_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define LT_CLONES
#endif
