#!/usr/bin/env bash
# Puts etcd, kube-apiserver, kube-controller-manager and kubectl into bin/k8s.
#
# They are one binary, built from Go modules: about 5 minutes the first time on
# two cores, nothing after that, because it is kept in the user's cache by the
# content of this folder. Once it is there no network is needed. Where
# KUBEBUILDER_ASSETS names a folder that has all four, that one is linked instead.
set -euo pipefail
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

MODULE=$ROOT/hack/controlplane
ASSETS=$ROOT/bin/k8s
PROGRAMS=(etcd kube-apiserver kube-controller-manager kubectl)

# link FILE NAME replaces bin/k8s/NAME at once, so that a test that is just
# starting it never finds it missing.
link() {
  local staged
  staged=$ASSETS/.$2.$$
  ln -sfn "$1" "$staged"
  mv -fT "$staged" "$ASSETS/$2"
}

# use_given links what KUBEBUILDER_ASSETS has, if it has everything.
use_given() {
  [[ -n ${KUBEBUILDER_ASSETS:-} ]] || return 1
  local given program
  given=$(cd "$KUBEBUILDER_ASSETS" 2>/dev/null && pwd) || {
    say "KUBEBUILDER_ASSETS is not a folder; building the control plane instead"
    return 1
  }
  [[ $given != "$ASSETS" ]] || return 1
  for program in "${PROGRAMS[@]}"; do
    [[ -x $given/$program ]] || {
      say "KUBEBUILDER_ASSETS has no $program; building the control plane instead"
      return 1
    }
  done
  for program in "${PROGRAMS[@]}"; do link "$given/$program" "$program"; done
}

# Without these the servers call themselves v0.0.0-master, which kubectl, helm and
# others cannot parse.
linker_flags() {
  local version package flags="-s -w"
  version=$(cd "$MODULE" && go list -m -f '{{.Version}}' k8s.io/kubernetes)
  IFS=. read -r major minor _ <<<"${version#v}"
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags+=" -X $package.gitMajor=$major -X $package.gitMinor=$minor -X $package.gitVersion=$version"
  done
  printf '%s' "$flags"
}

# compile builds beside the target and renames, so that two builds at once, or
# one that is interrupted, never leave half a binary in the cache.
compile() {
  local target=$1 flags=$2 staged=$1.$$
  # shellcheck disable=SC2064 # the name is wanted as it is now
  trap "rm -f '$staged'" EXIT
  (cd "$MODULE" && CGO_ENABLED=0 GOWORK=off \
    go build -trimpath -ldflags "$flags" -o "$staged" ./cmd/devcluster) &&
    mv -f "$staged" "$target"
}

mkdir -p "$ASSETS"
use_given && exit 0

key=$(content_key "$MODULE")
cached=$CACHE/controlplane/$key/devcluster
if [[ ! -x $cached ]]; then
  say "Building the control plane (etcd, kube-apiserver, kube-controller-manager, kubectl); about 5 minutes, once"
  mkdir -p "$(dirname "$cached")"
  flags=$(linker_flags)
  with_progress "building the control plane" compile "$cached" "$flags"
fi
for program in "${PROGRAMS[@]}"; do link "$cached" "$program"; done
