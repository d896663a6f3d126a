#!/usr/bin/env bash
# Benchmarks beside Java Connect: ./bench.sh NAME... [--short]; ./bench.sh --help lists them.
# Prints a table, writes bench/results/NAME.json, ends with: NAME ratio=... limit=... target=... met=yes|no
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
python=$(./spark-submit.sh --environment dev)
exec "$python" -m bench "$@"
