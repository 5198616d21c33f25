/* bfloat16 products through oneDNN, sums in float32. C is cut into pieces whose sizes follow from the shape alone, each
 * piece is a one-thread primitive, and a long k over a small C is cut too, its parts added in order: so the bits do not
 * depend on the threads. b is packed once for all pieces, or kept packed where the caller can name its contents. */
#include "onednn.h"
#include "tensor.h"

#include <omp.h>
#include <pthread.h>
#include <string.h>

enum {
  STEPS = 512,         /* least steps of k in a part */
  PARTS = 8,           /* most parts of k */
  SMALL_C = 512 * 512, /* up to this many elements of C a long k is cut */
  FEW_ROWS = 64,       /* up to these b is read as it lies, in strips of columns */
  STRIP = 256,         /* columns */
  WORK = 200000        /* multiplications below which one thread is enough */
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* ---- packed copies of b that callers named ---- */

typedef struct kept_copy {
  uint64_t id, version, used;
  int64_t n, k, b_row, b_col, m, bytes;
  int users;
  void *data;
} kept_copy;
enum { COPIES = 64 };
static kept_copy copies[COPIES];
static uint64_t copy_clock;
static pthread_mutex_t copies_lock = PTHREAD_MUTEX_INITIALIZER;

static bool same_copy(const kept_copy *c, const lt_gemm *g, int64_t rows) {
  return c->data && c->id == g->b_id && c->n == g->n && c->k == g->k && c->b_row == g->b_row && c->b_col == g->b_col &&
         c->m == rows;
}

/* A copy that holds this version, made or refreshed when needed; NULL in *out: no room, pack for this call alone. */
static int borrow_copy(const lt_gemm *g, const onednn_product *p, int64_t rows, kept_copy **out) {
  kept_copy *pick = NULL;
  int status = LT_OK;
  *out = NULL;
  pthread_mutex_lock(&copies_lock);
  for (int i = 0; i < COPIES && !(pick && same_copy(pick, g, rows)); i++) {
    kept_copy *c = &copies[i];
    if (same_copy(c, g, rows))
      pick = c;
    else if (!c->users && (!pick || c->used < pick->used))
      pick = c;
  }
  if (pick && !same_copy(pick, g, rows)) {
    lt_free(pick->data, pick->bytes);
    *pick = (kept_copy){.id = g->b_id, .n = g->n, .k = g->k, .b_row = g->b_row, .b_col = g->b_col, .m = rows};
    pick->bytes = onednn_packed_bytes(p);
    pick->version = g->b_version - 1;
    pick->data = lt_alloc(pick->bytes);
    if (!pick->data) status = LT_ERR_MEMORY;
  }
  if (pick && status >= 0 && pick->version != g->b_version) {
    if (pick->users)
      pick = NULL; /* somebody computes with the other version */
    else {
      status = onednn_pack(p, g->b, pick->data);
      pick->version = status >= 0 ? g->b_version : g->b_version - 1;
    }
  }
  if (pick && status >= 0) {
    pick->users++;
    pick->used = ++copy_clock;
    *out = pick;
  }
  pthread_mutex_unlock(&copies_lock);
  return status;
}

static void return_copy(kept_copy *c) {
  if (!c) return;
  pthread_mutex_lock(&copies_lock);
  c->users--;
  pthread_mutex_unlock(&copies_lock);
}

/* ---- pieces ---- */

typedef struct plan {
  const lt_gemm *g;
  int64_t rows, columns, steps;       /* of a piece; the last ones may be smaller */
  int64_t n_rows, n_columns, n_steps; /* how many */
  onednn_product *product[2][2][2];   /* [last rows?][last columns?][last steps?]; NULL where no piece is like that */
  const char *packed;
  char *scratch;
  int64_t scratch_bytes;
  float *sums; /* [n_steps, m, n] when k is cut */
} plan;

static onednn_product **product_of(plan *p, int64_t i, int64_t j, int64_t q) {
  return &p->product[i == p->n_rows - 1][j == p->n_columns - 1][q == p->n_steps - 1];
}

static int make_products(plan *p, bool packed) {
  const lt_gemm *g = p->g;
  for (int corner = 0; corner < 8; corner++) {
    int64_t i = corner & 1 ? p->n_rows - 1 : 0, j = corner & 2 ? p->n_columns - 1 : 0,
            q = corner & 4 ? p->n_steps - 1 : 0;
    onednn_product **out = product_of(p, i, j, q);
    if (*out) continue;
    onednn_shape s = {.dtype = g->dtype,
                      .c_dtype = p->sums ? LT_FLOAT32 : g->c_dtype,
                      .bias_dtype = g->bias ? g->bias_dtype : -1,
                      .m = least(p->rows, g->m - i * p->rows),
                      .n = least(p->columns, g->n - j * p->columns),
                      .k = least(p->steps, g->k - q * p->steps),
                      .a_row = g->a_row,
                      .a_col = g->a_col,
                      .b_row = g->b_row,
                      .b_col = g->b_col,
                      .c_row = p->sums ? g->n : g->c_row,
                      .activation = g->activation,
                      .slope = g->slope,
                      .packed = packed,
                      .threads = 1};
    LT_TRY(onednn_get(&s, packed && s.m != p->rows ? p->product[0][1][1] : NULL, out));
    if (onednn_scratch_bytes(*out) > p->scratch_bytes) p->scratch_bytes = onednn_scratch_bytes(*out);
  }
  p->scratch_bytes = up(p->scratch_bytes, 64);
  return LT_OK;
}

static int run_piece(plan *p, int64_t task, char *scratch) {
  const lt_gemm *g = p->g;
  int64_t i = task % p->n_rows, j = task / p->n_rows % p->n_columns, q = task / p->n_rows / p->n_columns % p->n_steps,
          batch = task / p->n_rows / p->n_columns / p->n_steps;
  int64_t row = i * p->rows, column = j * p->columns, step = q * p->steps;
  const uint16_t *a = (const uint16_t *)g->a + batch * g->a_batch + row * g->a_row + step * g->a_col;
  const void *b = (const uint16_t *)g->b + batch * g->b_batch + step * g->b_row + column * g->b_col;
  int64_t c_size = p->sums ? 4 : lt_dtype_size(g->c_dtype);
  char *c = p->sums ? (char *)(p->sums + (q * g->m + row) * g->n + column)
                    : (char *)g->c + (batch * g->c_batch + row * g->c_row + column) * c_size;
  const char *bias = g->bias ? (const char *)g->bias + column * lt_dtype_size(g->bias_dtype) : NULL;
  return onednn_run(*product_of(p, i, j, q), a, p->packed ? p->packed : b, bias, c, scratch);
}

static int run_pieces(plan *p) {
  const lt_gemm *g = p->g;
  int64_t tasks = g->batch * p->n_rows * p->n_columns * p->n_steps;
  bool alone = omp_in_parallel() || tasks == 1 || (double)g->batch * (double)g->m * (double)g->n * (double)g->k < WORK;
  int threads = alone ? 1 : lt_threads(), status = LT_OK;
  int64_t bytes = p->scratch_bytes * threads;
  p->scratch = lt_alloc(bytes);
  if (!p->scratch) return LT_ERR_MEMORY;
  if (threads == 1) {
    int pool = omp_get_max_threads();
    omp_set_num_threads(1); /* thin products take a way through oneDNN that asks for threads only when it runs */
    for (int64_t t = 0; t < tasks && status >= 0; t++) status = run_piece(p, t, p->scratch);
    omp_set_num_threads(pool);
  } else {
    char message[512] = ""; /* a failure's text belongs to the thread that saw it */
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t t = 0; t < tasks; t++) {
      int s = run_piece(p, t, p->scratch + omp_get_thread_num() * p->scratch_bytes);
      if (s < 0) {
#pragma omp critical(gemm_bfloat16_failure)
        {
          status = s;
          strncpy(message, lt_last_error(), sizeof message - 1);
        }
      }
    }
    if (status < 0) status = lt_fail(status, "%s", message);
  }
  lt_free(p->scratch, bytes);
  return status;
}

