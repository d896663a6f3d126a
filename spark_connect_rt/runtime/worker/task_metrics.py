"""From what is known of one run to Connect's metrics of its task (Java ``WorkerTask.TaskMetricsGroup`` and its kin).

Owns which count is which metric. Only counted metrics are reported: a task that never polled has no poll time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.task_runner import TaskKind
from spark_connect_rt.runtime.metric_names import MetricValue, measured
from spark_connect_rt.runtime.worker.plugin_metrics import plugin_metrics
from spark_connect_rt.runtime.worker.task_measures import TaskMeasures

# Records that one task moved: totals, and the rate of the last five seconds. Owns no decision.


RATE_WINDOW_MS = 5_000


class TaskCounters:
    """Totals and a sliding rate. Not thread-safe: the task's lock guards it."""

    def __init__(self, now_ms: int) -> None:
        self.records = 0
        self.data_bytes = 0
        self.skipped = 0
        self._since_ms = now_ms
        self._marks: deque[tuple[int, int]] = deque()  # (when, records of that batch)
        self._in_window = 0

    def add(self, now_ms: int, records: int, data_bytes: int, skipped: int) -> None:
        """Count one durable batch: its records, bytes and skipped records."""
        self.records += records
        self.data_bytes += data_bytes
        self.skipped += skipped
        self._marks.append((now_ms, records))
        self._in_window += records
        self._forget_before(now_ms - RATE_WINDOW_MS)

    def records_per_s(self, now_ms: int) -> float:
        """Return the rate over the last five seconds, or since the start if that is shorter."""
        self._forget_before(now_ms - RATE_WINDOW_MS)
        window_ms = max(1_000, min(RATE_WINDOW_MS, now_ms - self._since_ms))
        return round(self._in_window * 1_000 / window_ms, 1)

    def shown(self, now_ms: int) -> dict[str, Any]:
        """Return what a task's progress shows of them."""
        counted = {"records": self.records, "data_bytes": self.data_bytes, "skipped": self.skipped}
        return {**counted, "records_per_s": self.records_per_s(now_ms)}

    def _forget_before(self, limit_ms: int) -> None:
        while self._marks and self._marks[0][0] <= limit_ms:
            self._in_window -= self._marks.popleft()[1]


_COUNTED_ERRORS = (  # (metric, what executors count)
    ("total-record-failures", "errors.failures"),
    ("total-record-errors", "errors.given_up"),
    ("total-retries", "errors.retries"),
    ("total-errors-logged", "errors.logged.records"),
    ("deadletterqueue-produce-requests", "dead_letters.records"),
)
TASK, ERRORS, SOURCE, SINK = "connector-task-metrics", "task-error-metrics", "source-task-metrics", "sink-task-metrics"


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """Facts about one run, for its metrics. ``measures`` and ``counters`` are read under the task's lock."""

    task: ConnectorTaskId
    kind: TaskKind
    state: str
    counters: TaskCounters
    measures: TaskMeasures
    running_share: float
    paused_share: float
    stalled: bool
    lag: int | None
    partition_count: int


def task_metrics(facts: TaskFacts, now_ms: int) -> Iterator[MetricValue]:
    """Yield every metric of the task that has a value."""
    tags = {"connector": facts.task.connector, "task": str(facts.task.task)}
    is_source = facts.kind is TaskKind.SOURCE
    yield measured(TASK, "status", 1, **tags, status=facts.state.lower())
    yield measured(TASK, "running-ratio", facts.running_share, **tags)
    yield measured(TASK, "pause-ratio", facts.paused_share, **tags)
    yield measured(TASK, "durable-bytes-total", facts.counters.data_bytes, **tags)
    yield measured(TASK, "stalled", facts.stalled, **tags)
    yield from _errors(facts, tags)
    call = "poll" if is_source else "put"
    yield from _batches(facts.measures, call, now_ms, tags)
    yield from _commits(facts.measures, now_ms, tags)
    yield from (_of_source if is_source else _of_sink)(facts, now_ms, tags)
    yield from _times(facts.measures, call, now_ms, SOURCE if is_source else SINK, f"{call}-batch", tags)
    yield from plugin_metrics(facts.measures, now_ms, tags)


def _errors(facts: TaskFacts, tags: dict[str, str]) -> Iterator[MetricValue]:
    is_sink = facts.kind is TaskKind.SINK
    # Records that a sink task itself gives up are not in its skipped records, because Java counts them only as
    # failures.
    skipped = facts.measures.total("errors.skipped") if is_sink else facts.counters.skipped
    yield measured(ERRORS, "total-records-skipped", skipped, **tags)
    if facts.kind is TaskKind.SPARK_SINK:  # nothing else counts its table batches
        return
    for name, counted in _COUNTED_ERRORS:
        yield measured(ERRORS, name, facts.measures.total(counted), **tags)
    if is_sink:  # a source's dead letters share the producer of its records
        refused = facts.measures.total("dead_letters.refused")
        yield measured(ERRORS, "deadletterqueue-produce-failures", refused, **tags)


