#!/usr/bin/env bash
# From a bare Debian machine to trained models: installs the packages, builds, fetches MovieLens 100K, trains three
# click models on it and prints how good they are. Each step is skipped where it is done already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

step() { printf '\n== %s\n' "$1"; }

step "1/4 packages"
scripts/setup.sh
step "2/4 build"
scripts/build.sh
step "3/4 data"
scripts/fetch_data.sh ml-100k
step "4/4 training on MovieLens 100K"
exec build/ltrain scripts/quickstart.lua "$@"
