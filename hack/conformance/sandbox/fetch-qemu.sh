#!/usr/bin/env bash
# fetch-qemu.sh prints the folder below which QEMU, a kernel for its machines and
# mkfs.erofs lie: / where Debian's packages are installed, else one in the cache
# into which they are unpacked, without a change to the system. Once they are there
# it needs no network.
set -euo pipefail
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../lib.sh"

# complete ROOT says whether all three are below a folder.
complete() {
  [[ -x $1/usr/bin/qemu-system-x86_64 && -x $1/usr/bin/mkfs.erofs ]] && compgen -G "$1/boot/vmlinuz-*-cloud-amd64" >/dev/null
}

# missing PACKAGE... prints those of the packages, and of all that they need, that
# are not installed.
missing() {
  LC_ALL=C apt-get install --simulate --no-install-recommends "$@" | awk '$1 == "Inst" && $3 !~ /^\[/ {print $2}'
}

# kernel prints the package that the newest cloud kernel is in.
kernel() {
  apt-cache depends --no-recommends --no-suggests linux-image-cloud-amd64 | awk '$1 == "Depends:" {print $2; exit}'
}

# fetch ROOT downloads and unpacks the packages. It runs where bash ignores errors
# unless they are looked at.
fetch() {
  local root=$1 needed package
  local -a packages
  rm -rf "$root"
  mkdir -p "$root/packages" || return
  needed="$(missing qemu-system-x86 erofs-utils) $(kernel)" || return
  read -r -d '' -a packages <<<"$needed"
  say "  downloading ${#packages[@]} packages of Debian"
  (cd "$root/packages" && apt-get download -q -q -o APT::Sandbox::User=root "${packages[@]}") || return
  for package in "$root/packages"/*.deb; do
    dpkg-deb --extract "$package" "$root" || return
  done
  rm -r "$root/packages"
  complete "$root"
}

if complete /; then
  echo /
  exit
fi
if ! command -v apt-get dpkg-deb >/dev/null; then
  say "virtual machines need QEMU (qemu-system-x86), a cloud kernel (linux-image-cloud-amd64) and mkfs.erofs (erofs-utils)"
  exit 1
fi
# shellcheck source=/dev/null
release=$(. /etc/os-release && echo "$ID-${VERSION_ID:-0}")
root=$CACHE/qemu/$release-$(sha256sum "${BASH_SOURCE[0]}" | cut -c1-12)
if ! complete "$root"; then
  mkdir -p "$CACHE/qemu"
  staged=$root.$$
  trap 'rm -rf "$staged"' EXIT
  # A list that is missing or old names packages that are not there (any more).
  if ! with_progress "fetching QEMU and a kernel" fetch "$staged" >&2; then
    with_progress "asking for the list of packages" apt-get update -q -q >&2
    with_progress "fetching QEMU and a kernel" fetch "$staged" >&2
  fi
  rm -rf "$root"
  mv -T "$staged" "$root"
fi
echo "$root"