/* The parts of k are added in order; a bfloat16 C is rounded once. */
static void add_parts(const plan *p) {
  const lt_gemm *g = p->g;
  int threads = omp_in_parallel() || g->m * g->n < 32768 ? 1 : lt_threads();
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t i = 0; i < g->m; i++) {
    float *sum = p->sums + i * g->n;
    for (int64_t q = 1; q < p->n_steps; q++) {
      const float *part = p->sums + (q * g->m + i) * g->n;
      for (int64_t j = 0; j < g->n; j++) sum[j] += part[j];
    }
    if (g->c_dtype == LT_FLOAT32) {
      float *c = (float *)g->c + i * g->c_row;
      if (!g->accumulate)
        memcpy(c, sum, (size_t)g->n * sizeof *c);
      else
        for (int64_t j = 0; j < g->n; j++) c[j] += sum[j];
      continue;
    }
    uint16_t *c = (uint16_t *)g->c + i * g->c_row;
    if (g->accumulate)
      for (int64_t j = 0; j < g->n; j++) {
        float old;
        lt_bf16_to_f32(&old, c + j, 1);
        sum[j] += old;
      }
    lt_f32_to_bf16(c, sum, g->n);
  }
}

static int run_cut(plan *p, bool packed) {
  const lt_gemm *g = p->g;
  kept_copy *copy = NULL;
  void *own = NULL;
  int64_t own_bytes = 0;
  p->n_rows = (g->m + p->rows - 1) / p->rows;
  p->n_columns = (g->n + p->columns - 1) / p->columns;
  p->n_steps = (g->k + p->steps - 1) / p->steps;
  int status = make_products(p, packed);
  onednn_product *first = *product_of(p, 0, 0, 0);
  if (status >= 0 && packed && onednn_packed_bytes(first) > 0) {
    if (g->b_id) status = borrow_copy(g, first, p->rows, &copy);
    if (status >= 0 && !copy) {
      own_bytes = onednn_packed_bytes(first);
      own = lt_alloc(own_bytes);
      status = own ? onednn_pack(first, g->b, own) : LT_ERR_MEMORY;
    }
    p->packed = copy ? copy->data : own;
  }
  if (status >= 0) status = run_pieces(p);
  return_copy(copy);
  if (own) lt_free(own, own_bytes);
  for (int i = 0; i < 8; i++) onednn_release(p->product[i >> 2][i >> 1 & 1][i & 1]);
  return status;
}

