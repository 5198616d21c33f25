/* One dictionary a text column out of the workers' own: texts united, ranked by falling count and then bytes, and the
 * rows' codes rewritten. So codes depend on the data alone, not on which thread saw what first. */
#include "csv.h"

#include <stdlib.h>

enum { CHUNK = 1024 }; /* rows rewritten together, so that a record is in cache for all its columns */

typedef struct merge {
  lt_csv *c;
  int workers;
  uint32_t **maps; /* [columns, workers] from a worker's codes to the final ones; NULL where there are none */
} merge;

static int no_memory(void) { return lt_fail(LT_ERR_MEMORY, "csv: no memory to merge dictionaries"); }

/* Adds every text of `from` to `to`; map[code in from] = code in to. */
static int unite(lt_strings *to, const lt_strings *from, uint32_t *map) {
  for (int64_t code = 0; code < from->count; code++) {
    int64_t length;
    const char *text = lt_strings_text(from, code, &length);
    int64_t merged = lt_strings_add(to, text, (uint32_t)length, lt_hash_text(text, (uint64_t)length), from->uses[code]);
    if (merged < 0) return (int)merged;
    map[code] = (uint32_t)merged;
  }
  return LT_OK;
}

/* All workers' texts in the first dictionary there is, which stays its worker's. */
static int unite_all(merge *m, int32_t column, uint32_t **maps, lt_strings **out) {
  lt_strings *all = NULL;
  for (int i = 0; i < m->workers; i++) {
    lt_strings *own = m->c->workers[i].strings[column];
    if (!own) continue;
    if (!(maps[i] = malloc(((size_t)own->count + 1) * sizeof **maps))) return no_memory();
    lt_strings_settle(own);
    if (all) {
      LT_TRY(unite(all, own, maps[i]));
    } else {
      all = own;
      for (int64_t code = 0; code < own->count; code++) maps[i][code] = (uint32_t)code;
    }
  }
  if (all) lt_strings_settle(all);
  *out = all;
  return LT_OK;
}

static int merge_column(merge *m, int32_t column, lt_frame *f) {
  uint32_t **maps = m->maps + (int64_t)column * m->workers, *order, *place;
  int64_t n = 0, mapped[256] = {0};
  for (int i = 0; i < m->workers; i++) {
    const lt_strings *own = m->c->workers[i].strings[column];
    mapped[i] = own ? own->count : 0;
  }
  lt_strings *all, *ranked;
  LT_TRY(unite_all(m, column, maps, &all));
  if (!all) { /* no rows were parsed for it */
    LT_TRY(lt_strings_new(&ranked));
    return lt_frame_set_strings(f, column, ranked), LT_OK;
  }
  LT_TRY(lt_strings_ranked(all, all->uses, 1, &order, &n));
  int status = lt_strings_permuted(all, order, n, &ranked);
  place = malloc(((size_t)all->count + 1) * sizeof *place);
  if (status == LT_OK) lt_frame_set_strings(f, column, ranked);
  if (status == LT_OK && !place) status = no_memory();
  if (status == LT_OK) {
    for (int64_t i = 0; i < n; i++) place[order[i]] = (uint32_t)i;
    for (int i = 0; i < m->workers; i++)
      for (int64_t code = 0; code < mapped[i]; code++) maps[i][code] = place[maps[i][code]];
  }
  free(order), free(place);
  return status;
}

static void rewrite(const merge *m, lt_frame *f, int64_t begin, int64_t end, int worker) {
  for (int32_t k = 0; k < m->c->column_count; k++) {
    const uint32_t *map = m->maps[(int64_t)k * m->workers + worker];
    for (int64_t row = begin; map && row < end; row++) {
      int32_t *cell = (int32_t *)lt_frame_at(f, k, row);
      *cell = (int32_t)map[*cell];
    }
  }
}

int csv_merge_dictionaries(lt_csv *c, lt_frame *f, const csv_segment *segments, int64_t n) {
  merge m = {.c = c, .workers = c->options.threads > 0 ? c->options.threads : 1};
  int64_t maps = (int64_t)c->column_count * m.workers;
  if (!(m.maps = calloc((size_t)maps, sizeof *m.maps))) return no_memory();
  int status = LT_OK;
  for (int32_t k = 0; k < c->column_count && status == LT_OK; k++)
    if (c->columns[k].kind == LT_COLUMN_TEXT && !c->columns[k].encoder) status = merge_column(&m, k, f);
  for (int64_t i = 0; i < n && status == LT_OK; i++)
    for (int64_t row = segments[i].begin; row < segments[i].end; row += CHUNK)
      rewrite(&m, f, row, row + CHUNK < segments[i].end ? row + CHUNK : segments[i].end, segments[i].worker);
  for (int32_t k = 0; k < f->width; k++) f->columns[k].counted = status == LT_OK;
  for (int64_t i = 0; i < maps; i++) free(m.maps[i]);
  free(m.maps);
  return status;
}
