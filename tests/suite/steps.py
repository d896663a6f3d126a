"""What is run, in which order and beside what. Values only; ``__main__`` runs them.

Owns: the commands. Two lanes of a stage run beside each other, a core each; a stage begins when the one before ended.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from tests.suite.other_spark import LINES

PURE = ("tests/unit", "tests/property", "tests/scenarios", "tests/parity/golden")
REAL = ("tests/integration", "tests/parity/live", "tests/e2e")
# Stories of several workers, brokers or nodes at once: one after another, for each alone has a dozen processes that
# compute, and beside each other they only keep each other waiting (three at once: load 40, three times as long).
GROUP_STORIES = (
    "tests/e2e/test_spark_cluster.py",
    "tests/e2e/test_yarn.py",
    "tests/integration/kafka/test_mixed_kills.py",
    "tests/integration/kafka/test_mirror_maker.py",
    "tests/integration/kafka/test_mixed_exactly_once.py",
    "tests/integration/kafka/test_tables_in_a_worker.py",
    "tests/e2e/test_quickstart.py",
    "tests/e2e/test_quickstart_cdc.py",
    "tests/integration/kafka/test_mixed_group.py",
    "tests/parity/live/test_handover.py",
    # No stories of groups: they are here so that both lanes of their stage end at about the same time.
    "tests/e2e/test_spark_submit.py",
    "tests/integration/kafka/test_coordinator_moves.py",
    "tests/integration/programs/test_tap_postgres.py",
    "tests/system",
    "tests/integration/kafka/test_mirror.py",
    "tests/integration/kafka/test_lost_brokers.py",
)
# Beside one lane that computes in one process. Three such lanes on two cores kept a broker from its controller for nine
# seconds: fenced while it lived, and no partition had a leader.
SEVERAL_WORKERS = ("tests/e2e/test_several_workers.py",)
# Its limits are seconds: a machine that does other things keeps the whole process from the processor for longer.
BY_ITSELF = "tests/integration/rest/test_health_under_load.py"
DEBEZIUM, BENCHMARKS = "tests/java_proofs/test_debezium.py", "tests/integration/test_bench_smoke.py"
WORKERS = 2  # beside the stories of groups: real processes wait as much as they compute
SCHEDULES = "CONNECTRT_SCHEDULES"  # how many schedules tests/simulation runs; see tests/simulation/test_schedules.py
LONG_SCHEDULES = "10000"
BENCHES = "CONNECTRT_BENCHES"  # which benchmarks tests/integration/test_bench_smoke.py tries: one, or all
RESTARTS = "CONNECTRT_BROKER_RESTARTS"  # at most, until tests/integration/kafka/test_lost_brokers.py sees a loss
TABLE_TASKS = "CONNECTRT_TABLE_TASKS_SECONDS"  # virtual time of moving partitions in tests/property
SYSTEM_TESTS = "CONNECTRT_SYSTEM_TESTS"  # "whole": tests/system on three workers on Spark, else two on threads
STRESS_SECONDS = "CONNECTRT_STRESS_SECONDS"  # of each table of tests/stress
JAVA_SIZES = "CONNECTRT_JAVA_PROOFS"  # the sizes of tests/java_proofs; see tests/support/java_beside_ours.py
# Compiled by the first compiler only a JVM costs half the CPU until it answers: brokers 7.1 -> 4.0 s, Java's worker
# 13 -> 6, ours 14.5 -> 11.9. No test measures speed.
JVM = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


@dataclass(frozen=True)
class Step:
    """One command. ``tests``: it is pytest and reports each test; ``tries_again``: see ``verdict.to_try_again``."""

    name: str
    command: tuple[str, ...]
    tests: bool = False
    tries_again: bool = False


Lane = tuple[Step, ...]
Stage = tuple[Lane, ...]


def _pytest(name: str, *arguments: str, tries_again: bool = False, python: str = sys.executable) -> Step:
    return Step(name, (python, "-m", "pytest", "-q", *arguments), tests=True, tries_again=tries_again)


def _python(name: str, module: str, *arguments: str) -> Step:
    return Step(name, (sys.executable, "-m", module, *arguments))


STATIC: Lane = (
    _python("format", "ruff", "format", "--check", "."),
    _python("lint", "ruff", "check", "."),
    _python("types", "mypy"),
    Step("import layers", ("lint-imports",)),
    _python("prose", "tools.prose"),
    _python("site of the docs", "mkdocs", "build", "--strict", "--quiet"),
)
# The rest of the environment: half a minute of Spark where there is none yet. Users have it made without the variables
# of the tests.
ARCHIVE: Lane = (
    Step("class archive", ("env", "-u", "JAVA_TOOL_OPTIONS", "./spark-submit.sh", "--environment", "dev")),
)
SIMULATION: Lane = (_pytest("simulation", "tests/simulation"),)
QUIET: Lane = (_pytest("nothing else runs", BY_ITSELF, tries_again=True),)
GROUPS: Lane = (_pytest("worker groups", *GROUP_STORIES, tries_again=True),)
SEVERAL: Lane = (_pytest("several workers", *SEVERAL_WORKERS, tries_again=True),)
JVMS: Lane = (_pytest("many JVMs", DEBEZIUM, tries_again=True),)
STRESS: Lane = (
    _pytest("several threads", "tests/integration/kafka/test_client_stress.py"),
    _pytest("plug-in calls", "tests/unit/runtime/test_wicked_plugins.py"),
    _pytest("plug-in calls that kill", "tests/integration/spark/test_killing_plugins.py"),
)
JAVA_PROOFS: Lane = (_pytest("java connectors", "tests/java_proofs"),)
ELSEWHERE = (*GROUP_STORIES, *SEVERAL_WORKERS, DEBEZIUM, BENCHMARKS, BY_ITSELF)
BESIDE = ("-p", "tests.suite.longest_first", "-n", str(WORKERS), "--dist", "loadfile", "--no-loadscope-reorder")
UNIT: Lane = (_pytest("unit", *BESIDE, *PURE),)
# Short in "all"; here with more examples.
PROPERTIES: Lane = (_pytest("properties", *BESIDE, "tests/property", "tests/integration/sql/test_sql_one_result.py"),)
BENCH_SMOKE: Lane = (_pytest("benchmarks", BENCHMARKS, tries_again=True),)
REAL_PROCESSES: Lane = (
    _pytest("real processes", *BESIDE, *(f"--ignore={story}" for story in ELSEWHERE), *REAL, tries_again=True),
)
LOST_BROKERS: Lane = (_pytest("lost brokers", "tests/integration/kafka/test_lost_brokers.py"),)
SYSTEM: Lane = (_pytest("system tests", "tests/system"),)
# Singer taps and Airbyte sources from packages of hundreds of MB, each killed in mid-flow.
REAL_PROGRAMS: Lane = (_pytest("real programs", "tests/programs", tries_again=True),)
# The wheel under plain spark-submit, standalone and as a format, and the README's command after a kill -9. "all" has a
# distributed worker in test_spark_submit, and a worker after a kill -9 in test_worker.
SHIPPED: Lane = (_pytest("a shipped wheel", "tests/shipped"),)
# Tables of the sinks, read by Spark 4.1 (in an environment with that) and other engines, and 10,000 partitions.
LAKEHOUSE_PROOFS: Lane = (_pytest("lakehouse", "tests/lakehouse_proofs"),)
# The console in a real Chromium, on two workers. The first step gets one where there is none and root may.
BROWSER: Lane = (
    _python("a Chromium", "tests.browser.chromium"),
    _pytest("browser", "tests/browser", tries_again=True),
)
# What another Spark could break: a worker's stories and a cluster's, the format, the engine, Spark's sinks and sources.
SPARK_GROUPS = ("tests/e2e/test_spark_cluster.py",)
SPARK_STORIES = (
    "tests/e2e/test_worker.py",
    *(f"tests/integration/spark/test_{name}.py" for name in ("format", "format_stream", "spark_task_runner")),
    *(f"tests/integration/spark/test_{name}.py" for name in ("spark_sink", "spark_source")),
)
# Short, on the oldest Spark: a worker with a source and a sink, lines counted; a read and two writes of the format.
OLDEST_SPARK: Lane = (
    Step(
        f"spark {LINES[0]}",
        (
            *(sys.executable, "-m", "tests.suite.other_spark", LINES[0], "-q"),
            "tests/e2e/test_worker.py::test_lines_flow_through_kafka_into_a_file_and_the_connectors_obey",
            "tests/integration/spark/test_format_stream.py::test_rows_are_written_into_a_sink_connector",
        ),
        tests=True,
    ),
)


@dataclass(frozen=True)
class Run:
    """All stages of one kind of run, and what its processes find in their environment besides."""

    stages: tuple[Stage, ...]
    environment: Mapping[str, str]


RUNS: dict[str, Run] = {
    "all": Run(
        (
            (ARCHIVE, STATIC),
            (QUIET,),
            ((*OLDEST_SPARK, *BROWSER, *SIMULATION), (*SEVERAL, *JVMS, *BENCH_SMOKE)),
            (UNIT,),
            (GROUPS, REAL_PROCESSES),
        ),
        JVM,
    ),
    "quick": Run(((STATIC, UNIT),), JVM),
    "long": Run(
        (
            (
                (
                    *SIMULATION,
                    *PROPERTIES,
                    *SYSTEM,
                    *LOST_BROKERS,
                    *REAL_PROGRAMS,
                    *BENCH_SMOKE,
                    *LAKEHOUSE_PROOFS,
                    *SHIPPED,
                ),
            ),
        ),
        {**JVM, SCHEDULES: LONG_SCHEDULES, BENCHES: "all", SYSTEM_TESTS: "whole", RESTARTS: "12", TABLE_TASKS: "120"},
    ),
    "stress": Run(((STRESS,),), {STRESS_SECONDS: "60"}),
    "java": Run(((JAVA_PROOFS,),), {**JVM, JAVA_SIZES: "whole"}),
}


def on_spark(python: str, variables: Mapping[str, str]) -> Run:
    """Return the run of all that another Spark could break, by the interpreter and variables of its environment."""
    groups = _pytest("worker groups", *SPARK_GROUPS, tries_again=True, python=python)
    others = _pytest("on Spark", *BESIDE, *SPARK_STORIES, tries_again=True, python=python)
    return Run((((groups,), (others,)),), {**JVM, **variables})


def again(nodeids: tuple[str, ...], python: str = sys.executable) -> Step:
    """Return the step that runs these tests once more, alone, one after another."""
    return _pytest("one more try", *nodeids, python=python)
