/* The registry and the one call. A call resolves handles, turns numbers into scalars, lets shape() check the inputs and
 * make the outputs, runs the device's kernel and records a node when a gradient is wanted.
 *
 * Grammar of a signature: name "(" [argument ("," argument)*] ")". An argument is NAME [":" KIND] ["=" DEFAULT];
 * without a kind it is a tensor. Kinds: tensor, tensor? (may be nil), operand (tensor or number), tensors (a list; last
 * tensor argument); number (next attr.f), int, bool, dim (1-based, negative from the end), dtype, one|two|three (a name
 * from that list) (next attr.i); dims, ints (the one attr.list). A default of nil for a dim or dims means "all". */
#include "autograd.h"
#include "random.h"

#include <math.h>

#define LT_OP(name) extern const lt_op lt_op_##name;
#include "ops.def"
#undef LT_OP
static const lt_op *const registry[LT_OP_COUNT] = {
#define LT_OP(name) &lt_op_##name,
#include "ops.def"
#undef LT_OP
};

const lt_op *lt_op_at(int id) { return registry[id]; }
const char *lt_op_name(int id) { return id >= 0 && id < LT_OP_COUNT ? registry[id]->name : "?"; }
int lt_op_count(void) { return LT_OP_COUNT; }

int lt_op_get(int id, lt_op_info *out) {
  if (id < 0 || id >= LT_OP_COUNT) return lt_fail(LT_ERR_RANGE, "operator: there is no number %d", id);
  const lt_op *op = registry[id];
  *out = (lt_op_info){op->name, op->signature, op->doc, op->flags, op->n_out ? op->n_out : 1};
  return LT_OK;
}

int lt_op_find(const char *name) {
  for (int i = 0; i < LT_OP_COUNT; i++)
    if (strcmp(registry[i]->name, name) == 0) return i;
  return -1;
}

/* ---- words for shape() ---- */

int lt_out(lt_args *c, int k, int dtype, int ndim, const int64_t *shape) {
  if (k == 0 && c->bound) {
    lt_tensor *o = c->out[0];
    if (o->dtype != dtype)
      return lt_fail(LT_ERR_DTYPE,
                     "%s: the result is %s and cannot be written into a %s tensor; convert with x:to(\"%s\") first",
                     c->op->name, lt_dtype_name(dtype), lt_dtype_name(o->dtype), lt_dtype_name(dtype));
    if (o->ndim != ndim || memcmp(o->shape, shape, (size_t)ndim * sizeof *shape) != 0)
      return lt_fail(LT_ERR_SHAPE, "%s: the result is %s and cannot be written into a tensor of shape %s", c->op->name,
                     lt_dims_text(ndim, shape), lt_shape_text(o));
    return LT_OK;
  }
  return lt_tensor_new(c->backend, dtype, ndim, shape, &c->out[k]);
}

int lt_out_like(lt_args *c, int k, const lt_tensor *t) { return lt_out(c, k, t->dtype, t->ndim, t->shape); }

int lt_out_view(lt_args *c, int k, lt_tensor *base, int ndim, const int64_t *shape, const int64_t *stride,
                int64_t offset) {
  if (c->bound)
    return lt_fail(LT_ERR_ARGUMENT, "%s: gives a view and cannot be written into another tensor", c->op->name);
  return lt_tensor_view(base, ndim, shape, stride, offset, &c->out[k]);
}

int lt_out_narrow(lt_args *c, int k, int ndim, const int64_t *shape) {
  lt_tensor *o = c->out[k];
  o->ndim = (uint8_t)ndim;
  o->n = 1;
  for (int d = 0; d < ndim; d++) o->n *= o->shape[d] = shape[d];
  lt_contiguous_strides(ndim, shape, o->stride);
  return LT_OK;
}

