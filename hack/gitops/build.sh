#!/usr/bin/env bash
# Puts Flux's source-controller and kustomize-controller into bin/flux, and their
# kinds into bin/flux/crds.
#
# They are built from Go modules, pinned by the go.mod beside this script: some 10
# minutes of processor time the first time, nothing after that, because they are
# kept in the user's cache by the content of this folder. Once they are there no
# network is needed.
set -euo pipefail
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

MODULE=$ROOT/hack/gitops
FLUX=$ROOT/bin/flux
CONTROLLERS=(source-controller kustomize-controller)
KINDS=(source.toolkit.fluxcd.io_gitrepositories source.toolkit.fluxcd.io_ocirepositories
  source.toolkit.fluxcd.io_buckets source.toolkit.fluxcd.io_helmrepositories
  source.toolkit.fluxcd.io_helmcharts source.toolkit.fluxcd.io_externalartifacts
  kustomize.toolkit.fluxcd.io_kustomizations)

# compile FOLDER builds everything beside the folder and renames it, so that two
# builds at once, or one that is interrupted, never leave half of it in the cache.
compile() {
  local target=$1 staged=$1.$$ controller kind
  # shellcheck disable=SC2064 # the name is wanted as it is now
  trap "rm -rf '$staged'" EXIT
  mkdir -p "$staged/crds"
  cd "$MODULE"
  for controller in "${CONTROLLERS[@]}"; do
    CGO_ENABLED=0 GOWORK=off go build -trimpath -ldflags '-s -w' -o "$staged/$controller" "github.com/fluxcd/$controller" || return
    for kind in "${KINDS[@]}"; do
      copy_kind "$controller" "$kind" "$staged/crds"
    done
  done
  # Another build may have been quicker; what it made is the same.
  mv -T "$staged" "$target" 2>/dev/null || [[ -d $target ]]
}

# copy_kind copies a CRD if that controller's module has it. The module cache is
# read-only, the copy is not.
copy_kind() {
  local source
  source=$(GOWORK=off go list -m -f '{{.Dir}}' "github.com/fluxcd/$1")/config/crd/bases/$2.yaml
  [[ ! -f $source ]] || install -m 644 "$source" "$3/"
}

key=$(content_key "$MODULE")
cached=$CACHE/flux/$key
if [[ ! -d $cached ]]; then
  say "Building Flux's source-controller and kustomize-controller; some 10 minutes of processor time, once"
  mkdir -p "$(dirname "$cached")"
  with_progress "building Flux" compile "$cached"
fi
mkdir -p "$ROOT/bin"
ln -sfn "$cached" "$FLUX.$$"
mv -fT "$FLUX.$$" "$FLUX"
