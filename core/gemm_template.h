/* The inner loops of a blocked matrix product, for one element type on one instruction set. Included several times by
 * gemm_<type>.c, which defines
 *   ELEM VEC LANES     the element, its vector, elements a vector
 *   ROWS               rows of the tallest tile: ROWS x 3 sums, 3 vectors of b and one of a must fit the registers
 *   TARGET NAME(x)     the function attribute that admits the instructions, and the suffix of names
 *   LOAD STORE SPLAT MADD ADD SUM, and for floats MAX MIN    the vector operations: MADD(x, y, z) is
 *                      x y + z, SUM adds the lanes
 *   TRANSPOSE          moves a square of TRANSPOSE x TRANSPOSE elements with TRANSPOSE_SQUARE(to, width, from, stride)
 * No include guard: that is the point. */

#ifdef MAX
static inline TARGET VEC NAME(activate)(VEC v, const gemm_finish *f) {
  VEC zero = SPLAT((ELEM)0);
  /* NaN goes through: MAX and MIN give their second operand when either is NaN */
  if (f->activation == LT_GEMM_RELU) return MAX(zero, v);
  if (f->activation == LT_GEMM_LEAKY) return MADD(SPLAT((ELEM)f->slope), MIN(zero, v), MAX(zero, v));
  return v;
}
#else
static inline TARGET VEC NAME(activate)(VEC v, const gemm_finish *f) {
  (void)f;
  return v;
}
#endif

/* `count` elements in the first lanes, zeros in the others */
static inline TARGET VEC NAME(load_part)(const ELEM *from, int64_t count) {
  ELEM part[LANES] = {0};
  memcpy(part, from, (size_t)count * sizeof(ELEM));
  return LOAD(part);
}

/* The heart: ROWS x (vectors) sums stay in registers over k steps. */
static inline __attribute__((always_inline)) TARGET void NAME(tile)(const int rows, const int vectors, int64_t k,
                                                                    const ELEM *a, int64_t a_row, int64_t a_col,
                                                                    const ELEM *b, ELEM *c, int64_t c_row,
                                                                    const gemm_finish *finish) {
  VEC sum[ROWS][GEMM_MAX_VECTORS];
  const ELEM *row[ROWS];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++) {
    row[i] = a + i * a_row;
#pragma GCC unroll 3
    for (int j = 0; j < vectors; j++) sum[i][j] = SPLAT((ELEM)0);
  }
  if (k >= 16) { /* C comes in while the sums are made */
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
      for (int j = 0; j < vectors; j++) __builtin_prefetch(c + i * c_row + j * LANES, 1);
  }
  for (int64_t p = 0, at = 0; p < k; p++, at += a_col) {
    VEC bv[GEMM_MAX_VECTORS];
#pragma GCC unroll 3
    for (int j = 0; j < vectors; j++) bv[j] = LOAD(b + j * LANES);
    b += vectors * LANES;
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
      VEC av = SPLAT(row[i][at]);
#pragma GCC unroll 3
      for (int j = 0; j < vectors; j++) sum[i][j] = MADD(av, bv[j], sum[i][j]);
    }
  }
  if (finish->bias || finish->activation) {
#pragma GCC unroll 3
    for (int j = 0; j < vectors; j++) {
      VEC bias = finish->bias ? LOAD((const ELEM *)finish->bias + j * LANES) : SPLAT((ELEM)0);
#pragma GCC unroll 8
      for (int i = 0; i < rows; i++) {
        VEC v = sum[i][j];
        if (finish->add) v = ADD(LOAD(c + i * c_row + j * LANES), v);
        if (finish->bias) v = ADD(v, bias);
        STORE(c + i * c_row + j * LANES, NAME(activate)(v, finish));
      }
    }
  } else if (finish->add) {
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
      for (int j = 0; j < vectors; j++)
        STORE(c + i * c_row + j * LANES, ADD(LOAD(c + i * c_row + j * LANES), sum[i][j]));
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
      for (int j = 0; j < vectors; j++) STORE(c + i * c_row + j * LANES, sum[i][j]);
  }
}

#define DEFINE_TILE(rows, vectors)                                                                                     \
  static TARGET void NAME(tile_##rows##_##vectors)(int64_t k, const void *a, int64_t a_row, int64_t a_col,             \
                                                   const void *b, void *c, int64_t c_row, const gemm_finish *finish) { \
    NAME(tile)(rows, vectors, k, a, a_row, a_col, b, c, c_row, finish);                                                \
  }
