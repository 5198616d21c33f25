#!/usr/bin/env bash
# Fetches a public data set into data/NAME. It appears there only when every file is whole: download and check happen
# in a folder beside it, which is renamed at the end. With the data there already, it only checks it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/fetch_data.sh ml-100k [--from URL] | fashion-mnist
  ml-100k         MovieLens 100K: 100,000 ratings of 1,682 films by 943 people (2 MB)
                  --from: the address of the original ml-100k.zip, as file:///path/ml-100k.zip
  fashion-mnist   70,000 pictures of clothes, 28 x 28 grey (31 MB)
TEXT
}

licence() {
  case "$1" in
    ml-100k) cat <<'TEXT' ;;
MovieLens 100K, GroupLens Research, University of Minnesota. For research: no commercial use and no redistribution
without their permission, no claim of their endorsement, and publications cite F. M. Harper and J. A. Konstan, "The
MovieLens Datasets: History and Context", ACM TiiS 5, 4, 2015. https://grouplens.org/datasets/movielens/100k/
TEXT
    fashion-mnist) cat <<'TEXT' ;;
Fashion-MNIST, copyright 2017 Zalando SE, MIT licence. https://github.com/zalandoresearch/fashion-mnist
TEXT
  esac
}

checksums() {
  case "$1" in
    ml-100k) cat <<'TEXT' ;;
4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff  ml-100k.inter
51d7cdf777ce5c0f5b32c1d947a4a81fe07d75e78abbe761e0cd4d0756064532  ml-100k.item
4f670007d9cfbeb9807e757209af1555b9bcc186bde25e767f67cb67c6dd5972  ml-100k.user
TEXT
    fashion-mnist) cat <<'TEXT' ;;
b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7  train-images-idx3-ubyte.gz
0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056  train-labels-idx1-ubyte.gz
cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa  t10k-images-idx3-ubyte.gz
8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05  t10k-labels-idx1-ubyte.gz
TEXT
  esac
}

whole() { (cd "$2" && checksums "$1" | sha256sum --check --quiet --strict) >&2; }

# The files lie inside a Python package: the package is downloaded, not installed.
ml_100k_from_package() {
  python3 -m pip --version >/dev/null 2>&1 || {
    echo "fetch_data: pip is not installed; run scripts/setup.sh" >&2
    return 1
  }
  python3 -m pip download --no-deps --only-binary :all: --dest "$1/wheel" recbole==1.2.1 || return 1
  python3 - "$1" <<'PYTHON'
import glob, os, sys, zipfile
work = sys.argv[1]
with zipfile.ZipFile(glob.glob(work + "/wheel/*.whl")[0]) as wheel:
    for name in ("ml-100k.inter", "ml-100k.item", "ml-100k.user"):
        with open(os.path.join(work, "files", name), "wb") as out:
            out.write(wheel.read("recbole/dataset_example/ml-100k/" + name))
PYTHON
}

# The original archive, converted to the same three files.
ml_100k_from_archive() {
  python3 - "$1" "$2" <<'PYTHON'
import io, os, sys, urllib.request, zipfile
work, url = sys.argv[1:]
try:
    with urllib.request.urlopen(url, timeout=60) as reply:
        archive = zipfile.ZipFile(io.BytesIO(reply.read()))
except (OSError, zipfile.BadZipFile) as problem:
    sys.exit(f"fetch_data: {url}: {problem}")

def lines(name):
    return archive.read("ml-100k/" + name).decode("latin-1").splitlines()

def write(name, header, rows):
    with open(os.path.join(work, "files", name), "w", encoding="utf-8", newline="") as out:
        out.writelines("\t".join(row) + "\n" for row in [header, *rows])

GENRES = ("unknown Action Adventure Animation Children's Comedy Crime Documentary Drama Fantasy Film-Noir Horror "
          "Musical Mystery Romance Sci-Fi Thriller War Western").split()

def item(line):
    number, title, *rest = line.split("|")
    genres = " ".join(g for g, on in zip(GENRES, rest[-len(GENRES):]) if on == "1")
    if "(" not in title:  # the one film without a name
        return number, "unkonwn", "unkonwn", genres
    name, year = title.rstrip().rsplit("(", 1)
    return number, name.strip(), year.rstrip(")"), genres

write("ml-100k.inter", ("user_id:token", "item_id:token", "rating:float", "timestamp:float"),
      (line.split("\t") for line in lines("u.data")))
write("ml-100k.user", ("user_id:token", "age:token", "gender:token", "occupation:token", "zip_code:token"),
      (line.split("|") for line in lines("u.user")))
write("ml-100k.item", ("item_id:token", "movie_title:token_seq", "release_year:token", "class:token_seq"),
      (item(line) for line in lines("u.item")))
PYTHON
}

# Runs a command as root where this is not root already.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Debian ships the files as a package: it is unpacked here, not installed, unless it is installed already.
fashion_mnist() {
  local folder=/usr/share/datasets/fashion-mnist
  if [ ! -d "$folder" ]; then
    (
      cd "$1"
      # as root, apt would hand the download to a user who may not write here
      download=(apt-get -o APT::Sandbox::User=root download dataset-fashion-mnist)
      "${download[@]}" || { as_root apt-get update && "${download[@]}"; }
      dpkg-deb -x dataset-fashion-mnist_*.deb package
    ) || return 1
    folder="$1/package$folder"
  fi
  cp "$folder"/*-ubyte.gz "$1/files/"
}

name=${1:-} url=
case "$name" in
  ml-100k | fashion-mnist) ;;
  -h | --help) usage && exit 0 ;;
  *) usage >&2 && exit 2 ;;
esac
if [ "$name" = ml-100k ] && [ "${2:-}" = --from ] && [ $# = 3 ]; then
  url=$3
elif [ $# != 1 ]; then
  usage >&2 && exit 2
fi

if [ -d "data/$name" ]; then
  if whole "$name" "data/$name"; then
    echo "fetch_data: data/$name is there and whole"
    exit 0
  fi
  echo "fetch_data: data/$name is damaged; fetching it again" >&2
fi

mkdir -p data
work=$(mktemp -d data/.fetch.XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir "$work/files"
echo "fetch_data: fetching $name"
case "$name" in
  ml-100k)
    if [ -n "$url" ]; then
      ml_100k_from_archive "$work" "$url"
    elif ! { ml_100k_from_package "$work" && whole "$name" "$work/files"; }; then
      echo "fetch_data: not from the package index; trying the data's home page" >&2
      ml_100k_from_archive "$work" https://files.grouplens.org/datasets/movielens/ml-100k.zip
    fi
    ;;
  fashion-mnist) fashion_mnist "$work" ;;
esac
if ! whole "$name" "$work/files"; then
  echo "fetch_data: the files that came are not those of $name (SHA-256 differs); nothing is kept" >&2
  exit 1
fi
chmod 755 "$work/files"
rm -rf "data/$name"
mv "$work/files" "data/$name"
echo "fetch_data: data/$name is complete"
licence "$name"
