#!/usr/bin/env bash
# build.sh NAME... puts the named development tools into bin/tools:
# controller-gen, crd-ref-docs, ginkgo (pinned by hack/tools/go.mod) and
# golangci-lint (pinned by hack/lint/go.mod, a module of its own because its many
# dependencies would drag the versions of the others along).
#
# They are built from Go modules and kept in the user's cache by content.
set -euo pipefail
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

# package_of NAME prints the module folder and the package of a tool.
package_of() {
  case $1 in
    controller-gen) echo hack/tools sigs.k8s.io/controller-tools/cmd/controller-gen ;;
    crd-ref-docs) echo hack/tools github.com/elastic/crd-ref-docs ;;
    ginkgo) echo hack/tools github.com/onsi/ginkgo/v2/ginkgo ;;
    golangci-lint) echo hack/lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint ;;
    *)
      say "$1: no such tool"
      return 2
      ;;
  esac
}

# provide NAME builds a tool unless the cache has it, and links it.
provide() {
  local name=$1 module package key cached staged
  read -r module package < <(package_of "$name") || return 2
  key=$(content_key "$ROOT/$module")
  cached=$CACHE/tools/$key/$name
  if [[ ! -x $cached ]]; then
    mkdir -p "$(dirname "$cached")"
    (cd "$ROOT/$module" && GOWORK=off with_progress "building $name" \
      go build -trimpath -ldflags '-s -w' -o "$cached.$$" "$package")
    mv -f "$cached.$$" "$cached"
  fi
  staged=$ROOT/bin/tools/.$name.$$
  ln -sfn "$cached" "$staged"
  mv -fT "$staged" "$ROOT/bin/tools/$name"
}

mkdir -p "$ROOT/bin/tools"
for tool in "$@"; do provide "$tool"; done
