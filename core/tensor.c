/* Tensor headers and the handles that scripts hold. Headers come from a pool and never go back to the system, so a
 * stale handle always points at a header and only has to compare generations. */
#include "autograd.h"
#include "backend.h"

#include <stdio.h>
#include <string.h>

enum { SLAB = 128 };
static lt_tensor *free_headers;
static lt_spin pool_lock;

void lt_pool_lock(void) { lt_spin_lock(&pool_lock); }
void lt_pool_unlock(void) { lt_spin_unlock(&pool_lock); }

static lt_tensor *take_header(void) {
  lt_pool_lock();
  lt_tensor *t = free_headers;
  if (t) free_headers = t->next_free;
  lt_pool_unlock();
  if (t) return t;
  lt_tensor *slab = lt_alloc(SLAB * (int64_t)sizeof *slab);
  if (!slab) return NULL;
  memset(slab, 0, SLAB * sizeof *slab);
  lt_pool_headers += SLAB;
  lt_pool_lock();
  for (int i = 1; i < SLAB; i++) {
    slab[i].next_free = free_headers;
    free_headers = slab + i;
  }
  lt_pool_unlock();
  return slab;
}

void lt_contiguous_strides(int ndim, const int64_t *shape, int64_t *stride) {
  uint64_t step = 1; /* wraps for sizes that count() is yet to refuse */
  for (int d = ndim - 1; d >= 0; d--) {
    stride[d] = (int64_t)step;
    step *= shape[d] > 1 ? (uint64_t)shape[d] : 1;
  }
}

/* The number of elements. What is refused here cannot overflow later: neither n, nor strides (which skip sizes of 0).
 */
static int count(int ndim, const int64_t *shape, int64_t *n) {
  int64_t extent = 1;
  *n = 1;
  for (int d = 0; d < ndim; d++) {
    if (shape[d] < 0)
      return lt_fail(LT_ERR_SHAPE, "tensor: size %lld of dim %d is negative", (long long)shape[d], d + 1);
    if (__builtin_mul_overflow(extent, shape[d] ? shape[d] : 1, &extent) || extent > (int64_t)1 << 46)
      return lt_fail(LT_ERR_MEMORY, "out of memory: a tensor of shape %s is larger than any memory",
                     lt_dims_text(ndim, shape));
    *n *= shape[d];
  }
  return LT_OK;
}

/* Takes over one reference to `storage`. */
static int new_header(lt_storage *storage, int dtype, int ndim, const int64_t *shape, int64_t n, const int64_t *stride,
                      int64_t offset, lt_tensor **out) {
  lt_tensor *t = take_header();
  if (!t) {
    lt_storage_release(storage);
    return LT_ERR_MEMORY;
  }
  atomic_fetch_add_explicit(&lt_live_tensors, 1, memory_order_relaxed);
  atomic_store_explicit(&t->refs, 1, memory_order_relaxed);
  atomic_store_explicit(&t->handles, 0, memory_order_relaxed);
  t->op = -1;
  t->dtype = (uint8_t)dtype;
  t->ndim = (uint8_t)ndim;
  t->requires_grad = t->is_scalar = t->is_view = false;
  t->place = LT_LOOSE;
  t->out_index = 0;
  t->storage = storage;
  t->offset = offset;
  t->node = NULL;
  t->leaf = NULL;
  t->n = n;
  for (int d = 0; d < ndim; d++) t->shape[d] = shape[d];
  if (stride)
    for (int d = 0; d < ndim; d++) t->stride[d] = stride[d];
  else
    lt_contiguous_strides(ndim, shape, t->stride);
  *out = t;
  return LT_OK;
}

int lt_tensor_new(lt_backend *backend, int dtype, int ndim, const int64_t *shape, lt_tensor **out) {
  int64_t n;
  lt_storage *s;
  LT_TRY(count(ndim, shape, &n));
  LT_TRY(lt_storage_new(backend, n * lt_dtype_size(dtype), &s));
  return new_header(s, dtype, ndim, shape, n, NULL, 0, out);
}

int lt_tensor_like(const lt_tensor *t, lt_tensor **out) {
  return lt_tensor_new(t->storage->backend, t->dtype, t->ndim, t->shape, out);
}

int lt_tensor_view(lt_tensor *base, int ndim, const int64_t *shape, const int64_t *stride, int64_t offset,
                   lt_tensor **out) {
  int64_t n;
  LT_TRY(count(ndim, shape, &n));
  LT_TRY(new_header(lt_storage_retain(base->storage), base->dtype, ndim, shape, n, stride, offset, out));
  (*out)->is_view = true;
  (*out)->rewrites = atomic_load_explicit(&base->storage->rewrites, memory_order_relaxed);
  return LT_OK;
}

int lt_tensor_alias(lt_tensor *t, lt_tensor **out) {
  return lt_tensor_view(t, t->ndim, t->shape, t->stride, t->offset, out);
}

