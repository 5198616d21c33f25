/* Optimizer steps: checks, the numbers of a step, and the plan. Every tensor of a call is cut into runs of at most
 * CHUNK elements (or its rows, where it is strided), and all runs of all parameters share one parallel loop. Rows of
 * tables are walked lazily (only those with a gradient) or exactly (all of them). The arithmetic is in step_template.h.
 */
#include "step.h"
#include <math.h>

enum { CHUNK = 8192, LAZY_ROWS = 256, SWEEP_ROWS = 1024 };

void lt_step_defaults(int rule, lt_step_options *out) {
  *out = (lt_step_options){.lr = rule == LT_STEP_ADAM ? 1e-3 : 1e-2,
                           .beta1 = 0.9,
                           .beta2 = 0.999,
                           .eps = rule == LT_STEP_ADAGRAD ? 1e-10 : 1e-8,
                           .grad_scale = 1,
                           .step = 1,
                           .rule = rule};
}

int lt_step_states(const lt_step_options *o) {
  return o->rule == LT_STEP_ADAM ? 2 : o->rule == LT_STEP_ADAGRAD || o->momentum != 0 ? 1 : 0;
}

static const char *rule_name(const lt_step_options *o) {
  return o->rule == LT_STEP_SGD         ? "sgd"
         : o->rule == LT_STEP_ADAGRAD   ? "adagrad"
         : o->flags & LT_STEP_DECOUPLED ? "adamw"
                                        : "adam";
}

static int check_options(const lt_step_options *o) {
  const char *name = rule_name(o);
  if (o->rule < LT_STEP_SGD || o->rule > LT_STEP_ADAGRAD)
    return lt_fail(LT_ERR_ARGUMENT, "step: there is no rule %d", o->rule);
  if (!(o->lr >= 0)) return lt_fail(LT_ERR_ARGUMENT, "%s: lr is %g; it must not be negative", name, o->lr);
  if (!(o->weight_decay >= 0))
    return lt_fail(LT_ERR_ARGUMENT, "%s: weight_decay is %g; it must not be negative", name, o->weight_decay);
  if (o->rule == LT_STEP_SGD && !(o->momentum >= 0))
    return lt_fail(LT_ERR_ARGUMENT, "sgd: momentum is %g; it must not be negative", o->momentum);
  if (o->rule == LT_STEP_SGD && o->flags & LT_STEP_NESTEROV && (o->momentum == 0 || o->dampening != 0))
    return lt_fail(LT_ERR_ARGUMENT, "sgd: nesterov needs a momentum above 0 and no dampening; they are %g and %g",
                   o->momentum, o->dampening);
  if (o->rule == LT_STEP_ADAM && !(o->beta1 >= 0 && o->beta1 < 1 && o->beta2 >= 0 && o->beta2 < 1))
    return lt_fail(LT_ERR_ARGUMENT, "%s: betas are %g and %g; each must be at least 0 and below 1", name, o->beta1,
                   o->beta2);
  if (!(o->eps >= 0)) return lt_fail(LT_ERR_ARGUMENT, "%s: eps is %g; it must not be negative", name, o->eps);
  return LT_OK;
}

static int plan_numbers(const lt_step_options *o, int64_t step, bool lazy, lt_step_job *j) {
  bool decoupled = o->flags & LT_STEP_DECOUPLED;
  if (step < 1) return lt_fail(LT_ERR_ARGUMENT, "%s: step %lld; steps count from 1", rule_name(o), (long long)step);
  lt_step_numbers *c = &j->touched;
  *c = (lt_step_numbers){.scale = o->grad_scale,
                         .l2 = decoupled ? 0 : o->weight_decay,
                         .keep = decoupled ? 1 - o->lr * o->weight_decay : 1,
                         .lr = -o->lr,
                         .eps = o->eps};
  if (o->rule == LT_STEP_SGD) {
    j->kernel = o->momentum == 0 ? LT_STEP_PLAIN : o->flags & LT_STEP_NESTEROV ? LT_STEP_LOOK_AHEAD : LT_STEP_MOMENTUM;
    c->momentum = o->momentum;
    c->undamped = step == 1 ? 1 : 1 - o->dampening; /* the first gradient starts the buffer */
  } else if (o->rule == LT_STEP_ADAGRAD) {
    j->kernel = LT_STEP_SUM_SQUARES;
    c->lr = -(o->lr / (1 + (double)(step - 1) * o->lr_decay));
  } else {
    double left1 = 1 - pow(o->beta1, (double)step), left2 = sqrt(1 - pow(o->beta2, (double)step));
    j->kernel = lazy ? LT_STEP_LAZY_ADAM : LT_STEP_DENSE_ADAM;
    c->lr = lazy ? -(o->lr * left2 / left1) : -(o->lr / left1);
    c->beta2 = o->beta2;
    c->rest1 = 1 - o->beta1;
    c->rest2 = 1 - o->beta2;
    c->root2 = left2;
  }
  j->untouched = *c;
  if (o->flags & LT_STEP_BATCH_DECAY) j->untouched.l2 = 0, j->untouched.keep = 1;
  return LT_OK;
}

