/* The public C API of ltrain, read twice: by C compilers, and by ffi.cdef, which gets this very text (embedded in the
 * library by header.c) without its lines that begin with '#'. Hence plain declarations only: fixed-width types, enums,
 * opaque structs; no macro, inline function, bit-field or callback type.
 *
 * A call that can fail returns int: 0 done, < 0 an lt_status with its message in lt_last_error(), > 0 done and a
 * garbage collection is due. Results come by out-pointer. An out-pointer gives the caller one reference, arguments are
 * borrowed, C retains what it keeps. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#pragma GCC visibility push(default)

/* ---- status ---- */
enum lt_status {
  LT_OK = 0,
  LT_GC_DUE = 1,        /* done, but memory pacing asks for a full collection */
  LT_ERR_ARGUMENT = -1, /* a value the operation cannot take */
  LT_ERR_SHAPE = -2,
  LT_ERR_DTYPE = -3,
  LT_ERR_MEMORY = -4,    /* allocation failed: collect once and retry */
  LT_ERR_IO = -5,        /* the operating system said no */
  LT_ERR_FORMAT = -6,    /* a file is not what it claims to be */
  LT_ERR_STATE = -7,     /* the right call at the wrong time */
  LT_ERR_INTERRUPT = -8, /* Ctrl-C */
  LT_ERR_RANGE = -9,     /* an index or id outside its range */
  LT_ERR_DEVICE = -10
};
const char *lt_last_error(void); /* the calling thread's last message */
const char *lt_header(void);     /* this text */
const char *lt_version(void);    /* "0.1.0" */

/* ---- element types: float32 and float64 compute; bfloat16 and float16 store; the rest are ids, masks and bytes ----
 */
enum lt_dtype {
  LT_FLOAT32 = 0,
  LT_FLOAT64 = 1,
  LT_BFLOAT16 = 2,
  LT_FLOAT16 = 3,
  LT_INT64 = 4,
  LT_INT32 = 5,
  LT_UINT8 = 6,
  LT_BOOL = 7,
  LT_DTYPE_COUNT = 8
};
const char *lt_dtype_name(int dtype); /* "float32"; "?" for a number that is no dtype */
int64_t lt_dtype_size(int dtype);     /* bytes an element */

/* ---- tensors ----
 * A handle is what a script holds: a header and the generation it had when the handle was made. When a step scope ends,
 * its headers are recycled under a new generation, so that dead handles cost nothing and a late use is an error. */
typedef struct lt_tensor lt_tensor;
typedef struct lt_handle {
  lt_tensor *t_;
  int32_t gen_;
  int16_t op_;   /* the operator that made it, for messages; -1: none */
  int8_t dtype_; /* enum lt_dtype */
  int8_t ndim_;
} lt_handle;

enum lt_limits { LT_MAX_DIMS = 8, LT_MAX_LIST = 16, LT_MAX_OUT = 8 };

void lt_release(lt_handle *h);                     /* drops the handle's reference; any generation */
int lt_retain(const lt_handle *h, lt_handle *out); /* a second handle on the same tensor */
int lt_check(const lt_handle *h);                  /* is the tensor still there? */
int lt_shape(const lt_handle *h, int64_t *shape,
             int64_t *stride); /* [LT_MAX_DIMS] each; stride (elements) may be NULL */
int lt_numel(const lt_handle *h, double *out);
int lt_data(const lt_handle *h, void **out);         /* address of the first element */
int lt_item_number(const lt_handle *h, double *out); /* the value of a one-element tensor */
int lt_item_int64(const lt_handle *h, int64_t *out);
double lt_number_at(int dtype, const void *data, int64_t index); /* an element; NaN in the one form that LuaJIT holds */
bool lt_same_tensor(const lt_handle *a, const lt_handle *b);
bool lt_shares_storage(const lt_handle *a, const lt_handle *b); /* views of the same bytes, perhaps others of them */
bool lt_is_contiguous(const lt_handle *h);
int64_t lt_tensor_version(const lt_handle *h); /* writes to its storage so far; -1 when it is gone */
const char *lt_tensor_device(const lt_handle *h);
/* A tensor over memory that somebody else owns; release(owner) is called when the last view is gone. */
int lt_from_memory(int dtype, int ndim, const int64_t *shape, void *data, void *owner, void *release, lt_handle *out);
/* A new tensor over the same bytes: offset and strides in elements, checked against the storage. */
int lt_as_strided(const lt_handle *h, int ndim, const int64_t *shape, const int64_t *stride, int64_t offset,
                  lt_handle *out);
int lt_set_data(const lt_handle *h, const lt_handle *from); /* h shows from's storage from now on: same shape, dtype */
void lt_tensor_bump(const lt_handle *h);                    /* tells that its bytes were written from outside */

