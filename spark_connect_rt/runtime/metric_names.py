"""Every metric this worker counts, declared once: Kafka's own names where Kafka has them.

Owns names, units and meaning, and the form a measured value has. The runtime counts, and REST decides how to show the
values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: ``group`` and ``name`` as in JMX ``kafka.connect:type=<group>``; ``tags`` distinguish instances."""

    group: str
    name: str
    doc: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MetricValue:
    """One value of one metric; ``tags`` has the metric's. A state or a name is a separate tag, with the value 1."""

    metric: Metric
    value: float
    tags: Mapping[str, str] = field(default_factory=dict)


_TASK = ("connector", "task")
_OF_TASK = (
    ("connector-task-metrics", "status", "State of the task, in lower case, as a tag."),
    ("connector-task-metrics", "running-ratio", "Ratio of time that the task was RUNNING here."),
    ("connector-task-metrics", "pause-ratio", "Ratio of time that the task was PAUSED here."),
    ("connector-task-metrics", "batch-size-avg", "Records of a poll or a put: average over the window."),
    ("connector-task-metrics", "batch-size-max", "Records of a poll or a put: maximum in the window."),
    ("connector-task-metrics", "offset-commit-avg-time-ms", "Time of an offset commit: average over the window."),
    ("connector-task-metrics", "offset-commit-max-time-ms", "Time of an offset commit: maximum in the window."),
    ("connector-task-metrics", "offset-commit-success-percentage", "Ratio of successful offset commits, 0 to 1."),
    ("connector-task-metrics", "offset-commit-failure-percentage", "Ratio of failed offset commits, 0 to 1."),
    ("connector-task-metrics", "durable-bytes-total", "Bytes of durable records (only here)."),
    ("connector-task-metrics", "stalled", "1: RUNNING, but the task moves nothing although there is work (only here)."),
    ("source-task-metrics", "source-record-poll-total", "Records that the task returned."),
    ("source-task-metrics", "source-record-poll-rate", "Records per second that the task returned, over the window."),
    ("source-task-metrics", "source-record-write-total", "Records written to Kafka and acknowledged."),
    ("source-task-metrics", "source-record-write-rate", "Records per second written, over the last five seconds."),
    ("source-task-metrics", "source-record-active-count", "Records polled and not yet acknowledged."),
    ("source-task-metrics", "transaction-size-avg", "Records of a committed transaction: average over the window."),
    ("source-task-metrics", "transaction-size-min", "Records of a committed transaction: minimum in the window."),
    ("source-task-metrics", "transaction-size-max", "Records of a committed transaction: maximum in the window."),
    ("source-task-metrics", "poll-batch-avg-time-ms", "Time of a poll, including empty ones: average over the window."),
    ("source-task-metrics", "poll-batch-max-time-ms", "Time of a poll: maximum in the window."),
    ("sink-task-metrics", "sink-record-read-total", "Records read from Kafka."),
    ("sink-task-metrics", "sink-record-read-rate", "Records per second read from Kafka, over the window."),
    ("sink-task-metrics", "sink-record-send-total", "Records put."),
    ("sink-task-metrics", "sink-record-send-rate", "Records per second put, over the window."),
    ("sink-task-metrics", "sink-record-active-count", "Records read that the task has not taken yet."),
    (
        "sink-task-metrics",
        "sink-record-lag",
        "Records between the committed offsets and the ends of the logs (only here).",
    ),
    ("sink-task-metrics", "partition-count", "Partitions assigned to the task."),
    ("sink-task-metrics", "put-batch-avg-time-ms", "Time of a put, including empty ones: average over the window."),
    ("sink-task-metrics", "put-batch-max-time-ms", "Time of a put: maximum in the window."),
    ("sink-task-metrics", "offset-commit-seq-no", "Number of the last offset commit, successful or not."),
    ("sink-task-metrics", "offset-commit-completion-total", "Successful offset commits."),
    ("sink-task-metrics", "offset-commit-completion-rate", "Successful offset commits per second, over the window."),
    ("task-error-metrics", "total-record-failures", "Failed attempts at a record."),
    (
        "task-error-metrics",
        "total-record-errors",
        "Records that failed permanently, including the one that failed the task.",
    ),
    ("task-error-metrics", "total-records-skipped", "Errant records tolerated."),
    ("task-error-metrics", "total-retries", "Retries of a record."),
    ("task-error-metrics", "total-errors-logged", "Errant records that were logged because of `errors.log.enable`."),
    ("task-error-metrics", "deadletterqueue-produce-requests", "Records sent to the dead letter queue."),
    (
        "task-error-metrics",
        "deadletterqueue-produce-failures",
        "Records that the dead letter queue rejected. Each one fails its task.",
    ),
)
_OF_JAVA_HOST = tuple(
    (
        "java-host-metrics",
        name,
        f"{doc}, of the JVM that runs the task. Tasks that share a JVM show the same value (only here).",
    )
    for name, doc in (
        ("heap-bytes", "Heap in use"),
        ("heap-max-bytes", "Largest heap: `connectrt.java.heap`"),
        ("non-heap-bytes", "Classes and compiled code"),
        ("direct-bytes", "Buffers outside the heap"),
        ("resident-bytes", "Total memory of the process on the machine; Linux only"),
        ("threads", "Threads"),
        ("gc-time-ms", "Time spent in garbage collection"),
    )
)
_MIRROR, _OF_MIRROR_TASK = "mirror-MirrorSourceConnector", (*_TASK, "source", "target", "topic", "partition")
_OF_MIRROR = (
    (_MIRROR, "record-count", "Records copied and acknowledged."),
    (_MIRROR, "record-rate", "Records per second copied, over the window."),
    (_MIRROR, "byte-count", "Bytes of values read."),
    (_MIRROR, "byte-rate", "Bytes per second of values read, over the window."),
    *(
        (_MIRROR, f"{name}{suffix}", f"{doc}, {over}.")
        for name, doc in (
            ("record-age-ms", "Age of records when they were read"),
            ("replication-latency-ms", "Age of records when they were acknowledged"),
        )
        for suffix, over in (
            ("", "recently"),
            ("-avg", "the average of batches' first and last ones over the window"),
            ("-min", "the least in the window"),
            ("-max", "the most in the window"),
        )
    ),
)
_OF_CONNECTOR = (
    ("connector-metrics", "status", "State of the connector, in lower case, as a tag."),
    ("connector-metrics", "connector-type", "source or sink, as a tag."),
    ("connector-metrics", "connector-class", "Class of the connector, as a tag."),
    ("connector-metrics", "connector-version", "Version of the connector, as a tag."),
    ("connect-worker-metrics", "connector-total-task-count", "Tasks of a connector of this worker."),
    *(
        ("connect-worker-metrics", f"connector-{state}-task-count", f"Number of them that are {state}.")
        for state in ("running", "paused", "failed", "unassigned", "restarting")
    ),
)
_OF_WORKER = (
    ("connect-worker-metrics", "connector-count", "Connectors that run here."),
    ("connect-worker-metrics", "task-count", "Tasks that run here."),
    *(
        (
            "connect-worker-metrics",
            f"{kind}-startup-{what}",
            f"Starts of {kind}s on this worker: {what.replace('-', ' ')}.",
        )
        for kind in ("connector", "task")
        for what in (
            "attempts-total",
            "success-total",
            "success-percentage",
            "failure-total",
            "failure-percentage",
        )
    ),
    ("connect-worker-rebalance-metrics", "leader-name", "URL of the leader, as a tag."),
    ("connect-worker-rebalance-metrics", "connect-protocol", "EAGER, COMPATIBLE or SESSIONED, as a tag."),
    ("connect-worker-rebalance-metrics", "epoch", "Generation of the group."),
    ("connect-worker-rebalance-metrics", "completed-rebalances-total", "Rebalances that this worker has completed."),
    ("connect-worker-rebalance-metrics", "rebalancing", "1: this worker waits for a rebalance to complete."),
    (
        "connect-worker-rebalance-metrics",
        "rebalance-avg-time-ms",
        "Time of a rebalance, as seen by this worker: average.",
    ),
    (
        "connect-worker-rebalance-metrics",
        "rebalance-max-time-ms",
        "Time of a rebalance, as seen by this worker: maximum.",
    ),
    ("connect-worker-rebalance-metrics", "time-since-last-rebalance-ms", "Time since the last rebalance completed."),
    ("connect-coordinator-metrics", "assigned-connectors", "Connectors assigned to this worker."),
    ("connect-coordinator-metrics", "assigned-tasks", "Tasks assigned to this worker."),
)
METRICS: Mapping[tuple[str, str], Metric] = {
    (group, name): Metric(group, name, doc, tags)
    for declared, tags in (
        (_OF_TASK, _TASK),
        (_OF_JAVA_HOST, _TASK),
        (_OF_MIRROR, _OF_MIRROR_TASK),
        (_OF_CONNECTOR, ("connector",)),
        (_OF_WORKER, ()),
    )
    for group, name, doc in declared
}


def measured(group: str, name: str, value: float, **tags: str) -> MetricValue:
    """Return a value of a declared metric. Raises KeyError for an undeclared one."""
    return MetricValue(METRICS[group, name], value, tags)
