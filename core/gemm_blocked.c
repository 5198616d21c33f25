/* The blocked matrix product of any element type: cuts C into blocks, packs strips of b (and of a, where its strides
 * ask for it) and runs the tiles of gemm_kernels.h over them.
 * The surprising idea: k is cut by its own length alone and the tiles add in one order, so that the number of threads
 * and the grid of blocks are free to fit the machine and still never change a bit of the result. */
#include "gemm_kernels.h"
#include "tensor.h"

#include <omp.h>
#include <string.h>
#include <unistd.h>

enum {
  CHUNK = 416,            /* steps of k that a tile sums in registers at most */
  SHARED_BYTES = 16 << 20 /* the largest b that is packed whole for all blocks of C */
};

typedef struct product {
  lt_gemm g;
  const gemm_kernels *kern;
  int64_t chunks, chunk;       /* k is cut into `chunks` pieces of `chunk` steps, the last may be shorter */
  int64_t rows_in, columns_in; /* the grid: blocks of C along m and along n */
  int64_t row_align, column_align;
  int64_t strip; /* columns of b packed at a time */
  bool shared;   /* b lies packed in `packed`, for all blocks */
  char *packed;
  char *scratch; /* [thread][scratch_bytes]: strip of a, strip of b, sums of a block */
  int64_t scratch_bytes, b_strip_at, sums_at;
} product;

static int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t cut(int64_t n, int64_t parts, int64_t align, int64_t i) { /* where part i begins */
  return least(n, up(n, align) / align * i / parts * align);
}
/* Vectors in the panel of b that begins where `columns` are left. */
static int64_t panel_vectors(const gemm_kernels *kern, int64_t columns) {
  return least(up(columns, kern->lanes) / kern->lanes, GEMM_MAX_VECTORS);
}

/* b[steps, columns] to panels side by side, each [steps, vectors * lanes]. */
static void pack_strip(const product *p, char *to, const char *from, int64_t steps, int64_t columns) {
  int64_t lanes = p->kern->lanes, size = p->kern->size;
  for (int64_t j = 0; j < columns;) {
    int64_t width = panel_vectors(p->kern, columns - j) * lanes;
    p->kern->pack(to + j * steps * size, width, least(width, columns - j), steps, from + j * p->g.b_col * size,
                  p->g.b_col, p->g.b_row);
    j += width;
  }
}

/* A panel that sticks out of C is computed beside it. */
static void run_partial(const product *p, gemm_tile *tile, int64_t rows, int64_t columns, int64_t width, int64_t steps,
                        const char *a, int64_t a_row, int64_t a_col, const char *b, char *c, int64_t c_row,
                        const gemm_finish *finish) {
  int64_t size = p->kern->size;
  char out[GEMM_MAX_ROWS * GEMM_MAX_WIDTH * 8] __attribute__((aligned(64)));
  char bias[GEMM_MAX_WIDTH * 8];
  gemm_finish f = *finish;
  if (f.add) {
    memset(out, 0, (size_t)(rows * width * size));
    for (int64_t i = 0; i < rows; i++) memcpy(out + i * width * size, c + i * c_row * size, (size_t)(columns * size));
  }
  if (f.bias) {
    memset(bias, 0, (size_t)(width * size));
    f.bias = memcpy(bias, f.bias, (size_t)(columns * size));
  }
  tile(steps, a, a_row, a_col, b, out, width, &f);
  for (int64_t i = 0; i < rows; i++) memcpy(c + i * c_row * size, out + i * width * size, (size_t)(columns * size));
}

/* c[rows, columns] (+)= a[rows, steps] b[steps, columns]; b lies in panels. */
static void run_strip(const product *p, int64_t rows, int64_t columns, int64_t steps, const char *a, bool pack_a,
                      char *a_strip, const char *b, char *c, int64_t c_row, const gemm_finish *finish) {
  const gemm_kernels *kern = p->kern;
  int64_t size = kern->size, lanes = kern->lanes, a_row = p->g.a_row, a_col = p->g.a_col;
  for (int64_t i = 0, height; i < rows; i += height) {
    int64_t left = rows - i;
    int level = left >= kern->rows ? 0 : left >= 4 ? 1 : left >= 2 ? 2 : 3;
    height = level == 0 ? kern->rows : 8 >> level;
    const char *strip = a + i * p->g.a_row * size;
    if (pack_a) {
      kern->pack(a_strip, height, height, steps, strip, p->g.a_row, p->g.a_col);
      strip = a_strip;
      a_row = 1;
      a_col = height;
    }
    for (int64_t j = 0; j < columns;) {
      int64_t vectors = panel_vectors(kern, columns - j), width = vectors * lanes;
      gemm_tile *tile = kern->tile[vectors - 1][level];
      char *out = c + (i * c_row + j) * size;
      gemm_finish f = *finish;
      if (f.bias) f.bias = (const char *)f.bias + j * size;
      if (columns - j >= width)
        tile(steps, strip, a_row, a_col, b + j * steps * size, out, c_row, &f);
      else
        run_partial(p, tile, height, columns - j, width, steps, strip, a_row, a_col, b + j * steps * size, out, c_row,
                    &f);
      j += width;
    }
  }
}

