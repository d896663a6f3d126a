#!/usr/bin/env bash
# Benchmarks beside Java Connect: ./bench.sh source|eos|sink|idle|latency|memory|start|offsets|assign|groups|rest|failover|sql|convert|tasks|trickle|format|mirror|console|create|scale|java ... [--short]
# Prints a table, writes bench/results/NAME.json, ends with: NAME ratio=... limit=... target=... met=yes|no
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
python=$(./spark-submit.sh --environment dev)
exec "$python" -m bench "$@"
