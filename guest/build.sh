#!/bin/sh
# Builds what the operator embeds for guests: the SDK bundle, the static agent and
# the program that opens its links, both compressed, as guest/dist/agent.gz and
# guest/dist/link.gz. GOARCH chooses the guest's architecture. Quick when nothing
# has changed.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
say() { echo "guest: $*" >&2; }

"$here/sdk/build.sh" node
mkdir -p "$here/dist"
scratch=$(mktemp -d "$here/dist/.new-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM

build() {
  say "building the $1"
  (cd "$here" && CGO_ENABLED=0 GOOS=linux go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$scratch/$1" "./$1")
  gzip -9nc "$scratch/$1" > "$scratch/$1.gz"
  if cmp -s "$scratch/$1.gz" "$here/dist/$1.gz"; then
    say "$1 unchanged"
  else
    mv "$scratch/$1.gz" "$here/dist/$1.gz"
    say "$1 ready ($(wc -c < "$here/dist/$1.gz") bytes compressed)"
  fi
}

build agent
build link