/* a is read in place, by rows or by columns, unless the distance of columns sends them all to the same cache lines. */
static bool must_pack_a(const product *p) {
  if (p->g.k == 1 || p->g.m == 1) return false;
  if (p->g.a_row == 1) return p->g.a_col * p->kern->size % 2048 == 0;
  return p->g.a_col != 1;
}

static void run_block(const product *p, int64_t task, char *scratch) {
  const lt_gemm *g = &p->g;
  int64_t size = p->kern->size, grid = p->rows_in * p->columns_in, batch = task / grid, at = task % grid;
  int64_t i0 = cut(g->m, p->rows_in, p->row_align, at / p->columns_in),
          i1 = cut(g->m, p->rows_in, p->row_align, at / p->columns_in + 1),
          j0 = cut(g->n, p->columns_in, p->column_align, at % p->columns_in),
          j1 = cut(g->n, p->columns_in, p->column_align, at % p->columns_in + 1);
  if (i0 == i1 || j0 == j1) return;
  char *a_strip = scratch, *b_strip = scratch + p->b_strip_at, *sums = scratch + p->sums_at;
  const char *a = (const char *)g->a + (batch * g->a_batch + i0 * g->a_row) * size;
  const char *b = (const char *)g->b + (batch * g->b_batch + j0 * g->b_col) * size;
  char *c = (char *)g->c + (batch * g->c_batch + i0 * g->c_row + j0) * size, *to = c;
  int64_t to_row = g->c_row;
  bool apart = g->accumulate && p->chunks > 1; /* so that c + (all chunks) has the bits of the product made apart */
  if (apart) {
    to = sums;
    to_row = j1 - j0;
  }
  for (int64_t q = 0; q < p->chunks; q++) {
    int64_t k0 = q * p->chunk, steps = least(p->chunk, g->k - k0);
    gemm_finish finish = {.add = q > 0 || (g->accumulate && !apart)};
    for (int64_t j = 0; j < j1 - j0; j += p->strip) {
      int64_t columns = least(p->strip, j1 - j0 - j);
      const char *panels = p->packed + (k0 * up(g->n, p->kern->lanes) + (j0 + j) * steps) * size;
      if (!p->shared) {
        pack_strip(p, b_strip, b + (k0 * g->b_row + j * g->b_col) * size, steps, columns);
        panels = b_strip;
      }
      if (q == p->chunks - 1) {
        finish.bias = g->bias ? (const char *)g->bias + (j0 + j) * size : NULL;
        finish.activation = g->activation;
        finish.slope = g->slope;
      }
      run_strip(p, i1 - i0, columns, steps, a + k0 * g->a_col * size, must_pack_a(p), a_strip, panels, to + j * size,
                to_row, &finish);
    }
  }
  if (apart)
    for (int64_t i = 0; i < i1 - i0; i++) p->kern->add(j1 - j0, c + i * g->c_row * size, sums + i * to_row * size);
}

static int64_t cache_bytes(void) {
  static int64_t bytes;
  if (!bytes) {
    long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    bytes = l2 >= 512 << 10 ? l2 : 512 << 10;
  }
  return bytes;
}

/* Cycles to pack one element of b: copies, or transposes. */
static double pack_b_cycles(const lt_gemm *g) { return g->b_col == 1 ? 0.2 : 0.5; }