#if ROWS == 8
DEFINE_TILE(8, 1)
DEFINE_TILE(8, 2)
DEFINE_TILE(8, 3)
#endif
DEFINE_TILE(4, 1)
DEFINE_TILE(4, 2)
DEFINE_TILE(4, 3)
DEFINE_TILE(2, 1)
DEFINE_TILE(2, 2)
DEFINE_TILE(2, 3)
DEFINE_TILE(1, 1)
DEFINE_TILE(1, 2)
DEFINE_TILE(1, 3)
#undef DEFINE_TILE

static TARGET void NAME(pack)(void *out, int64_t width, int64_t lanes, int64_t k, const void *in, int64_t lane_stride,
                              int64_t step_stride) {
  ELEM *to = out;
  const ELEM *from = in;
  if (lanes < width) memset(to, 0, (size_t)(width * k) * sizeof(ELEM));
  if (lane_stride == 1 && lanes == width && width == GEMM_MAX_VECTORS * LANES) {
    for (int64_t p = 0; p < k; p++, to += GEMM_MAX_VECTORS * LANES, from += step_stride)
      for (int64_t j = 0; j < GEMM_MAX_VECTORS * LANES; j += LANES) STORE(to + j, LOAD(from + j));
  } else if (lane_stride == 1 && lanes == width && width == ROWS) {
    for (int64_t p = 0; p < k; p++, to += ROWS, from += step_stride) memcpy(to, from, ROWS * sizeof(ELEM));
  } else if (lane_stride == 1) {
    for (int64_t p = 0; p < k; p++, to += width, from += step_stride)
      for (int64_t j = 0; j < lanes; j++) to[j] = from[j];
  } else {
    int64_t whole = step_stride == 1 ? k - k % TRANSPOSE : 0; /* whole cache lines are written at a time */
    for (int64_t j = 0; j < lanes; j += 2 * TRANSPOSE) {
      int64_t end = lanes - j < 2 * TRANSPOSE ? lanes : j + 2 * TRANSPOSE;
      for (int64_t p = 0; p < whole; p += TRANSPOSE) {
        int64_t l = j;
        for (; l + TRANSPOSE <= end; l += TRANSPOSE)
          TRANSPOSE_SQUARE(to + p * width + l, width, from + p + l * lane_stride, lane_stride);
        for (; l < end; l++)
          for (int64_t q = p; q < p + TRANSPOSE; q++) to[q * width + l] = from[q + l * lane_stride];
      }
    }
    for (int64_t p = whole; p < k; p++)
      for (int64_t j = 0; j < lanes; j++) to[p * width + j] = from[p * step_stride + j * lane_stride];
  }
}

/* Lane l sums the steps l, l + LANES, ...; SUM then adds the lanes. */
static inline __attribute__((always_inline)) TARGET void NAME(dot_tile)(const int rows, const int columns, int64_t k,
                                                                        const ELEM *a, int64_t a_row, const ELEM *b,
                                                                        int64_t b_col, ELEM *c, int64_t c_row,
                                                                        const gemm_finish *finish, int64_t column) {
  VEC sum[2][4];
  int64_t p = 0;
#pragma GCC unroll 2
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < columns; j++) sum[i][j] = SPLAT((ELEM)0);
  for (; p + LANES <= k; p += LANES) {
    VEC bv[4];
#pragma GCC unroll 4
    for (int j = 0; j < columns; j++) bv[j] = LOAD(b + j * b_col + p);
#pragma GCC unroll 2
    for (int i = 0; i < rows; i++) {
      VEC av = LOAD(a + i * a_row + p);
#pragma GCC unroll 4
      for (int j = 0; j < columns; j++) sum[i][j] = MADD(av, bv[j], sum[i][j]);
    }
  }
  if (p < k) {
#pragma GCC unroll 2
    for (int i = 0; i < rows; i++) {
      VEC av = NAME(load_part)(a + i * a_row + p, k - p);
#pragma GCC unroll 4
      for (int j = 0; j < columns; j++) sum[i][j] = MADD(av, NAME(load_part)(b + j * b_col + p, k - p), sum[i][j]);
    }
  }
#pragma GCC unroll 2
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < columns; j++) {
      ELEM *out = c + i * c_row + j, v = SUM(sum[i][j]), end[LANES] = {0};
      if (finish->add) v += *out;
      if (finish->bias) v += ((const ELEM *)finish->bias)[column + j];
      end[0] = v;
      STORE(end, NAME(activate)(LOAD(end), finish));
      *out = end[0];
    }
}