/* ---- strides ---- */

/* t as `rows` runs of `width` neighbours at one distance. False: its strides do not allow that. */
static bool as_runs(const lt_tensor *t, int64_t *rows, int64_t *width, int64_t *pitch) {
  if (lt_tensor_is_contiguous(t)) {
    *rows = 1;
    *width = *pitch = t->n;
    return true;
  }
  int last = t->ndim - 1;
  if (t->stride[last] != 1 && t->shape[last] != 1) return false;
  *width = t->shape[last];
  *rows = 1;
  *pitch = 0;
  for (int d = last - 1; d >= 0; d--) {
    if (t->shape[d] == 1) continue;
    if (*pitch == 0)
      *pitch = t->stride[d];
    else if (t->stride[d] != *pitch * *rows)
      return false;
    *rows *= t->shape[d];
  }
  return true;
}

/* Parameter, states and gradient as runs of one width. A contiguous tensor adapts to the strided ones. */
static int plan_runs(lt_step_job *j, lt_tensor *const t[4], const char *who, int index) {
  int64_t rows[4], width[4], pitch[4];
  int by = 0;
  for (int k = 0; k < 4; k++) {
    if (!as_runs(t[k], &rows[k], &width[k], &pitch[k]))
      return lt_fail(
          LT_ERR_SHAPE,
          "%s: parameter %d of shape %s or its state has strides that a step cannot walk; use x:contiguous()", who,
          index + 1, lt_shape_text(t[0]));
    if (!lt_tensor_is_contiguous(t[k])) by = k;
  }
  j->rows = rows[by];
  j->width = j->tail = width[by];
  if (j->rows == 1 && j->width > CHUNK) { /* one long run: cut */
    j->rows = (j->width + CHUNK - 1) / CHUNK;
    j->tail = j->width - (j->rows - 1) * CHUNK;
    j->width = CHUNK;
    for (int k = 0; k < 4; k++) pitch[k] = CHUNK;
  } else
    for (int k = 0; k < 4; k++) {
      if (lt_tensor_is_contiguous(t[k]))
        pitch[k] = j->width;
      else if (rows[k] != j->rows)
        return lt_fail(LT_ERR_SHAPE,
                       "%s: parameter %d of shape %s and its state have different strides; use x:contiguous()", who,
                       index + 1, lt_shape_text(t[0]));
    }
  j->p_pitch = pitch[0], j->a_pitch = pitch[1], j->b_pitch = pitch[2], j->g_pitch = pitch[3];
  return LT_OK;
}

static int check_member(const char *who, const char *what, const lt_tensor *p, const lt_tensor *t, int index) {
  if (!lt_same_shape(p, t) || p->dtype != t->dtype)
    return lt_fail(LT_ERR_SHAPE, "%s: parameter %d is %s %s and its %s %s %s; they must agree", who, index + 1,
                   lt_shape_text(p), lt_dtype_name(p->dtype), what, lt_shape_text(t), lt_dtype_name(t->dtype));
  return LT_OK;
}

/* One state sits in `a` (momentum) or `b` (squares); absent ones are the parameter itself, never touched. */
static int take_states(const lt_step_options *o, lt_tensor *t[4], const lt_handle *const *states, int index) {
  lt_tensor *s;
  const char *who = rule_name(o);
  if (t[0]->dtype != LT_FLOAT32 && t[0]->dtype != LT_FLOAT64)
    return lt_fail(LT_ERR_DTYPE, "%s: parameter %d is %s; steps compute in float32 or float64", who, index + 1,
                   lt_dtype_name(t[0]->dtype));
  if (!t[0]->storage->backend->host_visible)
    return lt_fail(LT_ERR_DEVICE, "%s: no %s kernel; keep parameter %d on the cpu", who, t[0]->storage->backend->name,
                   index + 1);
  t[1] = t[2] = t[0];
  for (int k = 0; k < lt_step_states(o); k++) {
    LT_TRY(lt_resolve(states[k], &s));
    LT_TRY(check_member(who, "state", t[0], s, index));
    t[o->rule == LT_STEP_ADAGRAD ? 2 : 1 + k] = s;
  }
  return LT_OK;
}

