#!/usr/bin/env bash
# Every check and every test, in the environment this repository makes itself, with a real Kafka and a real Spark.
#   ./test.sh                 everything (what CI runs), ends with a table of times, kept in bench/results/tests.json (long,
#                             java: in tests_long.json, tests_java.json)
#   ./test.sh quick           format, lint, types, import layers; tests without processes: minutes
#   ./test.sh long            the long forms: 10,000 schedules of the simulation, real Singer taps and Airbyte sources
#   ./test.sh stress          calls of one object from several threads, plug-in calls that raise, hang or kill: a table
#   ./test.sh java            real connectors in Java, in full: Debezium, JDBC, Iceberg, Kafka's own; about an hour
#   ./test.sh conformance     Apache Kafka's own Connect integration tests against our workers; two hours, writes
#                             docs/reference/conformance.md; a class or CLASS#METHOD behind it runs only that
#   ./test.sh spark 4.0       what another Spark could break, on the newest 4.0 (or 4.1, 4.2), in .venv-spark-4.0
#   ./test.sh spark 4.0 tests/e2e/test_worker.py -k flow   only these tests, there
#   ./test.sh tests/unit -k x only these tests: the arguments go to pytest, the static checks are left out
set -euo pipefail
CONNECTRT_TESTS_BEGAN=$(date +%s)
export CONNECTRT_TESTS_BEGAN # making the environment counts
cd "$(dirname "${BASH_SOURCE[0]}")"
case "${1:-all}" in
  all) python=$(./spark-submit.sh --environment dev without-archive) ;; # a step of the suite makes it
  *) python=$(./spark-submit.sh --environment dev) ;;
esac
export PATH="$(dirname "$python"):$PATH"
case "${1:-all}" in
  all | quick | long | java | stress) exec "$python" -m tests.suite "${1:-all}" ;;
  conformance) exec "$python" -m tests.conformance "${@:2}" ;;
  spark)
    line=${2:?which Spark: 4.0, 4.1 or 4.2}
    if [ $# -gt 2 ]; then exec "$python" -m tests.suite.other_spark "$line" "${@:3}"; fi
    exec "$python" -m tests.suite spark "$line"
    ;;
  *)
    case "$*" in *tests/browser* | *tests/e2e*) "$python" -m tests.browser.chromium ;; esac
    exec "$python" -m pytest "$@"
    ;;
esac