def _of_source(facts: TaskFacts, now_ms: int, tags: dict[str, str]) -> Iterator[MetricValue]:
    counters, measures = facts.counters, facts.measures
    polled = measures.total("poll.records")
    yield measured(SOURCE, "source-record-poll-total", polled, **tags)
    yield measured(SOURCE, "source-record-poll-rate", measures.rate("poll.records", now_ms), **tags)
    yield measured(SOURCE, "source-record-write-total", counters.records, **tags)
    yield measured(SOURCE, "source-record-write-rate", counters.records_per_s(now_ms), **tags)
    active = polled - counters.records - counters.skipped
    yield measured(SOURCE, "source-record-active-count", max(0, active), **tags)
    transactions = measures.recent("transaction.batches", now_ms)
    if transactions:
        average = measures.recent("transaction.records", now_ms) / transactions
        yield measured(SOURCE, "transaction-size-avg", round(average, 1), **tags)
        least = -measures.recent_longest("transaction.least_negated", now_ms)
        yield measured(SOURCE, "transaction-size-min", least, **tags)
        most = measures.recent_longest("transaction.records_max", now_ms)
        yield measured(SOURCE, "transaction-size-max", most, **tags)


def _of_sink(facts: TaskFacts, now_ms: int, tags: dict[str, str]) -> Iterator[MetricValue]:
    measures = facts.measures
    yield measured(SINK, "partition-count", facts.partition_count, **tags)
    yield measured(SINK, "offset-commit-seq-no", measures.total("commit.calls"), **tags)
    yield measured(SINK, "offset-commit-completion-total", measures.total("commit.good"), **tags)
    completed = measures.recent("commit.good", now_ms) / measures.window_s(now_ms)
    yield measured(SINK, "offset-commit-completion-rate", round(completed, 3), **tags)
    if facts.lag is not None:
        yield measured(SINK, "sink-record-lag", facts.lag, **tags)
    if facts.kind is TaskKind.SPARK_SINK:  # no executor half of ours: only durable records are counted
        yield measured(SINK, "sink-record-send-total", facts.counters.records, **tags)
        yield measured(SINK, "sink-record-send-rate", facts.counters.records_per_s(now_ms), **tags)
        return
    yield measured(SINK, "sink-record-read-total", measures.total("read.records"), **tags)
    yield measured(SINK, "sink-record-read-rate", measures.rate("read.records", now_ms), **tags)
    yield measured(SINK, "sink-record-send-total", measures.total("put.records"), **tags)
    yield measured(SINK, "sink-record-send-rate", measures.rate("put.records", now_ms), **tags)
    yield measured(SINK, "sink-record-active-count", max(0, measures.waiting()), **tags)


def _batches(measures: TaskMeasures, call: str, now_ms: int, tags: dict[str, str]) -> Iterator[MetricValue]:
    batches = measures.recent(f"{call}.batches", now_ms)
    if batches:
        average = measures.recent(f"{call}.records", now_ms) / batches
        yield measured(TASK, "batch-size-avg", round(average, 1), **tags)
        yield measured(TASK, "batch-size-max", measures.recent_longest(f"{call}.records_max", now_ms), **tags)


def _commits(measures: TaskMeasures, now_ms: int, tags: dict[str, str]) -> Iterator[MetricValue]:
    good, bad = measures.total("commit.good"), measures.total("commit.bad") + measures.total("pre_commit.failed")
    if good + bad:
        yield measured(TASK, "offset-commit-success-percentage", round(good / (good + bad), 4), **tags)
        yield measured(TASK, "offset-commit-failure-percentage", round(bad / (good + bad), 4), **tags)
    yield from _times(measures, "commit", now_ms, TASK, "offset-commit", tags)


def _times(
    measures: TaskMeasures, call: str, now_ms: int, group: str, name: str, tags: dict[str, str]
) -> Iterator[MetricValue]:
    calls = measures.recent(f"{call}.calls", now_ms)
    if calls:
        average = measures.recent(f"{call}.ms", now_ms) / calls
        yield measured(group, f"{name}-avg-time-ms", round(average, 3), **tags)
        yield measured(
            group, f"{name}-max-time-ms", round(measures.recent_longest(f"{call}.ms_max", now_ms), 3), **tags
        )
