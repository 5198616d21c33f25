/* Matrix products by our own kernels: brings a product to its plainest form and picks how to run it. Thin ones (a few
 * rows or columns, such as the last layer of a click model or one token of a text model) are bound by reading b and go
 * through dots or rows; the rest goes to gemm_blocked.c. The pick looks at sizes and strides, never at threads. */
#include "gemm_kernels.h"
#include "tensor.h"

#include <omp.h>
#include <string.h>

enum {
  THIN = 8,            /* rows or columns up to which dots beat packed tiles */
  THIN_ROWS = 4,       /* rows up to which reading b in place beats packed tiles */
  SEGMENT = 4096,      /* steps of k to a part, when a small C leaves only k to share among threads ... */
  SMALL_C = 128 * 128, /* ... that is, with no more elements than this */
  MAX_SEGMENTS = 16,
  THIN_WORK = 150000, /* multiplications below which waking the threads costs more than it gives: thin products ... */
  TILE_WORK = 600000  /* ... wait for memory, tiles do not */
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int team(const lt_gemm *g, double work) {
  if (omp_in_parallel() || (double)g->batch * (double)g->m * (double)g->n * (double)g->k < work) return 1;
  return lt_threads();
}

typedef struct thin {
  const lt_gemm *g;
  const gemm_kernels *kern;
  bool dots;
  int64_t parts, part; /* of the longer side of C for dots, of its columns for rows */
} thin;

static void run_thin(const thin *t, int64_t task) {
  const lt_gemm *g = t->g;
  int64_t size = t->kern->size, batch = task / t->parts, at = task % t->parts * t->part;
  const char *a = (const char *)g->a + batch * g->a_batch * size, *b = (const char *)g->b + batch * g->b_batch * size;
  char *c = (char *)g->c + batch * g->c_batch * size;
  gemm_finish finish = {.add = g->accumulate, .bias = g->bias, .activation = g->activation, .slope = g->slope};
  if (t->dots && g->m > g->n) {
    t->kern->dots(least(t->part, g->m - at), g->n, g->k, a + at * g->a_row * size, g->a_row, b, g->b_col,
                  c + at * g->c_row * size, g->c_row, &finish);
    return;
  }
  int64_t columns = least(t->part, g->n - at);
  if (finish.bias) finish.bias = (const char *)finish.bias + at * size;
  if (t->dots)
    t->kern->dots(g->m, columns, g->k, a, g->a_row, b + at * g->b_col * size, g->b_col, c + at * size, g->c_row,
                  &finish);
  else
    for (int64_t i = 0; i < g->m; i++)
      t->kern->row(columns, g->k, a + i * g->a_row * size, g->a_col, b + at * size, g->b_row,
                   c + (i * g->c_row + at) * size, &finish);
}

static int run_thin_product(const lt_gemm *g, const gemm_kernels *kern, bool dots) {
  int threads = team(g, THIN_WORK);
  thin t = {.g = g, .kern = kern, .dots = dots};
  int64_t side = dots && g->m > g->n ? g->m : g->n, align = dots ? 4 : kern->lanes;
  t.part = (side + threads - 1) / threads;
  if (g->batch >= threads) t.part = side;
  if (!dots && t.part > GEMM_ROW_COLUMNS) t.part = GEMM_ROW_COLUMNS;
  t.part = (t.part + align - 1) / align * align;
  t.parts = (side + t.part - 1) / t.part;
  if (threads == 1)
    for (int64_t i = 0; i < g->batch * t.parts; i++) run_thin(&t, i);
  else {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < g->batch * t.parts; i++) run_thin(&t, i);
  }
  return LT_OK;
}

static int run_form(const lt_gemm *g, const gemm_kernels *kern) {
  int64_t thin = least(g->m, g->n); /* a dot ends in adding lanes, which only a long one is worth */
  if (g->a_col == 1 && g->b_row == 1 && thin <= THIN && g->k >= (thin <= 2 ? 2 : 12) * kern->lanes)
    return run_thin_product(g, kern, true);
  if (g->b_col == 1 && g->m <= THIN_ROWS && g->n >= kern->lanes) return run_thin_product(g, kern, false);
  return gemm_tiles(g, kern, team(g, TILE_WORK));
}

/* A small C under a long k: parts of k side by side in scratch, added in their order. */
static int run_segments(const lt_gemm *g, const gemm_kernels *kern) {
  int64_t count = least(g->k / SEGMENT, MAX_SEGMENTS), steps = (g->k + count - 1) / count, size = kern->size;
  count = (g->k + steps - 1) / steps;
  int64_t elements = g->m * g->n, bytes = count * elements * size;
  char *sums = lt_alloc(bytes);
  if (!sums) return LT_ERR_MEMORY;
  lt_gemm part = *g;
  part.accumulate = false;
  part.c = sums;
  part.c_row = g->n;
  part.c_batch = elements;
  part.batch = count - 1;
  part.k = steps;
  part.a_batch = steps * g->a_col;
  part.b_batch = steps * g->b_row;
  int status = run_form(&part, kern);
  part.a = (const char *)g->a + part.batch * part.a_batch * size;
  part.b = (const char *)g->b + part.batch * part.b_batch * size;
  part.c = sums + part.batch * elements * size;
  part.k = g->k - part.batch * steps;
  part.batch = 1;
  if (status >= 0) status = run_form(&part, kern);
  for (int64_t s = 1; s < count && status >= 0; s++) kern->add(elements, sums, sums + s * elements * size);
  for (int64_t i = 0; i < g->m && status >= 0; i++) {
    char *row = (char *)g->c + i * g->c_row * size;
    if (g->accumulate)
      kern->add(g->n, row, sums + i * g->n * size);
    else
      memcpy(row, sums + i * g->n * size, (size_t)(g->n * size));
  }
  lt_free(sums, bytes);
  return status;
}

int gemm_own(const lt_gemm *given, const gemm_kernels *kern) {
  lt_gemm g = *given;
  int64_t size = kern->size;
  if (g.m == 1) { /* one row has no distance to the next: let the batch be it */
    g.a_row = g.a_batch;
    g.c_row = g.c_batch;
  }
  if (g.batch > 1 && g.b_batch == 0 && g.a_batch == g.m * g.a_row && g.c_batch == g.m * g.c_row) {
    g.m *= g.batch;
    g.batch = 1;
  }
  if (g.k == 1) g.a_col = g.b_row = 1;
  if (g.n == 1) g.b_col = g.b_row == 1 && g.k > 1 ? g.k : 1;
  char *bias = NULL;
  int64_t bias_bytes = g.m * size;
  if (g.n == 1 && g.m > 1 && (g.c_row == 1)) { /* a column is a row: c^T = b^T a^T */
    if (g.bias) {
      bias = lt_alloc(bias_bytes);
      if (!bias) return LT_ERR_MEMORY;
      for (int64_t i = 0; i < g.m; i++) memcpy(bias + i * size, g.bias, (size_t)size);
      g.bias = bias;
    }
    lt_gemm t = g;
    g.m = 1, g.n = t.m;
    g.a = t.b, g.a_batch = t.b_batch, g.a_row = t.k * t.b_row, g.a_col = t.b_row;
    g.b = t.a, g.b_batch = t.a_batch, g.b_row = t.a_col, g.b_col = t.a_row;
    g.c_row = g.n;
  }
  bool segments = g.batch == 1 && g.m * g.n <= SMALL_C && g.k >= 2 * SEGMENT && !g.bias && !g.activation;
  int status = segments ? run_segments(&g, kern) : run_form(&g, kern);
  if (bias) lt_free(bias, bias_bytes);
  return status;
}
