#!/usr/bin/env bash
# Installs the built program: PREFIX/bin/ltrain, the library in PREFIX/lib/ltrain, Lua files and models in
# PREFIX/share/ltrain. Every file is noted in a list, and --uninstall removes what the list names and nothing else.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/install.sh [--prefix P] [--uninstall]      (P is /usr/local by default)
TEXT
}

prefix=/usr/local action=install
while [ $# -gt 0 ]; do
  case "$1" in
    --prefix) [ $# -ge 2 ] || { usage >&2 && exit 2; }; prefix=$2; shift ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    --uninstall) action=uninstall ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
  shift
done
case "$prefix" in
  /*) ;;
  ?*) prefix=$PWD/$prefix ;;
  *) usage >&2 && exit 2 ;;
esac
list=$prefix/share/ltrain/files

# Nearest folder that exists: may this user write there?
writable() {
  local folder=$1
  while [ ! -e "$folder" ]; do folder=$(dirname "$folder"); done
  [ -w "$folder" ]
}
if ! writable "$prefix/share/ltrain"; then
  if [ "$(id -u)" != 0 ] && command -v sudo >/dev/null; then
    again=(--prefix "$prefix")
    if [ "$action" = uninstall ]; then again+=(--uninstall); fi
    exec sudo scripts/install.sh "${again[@]}"
  fi
  echo "install: $prefix is not writable" >&2
  exit 1
fi

# Removes what an earlier installation put there, then the folders that this leaves empty.
uninstall() {
  [ -f "$list" ] || return 0
  local path
  while IFS= read -r path; do
    case "/$path/" in */../*) continue ;; esac
    rm -f "$prefix/$path"
  done <"$list"
  rm -f "$list"
  for path in share/ltrain lib/ltrain; do
    if [ -d "$prefix/$path" ]; then find "$prefix/$path" -depth -type d -empty -delete; fi
  done
}

if [ "$action" = uninstall ]; then
  if [ ! -f "$list" ]; then
    echo "install: no ltrain under $prefix" >&2
    exit 1
  fi
  uninstall
  echo "removed ltrain from $prefix"
  exit 0
fi

if [ ! -x build/release/ltrain ]; then
  echo "install: build/release/ltrain is not there; run scripts/build.sh" >&2
  exit 1
fi

uninstall # files of an earlier version
mkdir -p "$prefix/bin" "$prefix/lib/ltrain" "$prefix/share/ltrain"
: >"$list"
# put MODE FROM TO: TO is below the prefix
put() {
  install -D -m "$1" "$2" "$prefix/$3"
  printf '%s\n' "$3" >>"$list"
}
put 755 build/release/ltrain lib/ltrain/ltrain
put 755 build/release/libltrain.so lib/ltrain/libltrain.so
strip --strip-unneeded "$prefix/lib/ltrain/ltrain" "$prefix/lib/ltrain/libltrain.so"
while IFS= read -r file; do put 644 "$file" "share/ltrain/$file"; done < <(find lua models -name '*.lua' | LC_ALL=C sort)
put 644 LICENSE share/ltrain/LICENSE
ln -sfn ../lib/ltrain/ltrain "$prefix/bin/ltrain"
printf '%s\n' bin/ltrain >>"$list"
echo "installed $("$prefix/bin/ltrain" --version) in $prefix ($(wc -l <"$list") files)"
