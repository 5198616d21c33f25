/* The only file that speaks to oneDNN: matrix-product primitives with their packing, in a cache that forgets the least
 * recently used. Debian 12 has version 2, whose descriptors are structs; version 3 made them handles, and what differs
 * is kept in the first part.
 * The surprising idea: a primitive runs on as many threads as there were when it was made. One made for one thread
 * stays on one, so a loop of our own over fixed pieces decides what is shared among threads, and no sum depends on it.
 */
#include "onednn.h"
#include "tensor.h"

#include <dnnl.h>
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- version 2 and version 3 ---- */
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t description;
typedef const_dnnl_memory_desc_t borrowed;
#define ADDRESS(d) (d)
static dnnl_status_t describe(description *d, int64_t rows, int64_t cols, dnnl_data_type_t type, int64_t row,
                              int64_t col) {
  return dnnl_memory_desc_create_with_strides(d, 2, (dnnl_dims_t){rows, cols}, type, (dnnl_dims_t){row, col});
}
static dnnl_status_t describe_any(description *d, int64_t rows, int64_t cols, dnnl_data_type_t type) {
  return dnnl_memory_desc_create_with_tag(d, 2, (dnnl_dims_t){rows, cols}, type, dnnl_format_tag_any);
}
static dnnl_status_t copy_description(description *d, borrowed from) { return dnnl_memory_desc_clone(d, from); }
static void drop_description(description *d) {
  if (*d) dnnl_memory_desc_destroy(*d);
}
static int64_t description_bytes(const description *d) { return (int64_t)dnnl_memory_desc_get_size(*d); }
static dnnl_status_t append_activation(dnnl_post_ops_t ops, float slope) {
  return dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, slope, 0);
}
static dnnl_status_t make_product(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const description *a,
                                  const description *b, const description *bias, const description *c,
                                  dnnl_primitive_attr_t attr) {
  return dnnl_matmul_primitive_desc_create(out, engine, *a, *b, bias ? *bias : NULL, *c, attr);
}
#else
typedef dnnl_memory_desc_t description;
typedef const dnnl_memory_desc_t *borrowed;
#define ADDRESS(d) (&(d))
static dnnl_status_t describe(description *d, int64_t rows, int64_t cols, dnnl_data_type_t type, int64_t row,
                              int64_t col) {
  return dnnl_memory_desc_init_by_strides(d, 2, (dnnl_dims_t){rows, cols}, type, (dnnl_dims_t){row, col});
}
static dnnl_status_t describe_any(description *d, int64_t rows, int64_t cols, dnnl_data_type_t type) {
  return dnnl_memory_desc_init_by_tag(d, 2, (dnnl_dims_t){rows, cols}, type, dnnl_format_tag_any);
}
static dnnl_status_t copy_description(description *d, borrowed from) {
  *d = *from;
  return dnnl_success;
}
static void drop_description(description *d) { (void)d; }
static int64_t description_bytes(const description *d) { return (int64_t)dnnl_memory_desc_get_size(d); }
static dnnl_status_t append_activation(dnnl_post_ops_t ops, float slope) {
  return dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_relu, slope, 0);
}
static dnnl_status_t make_product(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const description *a,
                                  const description *b, const description *bias, const description *c,
                                  dnnl_primitive_attr_t attr) {
  dnnl_matmul_desc_t desc;
  dnnl_status_t s = dnnl_matmul_desc_init(&desc, a, b, bias, c);
  return s == dnnl_success ? dnnl_primitive_desc_create(out, &desc, attr, engine, NULL) : s;
}
#endif

/* ---- engine and stream ---- */

static dnnl_engine_t engine;
static dnnl_stream_t stream;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void start(void) {
  if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) return;
  if (dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) != dnnl_success) stream = NULL;
}

static int fail(dnnl_status_t status, const char *what) {
  return lt_fail(status == dnnl_out_of_memory ? LT_ERR_MEMORY : LT_ERR_DEVICE, "matmul: oneDNN cannot %s (status %d)",
                 what, (int)status);
}
#define DNNL(call, what)                                                                                               \
  do {                                                                                                                 \
    dnnl_status_t status_ = (call);                                                                                    \
    if (status_ != dnnl_success) return fail(status_, what);                                                           \
  } while (0)

bool onednn_has_bfloat16(void) {
  int isa = (int)dnnl_get_effective_cpu_isa(), need = (int)dnnl_cpu_isa_avx512_core_bf16;
  return (isa & need) == need;
}

/* ---- products ---- */

struct onednn_product {
  onednn_shape shape;
  uint64_t used;  /* clock of the last use */
  int references; /* the cache's own and those given out */
  description a, b_plain, b, c, bias;
  dnnl_primitive_t product, reorder; /* reorder NULL: b is plain */
  int64_t scratch;
};