/* ---- step scopes: tensors made while a scope is open die when its owner closes it ---- */
int64_t lt_scope_open(void);                       /* an id, or 0 when the limit of nesting is reached */
int lt_scope_close(int64_t id, bool free_members); /* innermost only; false: members move to the parent */
int64_t lt_scope_top(void);                        /* the innermost open scope, 0: none */
int lt_scope_depth(void);
int lt_keep(const lt_handle *h);                                 /* takes the tensor out of every scope */
int lt_scope_return(const lt_handle *h, int64_t id, int64_t to); /* a member of `id` moves to `to`, 0: out of all */
typedef struct lt_scope_token {
  int64_t id_;
} lt_scope_token; /* held by an iterator, orphans its scope when collected */
void lt_scope_orphan(lt_scope_token *token);
int lt_scope_reap(void);     /* after a full collection: merges orphaned scopes */
bool lt_scope_crowded(void); /* many scopes are open: collect, then reap */

/* ---- memory ---- */
typedef struct lt_memory_stats {
  double live, peak;         /* bytes of tensors, graph nodes and headers in use; the most so far */
  double cached, limit;      /* bytes kept for reuse; what the engine may use */
  double system_allocations; /* calls to the system's allocator so far */
  double allocations;        /* requests served so far, from the cache or the system */
  double tensors, storages, nodes;
} lt_memory_stats;
void lt_memory(lt_memory_stats *out);
int lt_memory_class(int index, double *block, double *live, double *cached); /* by block size; 1 while there are more */
void lt_memory_reset_peak(void);
void lt_memory_trim(void);      /* gives cached blocks back to the system */
void lt_memory_collected(void); /* tells the pacing that a full collection has run */
void lt_memory_set_limit(double bytes);

/* ---- operators: reached through one call ---- */
typedef struct lt_attr {
  double f[4];
  int64_t i[4];
  int32_t n_list;
  uint32_t scalars; /* bit k: input k is the number f[k] */
  int32_t device;
  int32_t flags;    /* enum lt_call_flags */
  int64_t list[16]; /* last: what is unused of it is not kept */
} lt_attr;
enum lt_call_flags {
  LT_CALL_BOUND = 1,      /* out[0] holds a tensor that takes the result */
  LT_CALL_ACCUMULATE = 2, /* and the result is added to it */
  LT_CALL_FALLBACK = 4    /* plain operators instead of the kernel: the oracle of fused ones */
};
typedef struct lt_op_info {
  const char *name, *signature, *doc;
  int32_t flags, n_out;
} lt_op_info;
enum lt_op_flags {
  LT_OP_ELEMENTWISE = 1,  /* inputs broadcast; one loop for all */
  LT_OP_VIEW = 2,         /* shares its input's storage */
  LT_OP_RANDOM = 4,       /* draws from the generator */
  LT_OP_HIDDEN = 8,       /* part of a gradient: not offered to scripts */
  LT_OP_ACCUMULATE = 16,  /* its kernel can add to a bound output */
  LT_OP_NO_GRADIENT = 32, /* a step function of its inputs: the gradient is defined to be none */
  LT_OP_INPLACE = 64,     /* offered with a trailing underscore too */
  LT_OP_NO_METHOD = 128   /* a function only, no tensor method */
};
int lt_op_count(void);
int lt_op_get(int op, lt_op_info *out);
int lt_op_find(const char *name); /* -1: no such operator */
int lt_call(int op, const lt_handle *const *in, int n_in, const lt_attr *attr, lt_handle *out, int n_out);

/* ---- gradients ---- */
bool lt_grad_enabled(void);
bool lt_grad_enable(bool on); /* returns what was */
bool lt_requires_grad(const lt_handle *h);
int lt_set_requires_grad(const lt_handle *h, bool on); /* leaves only */
bool lt_is_leaf(const lt_handle *h);
int lt_grad(const lt_handle *h, lt_handle *out);                          /* t_ = NULL: none so far */
int lt_grad_dense(const lt_handle *h, lt_handle *out);                    /* the same; rows become dense first */
int lt_set_grad(const lt_handle *h, const lt_handle *grad);               /* NULL clears */
int lt_grad_rows(const lt_handle *h, lt_handle *rows, lt_handle *values); /* a table's gradient; t_ = NULL: none */
int lt_set_grad_rows(const lt_handle *h, const lt_handle *rows, const lt_handle *values);
int lt_bind_grad(const lt_handle *h, const lt_handle *buffer); /* gradients of this leaf are written there (an arena) */
int64_t lt_node_seq(const lt_handle *h);               /* sequence number of the operation that made it; 0: leaf */
int lt_add_hook(const lt_handle *h, int64_t function); /* function: a number the script side understands */
int lt_remove_hook(const lt_handle *h, int64_t function);
/* Records that a script function made `out` from `in`; its rule is asked for as a request. */
int lt_record(int64_t function, const lt_handle *const *in, int n_in, lt_handle *const *out, int n_out);
void lt_anomaly(bool on); /* look for NaN after every operator */
/* Function numbers whose nodes or tensors are gone since the last call; returns how many were written. */
int lt_functions_dropped(int64_t *out, int capacity);