/* The grid whose slowest thread has least to do, in cycles for a step of k: tiles, then packing. */
static void choose_grid(product *p, int threads) {
  const lt_gemm *g = &p->g;
  double best = 0, pack_b = pack_b_cycles(g), pack_a = must_pack_a(p) ? (g->a_row == 1 ? 0.2 : 0.5) : 0;
  for (int64_t rows = 1; rows <= threads; rows++)
    for (int64_t columns = 1; columns <= threads / rows; columns++) {
      double height = (double)up((up(g->m, p->row_align) + rows - 1) / rows, p->row_align),
             width = (double)up((up(g->n, p->kern->lanes) + columns - 1) / columns, p->kern->lanes);
      double turns = (double)((g->batch * rows * columns + threads - 1) / threads);
      double cost = turns * (height * width / p->kern->lanes + pack_b * width + pack_a * height);
      if (best > 0 && cost >= best) continue;
      best = cost;
      p->rows_in = rows;
      p->columns_in = columns;
    }
  if (g->accumulate && p->chunks > 1) { /* the sums of a block stay in the cache */
    int64_t rows = (g->m + 511) / 512, columns = (g->n + 511) / 512;
    if (p->rows_in < rows) p->rows_in = rows;
    if (p->columns_in < columns) p->columns_in = columns;
  }
}

static int64_t whole_panels(const product *p) {
  int64_t panel = GEMM_MAX_VECTORS * p->kern->lanes;
  return (p->g.n + panel - 1) / panel * p->chunks;
}
static void pack_panel(const product *p, int64_t index) {
  const lt_gemm *g = &p->g;
  int64_t size = p->kern->size, panel = GEMM_MAX_VECTORS * p->kern->lanes;
  int64_t k0 = index % p->chunks * p->chunk, steps = least(p->chunk, g->k - k0), j = index / p->chunks * panel;
  pack_strip(p, p->packed + (k0 * up(g->n, p->kern->lanes) + j * steps) * size,
             (const char *)g->b + (k0 * g->b_row + j * g->b_col) * size, steps, least(panel, g->n - j));
}

int gemm_tiles(const lt_gemm *g, const gemm_kernels *kern, int threads) {
  int64_t size = kern->size, panel = GEMM_MAX_VECTORS * kern->lanes;
  product p = {.g = *g, .kern = kern, .row_align = kern->rows, .column_align = kern->lanes};
  p.chunks = (g->k + CHUNK - 1) / CHUNK;
  p.chunk = up((g->k + p.chunks - 1) / p.chunks, 8);
  p.chunks = (g->k + p.chunk - 1) / p.chunk;
  choose_grid(&p, threads);
  int64_t packed_bytes = g->k * up(g->n, kern->lanes) * size;
  int64_t height = (g->m + p.rows_in - 1) / p.rows_in;
  bool dear = pack_b_cycles(g) * kern->lanes > 0.015 * (double)height; /* or each thread packs for itself: no waiting */
  p.shared =
      ((p.rows_in > 1 && dear) || g->batch > 1) && (g->batch == 1 || g->b_batch == 0) && packed_bytes <= SHARED_BYTES;
  if (p.shared) p.column_align = panel;
  int64_t tallest = up((up(g->m, p.row_align) + p.rows_in - 1) / p.rows_in, p.row_align),
          widest = up((up(g->n, p.column_align) + p.columns_in - 1) / p.columns_in, p.column_align),
          fits = cache_bytes() * 7 / 10 / (p.chunk * size) / panel * panel;
  if (fits < panel) fits = panel;
  int64_t strips = (widest + fits - 1) / fits;
  p.strip = up((widest + strips - 1) / strips, panel);
  p.b_strip_at = GEMM_MAX_ROWS * p.chunk * size;
  p.sums_at = p.b_strip_at + (p.shared ? 0 : p.strip * p.chunk * size);
  p.scratch_bytes = up(p.sums_at + (g->accumulate && p.chunks > 1 ? tallest * widest * size : 0), 64);
  int64_t bytes = p.scratch_bytes * threads + (p.shared ? packed_bytes : 0),
          tasks = g->batch * p.rows_in * p.columns_in;
  p.scratch = lt_alloc(bytes);
  if (!p.scratch) return LT_ERR_MEMORY;
  p.packed = p.scratch + p.scratch_bytes * threads;
  if (threads == 1) {
    for (int64_t t = 0; p.shared && t < whole_panels(&p); t++) pack_panel(&p, t);
    for (int64_t t = 0; t < tasks; t++) run_block(&p, t, p.scratch);
  } else {
#pragma omp parallel num_threads(threads)
    {
      if (p.shared) {
#pragma omp for schedule(static)
        for (int64_t t = 0; t < whole_panels(&p); t++) pack_panel(&p, t);
      }
#pragma omp for schedule(static) nowait
      for (int64_t t = 0; t < tasks; t++) run_block(&p, t, p.scratch + omp_get_thread_num() * p.scratch_bytes);
    }
  }
  lt_free(p.scratch, bytes);
  return LT_OK;
}