int lt_tensor_scalar(double value, int dtype, lt_tensor **out) {
  LT_TRY(lt_tensor_new(lt_backend_cpu(), dtype, 0, NULL, out));
  lt_store_double((*out)->storage->data, dtype, 0, value);
  (*out)->is_scalar = true;
  return LT_OK;
}

void lt_tensor_destroy(lt_tensor *t) {
  lt_node *node = t->node;
  lt_leaf *leaf = t->leaf;
  lt_storage *storage = t->storage;
  atomic_fetch_sub_explicit(&lt_live_tensors, 1, memory_order_relaxed);
  t->node = NULL;
  t->leaf = NULL;
  t->storage = NULL;
  lt_pool_lock();
  if (t->place == LT_SCOPED) lt_scope_unlink(t);
  t->gen++;
  t->next_free = free_headers;
  free_headers = t;
  lt_pool_unlock();
  if (leaf) lt_leaf_free(leaf);
  lt_storage_release(storage);
  if (node) lt_node_release(node);
}

/* ---- handles ---- */

void lt_own(lt_tensor *t, lt_handle *out) {
  atomic_fetch_add_explicit(&t->handles, 1, memory_order_relaxed);
  *out = (lt_handle){.t_ = t, .gen_ = t->gen, .op_ = t->op, .dtype_ = (int8_t)t->dtype, .ndim_ = (int8_t)t->ndim};
}

void lt_release(lt_handle *h) {
  lt_tensor *t = h->t_;
  h->t_ = NULL;
  if (!t || h->gen_ != t->gen) return;
  atomic_fetch_sub_explicit(&t->handles, 1, memory_order_relaxed);
  lt_tensor_release(t);
}

static int fail_dead(const lt_handle *h) {
  const char *maker = h->op_ >= 0 ? lt_op_name(h->op_) : "a constructor";
  if (!h->t_) return lt_fail(LT_ERR_STATE, "this handle is empty; it was released before");
  if (h->t_->died_in && h->t_->died_gen == h->gen_)
    return lt_fail(LT_ERR_STATE,
                   "the result of %s was released at the end of its step (step %lld); use :item() for a number "
                   "or :keep() to hold a tensor beyond its step",
                   maker, (long long)h->t_->died_in);
  return lt_fail(LT_ERR_STATE,
                 "the result of %s was released at the end of its step; use :item() for a number or :keep() to "
                 "hold a tensor beyond its step",
                 maker);
}

int lt_resolve(const lt_handle *h, lt_tensor **out) {
  if (!h) return lt_fail(LT_ERR_ARGUMENT, "tensor: nil was given where a tensor is needed");
  if (!h->t_ || h->gen_ != h->t_->gen) {
    fail_dead(h);
    return LT_ERR_STATE;
  }
  *out = h->t_;
  return LT_OK;
}

int lt_check(const lt_handle *h) {
  lt_tensor *t;
  return lt_resolve(h, &t);
}

int lt_retain(const lt_handle *h, lt_handle *out) {
  lt_tensor *t;
  LT_TRY(lt_resolve(h, &t));
  lt_own(lt_tensor_retain(t), out);
  return LT_OK;
}

int lt_shape(const lt_handle *h, int64_t *shape, int64_t *stride) {
  lt_tensor *t;
  LT_TRY(lt_resolve(h, &t));
  memcpy(shape, t->shape, sizeof t->shape);
  if (stride) memcpy(stride, t->stride, sizeof t->stride);
  return LT_OK;
}

int lt_numel(const lt_handle *h, double *out) {
  lt_tensor *t;
  LT_TRY(lt_resolve(h, &t));
  *out = (double)t->n;
  return LT_OK;
}

int lt_data(const lt_handle *h, void **out) {
  lt_tensor *t;
  LT_TRY(lt_resolve(h, &t));
  if (!t->storage->backend->host_visible)
    return lt_fail(LT_ERR_DEVICE, "data: the tensor lives on %s; move it with x:to(\"cpu\")",
                   t->storage->backend->name);
  LT_TRY(t->storage->backend->synchronize(t->storage->backend));
  *out = lt_ptr(t);
  return LT_OK;
}

double lt_number_at(int dtype, const void *data, int64_t index) {
  return lt_plain_nan(lt_load_double(data, dtype, index));
}

static int one_element(const lt_handle *h, lt_tensor **t, const void **data) {
  void *p;
  LT_TRY(lt_resolve(h, t));
  if ((*t)->n != 1)
    return lt_fail(LT_ERR_SHAPE, "item: the tensor is %s; only a tensor of one element is a number", lt_shape_text(*t));
  LT_TRY(lt_data(h, &p));
  *data = p;
  return LT_OK;
}

int lt_item_number(const lt_handle *h, double *out) {
  lt_tensor *t;
  const void *data;
  LT_TRY(one_element(h, &t, &data));
  *out = lt_number_at(t->dtype, data, 0);
  return LT_OK;
}

int lt_item_int64(const lt_handle *h, int64_t *out) {
  lt_tensor *t;
  const void *data;
  LT_TRY(one_element(h, &t, &data));
  *out = lt_load_int(data, t->dtype, 0);
  return LT_OK;
}