/* A running backward pass. `next` returns 0 done, < 0 error, else an enum lt_request that the caller serves. */
typedef struct lt_backward lt_backward;
enum lt_request { LT_REQUEST_COLLECT = 1, LT_REQUEST_FUNCTION = 2, LT_REQUEST_HOOK = 3 };
enum lt_backward_flags { LT_BACKWARD_RETAIN = 1, LT_BACKWARD_CREATE_GRAPH = 2 };
int lt_backward_new(const lt_handle *const *roots, const lt_handle *const *grads, int n_roots,
                    const lt_handle *const *wrt, int n_wrt, int flags, lt_backward **out);
int lt_backward_next(lt_backward *b, int64_t *function, int *n_grads);
int lt_backward_grad(lt_backward *b, int i, lt_handle *out); /* of the request; t_ = NULL: nobody used that output */
int lt_backward_give(lt_backward *b, int i, const lt_handle *grad);
int lt_backward_result(lt_backward *b, int i, lt_handle *out); /* gradient of wrt[i]; t_ = NULL: not reached */
int64_t lt_backward_at(const lt_backward *b);                  /* sequence number of the node at work */
void lt_backward_free(lt_backward *b);

/* ---- embedding tables and arenas: where parameters and gradients live ---- */
int lt_table_new(int dtype, int64_t n_rows, int64_t width, lt_handle *out); /* zeros; rows padded to cache lines */
/* Lays a table out once more, each row followed by n_states rows of its width (zeros). The weight and the states are
 * strided [rows, width] views of that storage from then on; older views of the weight keep the old values. */
int lt_table_adopt(const lt_handle *weight, int n_states, lt_handle *states);
/* One flat buffer of zeros for the gradients of these parameters (of one dtype), in their order; see lt_bind_grad. */
int lt_grad_arena(const lt_handle *const *params, int n, lt_handle *arena);

/* ---- optimizer steps: one pass over parameters, gradients and state; written in place, never recorded ----
 * The formulas are PyTorch's, in its order of operations; each element's bits depend on nothing but its own values. */
enum lt_step_rule {
  LT_STEP_SGD = 0,    /* states: momentum buffer, when momentum is not 0 */
  LT_STEP_ADAM = 1,   /* states: exp_avg, exp_avg_sq */
  LT_STEP_ADAGRAD = 2 /* states: sum */
};
enum lt_step_flags {
  LT_STEP_NESTEROV = 1,
  LT_STEP_DECOUPLED = 2,  /* weight decay shrinks the parameter (AdamW) instead of being added to the gradient */
  LT_STEP_BATCH_DECAY = 4 /* tables: only the rows of the batch decay, not the whole table */
};
typedef struct lt_step_options {
  double lr, weight_decay, momentum, dampening, beta1, beta2, eps, lr_decay;
  double grad_scale; /* multiplies every gradient: 1 / loss scale, clip factor */
  int64_t step;      /* 1 at the first step */
  int32_t rule, flags;
} lt_step_options;
void lt_step_defaults(int rule, lt_step_options *out);
int lt_step_states(const lt_step_options *o); /* state tensors a parameter needs */
/* states: [n * lt_step_states], parameter by parameter. steps: [n] step numbers, or NULL: o->step for all. */
int lt_step(const lt_step_options *o, const lt_handle *const *params, const lt_handle *const *grads,
            const lt_handle *const *states, const int64_t *steps, int n);
/* A table with a gradient of unique ascending rows [u] and values [u, width]. Lazy: touches those rows only (PyTorch's
 * SparseAdam); decay needs LT_STEP_BATCH_DECAY. Exact: what lt_step gives with a dense gradient that is zero elsewhere,
 * bit for bit; rows NULL: no row has a gradient. */
int lt_step_lazy(const lt_step_options *o, const lt_handle *table, const lt_handle *const *states,
                 const lt_handle *rows, const lt_handle *values);
int lt_step_exact(const lt_step_options *o, const lt_handle *table, const lt_handle *const *states,
                  const lt_handle *rows, const lt_handle *values);
/* Euclidean norm of all these tensors together (dense gradients, values of sparse ones), summed in double and in a
 * fixed order. NaN or infinite when an element is. */
int lt_grad_norm(const lt_handle *const *grads, int n, double *out);

/* ---- random numbers, environment, threads ---- */
void lt_manual_seed(int64_t seed);
void lt_random_state(int64_t *seed, int64_t *call);
void lt_set_random_state(int64_t seed, int64_t call);
/* One block of the generator, Philox4x32-10: counter [4], key [2], out [4]; for numbers keyed by a sample or position.
 */