int lt_broadcast(const lt_args *c, int first, int last, int *ndim, int64_t *shape) {
  int rank = 0;
  const lt_tensor *a = c->in[first], *z = c->in[last];
  if (last - first < 2 && a && z && lt_same_shape(a, z)) { /* nothing to stretch */
    *ndim = a->ndim;
    for (int d = 0; d < a->ndim; d++) shape[d] = a->shape[d];
    return LT_OK;
  }
  for (int i = first; i <= last; i++)
    if (c->in[i] && c->in[i]->ndim > rank) rank = c->in[i]->ndim;
  for (int d = 0; d < rank; d++) shape[d] = 1;
  for (int i = first; i <= last; i++) {
    const lt_tensor *t = c->in[i];
    if (!t) continue;
    for (int d = 0; d < t->ndim; d++) {
      int64_t *s = &shape[rank - t->ndim + d];
      if (t->shape[d] == *s || t->shape[d] == 1) continue;
      if (*s != 1) {
        const lt_tensor *other = c->in[first];
        for (int j = first; j < i; j++)
          if (c->in[j]) other = c->in[j];
        return lt_fail(
            LT_ERR_SHAPE,
            "%s: shapes %s and %s do not broadcast: sizes %lld and %lld of dim %d from the end must be equal or 1",
            c->op->name, lt_shape_text(other), lt_shape_text(t), (long long)*s, (long long)t->shape[d], t->ndim - d);
      }
      *s = t->shape[d];
    }
  }
  *ndim = rank;
  return LT_OK;
}

int lt_need_float(const lt_args *c, int i) {
  if (lt_is_float(c->in[i]->dtype)) return LT_OK;
  return lt_fail(LT_ERR_DTYPE, "%s: input %d is %s; it must be a floating type: convert with x:to(\"float32\")",
                 c->op->name, i + 1, lt_dtype_name(c->in[i]->dtype));
}
int lt_need_dtype(const lt_args *c, int i, int dtype) {
  if (c->in[i]->dtype == dtype) return LT_OK;
  return lt_fail(LT_ERR_DTYPE, "%s: input %d is %s and must be %s: convert with x:to(\"%s\")", c->op->name, i + 1,
                 lt_dtype_name(c->in[i]->dtype), lt_dtype_name(dtype), lt_dtype_name(dtype));
}
int lt_need_ids(const lt_args *c, int i) {
  if (c->in[i]->dtype == LT_INT64 || c->in[i]->dtype == LT_INT32) return LT_OK;
  return lt_fail(LT_ERR_DTYPE, "%s: input %d is %s; ids are int32 or int64: convert with x:to(\"int64\")", c->op->name,
                 i + 1, lt_dtype_name(c->in[i]->dtype));
}

/* ---- the call ---- */

static void drop_outputs(lt_args *c) {
  for (int k = c->bound ? 1 : 0; k < c->n_out; k++) {
    lt_tensor_release(c->out[k]);
    c->out[k] = NULL;
  }
}

static int pick_backend(lt_args *c) {
  lt_backend *b = NULL;
  for (int i = 0; i < c->n_in; i++) {
    if (!c->in[i] || c->in[i]->is_scalar) continue;
    lt_backend *other = c->in[i]->storage->backend;
    if (b && other != b)
      return lt_fail(LT_ERR_DEVICE, "%s: the inputs live on %s and %s; move one with x:to(\"%s\")", c->op->name,
                     b->name, other->name, b->name);
    b = other;
  }
  if (b)
    c->backend = b;
  else
    LT_TRY(lt_backend_get(c->attr->device, &c->backend));
  return LT_OK;
}

/* A bound output that overlaps an input, but not element on element, must not be written while it is read. */
static bool overlaps(const lt_tensor *out, const lt_tensor *in) {
  if (out->storage != in->storage || out->n == 0 || in->n == 0) return false;
  if (out->offset == in->offset && lt_same_shape(out, in) &&
      memcmp(out->stride, in->stride, out->ndim * sizeof *out->stride) == 0)
    return false;
  int64_t a0 = out->offset, a1 = a0, b0 = in->offset, b1 = b0;
  for (int d = 0; d < out->ndim; d++) a1 += (out->shape[d] - 1) * out->stride[d];
  for (int d = 0; d < in->ndim; d++) b1 += (in->shape[d] - 1) * in->stride[d];
  return a0 <= b1 && b0 <= a1;
}

