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

step() { printf '\n== %s (%ss)\n' "$1" "$SECONDS"; shift; "$@"; }
step format "$bin/ruff" format --check .
step lint "$bin/ruff" check .
step types "$python" -m mypy
step "import layers" "$bin/lint-imports"
step unit "$python" -m pytest -q tests/unit tests/property tests/scenarios
step integration "$python" -m pytest -q tests/integration
step parity "$python" -m pytest -q tests/parity
step "end to end" "$python" -m pytest -q tests/e2e
printf '\nall checks and tests passed in %ss\n' "$SECONDS"
