#!/bin/sh
# tests/fuzz/run.sh NAME SECONDS: builds tests/fuzz/NAME_fuzz.c with clang, libFuzzer, ASan and UBSan, together with
# only the files it needs, and runs it for so long. The target's first lines name them:
# "// sources: core/a.c core/b.c", "// libraries: -lcjson". Inputs found stay in build/fuzz/corpus/NAME_fuzz (seeds are in
# tests/fuzz/NAME_fuzz, words in NAME.dict), the report in build/fuzz/NAME.log. A crash is the exit status.
set -eu
if [ $# -ne 2 ]; then
  echo "usage: tests/fuzz/run.sh NAME SECONDS" >&2
  exit 2
fi
name=$1 seconds=$2
cd "$(dirname "$0")/../.."
target=tests/fuzz/${name}_fuzz.c
if [ ! -f "$target" ]; then
  echo "fuzz: no target $target" >&2
  exit 2
fi
corpus=build/fuzz/corpus/${name}_fuzz program=build/fuzz/${name} log=build/fuzz/${name}.log
mkdir -p "$corpus"
sources=$(sed -n 's|^// sources: ||p' "$target")
libraries=$(sed -n 's|^// libraries: ||p' "$target")
# shellcheck disable=SC2086 # lists of words
${CLANG:-clang} -std=gnu11 -D_GNU_SOURCE -g -O1 -fno-omit-frame-pointer -Icore -Itests/fuzz \
  -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined "$target" $sources $libraries -o "$program"
set -- "$corpus"
if [ -d "tests/fuzz/${name}_fuzz" ]; then set -- "$@" "tests/fuzz/${name}_fuzz"; fi
if [ -f "tests/fuzz/${name}.dict" ]; then set -- "-dict=tests/fuzz/${name}.dict" "$@"; fi
status=0
"$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
  -artifact_prefix="build/fuzz/$name-" "$@" >"$log" 2>&1 || status=$?
if [ "$status" -ne 0 ]; then tail -n 60 "$log"; fi
echo "fuzz $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs in $seconds s, exit $status"
exit "$status"
