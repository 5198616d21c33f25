#!/usr/bin/env bash
# How long ltrain takes from the start of the process to its first Lua line, and how much memory it holds there. The
# first line ends the process, so that the whole run is timed, fork and exec included: an upper bound. Beside it, in
# the same way, what a Python process takes, and PyTorch's where it can be imported.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

echo "median of ${1:-21} runs; load average $(cut -d' ' -f1 /proc/loadavg) on $(nproc) processors"
runs=${1:-21} ltrain=build/ltrain limit_ms=6.0 limit_mib=16
[ -x "$ltrain" ] || {
  echo "bench_start: $ltrain is not there; run scripts/build.sh" >&2
  exit 1
}

# median_ms COMMAND...: median wall time of the runs, which a busy machine stretches
median_ms() {
  local i begin end
  "$@" >/dev/null 2>&1 || return 1 # warms the page cache
  for ((i = 0; i < runs; i++)); do
    begin=${EPOCHREALTIME/[.,]/}
    "$@" >/dev/null 2>&1
    end=${EPOCHREALTIME/[.,]/}
    echo $((end - begin))
  done | sort -n | awk '{ t[NR] = $1 } END { printf "%.2f\n", t[int((NR + 1) / 2)] / 1000 }'
}

lua_memory='for line in io.lines "/proc/self/status" do
  local kib = line:match "^VmHWM:%s*(%d+)"
  if kib then print(("%.1f"):format(kib / 1024)) end
end'
python_memory='print(*["%.1f" % (int(l.split()[1]) / 1024) for l in open("/proc/self/status") if l.startswith("VmHWM")])'

row() { printf '%-34s %9s ms %8s MiB\n' "$1" "$2" "$3"; }

ms=$(median_ms "$ltrain" -e 'os.exit(0)')
mib=$("$ltrain" -e "$lua_memory")
row "ltrain, first Lua line" "$ms" "$mib"
loaded_ms=$(median_ms "$ltrain" -e 'require "ltrain" os.exit(0)')
row 'ltrain, require "ltrain"' "$loaded_ms" "$("$ltrain" -e "require 'ltrain' $lua_memory")"
if command -v python3 >/dev/null; then
  python=$(python3 -c 'import sys; print(sys.executable)') # not a wrapper that looks for it
  row "python3 -c pass" "$(median_ms "$python" -c pass)" "$("$python" -c "$python_memory")"
  if "$python" -c 'import torch' 2>/dev/null; then
    runs=3
    row "python3 -c 'import torch'" "$(median_ms "$python" -c 'import torch')" \
      "$("$python" -c "import torch; $python_memory")"
  fi
fi

if awk -v ms="$ms" -v lim="$limit_ms" -v mib="$mib" -v mem="$limit_mib" 'BEGIN { exit !(ms <= lim && mib <= mem) }'; then
  echo "within the budget: $limit_ms ms, $limit_mib MiB"
else
  echo "over the budget: $limit_ms ms, $limit_mib MiB"
  exit 1
fi
