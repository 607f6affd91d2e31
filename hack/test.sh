#!/usr/bin/env bash
# test.sh ARGUMENT... runs go test with the race detector and sums up. The whole
# output is in out/test.log too, or in the folder OUT.
#
# A few tests wait for real processes on a machine that may be busy. If no more
# than MAX_AGAIN tests have failed, without a data race or a panic, they alone are
# run once more, of a suite the failed specs only, and those that pass then are
# named as unstable at the end: the run counts as passed, and each of them is a
# defect to be found, in the test or in what it tests.
set -uo pipefail
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT" || exit 2

MAX_AGAIN=3
OUT=${OUT:-out}
mkdir -p "$OUT"
log=$OUT/test.log
began=$SECONDS
# The race detector needs a C compiler, which is the one thing that a machine with
# Go may lack: then the tests run all the same, and it is said.
race=(-race)
if ! command -v "$(go env CC)" >/dev/null; then
  say "no C compiler: testing without the race detector"
  race=()
fi
# Per package the time limit is far above
# what any needs, so that a hang shows its goroutines instead of eating the hour.
run_tests() { go test "${race[@]}" -timeout 30m "$@" 2>&1 | tee "$log"; }

# failed_tests prints a line for each package that failed: its name and its failed
# tests, none if it failed in another way.
failed_tests() {
  awk '/^--- FAIL: / { tests = tests " " $3 }
    /^(ok|\?) / { tests = "" }
    /^FAIL[[:space:]]+[^[:space:]]/ { print $2 tests; tests = "" }' "$1"
}

# failed_specs prints a line for each spec that a package's suite sums up as failed,
# none if the suite as a whole did. The kind of node that failed stands in brackets
# somewhere in a spec's text.
failed_specs() {
  sed 's/\x1b\[[0-9;]*m//g' "$1" | awk -v package="$2" '
    /^  \[FAIL\] \[[A-Za-z]*Suite\]/ { whole = 1 }
    sub(/^  \[(FAIL|TIMEDOUT|INTERRUPTED)\] /, "") {
      sub(/\[(It|(Before|After|JustBefore|JustAfter)Each|(Before|After)All|DeferCleanup \((Each|All)\))\] /, "")
      specs = specs $0 "\n" }
    /^(ok|\?) / { specs = ""; whole = 0 }
    /^FAIL[[:space:]]+[^[:space:]]/ { if ($2 == package && !whole) printf "%s", specs; specs = ""; whole = 0 }' | sort -u
}

# again runs the failed tests of one package once more, with the flags of this run.
again() {
  local package=$1 pattern specs focus=()
  shift
  pattern="^($(IFS='|'; echo "$*"))\$"
  mapfile -t specs < <(failed_specs "$log" "$package")
  for spec in "${specs[@]}"; do focus+=(-ginkgo.fail-on-empty "-ginkgo.focus=\\Q$spec\\E"); done
  ((${#specs[@]} <= MAX_AGAIN)) || return 1
  say "once more, alone: $package $*"
  ((${#specs[@]} == 0)) || printf '    %s\n' "${specs[@]}"
  go test "${race[@]}" -timeout 30m -count=1 "${flags[@]}" -run "$pattern" "$package" "${focus[@]}" 2>&1 | tee -a "$OUT/test-again.log"
}

PROGRESS_SECONDS=60 with_progress "testing" run_tests "$@"
status=$?

passed=$(grep -c '^ok ' "$log")
mapfile -t failed < <(failed_tests "$log")
unstable=()
flags=()
for argument in "$@"; do [[ $argument == -* ]] && flags+=("$argument"); done
count=$(grep -c '^--- FAIL: ' "$log")
if ((status != 0 && count > 0 && count <= MAX_AGAIN)) && ! grep -qE '^(WARNING: DATA RACE|panic: )' "$log"; then
  : >"$OUT/test-again.log"
  status=0
  for line in "${failed[@]}"; do
    read -ra words <<<"$line"
    if ((${#words[@]} > 1)) && PROGRESS_SECONDS=60 with_progress "testing again" again "${words[@]}"; then
      unstable+=("$line")
    else
      status=1
    fi
  done
fi

printf '\n%s packages passed in %s s\n' "$((passed + ${#unstable[@]}))" "$((SECONDS - began))"
if ((status != 0)) && ((${#failed[@]})); then
  printf 'FAILED:\n'
  printf '  %s\n' "${failed[@]}"
fi
if ((${#unstable[@]})); then
  printf 'UNSTABLE, passed when run once more:\n'
  printf '  %s\n' "${unstable[@]}"
fi
if ((status == 0 && passed + ${#unstable[@]} == 0)); then
  say "no test ran"
  exit 1
fi
exit "$status"