void lt_philox(const uint32_t *counter, const uint32_t *key, uint32_t *out);
int lt_threads(void);
int lt_set_threads(int n);
int lt_env_get(int index, const char **name, const char **value, const char **doc); /* 1 while there are more */
double lt_clock(void);                                                              /* seconds, monotonic */
void lt_profile(bool on);                                   /* adds up the time of every operator's kernel */
int lt_profile_get(int op, double *seconds, double *calls); /* 1 while there are more operators */

/* ---- interruption: Ctrl-C, seen by long C loops ---- */
int lt_interrupted(void);        /* 1 from the request until somebody clears it: stop, and return LT_ERR_INTERRUPT */
void lt_interrupt_request(void); /* safe inside a signal handler */
void lt_interrupt_clear(void);

/* ---- files ---- */
/* Replaces a file in one step: the new content is there, flushed, or the old file is whole. Symbolic links are
 * followed. */
int lt_file_replace(const char *path, const void *bytes, int64_t n);

/* ---- safetensors: reading. Tensors are numbered from 0 in the order of their data ---- */
typedef struct lt_safetensors lt_safetensors;
typedef struct lt_stored_tensor {
  const char *name, *dtype_name; /* the file's words: "F32"; they live as long as the file is open */
  const int64_t *shape;          /* [ndim] */
  int64_t bytes;
  int32_t dtype; /* enum lt_dtype; -1: legal, but ltrain does not compute with it */
  int32_t ndim;
} lt_stored_tensor;
int lt_safetensors_open(const char *path, lt_safetensors **out); /* checks the whole header */
void lt_safetensors_close(lt_safetensors *f);
int64_t lt_safetensors_count(const lt_safetensors *f);
int64_t lt_safetensors_find(const lt_safetensors *f, const char *name); /* -1: no such tensor */
int lt_safetensors_entry(const lt_safetensors *f, int64_t index, lt_stored_tensor *out);
int lt_safetensors_read(const lt_safetensors *f, int64_t index, void *out, int64_t bytes);
int lt_safetensors_read_rows(const lt_safetensors *f, int64_t index, void *out, int64_t rows, int64_t row_bytes,
                             int64_t row_stride); /* row r goes to out + r * row_stride bytes */
/* Into a mapping that ends with the file: not aligned if the writer did not pad, and SIGBUS if the file is cut. */
int lt_safetensors_data(lt_safetensors *f, int64_t index, const void **out);
int64_t lt_safetensors_metadata_count(const lt_safetensors *f);
int lt_safetensors_metadata_at(const lt_safetensors *f, int64_t index, const char **key,
                               const char **value);                            /* by key */
const char *lt_safetensors_metadata(const lt_safetensors *f, const char *key); /* NULL: not there */

/* ---- safetensors: writing. create, add and set, then write, finish, free; free without finish leaves the old file
 * ---- */
typedef struct lt_safetensors_writer lt_safetensors_writer;
int lt_safetensors_create(const char *path, lt_safetensors_writer **out);
int lt_safetensors_add(lt_safetensors_writer *w, const char *name, int dtype, int ndim, const int64_t *shape,
                       int64_t *index);
int lt_safetensors_set(lt_safetensors_writer *w, const char *key, const char *value);
/* Appends to the tensor's bytes; the first write ends the declarations. Tensors may come in any order. */
int lt_safetensors_write(lt_safetensors_writer *w, int64_t index, const void *data, int64_t bytes);
int lt_safetensors_write_rows(lt_safetensors_writer *w, int64_t index, const void *data, int64_t rows,
                              int64_t row_bytes, int64_t row_stride);
int lt_safetensors_finish(lt_safetensors_writer *w);
void lt_safetensors_writer_free(lt_safetensors_writer *w);

/* ---- npy ---- */
typedef struct lt_npy lt_npy;
typedef struct lt_npy_header {
  int64_t shape[8];
  int64_t count, bytes; /* elements; bytes of them as `dtype` */
  int32_t dtype, ndim;
  int32_t fortran; /* how the file has it; what is read is row-major */
  char descr[20];  /* the file's element type: "<f4" */
} lt_npy_header;
int lt_npy_open(const char *path, lt_npy **out);
void lt_npy_close(lt_npy *f);
void lt_npy_info(const lt_npy *f, lt_npy_header *out);
int lt_npy_read(const lt_npy *f, void *out, int64_t bytes);
int lt_npy_write(const char *path, int dtype, int ndim, const int64_t *shape, const void *data);

/* ---- metrics: mergeable states. Scores and logits: any float type; labels and weights: any type, weights NULL: 1.
 * Rows in messages count from 1. A failing update leaves the state as it was. Values that do not exist (AUC of one
 * class, a mean of nothing) are reported as undefined, never as a number ---- */
