"""Runs one sink task in a slot's writer process (Java ``WorkerSinkTask``, its delivery half).

Owns the task's life (start, open, put, pre_commit, close, stop, all on one thread) and which offsets may be
committed. It commits nothing itself: it reports, the driver's group member commits under its generation.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from spark_connect_rt.api.records import SinkRecord
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.errors import RetriableError
from spark_connect_rt.pipeline.sink_pipeline import SinkPipeline
from spark_connect_rt.ports.executor_clients import ExecutorClients
from spark_connect_rt.ports.task_runner import TaskLaunch
from spark_connect_rt.protocol.ids import TopicPartition
from spark_connect_rt.spark.executor.control_wire import encode_offsets
from spark_connect_rt.spark.executor.frames import Row, RowKind, decode_partitions, decode_records
from spark_connect_rt.spark.executor.hosting import load_class
from spark_connect_rt.spark.executor.lane import Lane, Report, now_s

COMMIT_EACH_S = 1.0  # at most; less if offset.flush.interval.ms is less
COMMIT_APART_S = 0.2  # reader idle: pre_commit at once unless the last was this recently
PUT_EMPTY_EACH_S = 1.0  # tasks that buffer by time expect empty puts, as Java's poll loop makes them
RETRY_FIRST_S, RETRY_LAST_S = 0.1, 5.0
log = logging.getLogger(__name__)


class _Context:
    """The task's SinkTaskContext."""

    def __init__(self) -> None:
        self.partitions: frozenset[TopicPartition] = frozenset()

    def assignment(self) -> frozenset[TopicPartition]:
        return self.partitions


