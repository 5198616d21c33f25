/* Embedding tables: [rows, width] tensors whose rows are padded to cache lines, and the arenas of dense gradients.
 * When an optimizer adopts a table, it is laid out once more so that a row's weights and its moments lie side by side:
 * an update then misses the cache in one place instead of three. Weight and moments stay ordinary (strided) tensors, so
 * saving, loading and operators need not know. */
#include "op.h"

enum { LINE = 64, ROWS_A_CHUNK = 4096 };

static int check_table(const char *what, int dtype, int64_t n_rows, int64_t width) {
  if (dtype != LT_FLOAT32 && dtype != LT_FLOAT64)
    return lt_fail(LT_ERR_DTYPE, "%s: a table of %s; tables are float32 or float64", what, lt_dtype_name(dtype));
  if (n_rows < 0 || width < 1 || n_rows > UINT32_MAX || width > 1 << 24)
    return lt_fail(LT_ERR_SHAPE,
                   "%s: a table of %lld rows of %lld values; rows are 0 to 4294967295, values a row 1 to 16777216",
                   what, (long long)n_rows, (long long)width);
  return LT_OK;
}

/* Elements from row to row, rounded up so that no row lies in more cache lines than it must. */
static int64_t padded(int64_t elements, int64_t size) {
  int64_t bytes = elements * size, unit = LINE;
  if (bytes < LINE)
    for (unit = size; unit < bytes;) unit *= 2;
  return (bytes + unit - 1) / unit * unit / size;
}

/* Elements between the parts of a row. Parts start on cache lines unless packing them tightly saves a line. */
static int64_t part_of(int64_t width, int parts, int64_t size) {
  int64_t whole = padded(width, size);
  return padded(whole * parts, size) > padded(width * parts, size) ? width : whole;
}

/* Storage for n_rows x pitch elements, cleared by all threads so that its pages spread over their memory. */
static int new_storage(lt_backend *backend, int dtype, int64_t n_rows, int64_t pitch, lt_tensor **out) {
  int64_t shape[] = {n_rows, pitch};
  LT_TRY(lt_tensor_new(backend, dtype, 2, shape, out));
  if (!backend->host_visible) return lt_run_into(LT_OP_zero, out, 1, NULL, *out, false);
  char *data = lt_ptr(*out);
  int64_t row = pitch * lt_dtype_size(dtype);
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(n_rows *pitch))
  for (int64_t r = 0; r < n_rows; r += ROWS_A_CHUNK)
    memset(data + r * row, 0, (size_t)((n_rows - r < ROWS_A_CHUNK ? n_rows - r : ROWS_A_CHUNK) * row));
  return LT_OK;
}

int lt_table_new(int dtype, int64_t n_rows, int64_t width, lt_handle *out) {
  lt_tensor *whole, *table;
  LT_TRY(check_table("table", dtype, n_rows, width));
  int64_t shape[] = {n_rows, width}, stride[] = {padded(width, lt_dtype_size(dtype)), 1};
  LT_TRY(new_storage(lt_backend_cpu(), dtype, n_rows, stride[0], &whole));
  int status = lt_tensor_view(whole, 2, shape, stride, 0, &table);
  lt_tensor_release(whole);
  LT_TRY(status);
  table->is_view = false; /* nobody else shows this storage */
  lt_scope_link(table, NULL);
  lt_own(table, out);
  return LT_OK;
}

int lt_table_adopt(const lt_handle *weight, int n_states, lt_handle *states) {
  enum { MOST = 8 };
  lt_tensor *w, *whole, *part[MOST + 1];
  LT_TRY(lt_resolve(weight, &w));
  if (w->ndim != 2) return lt_fail(LT_ERR_SHAPE, "table: the weight is %s; a table is [rows, width]", lt_shape_text(w));
  if (n_states < 0 || n_states > MOST)
    return lt_fail(LT_ERR_ARGUMENT, "table: %d values of state a weight; 0 to %d are possible", n_states, MOST);
  LT_TRY(check_table("table", w->dtype, w->shape[0], w->shape[1]));
  int64_t size = lt_dtype_size(w->dtype), distance = part_of(w->shape[1], 1 + n_states, size);
  int64_t stride[] = {padded(distance * (1 + n_states), size), 1};
  LT_TRY(new_storage(w->storage->backend, w->dtype, w->shape[0], stride[0], &whole));
  int n = 0, status = LT_OK;
  for (; n <= n_states && status >= 0; n++) status = lt_tensor_view(whole, 2, w->shape, stride, n * distance, &part[n]);
  if (status < 0) n--;
  if (status >= 0) status = lt_run_into(LT_OP_clone, &w, 1, NULL, part[0], false);
  if (status >= 0) {
    lt_handle from = {.t_ = part[0], .gen_ = part[0]->gen};
    status = lt_set_data(weight, &from);
  }
  lt_tensor_release(part[0]);
  for (int k = 1; k < n; k++)
    if (status < 0)
      lt_tensor_release(part[k]);
    else {
      lt_scope_link(part[k], w); /* moments live as long as the weight */
      lt_own(part[k], &states[k - 1]);
    }
  lt_tensor_release(whole);
  lt_memory_trim(); /* the old copy is as large as the table and fits nothing else */
  return status < 0 ? status : LT_OK;
}

/* Each parameter's part starts on a cache line; the gaps hold zeros, so that sums over the whole arena are right. */
int lt_grad_arena(const lt_handle *const *params, int n, lt_handle *arena) {
  int64_t total = 0, size = 0;
  lt_tensor *t, *flat, *first = NULL;
  for (int i = 0; i < n; i++) {
    LT_TRY(lt_resolve(params[i], &t));
    if (!first) first = t, size = lt_dtype_size(t->dtype);
    if (t->dtype != first->dtype || t->storage->backend != first->storage->backend)
      return lt_fail(LT_ERR_DTYPE,
                     "arena: parameter %d is %s on %s and parameter 1 is %s on %s; an arena has one dtype and device",
                     i + 1, lt_dtype_name(t->dtype), t->storage->backend->name, lt_dtype_name(first->dtype),
                     first->storage->backend->name);
    total += (t->n * size + LINE - 1) / LINE * LINE / size;
  }
  if (!first) return lt_fail(LT_ERR_ARGUMENT, "arena: no parameters given");
  LT_TRY(lt_tensor_new(first->storage->backend, first->dtype, 1, &total, &flat));
  int status = lt_run_into(LT_OP_zero, &flat, 1, NULL, flat, false);
  int64_t at = 0;
  for (int i = 0; i < n && status >= 0; i++) {
    lt_tensor *view;
    int64_t stride[LT_MAX_DIMS];
    t = params[i]->t_;
    lt_contiguous_strides(t->ndim, t->shape, stride);
    status = lt_tensor_view(flat, t->ndim, t->shape, stride, at, &view);
    if (status < 0) break;
    lt_handle bound = {.t_ = view, .gen_ = view->gen};
    status = lt_bind_grad(params[i], &bound);
    lt_tensor_release(view);
    at += (t->n * size + LINE - 1) / LINE * LINE / size;
  }
  if (status < 0) {
    lt_tensor_release(flat);
    return status;
  }
  lt_scope_link(flat, first);
  lt_own(flat, arena);
  return LT_OK;
}
