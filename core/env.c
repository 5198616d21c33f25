/* The few environment variables, each with its text, and what is set from them once: threads, and flush-to-zero, which
 * must reach every thread of the OpenMP pool (denormals of a converged run slow a step by 40 %). */
#include "op.h"

#include <ctype.h>
#include <math.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

static const struct {
  const char *name, *doc;
} variables[] = {
    {"LTRAIN_THREADS", "threads for computing; default: the cores this process may use, within the cgroup's CPU limit"},
    {"LTRAIN_MEMORY_MIB", "memory the engine may use, MiB; default: the machine's or cgroup's limit"},
    {"LTRAIN_DEBUG", "1: errors show the frames inside ltrain, late uses of tensors name the line that made them"},
    {"LTRAIN_DATA", "folder of data sets for specs and scripts; default: data/ in the repository"},
    {"LTRAIN_HISTORY", "file that keeps the REPL's history"},
    {"LTRAIN_TEST_JOBS", "spec files that `ltrain test` runs at a time; default: the number of cores"},
    {"LTRAIN_TEST_TIMEOUT", "seconds a spec file may take; default 300"},
};

int lt_env_get(int index, const char **name, const char **value, const char **doc) {
  if (index < 0 || index >= (int)(sizeof variables / sizeof *variables)) return 0;
  *name = variables[index].name;
  *value = getenv(*name);
  *doc = variables[index].doc;
  return 1;
}

double lt_env_number(const char *name) {
  const char *text = getenv(name);
  char *end;
  if (!text || !*text) return 0;
  double value = strtod(text, &end);
  while (isspace((unsigned char)*end)) end++;
  return *end == 0 && isfinite(value) ? value : 0;
}

/* CPUs of the affinity mask, cut by the control group's quota (version 2: "max 100000" or "150000 100000"). */
static int usable_cores(void) {
  cpu_set_t set;
  int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  double quota = -1, period = 1;
  FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
  if (f) {
    if (fscanf(f, "%lf %lf", &quota, &period) != 2) quota = -1;
    fclose(f);
  } else {
    f = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "re");
    if (f) {
      if (fscanf(f, "%lf", &quota) != 1) quota = -1;
      fclose(f);
      f = fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "re");
      if (f) {
        if (fscanf(f, "%lf", &period) != 1) period = 1e5;
        fclose(f);
      }
    }
  }
  if (quota > 0 && period > 0 && (int)(quota / period + 0.5) < cores) cores = (int)(quota / period + 0.5);
  return cores < 1 ? 1 : cores;
}

static int threads;

static void flush_denormals(void) {
#if defined(__x86_64__)
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
  _mm_setcsr(_mm_getcsr() | 0x0040); /* denormals as zero */
#endif
}

static void start_pool(int n) {
  threads = n;
  omp_set_dynamic(0);
  omp_set_num_threads(n);
#pragma omp parallel num_threads(n)
  flush_denormals();
}

int lt_threads(void) {
  if (threads) return threads;
  double n = lt_env_number("LTRAIN_THREADS");
  start_pool(n >= 1 && n <= 1024 && n == floor(n) ? (int)n : usable_cores());
  return threads;
}

int lt_set_threads(int n) {
  if (n < 1 || n > 1024) return lt_fail(LT_ERR_ARGUMENT, "threads: %d asked for; it must be 1 to 1024", n);
  start_pool(n);
  return LT_OK;
}

double lt_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