static TARGET void NAME(dots)(int64_t m, int64_t n, int64_t k, const void *a_, int64_t a_row, const void *b_,
                              int64_t b_col, void *c_, int64_t c_row, const gemm_finish *finish) {
  const ELEM *a = a_, *b = b_;
  ELEM *c = c_;
  int64_t j = 0;
  for (; j + 4 <= n; j += 4) {
    int64_t i = 0;
    for (; i + 2 <= m; i += 2)
      NAME(dot_tile)(2, 4, k, a + i * a_row, a_row, b + j * b_col, b_col, c + i * c_row + j, c_row, finish, j);
    if (i < m) NAME(dot_tile)(1, 4, k, a + i * a_row, a_row, b + j * b_col, b_col, c + i * c_row + j, c_row, finish, j);
  }
  for (; j < n; j++)
    for (int64_t i = 0; i < m; i++)
      NAME(dot_tile)(1, 1, k, a + i * a_row, a_row, b + j * b_col, b_col, c + i * c_row + j, c_row, finish, j);
}

static TARGET void NAME(row)(int64_t n, int64_t k, const void *a_, int64_t a_col, const void *b_, int64_t b_row,
                             void *c_, const gemm_finish *finish) {
  const ELEM *a = a_, *b = b_;
  ELEM *c = c_, sum[GEMM_ROW_COLUMNS] __attribute__((aligned(64)));
  int64_t whole = n - n % LANES, p = 0;
  memset(sum, 0, (size_t)(n + LANES < GEMM_ROW_COLUMNS ? n + LANES : GEMM_ROW_COLUMNS) * sizeof(ELEM));
  for (; p < k; p += 4) { /* four rows of b for each visit to the sums */
    int64_t steps = k - p < 4 ? k - p : 4;
    const ELEM *row[4];
    VEC av[4];
    for (int i = 0; i < 4; i++) {
      row[i] = b + (p + (i < steps ? i : 0)) * b_row;
      av[i] = SPLAT(i < steps ? a[(p + i) * a_col] : (ELEM)0);
    }
    for (int64_t j = 0; j < n; j += LANES) {
      VEC v = LOAD(sum + j);
      if (j == whole)
        for (int i = 0; i < steps; i++) v = MADD(av[i], NAME(load_part)(row[i] + j, n - whole), v);
      else if (steps == 4)
        for (int i = 0; i < 4; i++) v = MADD(av[i], LOAD(row[i] + j), v);
      else
        for (int i = 0; i < steps; i++) v = MADD(av[i], LOAD(row[i] + j), v);
      STORE(sum + j, v);
    }
  }
  for (int64_t j = 0; j < n; j += LANES) {
    int64_t count = j == whole ? n - whole : LANES;
    VEC v = LOAD(sum + j);
    if (finish->add) v = ADD(NAME(load_part)(c + j, count), v);
    if (finish->bias) v = ADD(v, NAME(load_part)((const ELEM *)finish->bias + j, count));
    STORE(sum + j, NAME(activate)(v, finish));
  }
  memcpy(c, sum, (size_t)n * sizeof(ELEM));
}

static TARGET void NAME(add)(int64_t n, void *to_, const void *from_) {
  ELEM *to = to_;
  const ELEM *from = from_;
  for (int64_t i = 0; i < n; i++) to[i] += from[i];
}

#if ROWS == 8
#define TALLEST(vectors) NAME(tile_8_##vectors)
#else
#define TALLEST(vectors) NAME(tile_4_##vectors)
#endif
#define TILES(vectors)                                                                                                 \
  { TALLEST(vectors), NAME(tile_4_##vectors), NAME(tile_2_##vectors), NAME(tile_1_##vectors) }
static const gemm_kernels NAME(kernels) = {.size = sizeof(ELEM),
                                           .lanes = LANES,
                                           .rows = ROWS,
                                           .tile = {TILES(1), TILES(2), TILES(3)},
                                           .pack = NAME(pack),
                                           .dots = NAME(dots),
                                           .row = NAME(row),
                                           .add = NAME(add)};
#undef TALLEST
#undef TILES
#undef ELEM
#undef VEC
#undef LANES
#undef ROWS
#undef TARGET
#undef NAME
#undef LOAD
#undef STORE
#undef SPLAT
#undef MADD
#undef ADD
#undef SUM
#undef MAX
#undef MIN
#undef TRANSPOSE
#undef TRANSPOSE_SQUARE