static int check_inplace(const lt_args *c, bool recorded) {
  const lt_tensor *o = c->out[0];
  if (!lt_recording()) return LT_OK;
  if (o->requires_grad && !o->node)
    return lt_fail(LT_ERR_STATE,
                   "%s_: a leaf that requires a gradient cannot be written in place while gradients are "
                   "recorded; write inside lt.no_grad(function() ... end)",
                   c->op->name);
  if (o->is_view && o->node)
    return lt_fail(LT_ERR_STATE,
                   "%s_: this view is part of a gradient graph and cannot be written in place; use the "
                   "operator without the underscore",
                   c->op->name);
  if (o->is_view && recorded)
    return lt_fail(
        LT_ERR_STATE,
        "%s_: the tensor is a view and the value written needs a gradient, of which the tensor it shows would "
        "not know; put the result together with lt.cat, lt.stack or lt.where",
        c->op->name);
  return LT_OK;
}

/* An expanded tensor shows one element in many places: what a write leaves there would depend on its order. */
static int check_places(const lt_args *c) {
  const lt_tensor *o = c->out[0];
  for (int d = 0; d < o->ndim; d++)
    if (o->stride[d] == 0 && o->shape[d] > 1 && o->n > 0)
      return lt_fail(LT_ERR_STATE,
                     "%s_: the tensor is expanded, dim %d of %s shows the same elements %lld times, and cannot be "
                     "written in place; write into x:clone()",
                     c->op->name, d + 1, lt_shape_text(o), (long long)o->shape[d]);
  return LT_OK;
}

/* The history of a view is that of its base when it was taken. */
static int check_views(const lt_args *c) {
  for (int i = 0; i < c->n_in; i++) {
    const lt_tensor *t = c->in[i];
    if (t && t->is_view && t->node && lt_view_is_stale(t))
      return lt_fail(LT_ERR_STATE,
                     "%s: input %d is a view taken before its base was written in place by %s_; take the view again "
                     "after the write",
                     c->op->name, i + 1, lt_op_name(t->storage->writer - 1));
  }
  return LT_OK;
}

/* Element on element is safe for elementwise kernels, and for input 0 of those made to work in place. */
static bool conflicts(const lt_args *c, int i) {
  const lt_tensor *in = c->in[i], *out = c->out[0];
  if (in->storage != out->storage) return false;
  if (overlaps(out, in)) return true;
  bool safe = c->op->flags & LT_OP_ELEMENTWISE || (i == 0 && c->op->flags & LT_OP_INPLACE);
  return !safe && in->offset == out->offset;
}

/* Kernels that write a bound output see a private copy of every input that overlaps it. */
static int run_kernel(lt_args *c) {
  lt_kernel kernel = c->plain ? NULL : c->backend->kernel(c->backend, c->id);
  if (!kernel) {
    if (c->op->fallback) return c->op->fallback(c);
    return lt_fail(LT_ERR_DEVICE, "%s: no %s kernel; move the input with x:to(\"cpu\")", c->op->name, c->backend->name);
  }
  if (!c->bound) return kernel(c);
  lt_tensor *stack_in[16], **original = c->in;
  lt_tensor *copies[16];
  int n_copies = 0, status = LT_OK;
  if (c->n_in <= 16) {
    memcpy(stack_in, c->in, (size_t)c->n_in * sizeof *stack_in);
    for (int i = 0; i < c->n_in && status >= 0; i++) {
      if (!c->in[i] || !conflicts(c, i)) continue;
      lt_attr attr = {.device = c->backend->index};
      status = lt_run(LT_OP_clone, &c->in[i], 1, &attr, &copies[n_copies], 1);
      if (status >= 0) stack_in[i] = copies[n_copies++];
    }
    c->in = stack_in;
  }
  if (status >= 0) status = kernel(c);
  c->in = original;
  while (n_copies) lt_tensor_release(copies[--n_copies]);
  c->out[0]->storage->writer = (int16_t)(c->id + 1);
  atomic_fetch_add_explicit(&c->out[0]->storage->version, 1, memory_order_relaxed);
  return status;
}