class SinkLane(Lane):
    """One sink task, hosted."""

    def __init__(self, host: int, launch: TaskLaunch, report: Report, clients: ExecutorClients) -> None:
        super().__init__(host, launch, report)
        self._clients = clients
        self._context = _Context()
        self._task: SinkTask | None = None
        self._offsets: dict[TopicPartition, int] = {}  # next offset after the last put, per open partition
        self._reported: dict[TopicPartition, int] = {}
        self._records = self._data_bytes = self._skipped = 0  # put and not yet reported
        self._dirty = False
        self._commit_at_s: float | None = None
        self._committed_s = 0.0
        self._commit_each_s = COMMIT_EACH_S
        self._hurry = threading.Event()  # a revocation or the end waits: retries must not hold it up
        self._leaving_lock = threading.Lock()
        self._leaving: frozenset[TopicPartition] = frozenset()
        self._ending = False

    def give(self, row: Row) -> None:
        """Queue a row; news that must not wait behind a retried batch is noted at once."""
        if row.kind is RowKind.REVOKED:
            with self._leaving_lock:
                self._leaving |= _partitions(row)
        self._ending = self._ending or row.kind is RowKind.ENDED
        super().give(row)
        if row.kind in (RowKind.REVOKED, RowKind.ENDED):
            self._hurry.set()

    def abandon(self) -> None:
        """Give up at once, also a retried put."""
        self._ending = True
        super().abandon()
        self._hurry.set()

    def begin(self) -> None:
        """Make and start the task."""
        worker_config = self._clients.resolve(self.launch.worker_config)
        connector_config = self._clients.resolve(self.launch.connector_config)
        self._pipeline = SinkPipeline.from_config(connector_config, worker_config, self._clients.plugin)
        flush_ms = int(worker_config.get("offset.flush.interval.ms", 60_000))
        self._commit_each_s = min(COMMIT_EACH_S, flush_ms / 1000)
        self._task = load_class(self.launch.task_class)()
        self._task.context = self._context
        self._task.start(self._clients.resolve(self.launch.config))
        if not self.launch.paused:  # else the feed's PAUSED row says so
            self.report("running")

    def on_row(self, row: Row) -> None:
        """Serve data, or pass on changes behind what came before them."""
        assert self._task is not None
        match row.kind:
            case RowKind.BATCH:
                self._put(row)
            case RowKind.ASSIGNED:
                self._open(_partitions(row))
            case RowKind.REVOKED:
                self._release(_partitions(row))
            case RowKind.PAUSED:
                self._commit()
                self.report("paused")
            case RowKind.RUNNING:
                self.report("running")

    def _open(self, partitions: frozenset[TopicPartition]) -> None:
        assert self._task is not None
        new = partitions - self._context.partitions
        self._context.partitions |= new
        if new:
            self._task.open(sorted(new))

    def _put(self, row: Row) -> None:
        assert self._task is not None
        assert row.data is not None
        if self._ending:
            return  # the next owner reads it again
        converted = self._pipeline.convert(decode_records(row.data))
        records: Sequence[SinkRecord] = converted.records
        offsets = dict(converted.next_offsets)
        wait_s = RETRY_FIRST_S
        while True:
            records, offsets = self._without_leaving(records, offsets)
            if not offsets:
                return
            try:
                self._task.put(records)
                break
            except RetriableError as error:
                log.warning("task=%s: put will be tried again: %s", self.launch.task, error)
            self._hurry.wait(wait_s)
            self._hurry.clear()
            if self._ending:
                return
            wait_s = min(RETRY_LAST_S, wait_s * 2)
        self._offsets.update(offsets)
        self._records += len(records)
        self._data_bytes += row.data.size
        self._skipped += converted.skipped
        self._dirty = True
        self._commit_when_due(self._committed_s + self._commit_each_s)

    def _without_leaving(
        self, records: Sequence[SinkRecord], offsets: dict[TopicPartition, int]
    ) -> tuple[Sequence[SinkRecord], dict[TopicPartition, int]]:
        """Drop what belongs to partitions on their way out: their next owner reads it again."""
        leaving = self._leaving
        if not leaving.intersection(offsets):
            return records, offsets
        kept = {tp: offset for tp, offset in offsets.items() if tp not in leaving}
        return [r for r in records if TopicPartition(r.topic, r.partition) in kept], kept

    def _commit_when_due(self, due_s: float) -> None:
        if self._commit_at_s is None:
            self._commit_at_s = max(due_s, now_s())
        if now_s() >= due_s:
            self._commit()

    def on_reader_idle(self) -> None:
        """Commit soon: nothing more is on the way."""
        if self._dirty:
            self._commit_at_s = self._committed_s + COMMIT_APART_S
            if now_s() >= self._commit_at_s:
                self._commit()

    def on_time(self) -> None:
        """Commit if due; let the task look at its clock."""
        if self._dirty:
            self._commit()
        elif self._task is not None and self._context.partitions:
            try:
                self._task.put([])
            except RetriableError as error:
                log.warning("task=%s: put will be tried again: %s", self.launch.task, error)

    def wait_s(self) -> float | None:
        """Wait until the next commit, else until the next empty put."""
        due_s = self._commit_at_s
        return PUT_EMPTY_EACH_S if due_s is None else max(0.0, due_s - now_s())

    def _commit(self) -> None:
        """Ask the task what is safe and report it; what is not yet safe is asked again a second later."""
        assert self._task is not None
        if not self._dirty:
            return
        self._committed_s = now_s()
        self._commit_at_s = self._committed_s + self._commit_each_s
        try:
            answered = self._task.pre_commit(dict(self._offsets))
        except RetriableError as error:
            log.warning("task=%s: pre_commit will be tried again: %s", self.launch.task, error)
            return
        safe = {tp: min(offset, self._offsets[tp]) for tp, offset in answered.items() if tp in self._offsets}
        changed = {tp: offset for tp, offset in safe.items() if self._reported.get(tp) != offset}
        if changed:
            self._report_safe(changed)
        if safe == self._offsets:
            self._dirty, self._commit_at_s = False, None

    def _report_safe(self, offsets: dict[TopicPartition, int]) -> None:
        self._reported.update(offsets)
        records, self._records = self._records, 0
        data_bytes, self._data_bytes = self._data_bytes, 0
        skipped, self._skipped = self._skipped, 0
        self.report_durable(
            records,
            bytes=data_bytes,
            skipped=skipped,
            rows=1,
            topics=sorted({tp.topic for tp in offsets}),
            sink_offsets=encode_offsets(offsets),
        )

    def _release(self, partitions: frozenset[TopicPartition]) -> None:
        """Flush, report, close, in Java's order; afterwards the partitions may come back anew."""
        assert self._task is not None
        held = partitions & self._context.partitions
        self._commit()
        if held:
            self._task.close(sorted(held))
        self._context.partitions -= held
        for partition in held:
            self._offsets.pop(partition, None)
            self._reported.pop(partition, None)
        with self._leaving_lock:
            self._leaving -= partitions
        self.report("released", partitions=[(tp.topic, tp.partition) for tp in sorted(partitions)])

    def drain(self) -> None:
        """Commit what was put and close every partition."""
        assert self._task is not None
        self._commit()
        if self._context.partitions:
            self._task.close(sorted(self._context.partitions))
        self._context.partitions = frozenset()

    def finish(self) -> None:
        """Stop the task."""
        task, self._task = self._task, None
        if task is not None:
            task.stop()


def _partitions(row: Row) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, partition) for topic, partition in decode_partitions(row.head))
