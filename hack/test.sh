#!/usr/bin/env bash
# test.sh ARGUMENT... runs go test with the race detector and sums up. The whole
# output is in out/test.log too.
set -uo pipefail
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT" || exit 2

mkdir -p out
log=out/test.log
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
PROGRESS_SECONDS=60 with_progress "testing" run_tests "$@"
status=$?

passed=$(grep -c '^ok ' "$log")
failed=$(grep -E '^FAIL[[:space:]]+[^[:space:]]' "$log" | awk '{print $2}')
printf '\n%s packages passed in %s s\n' "$passed" "$((SECONDS - began))"
if [[ -n $failed ]]; then
  printf 'FAILED:\n'
  printf '  %s\n' $failed
fi
if ((status == 0 && passed == 0)); then
  say "no test ran"
  exit 1
fi
exit "$status"