static int ready(lt_args *c) {
  LT_TRY(pick_backend(c));
  return c->op->shape(c);
}

static int execute(lt_args *c) {
  if (c->op->flags & LT_OP_VIEW && !c->bound && c->out[0]->is_view) return LT_OK; /* a view operator may also copy */
  if (c->accumulate && !(c->op->flags & LT_OP_ACCUMULATE))
    return lt_fail(LT_ERR_ARGUMENT, "%s: cannot add to its output", c->op->name);
  if (lt_profile_on) {
    double start = lt_clock();
    LT_TRY(run_kernel(c));
    lt_profile_add(c->id, lt_clock() - start);
  } else {
    LT_TRY(run_kernel(c));
  }
  if (lt_anomaly_on) LT_TRY(lt_check_finite(c));
  return LT_OK;
}

static int run(lt_args *c) {
  LT_TRY(ready(c));
  return execute(c);
}

static bool wants_gradient(const lt_args *c) {
  if (!c->op->backward || !lt_recording()) return false;
  for (int i = 0; i < c->n_in; i++)
    if (c->in[i] && c->in[i]->requires_grad) return true;
  return false;
}

/* What is written in place gets its node first: a refusal, or memory that is short, leaves the old value alone. */
static int run_and_record(lt_args *c) {
  bool recorded = wants_gradient(c);
  lt_node *node = NULL;
  if (c->bound) LT_TRY(check_places(c));
  if (c->bound) LT_TRY(check_inplace(c, recorded));
  if (recorded) LT_TRY(check_views(c));
  int status = ready(c);
  if (status >= 0 && recorded && c->bound && c->n_out == 1) status = lt_node_prepare(c, &node);
  if (status >= 0) status = execute(c);
  if (status >= 0 && recorded && !node) status = lt_node_prepare(c, &node);
  if (status < 0) {
    if (node) lt_node_release(node);
    drop_outputs(c);
    return status;
  }
  for (int k = 0; k < c->n_out; k++)
    if (c->out[k]) c->out[k]->op = (int16_t)c->id;
  if (node) lt_node_attach(c, node);
  return status;
}

/* A random operator finds the stream it draws from in its attributes, and the node keeps it there for the rule. Only a
 * call that succeeds uses its stream up. */
static int run_random(lt_args *c, int (*go)(lt_args *)) {
  const lt_attr *given = c->attr;
  lt_attr attr = *given;
  lt_random_next(&attr.i[LT_SEED], &attr.i[LT_CALL]);
  c->attr = &attr;
  int status = go(c);
  c->attr = given;
  if (status >= 0) lt_random_used();
  return status;
}

static inline int perform(lt_args *c, int (*go)(lt_args *)) {
  return c->op->flags & LT_OP_RANDOM ? run_random(c, go) : go(c);
}

int lt_run(int id, lt_tensor *const *in, int n_in, const lt_attr *attr, lt_tensor **out, int n_out) {
  static const lt_attr none;
  const lt_op *op = registry[id];
  lt_args c = {.op = op,
               .id = id,
               .n_in = n_in,
               .in = (lt_tensor **)in,
               .attr = attr ? attr : &none,
               .n_out = op->n_out ? op->n_out : 1};
  LT_TRY(perform(&c, run_and_record));
  for (int k = 0; k < c.n_out; k++)
    if (k < n_out)
      out[k] = c.out[k];
    else
      lt_tensor_release(c.out[k]);
  return LT_OK;
}

int lt_run_into(int id, lt_tensor *const *in, int n_in, const lt_attr *attr, lt_tensor *out, bool accumulate) {
  static const lt_attr none;
  bool was = lt_grad_enable(false);
  lt_args c = {.op = registry[id],
               .id = id,
               .n_in = n_in,
               .in = (lt_tensor **)in,
               .attr = attr ? attr : &none,
               .n_out = registry[id]->n_out ? registry[id]->n_out : 1,
               .bound = true,
               .accumulate = accumulate};
  c.out[0] = out;
  int status = perform(&c, run);
  lt_grad_enable(was);
  for (int k = 1; k < c.n_out; k++) lt_tensor_release(c.out[k]);
  return status;
}

