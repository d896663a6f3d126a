"""Every metric this package counts, declared once: Kafka's own names where Kafka has them (facts section 9).

Owns names, units and meaning; who counts them, and who shows them, is elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: ``group`` and ``name`` as in JMX ``kafka.connect:type=<group>``; ``tags`` tell instances apart."""

    group: str
    name: str
    doc: str
    tags: tuple[str, ...] = ()


_TASK = ("connector", "task")

SOURCE_RECORDS_WRITTEN = Metric(
    "source-task-metrics", "source-record-write-total", "Records written to Kafka and durable.", _TASK
)
SOURCE_RECORD_RATE = Metric(
    "source-task-metrics", "source-record-write-rate", "Records a second, over the last five seconds.", _TASK
)
SINK_RECORDS_PUT = Metric("sink-task-metrics", "sink-record-send-total", "Records delivered and durable.", _TASK)
SINK_RECORD_RATE = Metric(
    "sink-task-metrics", "sink-record-send-rate", "Records a second, over the last five seconds.", _TASK
)
SINK_LAG = Metric("sink-task-metrics", "sink-record-lag", "Records between what is durable and the log ends.", _TASK)
TASK_BYTES = Metric("connector-task-metrics", "durable-bytes-total", "Bytes of durable records (ours).", _TASK)
RECORDS_SKIPPED = Metric("task-error-metrics", "total-records-skipped", "Errant records tolerated.", _TASK)
TASK_STATUS = Metric("connector-task-metrics", "status", "State of the task, in lower case.", _TASK)
CONNECTOR_STATUS = Metric("connector-metrics", "status", "State of the connector, in lower case.", ("connector",))
LEADER_NAME = Metric("connect-worker-rebalance-metrics", "leader-name", "URL of the leader.")
EPOCH = Metric("connect-worker-rebalance-metrics", "epoch", "Generation of the group.")
CONNECT_PROTOCOL = Metric("connect-worker-rebalance-metrics", "connect-protocol", "EAGER, COMPATIBLE or SESSIONED.")

ALL: tuple[Metric, ...] = (
    SOURCE_RECORDS_WRITTEN,
    SOURCE_RECORD_RATE,
    SINK_RECORDS_PUT,
    SINK_RECORD_RATE,
    SINK_LAG,
    TASK_BYTES,
    RECORDS_SKIPPED,
    TASK_STATUS,
    CONNECTOR_STATUS,
    LEADER_NAME,
    EPOCH,
    CONNECT_PROTOCOL,
)
