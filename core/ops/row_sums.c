/* Gradients of lookups added up by row, in the order of places, for float and double; see row_sums_template.h. */
#include "by_eight.h"
#include "lookup.h"

enum { PLACES = 2048 };

#define ELEM float
#define NAME(x) x##_f32
#include "row_sums_template.h"
#undef ELEM
#undef NAME

#define ELEM double
#define NAME(x) x##_f64
#include "row_sums_template.h"

/* The first row whose places begin at or after `place`. */
static int64_t row_from(const lt_unique *u, int64_t place) {
  int64_t low = 0, high = u->n_rows;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (u->segment[middle].first < place)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

void lt_row_sums_run(const lt_row_sums *job, int dtype) {
  int64_t parts = (job->unique->n + PLACES - 1) / PLACES;
#pragma omp parallel for schedule(dynamic, 4) num_threads(lt_threads_for(job->unique->n * job->width))
  for (int64_t k = 0; k < parts; k++) {
    int64_t first = row_from(job->unique, k * PLACES), last = row_from(job->unique, (k + 1) * PLACES);
    if (dtype == LT_FLOAT64)
      sum_range_f64(job, first, last);
    else
      sum_range_f32(job, first, last);
  }
}
