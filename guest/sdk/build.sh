#!/bin/sh
# Builds what guest programs find behind the global `iii`:
#   node    guest/agent/generated: the package iii-sdk and, in the folder node, the
#           bundled sources of guest/agent/node; embedded into the agent
#   python  a folder of installed packages, printed as the last line, to be
#           offered read-only to the sandboxes of a Python image
# Usage: build.sh [node|python|all]. Both are cached by the content of their
# inputs; once built, no network is needed. PYTHON is the guest's interpreter,
# CACHE the cache folder.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
generated=$here/../agent/generated
cache=${CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sandbox-operator}
python=${PYTHON:-/usr/bin/python3}
[ -x "$python" ] || python=$(command -v python3 || echo python3)

say() { echo "sdk: $*" >&2; }
digest() { cat "$@" | sha256sum | cut -c1-16; }

# Whatever is half done when the script ends is removed.
scratch=
trap '[ -z "$scratch" ] || rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
new_scratch() { mkdir -p "$cache"; scratch=$(mktemp -d "$cache/.new-XXXXXX"); }

build_node() {
  sources=$here/../agent/node
  key=$(digest "$here/package-lock.json" "$here/package.json" "$here/bundle.mjs" "$here/hosts.mjs" "$here/load.cjs" "$sources"/*.mjs)
  built=$cache/node-guest/$key
  if [ ! -d "$built" ]; then
    new_scratch
    say "node: installing the packages of package-lock.json"
    cp "$here/package.json" "$here/package-lock.json" "$here/bundle.mjs" "$here/hosts.mjs" "$here/load.cjs" "$scratch"
    (cd "$scratch" && npm ci --prefer-offline --ignore-scripts --no-audit --no-fund --loglevel=error >&2)
    say "node: bundling iii-sdk and the hosts of handlers and programs"
    mkdir "$scratch/built"
    (cd "$scratch" && node bundle.mjs "$scratch/built/iii-sdk" && node hosts.mjs "$sources" "$scratch/built/node")
    gzip -9n "$scratch/built/iii-sdk/dist/bundle.cjs"
    mkdir -p "$cache/node-guest"
    mv "$scratch/built" "$built"
    rm -rf "$scratch"
  fi
  mkdir -p "$generated"
  # Left alone if nothing has changed, so that the agent is not built anew.
  if ! diff -rq --exclude=.gitkeep "$built" "$generated" >/dev/null; then
    find "$generated" -mindepth 1 ! -name .gitkeep -delete
    cp -r "$built/." "$generated"
  fi
  say "node: iii-sdk bundle ready ($(wc -c < "$built/iii-sdk/dist/bundle.cjs.gz") bytes)"
}

build_python() {
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  folder=$cache/python-sdk/$version-$(digest "$here/requirements.txt")
  if [ ! -d "$folder" ]; then
    new_scratch
    say "python: installing iii-sdk for Python $version"
    pip --version >/dev/null 2>&1 && pip=pip || pip="$python -m pip"
    $pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps \
      --only-binary=:all: --python-version "$version" --implementation cp \
      --target "$scratch/packages" --requirement "$here/requirements.txt" >&2
    # The folder is read-only in the guest, so it must hold compiled files.
    "$python" -m compileall -q "$scratch/packages" >&2
    PYTHONPATH=$scratch/packages "$python" -c "import iii"
    mkdir -p "$cache/python-sdk"
    mv "$scratch/packages" "$folder"
    rm -rf "$scratch"
  fi
  say "python: packages ready for Python $version"
  echo "$folder"
}

case ${1:-all} in
  node) build_node ;;
  python) build_python ;;
  all) build_node; build_python ;;
  *) say "usage: build.sh [node|python|all]"; exit 2 ;;
esac