typedef struct lt_binary_metrics { /* zero it to start; labels from 0 to 1 */
  double weight, positive;         /* sums of w, of w y */
  double loss, loss_low;           /* sum of w * logloss, with the digits that did not fit */
  double predicted, predicted_low; /* sum of w * probability */
  double correct;                  /* sum of w where (logit > 0) == (y > 0.5) */
  int64_t rows;
} lt_binary_metrics;
int lt_binary_update(lt_binary_metrics *m, const void *logits, int logit_dtype, const void *labels, int label_dtype,
                     const void *weights, int weight_dtype, int64_t n);
void lt_binary_merge(lt_binary_metrics *m, const lt_binary_metrics *other);
bool lt_binary_logloss(const lt_binary_metrics *m, double *out); /* false: undefined */
bool lt_binary_accuracy(const lt_binary_metrics *m, double *out);
bool lt_binary_calibration(const lt_binary_metrics *m, double *out); /* sum of p / sum of y; 1 is ideal */
bool lt_binary_entropy(const lt_binary_metrics *m, double *out); /* logloss / entropy of the base rate; < 1 learns */

typedef struct lt_class_accuracy {
  double correct, weight;
  int64_t rows;
} lt_class_accuracy;
/* logits [n, classes], rows row_stride elements apart; labels int64 or int32; rows labelled `ignore` do not take part.
 */
int lt_class_accuracy_update(lt_class_accuracy *m, const void *logits, int logit_dtype, int64_t n, int64_t classes,
                             int64_t row_stride, const void *labels, int label_dtype, int64_t ignore,
                             const void *weights, int weight_dtype);
void lt_class_accuracy_merge(lt_class_accuracy *m, const lt_class_accuracy *other);
bool lt_class_accuracy_value(const lt_class_accuracy *m, double *out);

typedef struct lt_auc_value {
  double auc, bound;         /* |auc - exact| <= bound */
  double negative, positive; /* sums of weights */
  int64_t rows;
  bool defined; /* both classes are there; otherwise auc is nan */
  bool exact;
} lt_auc_value;
/* Sums of weights by class in bins of the logit: 2^16 over [-16, 16), the ends take the rest. Zero it to start. */
enum lt_auc_bins { LT_AUC_BINS = 65536 };
typedef struct lt_auc_histogram {
  double side[2][65536]; /* negatives, positives */
  int64_t rows;
} lt_auc_histogram;
int lt_auc_histogram_update(lt_auc_histogram *h, const void *logits, int logit_dtype, const void *labels,
                            int label_dtype, const void *weights, int weight_dtype, int64_t n);
void lt_auc_histogram_merge(lt_auc_histogram *h, const lt_auc_histogram *other);
void lt_auc_histogram_value(const lt_auc_histogram *h, lt_auc_value *out);
/* Exact while its rows fit into `budget` bytes (sorting included), a histogram beyond; the value says which. It depends
 * on the rows alone, not on their order nor on how they were merged. */
typedef struct lt_auc lt_auc;
int lt_auc_new(int64_t budget, lt_auc **out);
void lt_auc_free(lt_auc *a);
void lt_auc_reset(lt_auc *a);
int lt_auc_update(lt_auc *a, const void *scores, int score_dtype, const void *labels, int label_dtype,
                  const void *weights, int weight_dtype, int64_t n);
int lt_auc_merge(lt_auc *a, const lt_auc *other);
int lt_auc_result(lt_auc *a, lt_auc_value *out);
int64_t lt_auc_packed_bytes(const lt_auc *a); /* for sending a state to another process, and into checkpoints */
void lt_auc_pack(const lt_auc *a, void *out);
int lt_auc_merge_packed(lt_auc *a, const void *packed, int64_t bytes);
/* The AUC inside each group (ids int64 or int32), averaged with the group's rows as weight; a group of one class takes
 * no part. */
typedef struct lt_auc_group_value {
  double auc;
  int64_t groups, skipped, rows; /* groups with an AUC, groups without, rows of the former */
  bool defined;                  /* false: no group has both classes, and auc is nan */
} lt_auc_group_value;
int lt_auc_grouped(const void *scores, int score_dtype, const void *labels, int label_dtype, const void *groups,
                   int group_dtype, int64_t n, lt_auc_group_value *out);
/* In one call, without a budget: the AUC of one array. */
int lt_auc_exact(const void *scores, int score_dtype, const void *labels, int label_dtype, const void *weights,
                 int weight_dtype, int64_t n, lt_auc_value *out);

/* ---- data: counted memory; a tensor may adopt it (lt_from_memory with lt_buffer_release) ---- */
typedef struct lt_buffer lt_buffer;
int lt_buffer_new(int64_t bytes, lt_buffer **out); /* zeroed, 64-byte aligned */
void lt_buffer_retain(lt_buffer *b);
void lt_buffer_release(lt_buffer *b); /* from any thread; NULL is fine */
void *lt_buffer_data(const lt_buffer *b);
int64_t lt_buffer_bytes(const lt_buffer *b);