int lt_contiguous(lt_tensor *t, lt_tensor **out) {
  if (lt_tensor_is_contiguous(t)) {
    *out = lt_tensor_retain(t);
    return LT_OK;
  }
  return lt_run(LT_OP_clone, &t, 1, NULL, out, 1);
}

/* Numbers take the dtype of the tensors they meet (weak promotion): an integer stays an integer beside ids, a fraction
 * beside integers makes float32. */
static int scalar_dtype(lt_tensor *const *in, int n_in, double value) {
  int dtype = -1;
  for (int i = 0; i < n_in; i++)
    if (in[i] && !in[i]->is_scalar) dtype = dtype < 0 ? in[i]->dtype : lt_promote(dtype, in[i]->dtype);
  bool whole = value == floor(value) && fabs(value) < 9007199254740992.0;
  if (dtype < 0) return LT_FLOAT32;
  if (lt_is_float(dtype)) return dtype;
  if (!whole) return LT_FLOAT32;
  if (dtype == LT_UINT8 && (value < 0 || value > 255)) return LT_INT64;
  if (dtype == LT_INT32 && (value < INT32_MIN || value > INT32_MAX)) return LT_INT64;
  return dtype == LT_BOOL ? LT_INT64 : dtype;
}

int lt_call(int id, const lt_handle *const *in, int n_in, const lt_attr *attr, lt_handle *out, int n_out) {
  enum { ON_STACK = 16 };
  lt_tensor *stack_in[ON_STACK], **tensors = stack_in;
  uint32_t scalars = attr->scalars;
  int status = LT_OK;
  if (id < 0 || id >= LT_OP_COUNT) return lt_fail(LT_ERR_RANGE, "operator: there is no number %d", id);
  if (lt_interrupted()) return lt_fail(LT_ERR_INTERRUPT, "interrupted");
  const lt_op *op = registry[id];
  lt_args c = {.op = op, .id = id, .n_in = n_in, .attr = attr, .n_out = op->n_out ? op->n_out : 1};
  if (n_out < c.n_out) return lt_fail(LT_ERR_ARGUMENT, "%s: gives %d tensors, room for %d", op->name, c.n_out, n_out);
  if (n_in > ON_STACK) {
    tensors = lt_alloc(n_in * (int64_t)sizeof *tensors);
    if (!tensors) return LT_ERR_MEMORY;
  }
  c.in = tensors;
  for (int i = 0; i < n_in; i++) {
    tensors[i] = NULL;
    if (!(i < 32 && scalars >> i & 1) && in[i] && status >= 0) {
      status = lt_resolve(in[i], &tensors[i]);
      if (status < 0) lt_fail_in(status, op->name);
    }
  }
  if (status >= 0 && attr->flags & LT_CALL_BOUND) {
    status = lt_resolve(out, &c.out[0]);
    c.bound = true;
    c.accumulate = attr->flags & LT_CALL_ACCUMULATE;
  }
  c.plain = attr->flags & LT_CALL_FALLBACK;
  for (int i = 0; i < n_in && scalars >> i && i < 4 && status >= 0; i++)
    if (scalars >> i & 1) status = lt_tensor_scalar(attr->f[i], scalar_dtype(tensors, n_in, attr->f[i]), &tensors[i]);
  if (status >= 0) status = perform(&c, run_and_record);
  if (status == LT_ERR_MEMORY) lt_fail_in(status, op->name);
  for (int i = 0; i < n_in && i < 4 && scalars >> i; i++)
    if (scalars >> i & 1) lt_tensor_release(tensors[i]);
  if (status >= 0 && !c.bound)
    for (int k = 0; k < c.n_out; k++) {
      bool shares = n_in > 0 && tensors[0] && c.out[k]->storage == tensors[0]->storage;
      lt_scope_link(c.out[k], shares ? tensors[0] : NULL);
      lt_own(c.out[k], out + k);
    }
  if (tensors != stack_in) lt_free(tensors, n_in * (int64_t)sizeof *tensors);
  return status < 0 ? status : lt_gc_due() ? LT_GC_DUE : LT_OK;
}
