#!/usr/bin/env bash
# Builds ltrain: premake writes makefiles into build/make, make fills build/<configuration>, and build/ltrain points at
# the configuration built last. Objects of the configurations lie apart, so switching back is a matter of a link.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/build.sh [release|debug|asan|tsan] [--no-link]
  release   optimised (the default)
  debug     -Og, asserts
  asan      address and undefined-behaviour sanitizers
  tsan      thread sanitizer (clang; run with LTRAIN_THREADS=1)
  --no-link leave build/ltrain pointing where it does
Run it again after adding or removing a source file. Needs what scripts/setup.sh installs.
TEXT
}

config=release link=yes
for arg in "$@"; do
  case "$arg" in
    release | debug | asan | tsan) config=$arg ;;
    --no-link) link=no ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done

if command -v premake4 >/dev/null; then # Debian's, which is what is tested
  generate=(premake4 --file=premake5.lua gmake)
elif command -v premake5 >/dev/null; then
  generate=(premake5 gmake)
else
  echo "build: neither premake4 nor premake5 is installed; run scripts/setup.sh" >&2
  exit 1
fi

cc=gcc
if [ "$config" = tsan ]; then cc=clang; fi
if ! command -v "$cc" >/dev/null; then
  hint=$([ "$cc" = clang ] && echo 'scripts/setup.sh --tests' || echo 'scripts/setup.sh')
  echo "build: $cc is not installed; run $hint" >&2
  exit 1
fi

mkdir -p "build/$config"
exec 9>build/.lock # two builds in one tree take turns
flock 9

if ! log=$("${generate[@]}" 2>&1); then
  echo "$log" >&2
  exit 1
fi

# Makefiles do not know when their flags change: drop the objects of this configuration when the recipe is another one.
recipe=$(cat premake5.lua <("$cc" --version) | cksum)
if [ "$(cat "build/$config/recipe" 2>/dev/null)" != "$recipe" ]; then
  rm -rf "build/$config/obj"
  echo "$recipe" >"build/$config/recipe"
fi

# Nor do they notice that a source is gone: link again when the list of sources is another one.
sources=$(find core -name '*.c' | LC_ALL=C sort | cksum)
if [ "$(cat "build/$config/sources" 2>/dev/null)" != "$sources" ]; then
  rm -f "build/$config/libltrain.so" "build/$config/ltrain"
  echo "$sources" >"build/$config/sources"
fi

make --no-print-directory -C build/make config="$config" CC="$cc" -j"$(nproc)"

if [ "$link" = yes ]; then
  ln -sfn "$config/ltrain" build/ltrain
  ln -sfn "$config/libltrain.so" build/libltrain.so
  echo "built build/ltrain ($config)"
else
  echo "built build/$config"
fi