/* ---- data: files, unpacked by what their first bytes say: plain, gzip, zlib, xz, zstd, bzip2 ---- */
typedef struct lt_stream lt_stream;
int lt_stream_open(const char *path, lt_stream **out);
int lt_stream_read(lt_stream *s, void *out, int64_t capacity, int64_t *got); /* *got = 0: the end */
const char *lt_stream_packing(const lt_stream *s);                           /* "plain", "gzip", ... */
void lt_stream_cancel(lt_stream *s); /* from another thread: a read that waits fails */
void lt_stream_close(lt_stream *s);

/* idx files (MNIST's form), packed or not: all of the file in native byte order. shape: [8] */
int lt_idx_read(const char *path, int32_t *dtype, int32_t *ndim, int64_t *shape, lt_buffer **out);

/* ---- data: vocabularies, raw values -> ids ----
 * Maps and hashes: id 0 is padding, 1 out of vocabulary, values or buckets follow from 2. Values of a map are ordered
 * by falling count, then by bytes. A missing field is the empty text. Whole numbers are their own ids, 0 .. limit - 1.
 * Encoding is safe from many threads; lt_vocabulary_add is not. */
typedef struct lt_vocabulary lt_vocabulary;
typedef struct lt_frame lt_frame;
enum lt_vocabulary_kind { LT_VOCABULARY_MAP = 0, LT_VOCABULARY_HASH = 1, LT_VOCABULARY_WHOLE = 2 };
typedef struct lt_vocabulary_info {
  const char *name;
  int32_t kind;
  int32_t first;              /* id of the first value: 2, or 0 for whole numbers */
  int64_t size;               /* ids are 0 .. size - 1: the rows an embedding needs */
  int64_t min_count, dropped; /* of a map: values seen less often, left out while fitting */
  int64_t seen, unknown;      /* fields encoded since the last reset; those that got id 1 */
} lt_vocabulary_info;
int lt_vocabulary_new(const char *name, int64_t min_count, lt_vocabulary **out); /* a map, filled by add in id order */
int lt_vocabulary_add(lt_vocabulary *v, const char *text, int64_t length, int64_t count);
int lt_vocabulary_fit(const lt_frame *f, int32_t column, const int64_t *rows, int64_t n, int64_t min_count,
                      lt_vocabulary **out); /* on these rows; rows NULL: all */
int lt_vocabulary_hash(const char *name, int64_t buckets, int64_t seed, lt_vocabulary **out);
int lt_vocabulary_whole(const char *name, int64_t limit, lt_vocabulary **out);
void lt_vocabulary_retain(lt_vocabulary *v);
void lt_vocabulary_release(lt_vocabulary *v);
int64_t lt_vocabulary_encode(lt_vocabulary *v, const char *text, int64_t length); /* the id, or < 0: an error */
int lt_vocabulary_text(const lt_vocabulary *v, int64_t id, const char **text, int64_t *length, int64_t *count);
void lt_vocabulary_describe(const lt_vocabulary *v, lt_vocabulary_info *out);
void lt_vocabulary_reset_counters(lt_vocabulary *v);
/* As text, for a file beside the model: a head line, then one line "count TAB value" for each id from 2 on. */
int lt_vocabulary_save(const lt_vocabulary *v, lt_buffer **out);
int lt_vocabulary_load(const char *text, int64_t length, lt_vocabulary **out);

/* ---- data: frames, named columns of rows in memory ----
 * One array of records: the value of column c in row r is at data(records) + r * stride + offset(c). Columns of one
 * dtype named one after another are neighbours in the record, so they are one strided [rows, k] matrix. */
enum lt_column_kind { LT_COLUMN_NUMBER = 0, LT_COLUMN_TEXT = 1 };
typedef struct lt_frame_column {
  const char *name;
  int32_t kind;  /* enum lt_column_kind */
  int32_t dtype; /* of numbers: float32, float64, int32, int64 */
} lt_frame_column;
typedef struct lt_frame_info {
  const char *name;
  int32_t kind, dtype; /* a text column holds int32 codes of its dictionary until it is encoded */
  int64_t offset;      /* bytes from the start of the record */
  int64_t values;      /* of text: size of the dictionary */
} lt_frame_info;
int lt_frame_new(const lt_frame_column *columns, int32_t width, int64_t rows, lt_frame **out); /* zeroed */
void lt_frame_retain(lt_frame *f);
void lt_frame_release(lt_frame *f);
int64_t lt_frame_rows(const lt_frame *f);
int64_t lt_frame_stride(const lt_frame *f);                                   /* bytes from row to row */
int32_t lt_frame_width(const lt_frame *f);                                    /* columns */
lt_buffer *lt_frame_records(const lt_frame *f);                               /* borrowed; retain it for a view */
int lt_frame_describe(const lt_frame *f, int32_t column, lt_frame_info *out); /* columns count from 0 */
int32_t lt_frame_find(const lt_frame *f, const char *name);                   /* -1: no such column */
int lt_frame_text(const lt_frame *f, int32_t column, int64_t code, const char **text, int64_t *length, int64_t *uses);
int lt_frame_append(lt_frame *f, const lt_frame *more);
int lt_frame_select(const lt_frame *f, const int64_t *rows, int64_t n, lt_frame **out);
int lt_frame_filter(const lt_frame *f, const uint8_t *mask, lt_frame **out); /* mask: [rows], nonzero stays */
int lt_frame_gather(const lt_frame *f, const int64_t *rows, int64_t n, const int32_t *columns, int32_t width,
                    void *out); /* [n, width] of the columns' one dtype */