enum { KEPT = 256 };
static onednn_product *cache[KEPT];
static int cached;
static uint64_t clock_now;

static void destroy(onednn_product *p) {
  if (p->product) dnnl_primitive_destroy(p->product);
  if (p->reorder) dnnl_primitive_destroy(p->reorder);
  description *all[] = {&p->a, &p->b_plain, &p->b, &p->c, &p->bias};
  for (int i = 0; i < 5; i++) drop_description(all[i]);
  free(p);
}

static dnnl_data_type_t type_of(int dtype) { return dtype == LT_BFLOAT16 ? dnnl_bf16 : dnnl_f32; }

static int make_reorder(onednn_product *p) {
  dnnl_primitive_desc_t desc;
  DNNL(dnnl_reorder_primitive_desc_create(&desc, ADDRESS(p->b_plain), engine, ADDRESS(p->b), engine, NULL),
       "describe the packing");
  dnnl_status_t status = dnnl_primitive_create(&p->reorder, desc);
  dnnl_primitive_desc_destroy(desc);
  DNNL(status, "make the packing");
  return LT_OK;
}

static int make_attributes(const onednn_shape *s, dnnl_primitive_attr_t *out) {
  DNNL(dnnl_primitive_attr_create(out), "make attributes");
  dnnl_status_t status = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
  if (s->activation && status == dnnl_success) {
    dnnl_post_ops_t ops;
    status = dnnl_post_ops_create(&ops);
    if (status == dnnl_success) {
      status = append_activation(ops, s->activation == LT_GEMM_LEAKY ? s->slope : 0);
      if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(*out, ops);
      dnnl_post_ops_destroy(ops);
    }
  }
  if (status == dnnl_success) return LT_OK;
  dnnl_primitive_attr_destroy(*out);
  return fail(status, "set the activation");
}

static int make_primitive(onednn_product *p, const onednn_product *like, dnnl_primitive_attr_t attr) {
  const onednn_shape *s = &p->shape;
  dnnl_data_type_t in = type_of(s->dtype);
  DNNL(describe(&p->a, s->m, s->k, in, s->a_row, s->a_col), "describe a");
  DNNL(describe(&p->b_plain, s->k, s->n, in, s->b_row, s->b_col), "describe b");
  DNNL(describe(&p->c, s->m, s->n, type_of(s->c_dtype), s->c_row, 1), "describe c");
  if (s->bias_dtype >= 0) DNNL(describe(&p->bias, 1, s->n, type_of(s->bias_dtype), s->n, 1), "describe the bias");
  description wanted;
  if (like)
    DNNL(copy_description(&wanted, ADDRESS(like->b)), "copy the description of b");
  else if (s->packed)
    DNNL(describe_any(&wanted, s->k, s->n, in), "describe b");
  else
    DNNL(copy_description(&wanted, ADDRESS(p->b_plain)), "copy the description of b");
  dnnl_primitive_desc_t desc;
  dnnl_status_t status = make_product(&desc, engine, &p->a, &wanted, s->bias_dtype >= 0 ? &p->bias : NULL, &p->c, attr);
  drop_description(&wanted);
  DNNL(status, "describe the product");
  status = copy_description(&p->b, dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0));
  description scratch;
  if (status == dnnl_success) {
    status = copy_description(&scratch, dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0));
    p->scratch = status == dnnl_success ? description_bytes(&scratch) : 0;
    if (status == dnnl_success) drop_description(&scratch);
  }
  if (status == dnnl_success) status = dnnl_primitive_create(&p->product, desc);
  dnnl_primitive_desc_destroy(desc);
  DNNL(status, "make the product");
  if (dnnl_memory_desc_equal(ADDRESS(p->b), ADDRESS(p->b_plain))) return LT_OK;
  return make_reorder(p);
}

static int make(const onednn_shape *s, const onednn_product *like, onednn_product **out) {
  onednn_product *p = calloc(1, sizeof *p);
  if (!p) return lt_fail(LT_ERR_MEMORY, "matmul: no memory for a product's description");
  p->shape = *s;
  p->references = 2;
  int threads = omp_get_max_threads();
  dnnl_primitive_attr_t attr;
  int status = make_attributes(s, &attr);
  if (status >= 0) {
    if (s->threads == 1) omp_set_num_threads(1);
    status = make_primitive(p, like, attr);
    omp_set_num_threads(threads);
    dnnl_primitive_attr_destroy(attr);
  }
  if (status < 0) {
    destroy(p);
    return status;
  }
  *out = p;
  return LT_OK;
}

