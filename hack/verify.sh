#!/usr/bin/env bash
# Regenerates everything that is generated, in place, and fails if that changed a
# file: then the new ones are in the tree, to be committed. It compares contents,
# not with git, so that uncommitted work elsewhere does not matter.
set -euo pipefail
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

GENERATED=(api/v1alpha1/zz_generated.deepcopy.go config/crd/bases config/rbac/role.yaml docs/api.md)
failures=0

fail() {
  say "✗ $*"
  failures=$((failures + 1))
}

pass() { say "✓ $*"; }

# own_go_files lists the Go sources of this repository, generated or not.
own_go_files() {
  find . \( -path ./bin -o -path ./out -o -path ./.dev -o -path ./.git -o -name node_modules \) -prune -o -name '*.go' -print
}

copy_generated() {
  local path
  for path in "${GENERATED[@]}"; do
    [[ ! -e $path ]] || { mkdir -p "$1/$(dirname "$path")" && cp -a "$path" "$1/$path"; }
  done
}

check_generated() {
  local before=$1/before after=$1/after
  mkdir "$before" "$after"
  copy_generated "$before"
  with_progress "generating" make generate manifests docs || {
    fail "generating failed"
    return
  }
  copy_generated "$after"
  if ! diff -ruN "$before" "$after" >"$1/diff"; then
    sed "s|$1/||g" "$1/diff" | head -n 200 >&2
    fail "generated files were out of date; they are up to date now, commit them"
    return
  fi
  pass "generated files are up to date"
}

check_headers() {
  local file lines bad=0
  lines=$(wc -l <hack/boilerplate.go.txt)
  while IFS= read -r file; do
    diff -q hack/boilerplate.go.txt <(sed '/^\/\/go:build/,/^$/d' "$file" | head -n "$lines") >/dev/null || {
      say "$file has no licence header"
      bad=1
    }
  done < <(own_go_files | grep '/zz_generated')
  ((bad == 0)) && pass "generated code has its licence header" || fail "licence headers"
}

check_format() {
  local unformatted
  unformatted=$(own_go_files | xargs gofmt -l)
  [[ -z $unformatted ]] && pass "gofmt" || fail "gofmt would change: $unformatted"
}

check_scripts() {
  local script bad=0
  while IFS= read -r script; do bash -n "$script" || bad=1; done < <(
    find hack guest .ci -name node_modules -prune -o \( -name '*.sh' -o -path '.ci/run' \) -print
  )
  ((bad == 0)) && pass "scripts parse" || fail "scripts"
}

# A lock file with addresses would tie every user to the registry of whoever
# wrote it.
check_lockfiles() {
  local found
  found=$(find . \( -name node_modules -o -path ./.git \) -prune -o -name package-lock.json -print | xargs -r grep -l '"resolved"' || true)
  [[ -z $found ]] && pass "lock files name no registry" || fail "lock files name a registry: $found"
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
check_generated "$scratch"
check_headers
check_format
check_scripts
check_lockfiles
if with_progress "go vet" go vet -tags=flux ./...; then pass "go vet"; else fail "go vet"; fi

((failures == 0)) || { say "$failures checks failed"; exit 1; }
say "verify: all checks passed"