/* A new frame of n rows out of columns of others; texts keep their dictionaries. rows: [n] rows of that frame, -1: no
 * value (the empty text, NaN); NULL: 0 .. n - 1. */
typedef struct lt_frame_source {
  const char *name; /* in the new frame */
  const lt_frame *frame;
  const int64_t *rows;
  int32_t column;
} lt_frame_source;
int lt_frame_compose(const lt_frame_source *columns, int32_t width, int64_t n, lt_frame **out);
/* rows: [rows of f] the row of `other` whose text is the same; -1: none has it. Texts of `other` must be unique. */
int lt_frame_match(const lt_frame *f, int32_t column, const lt_frame *other, int32_t other_column, int64_t *rows);
/* Text columns in place: filled row by row (NULL: the empty text); each distinct text, by code, replaced by another;
 * turned into float32 or int32. In messages, row r of the frame is called rows[r]; rows NULL: r. */
int lt_frame_write_texts(lt_frame *f, int32_t column, const char *const *texts, const int64_t *lengths);
int lt_frame_recode(lt_frame *f, int32_t column, const char *const *texts, const int64_t *lengths);
int lt_frame_parse(lt_frame *f, int32_t column, int32_t dtype, int32_t on_missing, double fill, const int64_t *rows);
int lt_frame_encode(lt_frame *f, int32_t column, lt_vocabulary *v); /* text -> int32 ids, in place */
/* Float32 -> int32 ids, in place: 1 for NaN, else 2 + edges <= value (so edges + 3 ids in all). */
int lt_frame_bucketize(lt_frame *f, int32_t column, const float *edges, int64_t edge_count);
int lt_bucketize(const float *values, int64_t n, const float *edges, int64_t edge_count, int32_t *out);
int lt_frame_quantiles(const lt_frame *f, int32_t column, const int64_t *rows, int64_t n, int32_t buckets, float *edges,
                       int64_t *edge_count); /* edges: [buckets - 1]; rows NULL: all */

/* ---- data: delimited text ---- */
typedef struct lt_csv lt_csv;
enum lt_missing { LT_MISSING_ERROR = 0, LT_MISSING_FILL = 1 };
typedef struct lt_csv_column {
  const char *name;
  int32_t kind, dtype;    /* as in lt_frame_column */
  int32_t on_missing;     /* enum lt_missing; a missing text is the empty text */
  double fill;            /* of float columns */
  int64_t fill_whole;     /* of int columns */
  lt_vocabulary *encoder; /* of text columns: ids at once; NULL: codes of a dictionary made while reading */
} lt_csv_column;
typedef struct lt_csv_options {
  int32_t delimiter, quote; /* bytes; quote 0: quotes are plain text */
  int32_t header;           /* 1: the first line names the columns */
  int32_t skip_lines;       /* before the header */
  int32_t trim;             /* 1: blanks around fields don't count */
  int32_t skip_bad;         /* 1: bad rows are left out, counted, and the first few kept as reports */
  int32_t count_only;       /* 1: no rows, only the dictionaries of text columns with their counts */
  int32_t threads;          /* 0: the caller's own */
  int32_t missing_count, name_count;
  const char *const *missing; /* fields that mean "no value", beside the empty one */
  const char *const *names;   /* of all columns of the file; they replace the header's */
  const char *comment;        /* lines that begin so are left out; NULL: none */
  int64_t block_bytes;        /* text parsed as one piece */
  int64_t queue_bytes;        /* text in blocks that are made but not yet fetched */
  int64_t max_line_bytes;
  int64_t dictionary_bytes; /* memory for dictionaries made while reading */
} lt_csv_options;
typedef struct lt_csv_stats {
  int64_t rows, bad, lines, bytes; /* bytes of text */
  int64_t waits;                   /* times the consumer found nothing ready */
  double waited;                   /* and for how many seconds */
} lt_csv_stats;
void lt_csv_defaults(lt_csv_options *out);
int lt_csv_open(const char *const *paths, int32_t path_count, const lt_csv_options *options,
                const lt_csv_column *columns, int32_t column_count, lt_csv **out); /* reads the first header */
