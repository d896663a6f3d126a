#!/usr/bin/env bash
# Every check and every test, in the environment this repository makes itself, with a real Kafka and a real Spark.
#   ./test.sh                 everything (what CI runs)
#   ./test.sh tests/unit -k x only these tests: the arguments go to pytest, the static checks are left out
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
python=$(./spark-submit.sh --environment dev)
bin=$(dirname "$python")
export PATH="$bin:$PATH"
if [ $# -gt 0 ]; then exec "$python" -m pytest "$@"; fi

failed=()
step() { # NAME COMMAND...: says what it runs and when it began; a failure is remembered, and the rest still runs
  local name=$1; shift
  printf '\n== %s (%ss)\n' "$name" "$SECONDS"
  "$@" || failed+=("$name")
}
step format "$bin/ruff" format --check .
step lint "$bin/ruff" check .
step types "$python" -m mypy
step "import layers" "$bin/lint-imports"

# Both only compute: a core each.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$python" -m pytest -q tests/simulation >"$log" 2>&1 &
simulation=$!
simulated() { local status=0; wait "$simulation" || status=$?; cat "$log"; return "$status"; }
step unit "$python" -m pytest -q tests/unit tests/property tests/scenarios
step simulation simulated

# One after another: beside each other on two cores, waits of real processes ran into their limits.
step integration "$python" -m pytest -q --durations=10 tests/integration
step parity "$python" -m pytest -q --durations=10 tests/parity
step "end to end" "$python" -m pytest -q --durations=10 tests/e2e

if [ ${#failed[@]} -gt 0 ]; then printf '\nFAILED after %ss: %s\n' "$SECONDS" "$(IFS=,; echo "${failed[*]}")"; exit 1; fi
printf '\nall checks and tests passed in %ss\n' "$SECONDS"
