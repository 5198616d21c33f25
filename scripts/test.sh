#!/usr/bin/env bash
# All tests. Installs what they need, builds, checks the sources, runs the specs; --long adds sanitizers and fuzzing.
# Each check counts as one test beside the specs. The last line is the sum: `N passed, N failed, N skipped`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/test.sh [--long]
  --long    also the specs under address and undefined-behaviour sanitizers, the threaded parts under the thread
            sanitizer, and each fuzz target for LTRAIN_FUZZ_SECONDS (20)
TEXT
}

long=no
for arg in "$@"; do
  case "$arg" in
    --long) long=yes ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done

passed=0 failed=0 skipped=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

finish() {
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
}

# check NAME COMMAND...: one test; its output is shown when it fails
check() {
  local name=$1 begin=$SECONDS
  shift
  printf '== %s\n' "$name"
  if "$@" >"$work/log" 2>&1; then
    passed=$((passed + 1))
    printf 'ok     %s, %d s\n' "$name" $((SECONDS - begin))
    return 0
  fi
  failed=$((failed + 1))
  sed 's/^/  /' "$work/log"
  printf 'FAILED %s\n' "$name"
  return 1
}

skip() {
  skipped=$((skipped + 1))
  printf 'skip   %s: %s\n' "$1" "$2"
}

# specs NAME COMMAND...: a run of `ltrain test`, whose counts are added
specs() {
  local name=$1 p=0 f=0 s=0 status=0
  shift
  printf '== %s\n' "$name"
  rm -f "$work/totals"
  "$@" --totals="$work/totals" || status=$?
  if [ -s "$work/totals" ]; then read -r p f s <"$work/totals"; fi
  if [ "$status" != 0 ] && [ "$f" = 0 ]; then f=1; fi # the run itself went wrong
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  printf '%s %s: %d passed, %d failed, %d skipped in all\n' "$([ "$f" = 0 ] && echo ok || echo FAILED)" "$name" \
    "$p" "$f" "$s"
}

sources() { find core gpu tests "$@" 2>/dev/null | LC_ALL=C sort; }

clang_reads_it() {
  local file
  for file in $(find core -name '*.c' | LC_ALL=C sort); do
    clang -std=gnu11 -D_GNU_SOURCE -fopenmp -Wall -Wextra -Werror -fsyntax-only -Icore -I/usr/include/luajit-2.1 \
      "$file" || return 1
  done
}

formatted() {
  local file wrong=0
  for file in $(sources -name '*.[ch]'); do
    if ! clang-format --dry-run -Werror "$file" 2>/dev/null; then
      echo "$file: run clang-format -i on it"
      wrong=1
    fi
  done
  return $wrong
}

# ISO C beside GNU C: the header must stand on its own, in C and in C++.
header_alone() {
  printf '#include "ltrain.h"\nint main(void) { return lt_version() == 0; }\n' >"$work/alone.c"
  gcc -std=c11 -Wall -Wextra -Werror -pedantic -fsyntax-only -Icore "$work/alone.c"
}

works_installed() {
  scripts/install.sh --prefix "$work/prefix"
  (cd / && "$work/prefix/bin/ltrain" -e 'print(require("ltrain").version)')
  scripts/install.sh --prefix "$work/prefix" --uninstall
  local left
  left=$(find "$work/prefix" ! -type d)
  if [ -n "$left" ]; then
    echo "left behind: $left"
    return 1
  fi
}

with_premake5() {
  premake5 --file=premake5.lua gmake && make --no-print-directory -C build/make config=release -j"$(nproc)"
}

echo "== packages"
scripts/setup.sh --tests
echo "== build"
if ! scripts/build.sh; then
  failed=1
  finish
  exit 1
fi
passed=$((passed + 1)) # gcc, without a warning

check "clang reads every C file without a warning" clang_reads_it || true
check "the public header stands alone" header_alone || true
check "clang-format" formatted || true
check "luacheck" luacheck -q . || true
check "shellcheck" shellcheck -S warning scripts/*.sh tests/fuzz/*.sh .ci/run || true
check "install, run, uninstall" works_installed || true
if command -v premake5 >/dev/null; then
  check "premake5 builds it too" with_premake5 || true
else
  skip "premake5 builds it too" "premake5 is not installed"
fi
specs "specs" build/ltrain test tests

if [ "$long" = yes ]; then
  if check "build with address and undefined-behaviour sanitizers" scripts/build.sh asan --no-link; then
    # leaks are looked for where memory comes from malloc: the engine's own blocks are counted by lt.memory, and the
    # leak checker's scan of a stopped OpenMP pool and of LuaJIT's memory now and then dies itself
    ASAN_OPTIONS=detect_leaks=0 LTRAIN_TEST_TIMEOUT=${LTRAIN_TEST_TIMEOUT:-1200} \
      specs "specs with sanitizers" build/asan/ltrain test tests
    ASAN_OPTIONS=detect_leaks=0 check "random operator calls with sanitizers" \
      build/asan/ltrain tests/fuzz/operators.lua "$RANDOM" 3000 || true
    ASAN_OPTIONS=detect_leaks=1 LTRAIN_THREADS=1 LTRAIN_TEST_TIMEOUT=${LTRAIN_TEST_TIMEOUT:-1200} \
      specs "data specs with the leak checker" build/asan/ltrain test tests/data
  fi
  if check "build with the thread sanitizer" scripts/build.sh tsan --no-link; then
    # kernels that spread addresses widely confuse the sanitizer's map of memory
    still=()
    if ! build/tsan/ltrain --version >/dev/null 2>&1; then still=(setarch "$(uname -m)" -R); fi
    LTRAIN_THREADS=1 OMP_NUM_THREADS=1 LTRAIN_TEST_TIMEOUT=${LTRAIN_TEST_TIMEOUT:-1200} \
      TSAN_OPTIONS="ignore_noninstrumented_modules=1 exitcode=66" \
      specs "data specs with the thread sanitizer" "${still[@]}" build/tsan/ltrain test tests/data
  fi
  for target in tests/fuzz/*_fuzz.c; do
    name=$(basename "$target" _fuzz.c)
    check "fuzz $name" tests/fuzz/run.sh "$name" "${LTRAIN_FUZZ_SECONDS:-20}" || true
  done
fi

finish
