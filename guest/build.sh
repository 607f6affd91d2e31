#!/bin/sh
# Builds the in-guest agent for the operator to embed: the SDK bundle, the
# static agent, and its compressed form guest/dist/agent.gz. GOARCH chooses the
# guest's architecture. Quick when nothing has changed.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
say() { echo "guest: $*" >&2; }

"$here/sdk/build.sh" node
mkdir -p "$here/dist"
scratch=$(mktemp -d "$here/dist/.new-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM

say "building the agent"
(cd "$here" && CGO_ENABLED=0 GOOS=linux go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$scratch/agent" ./agent)
gzip -9nc "$scratch/agent" > "$scratch/agent.gz"
if cmp -s "$scratch/agent.gz" "$here/dist/agent.gz"; then
  say "agent unchanged"
else
  mv "$scratch/agent.gz" "$here/dist/agent.gz"
  say "agent ready ($(wc -c < "$here/dist/agent.gz") bytes compressed)"
fi