int32_t lt_csv_name_count(const lt_csv *c);                                        /* columns of the file */
const char *lt_csv_name(const lt_csv *c, int32_t position);
int lt_csv_next(lt_csv *c, lt_frame **out); /* the next block of rows; *out = NULL: the end */
int lt_csv_read(lt_csv *c, lt_frame **out); /* all of it; closing remains the caller's */
void lt_csv_status(const lt_csv *c, lt_csv_stats *out);
int lt_csv_report(const lt_csv *c, int32_t index, char *out, int64_t capacity); /* of a bad row; 1 while there are */
void lt_csv_close(lt_csv *c);

/* ---- data: order and batches ---- */
/* A bijection on 0 .. n - 1 that depends on (seed, epoch) alone; at() is O(1). */
typedef struct lt_permutation lt_permutation;
int lt_permutation_new(int64_t n, int64_t seed, int64_t epoch, lt_permutation **out);
int64_t lt_permutation_at(const lt_permutation *p, int64_t position);
void lt_permutation_fill(const lt_permutation *p, int64_t position, int64_t n, int64_t *out);
void lt_permutation_free(lt_permutation *p);

typedef struct lt_batcher lt_batcher;
typedef struct lt_batch lt_batch;
typedef struct lt_batch_part {
  const int32_t *columns; /* of one dtype */
  int32_t width;
  int32_t finite; /* 1: NaN and infinity are errors that name column and row */
} lt_batch_part;
typedef struct lt_batch_options {
  int64_t batch; /* global rows a step */
  int32_t drop_last;
  int32_t shuffle; /* 1: rows in the order of lt_permutation(seed, epoch) */
  int64_t seed, epoch;
  int64_t position;    /* rows of this epoch that were delivered before */
  int32_t rank, ranks; /* this rank's contiguous share of each batch; ranks 0 counts as 1 */
  int32_t threads;     /* 0: batches are made when asked for */
  int32_t depth;       /* batches ready or in the making, at most */
} lt_batch_options;
/* rows: [n] the frame's rows that take part, NULL: all. The frame stays as it is while the batcher lives. */
int lt_batcher_open(lt_frame *f, const int64_t *rows, int64_t n, const lt_batch_part *parts, int32_t part_count,
                    const lt_batch_options *options, lt_batcher **out);
int lt_batcher_next(lt_batcher *b, lt_batch **out);               /* *out = NULL: the epoch is over */
int64_t lt_batcher_position(const lt_batcher *b);                 /* with seed and epoch: the state to resume from */
int64_t lt_batcher_steps(const lt_batcher *b);                    /* batches from the start position to the end */
void lt_batcher_status(const lt_batcher *b, lt_csv_stats *out);   /* rows, waits, waited */
void lt_batcher_close(lt_batcher *b);                             /* at any time */
int64_t lt_batch_rows(const lt_batch *b);                         /* of this rank */
int64_t lt_batch_global_rows(const lt_batch *b);                  /* of all ranks */
int64_t lt_batch_first(const lt_batch *b);                        /* position in the epoch of this rank's first row */
lt_buffer *lt_batch_part_buffer(const lt_batch *b, int32_t part); /* [rows, width]; borrowed, retain it to keep it */
lt_buffer *lt_batch_row_numbers(const lt_batch *b);               /* [rows] int64: rows of the frame */
void lt_batch_release(lt_batch *b);

/* ---- data: a stand-in for big click logs, every row computable by itself from (seed, row) ---- */
typedef struct lt_clicks_options {
  int64_t rows, first_row; /* rows first_row .. first_row + rows - 1 of the endless log */
  int64_t values;          /* ids of all fields together */
  int64_t seed;
  int32_t small_fields, small_values, large_fields;
  int32_t reserved; /* ids of each field that no row uses: 0, or 2 (padding, out of vocabulary) */
  int32_t threads;
} lt_clicks_options;
void lt_clicks_defaults(lt_clicks_options *out);
/* Columns "label" (float32), "C1", "C2", ... (int32): the small fields first. sizes: [fields] ids a field has. */
int lt_clicks_make(const lt_clicks_options *options, int64_t *sizes, lt_frame **out);

/* ---- rates of matrix products, for benchmarks ---- */
enum lt_rate_how { LT_RATE_OURS = 0, LT_RATE_ONEDNN = 1, LT_RATE_ONEDNN_PACKED = 2 };
/* Operations a second of c [m, n] = a [m, k] b [k, n] on all threads: the median of products run for `seconds`. A
 * transposed operand lies in memory as [k, m] or [n, k]. Packing b beforehand is not counted. */
int lt_gemm_rate(int how, int dtype, int64_t m, int64_t n, int64_t k, bool a_transposed, bool b_transposed,
                 double seconds, double *out);

#pragma GCC visibility pop
