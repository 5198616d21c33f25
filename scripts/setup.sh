#!/usr/bin/env bash
# Installs the Debian packages that building and running ltrain need, and with --tests those that its tests need. Only
# packages that are missing; nothing is removed, upgraded or configured. With all of them there it does nothing, so it
# can be run again at any time.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: scripts/setup.sh [--tests] [--list]
  --tests   also what scripts/test.sh needs
  --list    only print the packages
TEXT
}

build=(gcc libc6-dev make premake4 libluajit-5.1-dev libdnnl-dev libarchive-dev libisal-dev zlib1g-dev libcjson-dev
  libedit-dev)
data=(ca-certificates python3 python3-pip) # scripts/fetch_data.sh takes files out of a Python package
tests=(lua-busted lua-check clang-format clang libclang-rt-dev libomp-dev shellcheck)

packages=("${build[@]}" "${data[@]}") only_list=no
for arg in "$@"; do
  case "$arg" in
    --tests) packages+=("${tests[@]}") ;;
    --list) only_list=yes ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done
if [ "$only_list" = yes ]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup: this is no Debian system; what Debian calls ${packages[*]} is needed" >&2
  exit 1
fi

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

missing=()
for package in "${packages[@]}"; do
  # OpenResty's fork has the same interface and excludes the original: where it is, it stays
  if [ "$package" = libluajit-5.1-dev ] && installed libluajit2-5.1-dev; then continue; fi
  installed "$package" || missing+=("$package")
done
if [ ${#missing[@]} = 0 ]; then
  echo "setup: all ${#packages[@]} packages are there"
  exit 0
fi

root=()
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: as root, run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  root=(sudo)
fi
apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)

echo "setup: installing ${missing[*]}"
"${apt[@]}" update || echo "setup: the package lists could not all be renewed; trying with those there are" >&2
"${apt[@]}" install --no-install-recommends --no-remove "${missing[@]}"
echo "setup: done"
