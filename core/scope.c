/* Step scopes: lists of the tensors made while a scope is open. Its owner closes it and they die together, each
 * header's generation moving on so that a late use is an error. A scope that its owner cannot close any more (break, an
 * error) is an orphan: after a full collection what still has a handle moves to the parent. Scopes belong to the thread
 * that runs the script; other threads make tensors that join a scope when handed over. */
#include "autograd.h"

enum { MAX_DEPTH = 4096, CROWDED = 12 };

struct lt_scope {
  int64_t id;
  lt_tensor *first;
  bool orphan;
};
static _Thread_local lt_scope *stack[MAX_DEPTH];
static _Thread_local int depth, reaped_depth;
static int64_t next_id = 1;

static void link_to(lt_tensor *t, lt_scope *s) {
  t->place = LT_SCOPED;
  t->scope = s;
  t->prev = NULL;
  t->next = s->first;
  if (s->first) s->first->prev = t;
  s->first = t;
}

/* The pool's lock is held. */
void lt_scope_unlink(lt_tensor *t) {
  if (t->prev)
    t->prev->next = t->next;
  else
    t->scope->first = t->next;
  if (t->next) t->next->prev = t->prev;
  t->place = LT_LOOSE;
}

void lt_scope_link(lt_tensor *t, lt_tensor *base) {
  if (depth == 0 || t->place != LT_LOOSE) return;
  if (base && base->place != LT_SCOPED) return; /* a view of a parameter lives as long as its handle */
  lt_pool_lock();
  link_to(t, base ? base->scope : stack[depth - 1]);
  lt_pool_unlock();
}

int64_t lt_scope_open(void) {
  if (depth == MAX_DEPTH) return 0;
  lt_scope *s = lt_alloc(sizeof *s);
  if (!s) return 0;
  *s = (lt_scope){.id = next_id++};
  stack[depth++] = s;
  return s->id;
}

int64_t lt_scope_top(void) { return depth ? stack[depth - 1]->id : 0; }
int lt_scope_depth(void) { return depth; }

/* Moves every member of s to `to`, or out of every scope. */
static void merge(lt_scope *s, lt_scope *to) {
  lt_pool_lock();
  for (lt_tensor *t = s->first, *next; t; t = next) {
    next = t->next;
    t->place = LT_LOOSE;
    if (to) link_to(t, to);
  }
  s->first = NULL;
  lt_pool_unlock();
}

/* Ends every member: its handles go stale and give up their references; what C still holds lives on without handles. */
static void end_members(lt_scope *s) {
  for (;;) {
    lt_pool_lock();
    lt_tensor *t = s->first;
    if (!t) {
      lt_pool_unlock();
      return;
    }
    lt_scope_unlink(t);
    int handles = atomic_exchange(&t->handles, 0);
    t->gen++;
    t->died_in = s->id;
    t->died_gen = t->gen - 1;
    lt_pool_unlock();
    if (!handles) continue; /* C alone holds it */
    if (atomic_fetch_sub_explicit(&t->refs, handles, memory_order_acq_rel) == handles) {
      t->gen--; /* destroy moves it on again */
      lt_tensor_destroy(t);
    }
  }
}

int lt_scope_close(int64_t id, bool free_members) {
  if (!depth || stack[depth - 1]->id != id)
    return lt_fail(LT_ERR_STATE, "scope: only the innermost scope can be closed");
  lt_scope *s = stack[--depth];
  if (free_members)
    end_members(s);
  else
    merge(s, depth ? stack[depth - 1] : NULL);
  lt_free(s, sizeof *s);
  return LT_OK;
}

void lt_scope_orphan(lt_scope_token *token) {
  for (int i = depth - 1; i >= 0; i--)
    if (stack[i]->id == token->id_) stack[i]->orphan = true;
  token->id_ = 0;
}

int lt_scope_reap(void) {
  int kept = 0, reaped = 0;
  for (int i = 0; i < depth; i++) {
    lt_scope *s = stack[i];
    if (!s->orphan) {
      stack[kept++] = s;
      continue;
    }
    merge(s, kept ? stack[kept - 1] : NULL);
    lt_free(s, sizeof *s);
    reaped++;
  }
  depth = reaped_depth = kept;
  return reaped;
}

bool lt_scope_crowded(void) { return depth > reaped_depth + CROWDED; }

int lt_scope_return(const lt_handle *h, int64_t id, int64_t to) {
  lt_tensor *t;
  LT_TRY(lt_resolve(h, &t));
  lt_pool_lock();
  if (t->place == LT_SCOPED && t->scope->id == id) {
    lt_scope_unlink(t);
    for (int i = 0; i < depth; i++)
      if (stack[i]->id == to) link_to(t, stack[i]);
  }
  lt_pool_unlock();
  return LT_OK;
}

int lt_keep(const lt_handle *h) {
  lt_tensor *t;
  LT_TRY(lt_resolve(h, &t));
  lt_pool_lock();
  if (t->place == LT_SCOPED) lt_scope_unlink(t);
  t->place = LT_KEPT;
  lt_pool_unlock();
  return LT_OK;
}
