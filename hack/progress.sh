#!/usr/bin/env bash
# progress.sh WHAT COMMAND... runs a command that may take long and says every
# 15 s that it is still at it.
set -euo pipefail
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
with_progress "$@"
