"""Runs sink tasks that Spark itself writes: bounded batches of Kafka rows become a DataFrame.

One thread a task, in the driver. It waits for work, reads [position, end) of its partitions on the executors,
appends the rows to the table, and only then reports the batch as durable (I3). Same events as any other task.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from spark_connect_rt.base.concurrency import MACHINE_THREADS, Timer
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.spark_connectors import TableFlushSettings
from spark_connect_rt.engine.executor.errant_reports import ensure_dead_letter_queue
from spark_connect_rt.engine.executor.hosting import load_clients
from spark_connect_rt.engine.formats.driver_tasks import DriverTask, DriverTasks
from spark_connect_rt.engine.formats.table_batch import (
    TableBatches,
    bounded_ends,
    columns_session,
    flush_is_due,
    pending_count,
)
from spark_connect_rt.engine.task_runner import BatchDurable, OnTaskEvent, PartitionsReleased, TaskLaunch
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.records.pipeline.dead_letters import ReportSettings

POLL_MS = 250
_TOO_LATE = (
    "a batch took longer than a rebalance may wait (max.poll.interval.ms of its consumer) and was cancelled. "
    "Lower batch.max.records, or raise consumer.override.max.poll.interval.ms"
)


class SparkSinkTaskHost(DriverTask):
    """One run of one Spark-written sink task."""

    def __init__(self, launch: TaskLaunch, session: Callable[[], Any], clients: str, on_event: OnTaskEvent) -> None:
        super().__init__(launch, on_event, "spark-sink")
        self._session = session
        self._clients = clients
        self._flush = TableFlushSettings.of({})  # the task's own when it is open
        self._positions: dict[TopicPartition, int] = {}
        self._waiting_since: float | None = None
        self._too_late = False  # a batch ran when its partitions had to go
        self._batches: TableBatches | None = None
        self._consumer: Any = None
        self._given: set[TopicPartition] = set()  # all partitions that it ever had

    def _assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Take these partitions too, on the task's thread."""
        self._later(lambda: self._take(offsets))

    def _revoke(self, partitions: Sequence[TopicPartition], timeout_ms: int) -> None:
        """Release these after the running batch, which fails at the deadline. Unwritten records are read again."""
        deadline = MACHINE_THREADS.later(timeout_ms, self._overdue)
        self._later(lambda: self._release(partitions, deadline))

    def _overdue(self) -> None:
        self._too_late = True
        self._cancel()

    def _cancel(self) -> None:
        if self._batches is not None:
            self._batches.cancel()

    def _open(self) -> None:
        clients, worker_config = load_clients(self._clients), self.launch.worker_config
        launch, config = self.launch, clients.resolve(self.launch.config, worker_config)
        self._flush = TableFlushSettings.of(config)
        settings = ReportSettings.from_config(clients.resolve(launch.connector_config, worker_config))
        ensure_dead_letter_queue(clients, settings, clients.resolve(launch.dead_letter_admin, worker_config))
        self._consumer = clients.consumer(clients.resolve(launch.client_config, worker_config))
        self._batches = TableBatches(launch, config, columns_session(self._session()), self._clients, self._consumer)
        self._batches.recover()

    def _step(self) -> None:
        self._obey(POLL_MS)
        if self._stopping or self._paused or not self._positions:
            return
        ends = self._consumer.end_offsets(list(self._positions))
        pending = pending_count(self._positions, ends)
        if flush_is_due(self._flush, pending, self._waited_ms(pending)):
            self._write(bounded_ends(self._positions, ends, self._flush.batch_max_records))

    def _waited_ms(self, pending: int) -> int:
        if not pending:
            self._waiting_since = None
            return 0
        if self._waiting_since is None:
            self._waiting_since = time.monotonic()
        return int((time.monotonic() - self._waiting_since) * 1000)

    def _write(self, ends: Mapping[TopicPartition, int]) -> None:
        assert self._batches is not None
        try:
            written = self._batches.write(self._positions, ends)
        except ConnectError as error:
            if self._too_late:
                raise ConnectError(f"task {self.launch.task}: {_TOO_LATE}") from error
            raise
        self._positions.update(ends)
        self._waiting_since = None
        self._records += written.records
        self._on_event(
            BatchDurable(
                self.launch.task,
                self.launch.run,
                self.launch.generation,
                written.records,
                written.data_bytes,
                sink_offsets=tuple(ends.items()),
                skipped=written.skipped,
                topics=tuple(sorted({partition.topic for partition in ends})),
            )
        )

    def _take(self, offsets: Mapping[TopicPartition, int]) -> None:
        assert self._batches is not None
        self._given |= offsets.keys()
        started = self._batches.starts(offsets)
        self._positions.update(started)
        beyond = {p: o for p, o in started.items() if 0 <= offsets[p] < o}
        if beyond:  # the table already holds these: commit for the group what a crash prevented
            self._on_event(
                BatchDurable(
                    self.launch.task,
                    self.launch.run,
                    self.launch.generation,
                    0,
                    0,
                    sink_offsets=tuple(beyond.items()),
                )
            )

    def _release(self, partitions: Sequence[TopicPartition], deadline: Timer) -> None:
        deadline.cancel()
        for partition in partitions:
            self._positions.pop(partition, None)
        self._on_event(PartitionsReleased(self.launch.task, self.launch.run, frozenset(partitions)))

    def _close(self, drained: bool) -> None:
        if self._consumer is not None:
            self._consumer.close()

    def _when_committed(self) -> Callable[[], None] | None:
        # A run that was given nothing has reported nothing to the group of what a crash left in the table.
        return partial(self._batches.forget, self._given) if self._batches is not None and self._given else None


class SparkSinkRunner(DriverTasks):
    """Hosts every SPARK_SINK launch of this worker (task_runner.DriverHosted)."""

    def _new_task(self, launch: TaskLaunch) -> DriverTask:
        return SparkSinkTaskHost(launch, self._session, self._clients, self._forward)
