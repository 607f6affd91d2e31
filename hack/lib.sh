# Functions that the build scripts share. Sourced, not run; needs bash and the
# coreutils.

# The repository's root, whatever the caller's directory.
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Where builds are kept between clones. Everything below is keyed by content, so
# it may be deleted at any time and shared by any number of clones.
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/sandbox-operator

# say prints one line of progress to stderr, so that stdout stays for results.
say() { printf '%s\n' "$*" >&2; }

# with_progress WHAT COMMAND... runs the command and says every 15 s, or every
# PROGRESS_SECONDS, that it is still at it. A quick command prints nothing but its
# own output.
with_progress() {
  local what=$1 began=$SECONDS ticker status=0
  shift
  (
    # The sleep is the ticker's own child: it ends with the ticker.
    trap 'kill "$nap" 2>/dev/null; exit 0' TERM
    while :; do
      sleep "${PROGRESS_SECONDS:-15}" &
      nap=$!
      wait "$nap"
      say "  … $what ($((SECONDS - began)) s)"
    done
  ) &
  ticker=$!
  "$@" || status=$?
  kill "$ticker" 2>/dev/null || true
  wait "$ticker" 2>/dev/null || true
  if ((status != 0)); then
    say "  ✗ $what failed after $((SECONDS - began)) s"
  elif ((SECONDS - began >= 5)); then
    say "  ✓ $what ($((SECONDS - began)) s)"
  fi
  return "$status"
}

# content_key DIRECTORY prints a key of what a build in the module depends on:
# its module files, its Go sources, the build script and the Go version.
content_key() {
  (
    cd "$1"
    {
      go env GOVERSION GOOS GOARCH
      find . -type f \( -name 'go.mod' -o -name 'go.sum' -o -name '*.go' -o -name 'build.sh' \) -print0 |
        LC_ALL=C sort -z | xargs -0 sha256sum
    } | sha256sum | cut -c1-32
  )
}
