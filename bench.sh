#!/usr/bin/env bash
# One benchmark of bench/: ./bench.sh source|idle|latency|memory|start [--short]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
python=$(./spark-submit.sh --environment dev)
exec "$python" -m bench "$@"