static void release_locked(onednn_product *p) {
  if (--p->references == 0) destroy(p);
}

void onednn_release(onednn_product *p) {
  if (!p) return;
  pthread_mutex_lock(&lock);
  release_locked(p);
  pthread_mutex_unlock(&lock);
}

static int find_or_make(const onednn_shape *s, const onednn_product *like, onednn_product **out) {
  int oldest = 0;
  clock_now++;
  for (int i = 0; i < cached; i++) {
    if (memcmp(&cache[i]->shape, s, sizeof *s) == 0) {
      cache[i]->used = clock_now;
      cache[i]->references++;
      *out = cache[i];
      return LT_OK;
    }
    if (cache[i]->used < cache[oldest]->used) oldest = i;
  }
  LT_TRY(make(s, like, out));
  (*out)->used = clock_now;
  if (cached < KEPT)
    cache[cached++] = *out;
  else {
    release_locked(cache[oldest]);
    cache[oldest] = *out;
  }
  return LT_OK;
}

int onednn_get(const onednn_shape *shape, const onednn_product *like, onednn_product **out) {
  onednn_shape key;
  memset(&key, 0, sizeof key); /* bytes between the members are compared too */
  key.dtype = shape->dtype, key.c_dtype = shape->c_dtype, key.bias_dtype = shape->bias_dtype;
  key.m = shape->m, key.n = shape->n, key.k = shape->k;
  key.a_row = shape->a_row, key.a_col = shape->a_col, key.b_row = shape->b_row, key.b_col = shape->b_col;
  key.c_row = shape->c_row, key.activation = shape->activation;
  key.packed = like ? 1 + like->shape.m : shape->packed; /* b's layout may follow from m */
  key.slope = shape->activation == LT_GEMM_LEAKY ? shape->slope : 0;
  key.threads = shape->threads == 1 ? 1 : lt_threads();
  pthread_once(&once, start);
  if (!stream) return lt_fail(LT_ERR_DEVICE, "matmul: oneDNN does not start on this machine");
  pthread_mutex_lock(&lock);
  int status = find_or_make(&key, like, out);
  pthread_mutex_unlock(&lock);
  return status;
}

int64_t onednn_packed_bytes(const onednn_product *p) { return p->reorder ? description_bytes(&p->b) : 0; }
int64_t onednn_scratch_bytes(const onednn_product *p) { return p->scratch; }

/* ---- running ---- */

typedef struct arguments {
  int count;
  dnnl_exec_arg_t list[6];
} arguments;

static dnnl_status_t add_argument(arguments *a, int name, const description *d, const void *data) {
  dnnl_memory_t memory;
  dnnl_status_t status = dnnl_memory_create(&memory, ADDRESS(*d), engine, (void *)(uintptr_t)data);
  if (status == dnnl_success) a->list[a->count++] = (dnnl_exec_arg_t){name, memory};
  return status;
}

static dnnl_status_t execute(dnnl_primitive_t primitive, arguments *a, dnnl_status_t status) {
  if (status == dnnl_success) status = dnnl_primitive_execute(primitive, stream, a->count, a->list);
  for (int i = 0; i < a->count; i++) dnnl_memory_destroy(a->list[i].memory);
  return status;
}

int onednn_pack(const onednn_product *p, const void *b, void *packed) {
  arguments a = {0};
  dnnl_status_t status = add_argument(&a, DNNL_ARG_FROM, &p->b_plain, b);
  if (status == dnnl_success) status = add_argument(&a, DNNL_ARG_TO, &p->b, packed);
  DNNL(execute(p->reorder, &a, status), "pack");
  return LT_OK;
}

int onednn_run(const onednn_product *p, const void *a, const void *b, const void *bias, void *c, void *scratch) {
  arguments args = {0};
  dnnl_status_t status = add_argument(&args, DNNL_ARG_SRC, &p->a, a);
  if (status == dnnl_success) status = add_argument(&args, DNNL_ARG_WEIGHTS, &p->b, b);
  if (status == dnnl_success) status = add_argument(&args, DNNL_ARG_DST, &p->c, c);
  if (status == dnnl_success && bias) status = add_argument(&args, DNNL_ARG_BIAS, &p->bias, bias);
  if (status == dnnl_success && p->scratch) {
    description d;
    status = describe(&d, 1, p->scratch, dnnl_u8, p->scratch, 1);
    if (status == dnnl_success) {
      status = add_argument(&args, DNNL_ARG_SCRATCHPAD, &d, scratch);
      drop_description(&d);
    }
  }
  DNNL(execute(p->product, &args, status), "run the product");
  return LT_OK;
}