static int run_apart(plan *p) { /* in float32 sums first */
  lt_gemm one = *p->g;
  const lt_gemm *g = p->g;
  int64_t parts = (g->k + p->steps - 1) / p->steps, bytes = parts * g->m * g->n * (int64_t)sizeof(float);
  int status = LT_OK;
  p->sums = lt_alloc(bytes);
  if (!p->sums) return LT_ERR_MEMORY;
  one.batch = 1;
  p->g = &one;
  for (int64_t batch = 0; batch < g->batch && status >= 0; batch++) {
    one.a = (const uint16_t *)g->a + batch * g->a_batch;
    one.b = (const uint16_t *)g->b + batch * g->b_batch;
    one.c = (char *)g->c + batch * g->c_batch * lt_dtype_size(g->c_dtype);
    memset(p->product, 0, sizeof p->product);
    status = run_cut(p, false);
    if (status >= 0) add_parts(p);
  }
  lt_free(p->sums, bytes);
  return status;
}

int gemm_bfloat16(const lt_gemm *g) {
  plan p = {.g = g, .rows = g->m, .columns = g->n, .steps = g->k};
  bool sums_only = !g->bias && !g->activation;
  if (sums_only && g->batch == 1 && g->m * g->n <= SMALL_C && g->k >= 2 * STEPS) {
    int64_t parts = least(g->k / STEPS, PARTS);
    p.steps = up((g->k + parts - 1) / parts, 32);
    return run_apart(&p);
  }
  bool few = g->m <= FEW_ROWS;
  if (few)
    p.columns = least(g->n, STRIP);
  else
    p.rows = least(256, least(g->m, up((g->m + 15) / 16, 32) < 32 ? 32 : up((g->m + 15) / 16, 32)));
  if (g->accumulate) return run_apart(&p);
  return run_cut(&p, !few && (g->batch == 1 || g->b_batch == 0) && p.rows < g->m);
}
