"""task-error-metrics and transaction sizes with something in them (Java ``ErrorHandlingMetrics``, read in 4.1.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from spark_connect_rt.api.connector import ConnectorTransactionBoundaries
from spark_connect_rt.api.records import SinkRecord, SourceRecord
from spark_connect_rt.api.task import SinkTask, SourceTask
from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.errors import ConnectError, DataError, RetriableError
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import (
    MemorySink,
    MemorySinkTask,
    MemorySource,
    MemorySourceTask,
    delivered,
    faults,
)
from tests.unit.runtime.cluster_stories import create, emitted, source


class Picky(Transformation):
    """Refuses values that end in "bad", and twice each that ends in "flaky"."""

    def __init__(self) -> None:
        self._tries = 0

    def apply(self, record: Any) -> Any:
        if record.value.endswith("bad"):
            raise DataError("bad")
        if record.value.endswith("flaky"):
            self._tries += 1
            if self._tries % 3:
                raise RetriableError("not yet")
        return record


class ReportingSinkTask(MemorySinkTask):
    """Gives up every "odd" record itself."""

    def put(self, records: Sequence[SinkRecord]) -> None:
        reporter = self.context.errant_record_reporter()
        assert reporter is not None
        for record in records:
            if record.value == "odd":
                reporter.report(record, ValueError("odd"))
        super().put([record for record in records if record.value != "odd"])


class ReportingSink(MemorySink):
    """Its tasks report."""

    def task_class(self) -> type[SinkTask]:
        return ReportingSinkTask


class GrowingSource(MemorySource):
    """Its tasks say where transactions end."""

    def task_class(self) -> type[SourceTask]:
        return GrowingSourceTask

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> ConnectorTransactionBoundaries:
        return ConnectorTransactionBoundaries.SUPPORTED


class GrowingSourceTask(MemorySourceTask):
    """Commits transactions of 1, 2, 3 ... records, but drops the one of five."""

    def poll(self) -> Sequence[SourceRecord]:
        records = super().poll()
        ends = self.context.transaction_context
        assert ends is not None
        for record in records:
            position = int((record.source_offset or {})["position"])
            if position == 15:
                ends.abort_transaction(record)
            elif position in (1, 3, 6, 10, 21):
                ends.commit_transaction(record)
        return records


class SpokenSource(MemorySource):
    """Emits good, bad and flaky words."""

    def task_class(self) -> type[SourceTask]:
        return SpokenSourceTask


class SpokenSourceTask(MemorySourceTask):
    def poll(self) -> Sequence[SourceRecord]:
        words = ("good", "bad", "flaky", "bad", "good")
        return [
            SourceRecord(record.source_partition, record.source_offset, record.topic, f"{record.value} {words[n]}")
            for n, record in enumerate(super().poll())
        ]


PLUGINS = {cls.__name__: cls for cls in (Picky, ReportingSink, GrowingSource, SpokenSource)}
ERRORS = {
    "errors.tolerance": "all",
    "errors.log.enable": "true",
    "errors.retry.timeout": "-1",
    "errors.retry.delay.max.ms": "1",
    "errors.deadletterqueue.topic.name": "dead",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "transforms": "picky",
    "transforms.picky.type": "Picky",
}
SINK = {"connector.class": "MemorySink", "topics": "in", **ERRORS}
NONE = {"errors.tolerance": "none"}


@pytest.fixture
def cluster() -> Iterator[InProcessCluster]:
    faults.clear()
    delivered.clear()
    with InProcessCluster(PLUGINS) as running:
        running.add_worker()
        yield running
        faults.clear()


def metrics(cluster: InProcessCluster, group: str) -> dict[str, float]:
    """Return the values of one group, short names; there is one task."""
    (worker,) = cluster.workers.values()
    return {
        metric.metric.name: metric.value for metric in worker.herder.views.metrics() if metric.metric.group == group
    }


def wait_for(cluster: InProcessCluster, **wanted: float) -> None:
    """Wait until the task's error metrics are these, and those not named are 0."""
    names = {
        "failures": "total-record-failures",
        "errors": "total-record-errors",
        "skipped": "total-records-skipped",
        "retries": "total-retries",
        "logged": "total-errors-logged",
        "letters": "deadletterqueue-produce-requests",
        "refused": "deadletterqueue-produce-failures",
    }

    def seen() -> dict[str, float]:
        now = metrics(cluster, "task-error-metrics")
        return {short: now[name] for short, name in names.items() if now.get(name)}

    cluster.until(lambda: seen() == wanted)


