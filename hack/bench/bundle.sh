#!/usr/bin/env bash
# Bundles the Node SDK for the sandboxes that stand for the original worker, and
# prints the package's folder. It is kept in the user's cache by the content of what
# it is made of; once it is there no network is needed.
set -euo pipefail
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

inputs=("$ROOT"/guest/sdk/package.json "$ROOT"/guest/sdk/package-lock.json "$ROOT"/hack/bench/bundle.mjs)
key=$(cat "${inputs[@]}" | sha256sum | cut -c1-16)
bundle=$CACHE/bench-sdk/$key
if [[ ! -d $bundle ]]; then
  mkdir -p "$CACHE/bench-sdk"
  scratch=$(mktemp -d "$CACHE/bench-sdk/.new-XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  cp "${inputs[@]}" "$scratch"
  cd "$scratch"
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2
  node bundle.mjs "$scratch/iii-sdk" >&2
  mv -T "$scratch/iii-sdk" "$bundle"
fi
echo "$bundle"