static void set_pointers(lt_step_job *j, lt_tensor *const t[4]) {
  j->dtype = t[0]->dtype;
  j->p = lt_ptr(t[0]), j->a = lt_ptr(t[1]), j->b = lt_ptr(t[2]);
  j->g = t[3] ? lt_ptr(t[3]) : NULL;
}

static void wrote(lt_tensor *const t[4]) {
  for (int k = 0; k < 3; k++)
    if (k == 0 || t[k] != t[0]) atomic_fetch_add_explicit(&t[k]->storage->version, 1, memory_order_relaxed);
}

/* ---- dense parameters ---- */

static int plan_dense(const lt_step_options *o, const lt_handle *param, const lt_handle *grad,
                      const lt_handle *const *states, int64_t step, int index, lt_step_job *j, lt_tensor *t[4]) {
  lt_tensor *g;
  int64_t rows, width, pitch;
  j->walk = LT_WALK_DENSE;
  LT_TRY(lt_resolve(param, &t[0]));
  LT_TRY(lt_resolve(grad, &g));
  LT_TRY(take_states(o, t, states, index));
  LT_TRY(check_member(rule_name(o), "gradient", t[0], g, index));
  LT_TRY(plan_numbers(o, step, false, j));
  if (as_runs(g, &rows, &width, &pitch) && (lt_tensor_is_contiguous(g) || !lt_tensor_is_contiguous(t[0])))
    t[3] = lt_tensor_retain(g);
  else
    LT_TRY(lt_contiguous(g, &t[3])); /* say, the transposed result of a product */
  set_pointers(j, t);
  return plan_runs(j, t, rule_name(o), index);
}

int lt_step(const lt_step_options *o, const lt_handle *const *params, const lt_handle *const *grads,
            const lt_handle *const *states, const int64_t *steps, int n) {
  typedef struct {
    lt_step_job job;
    lt_tensor *t[4];
    int64_t first, per;
  } planned; /* chunks `first` on, of `per` runs */
  int n_states = lt_step_states(o), status = LT_OK, done = 0;
  int64_t chunks = 0, work = 0;
  LT_TRY(check_options(o));
  if (n < 1) return LT_OK;
  planned *plan = lt_alloc(n * (int64_t)sizeof *plan);
  if (!plan) return LT_ERR_MEMORY;
  for (; done < n && status >= 0; done++) {
    planned *q = &plan[done];
    q->t[3] = NULL;
    status = plan_dense(o, params[done], grads[done], states + done * n_states, steps ? steps[done] : o->step, done,
                        &q->job, q->t);
    if (status < 0) continue;
    q->first = chunks;
    q->per = q->job.width >= CHUNK ? 1 : CHUNK / (q->job.width + 1) + 1;
    chunks += (q->job.rows + q->per - 1) / q->per;
    work += q->t[0]->n;
  }
  if (status >= 0) {
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(work))
    for (int64_t i = 0; i < chunks; i++) {
      int low = 0, high = n - 1; /* the last parameter whose chunks begin at or before i */
      while (low < high) {
        int middle = (low + high + 1) / 2;
        if (plan[middle].first <= i)
          low = middle;
        else
          high = middle - 1;
      }
      const planned *q = &plan[low];
      int64_t first = (i - q->first) * q->per, last = first + q->per;
      lt_step_run(&q->job, first, last < q->job.rows ? last : q->job.rows);
    }
    for (int i = 0; i < n; i++) wrote(plan[i].t);
  }
  for (int i = 0; i < done; i++) lt_tensor_release(plan[i].t[3]);
  lt_free(plan, n * (int64_t)sizeof *plan);
  return status;
}

/* ---- tables ---- */

#define NOT_RISING(T)                                                                                                  \
  for (int64_t k = 1; k < n; k++) bad |= ((const T *)ids)[k] <= ((const T *)ids)[k - 1];
LT_CLONES static bool rising(const void *ids, bool wide, int64_t n) {
  int bad = 0;
  if (wide) NOT_RISING(int64_t) else NOT_RISING(int32_t) return !bad;
}