def test_a_sink_counts_what_it_skips_and_tries_again(cluster: InProcessCluster) -> None:
    cluster.write("in", ["good", "bad", "flaky", "bad", "good"])
    create(cluster, "s", SINK)
    cluster.until(lambda: [record.value for record in delivered["s"]] == ["good", "flaky", "good"])
    wait_for(cluster, failures=4, errors=2, skipped=2, retries=2, logged=2, letters=2)


def test_a_source_counts_what_it_skips_and_tries_again(cluster: InProcessCluster) -> None:
    create(cluster, "a", {**source(records=5), **ERRORS, "connector.class": "SpokenSource"})
    cluster.until(lambda: emitted(cluster) == ["a-0:0 good", "a-0:2 flaky", "a-0:4 good"])
    wait_for(cluster, failures=4, errors=2, skipped=2, retries=2, logged=2, letters=2)
    assert len(cluster.topics.values("dead")) == 2


@pytest.mark.parametrize("kind", ["source", "sink"])
def test_the_record_that_fails_a_task_is_counted_and_not_as_skipped(cluster: InProcessCluster, kind: str) -> None:
    """What was counted in the last second before the end came too late to be heard."""
    cluster.write("in", ["good", "bad", "flaky"])
    of_kind = SINK if kind == "sink" else {**source(records=5), **ERRORS, "connector.class": "SpokenSource"}
    create(cluster, "a", {**of_kind, **NONE})
    cluster.until(lambda: cluster.states("a").get("a-0") == "FAILED")
    wait_for(cluster, failures=1, errors=1, logged=1, letters=1)


def test_tolerated_report_of_a_sink_counts_as_failure_only(cluster: InProcessCluster) -> None:
    """As Java's executeFailed: only beyond the tolerance it is an error."""
    cluster.write("in", ["odd", "even", "bad"])
    create(cluster, "s", {**SINK, "connector.class": "ReportingSink"})
    cluster.until(lambda: [record.value for record in delivered["s"]] == ["even"])
    wait_for(cluster, failures=2, errors=1, skipped=1, logged=2, letters=2)


def test_report_beyond_the_tolerance_counts_as_an_error(cluster: InProcessCluster) -> None:
    cluster.write("in", ["odd"])
    create(cluster, "s", {**SINK, **NONE, "connector.class": "ReportingSink"})
    cluster.until(lambda: cluster.states("s").get("s-0") == "FAILED")
    wait_for(cluster, failures=1, errors=1, logged=1, letters=1)


def test_a_queue_that_refuses_is_counted(cluster: InProcessCluster) -> None:
    cluster.topics.fail_produce = lambda row: ConnectError("too large") if row["topic"] == "dead" else None
    cluster.write("in", ["good", "bad"])
    create(cluster, "s", SINK)
    cluster.until(lambda: cluster.states("s").get("s-0") == "FAILED")
    wait_for(cluster, failures=1, errors=1, skipped=1, logged=1, letters=1, refused=1)


def test_the_sizes_of_transactions_are_those_of_the_committed_ones() -> None:
    """As in Java, the transaction that commits the offsets of dropped records has none."""
    faults.clear()
    enabled = {"exactly.once.source.support": "enabled"}
    with InProcessCluster(PLUGINS, worker_config=enabled) as cluster:
        cluster.add_worker()
        config = {**source(records=30), "connector.class": "GrowingSource", "transaction.boundary": "connector"}
        create(cluster, "a", config)
        sizes = ("transaction-size-avg", "transaction-size-min", "transaction-size-max")

        def seen() -> list[float | None]:
            now = metrics(cluster, "source-task-metrics")
            return [now.get(name) for name in sizes]

        cluster.until(lambda: len(emitted(cluster)) == 1 + 2 + 3 + 4 + 6)
        cluster.until(lambda: seen() == [round(16 / 6, 1), 0, 6])