bool lt_shares_storage(const lt_handle *a, const lt_handle *b) {
  lt_tensor *x, *y;
  return lt_resolve(a, &x) == LT_OK && lt_resolve(b, &y) == LT_OK && x->storage == y->storage;
}
bool lt_same_tensor(const lt_handle *a, const lt_handle *b) { return a && b && a->t_ == b->t_ && a->gen_ == b->gen_; }
bool lt_is_contiguous(const lt_handle *h) {
  lt_tensor *t;
  return lt_resolve(h, &t) == LT_OK && lt_tensor_is_contiguous(t);
}
int64_t lt_tensor_version(const lt_handle *h) {
  lt_tensor *t;
  return lt_resolve(h, &t) == LT_OK ? atomic_load(&t->storage->version) : -1;
}
void lt_tensor_bump(const lt_handle *h) {
  lt_tensor *t;
  if (lt_resolve(h, &t) < 0) return;
  t->storage->writer = 0;
  atomic_fetch_add(&t->storage->version, 1);
}
const char *lt_tensor_device(const lt_handle *h) {
  lt_tensor *t;
  return lt_resolve(h, &t) == LT_OK ? t->storage->backend->name : "?";
}

int lt_from_memory(int dtype, int ndim, const int64_t *shape, void *data, void *owner, void *release, lt_handle *out) {
  lt_storage *s;
  lt_tensor *t;
  int64_t n;
  LT_TRY(count(ndim, shape, &n));
  LT_TRY(lt_storage_wrap(lt_backend_cpu(), data, n * lt_dtype_size(dtype), owner, (void (*)(void *))release, &s));
  LT_TRY(new_header(s, dtype, ndim, shape, n, NULL, 0, &t));
  lt_scope_link(t, NULL);
  lt_own(t, out);
  return LT_OK;
}

int lt_as_strided(const lt_handle *h, int ndim, const int64_t *shape, const int64_t *stride, int64_t offset,
                  lt_handle *out) {
  lt_tensor *t, *view;
  LT_TRY(lt_resolve(h, &t));
  if (ndim < 0 || ndim > LT_MAX_DIMS)
    return lt_fail(LT_ERR_SHAPE, "as_strided: %d dims; a tensor has at most %d", ndim, LT_MAX_DIMS);
  int64_t low = offset, high = offset, n;
  LT_TRY(count(ndim, shape, &n));
  for (int d = 0; d < ndim; d++) {
    int64_t reach = (shape[d] - 1) * stride[d];
    if (shape[d] > 0) *(reach < 0 ? &low : &high) += reach;
  }
  if (n > 0 && (low < 0 || (high + 1) * lt_dtype_size(t->dtype) > t->storage->bytes))
    return lt_fail(LT_ERR_RANGE,
                   "as_strided: shape %s with these strides reaches elements %lld to %lld; the storage holds %lld",
                   lt_dims_text(ndim, shape), (long long)low, (long long)high,
                   (long long)(t->storage->bytes / lt_dtype_size(t->dtype)));
  LT_TRY(lt_tensor_view(t, ndim, shape, stride, offset, &view));
  lt_scope_link(view, t);
  lt_own(view, out);
  return LT_OK;
}

int lt_set_data(const lt_handle *h, const lt_handle *from) {
  lt_tensor *t, *f;
  LT_TRY(lt_resolve(h, &t));
  LT_TRY(lt_resolve(from, &f));
  if (t->dtype != f->dtype || !lt_same_shape(t, f))
    return lt_fail(LT_ERR_SHAPE, "set_data: the tensor is %s %s and the new data %s %s; they must agree",
                   lt_shape_text(t), lt_dtype_name(t->dtype), lt_shape_text(f), lt_dtype_name(f->dtype));
  lt_storage *old = t->storage;
  t->storage = lt_storage_retain(f->storage);
  t->offset = f->offset;
  memcpy(t->stride, f->stride, sizeof t->stride);
  atomic_fetch_add(&t->storage->version, 1);
  lt_storage_release(old);
  return LT_OK;
}

/* ---- small questions ---- */

bool lt_tensor_is_contiguous(const lt_tensor *t) {
  int64_t step = 1;
  for (int d = t->ndim - 1; d >= 0; d--) {
    if (t->shape[d] == 1) continue;
    if (t->stride[d] != step && t->n > 0) return false;
    step *= t->shape[d];
  }
  return true;
}

const char *lt_dims_text(int ndim, const int64_t *shape) {
  static _Thread_local char text[8][192];
  static _Thread_local int turn;
  char *s = text[turn++ & 7];
  int at = 0;
  s[at++] = '[';
  for (int d = 0; d < ndim && at < 160; d++) at += snprintf(s + at, 30, d ? ", %lld" : "%lld", (long long)shape[d]);
  s[at++] = ']';
  s[at] = 0;
  return s;
}
const char *lt_shape_text(const lt_tensor *t) { return lt_dims_text(t->ndim, t->shape); }