static int take_rows(const char *who, lt_tensor *table, const lt_handle *rows, const lt_handle *values, lt_step_job *j,
                     lt_tensor **ids, lt_tensor **grad) {
  lt_tensor *r, *v;
  LT_TRY(lt_resolve(rows, &r));
  LT_TRY(lt_resolve(values, &v));
  if (r->ndim != 1 || v->ndim != 2 || v->shape[0] != r->n || v->shape[1] != table->shape[1] || v->dtype != table->dtype)
    return lt_fail(LT_ERR_SHAPE, "%s: rows %s and values %s %s do not fit a table of shape %s %s", who,
                   lt_shape_text(r), lt_shape_text(v), lt_dtype_name(v->dtype), lt_shape_text(table),
                   lt_dtype_name(table->dtype));
  if (r->dtype != LT_INT64 && r->dtype != LT_INT32)
    return lt_fail(LT_ERR_DTYPE, "%s: the rows are %s; ids are int32 or int64", who, lt_dtype_name(r->dtype));
  LT_TRY(lt_contiguous(r, ids));
  LT_TRY(lt_contiguous(v, grad));
  j->ids = lt_ptr(*ids);
  j->wide_ids = r->dtype == LT_INT64;
  j->n_ids = r->n;
  j->g = lt_ptr(*grad);
  j->g_pitch = table->shape[1];
  if (r->n == 0) return LT_OK;
  int64_t first = lt_load_int(j->ids, r->dtype, 0), last = lt_load_int(j->ids, r->dtype, r->n - 1);
  if (first < 0 || last >= table->shape[0] || !rising(j->ids, j->wide_ids, r->n))
    return lt_fail(LT_ERR_RANGE,
                   "%s: the gradient's rows run from %lld to %lld; they must rise, each once, within 0 to %lld", who,
                   (long long)first, (long long)last, (long long)table->shape[0] - 1);
  return LT_OK;
}

static int plan_table(const lt_step_options *o, const lt_handle *table, const lt_handle *const *states, bool lazy,
                      lt_step_job *j, lt_tensor *t[4]) {
  const char *who = rule_name(o);
  LT_TRY(check_options(o));
  LT_TRY(lt_resolve(table, &t[0]));
  if (t[0]->ndim != 2)
    return lt_fail(LT_ERR_SHAPE, "%s: the table is %s; a table is [rows, width]", who, lt_shape_text(t[0]));
  if (lazy && o->weight_decay != 0 && !(o->flags & LT_STEP_BATCH_DECAY))
    return lt_fail(
        LT_ERR_ARGUMENT,
        "%s: weight decay over the whole table touches every row and a lazy update does not; let only the rows of "
        "the batch decay, or use the exact update",
        who);
  LT_TRY(take_states(o, t, states, 0));
  LT_TRY(plan_numbers(o, o->step, lazy, j));
  for (int k = 0; k < 3; k++)
    if (t[k]->stride[1] != 1 && t[k]->shape[1] != 1)
      return lt_fail(LT_ERR_SHAPE,
                     "%s: the values of a row of the table or its state do not lie side by side; use x:contiguous()",
                     who);
  set_pointers(j, t);
  j->rows = t[0]->shape[0];
  j->width = j->tail = t[0]->shape[1];
  j->p_pitch = t[0]->stride[0], j->a_pitch = t[1]->stride[0], j->b_pitch = t[2]->stride[0];
  return LT_OK;
}

static int step_table(const lt_step_options *o, const lt_handle *table, const lt_handle *const *states,
                      const lt_handle *rows, const lt_handle *values, bool lazy) {
  lt_step_job j = {.walk = lazy ? LT_WALK_LAZY : LT_WALK_SWEEP};
  lt_tensor *t[4] = {0}, *ids = NULL, *grad = NULL;
  LT_TRY(plan_table(o, table, states, lazy, &j, t));
  int status = rows ? take_rows(rule_name(o), t[0], rows, values, &j, &ids, &grad) : LT_OK;
  int64_t n = lazy ? j.n_ids : j.rows, chunk = lazy ? LAZY_ROWS : SWEEP_ROWS;
  if (status >= 0) {
#pragma omp parallel for schedule(static) num_threads(lt_threads_for(n *j.width))
    for (int64_t i = 0; i < n; i += chunk) lt_step_run(&j, i, i + chunk < n ? i + chunk : n);
    wrote(t);
  }
  lt_tensor_release(ids);
  lt_tensor_release(grad);
  return status;
}

int lt_step_lazy(const lt_step_options *o, const lt_handle *table, const lt_handle *const *states,
                 const lt_handle *rows, const lt_handle *values) {
  return step_table(o, table, states, rows, values, true);
}
int lt_step_exact(const lt_step_options *o, const lt_handle *table, const lt_handle *const *states,
                  const lt_handle *rows, const lt_handle *values) {
  return step_table(o, table, states, rows, values, false);
}
