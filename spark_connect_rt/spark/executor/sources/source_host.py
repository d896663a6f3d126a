"""Runs one source task in a thread of a slot's reader process (Java ``AbstractWorkerSourceTask``, its loop).

Owns the task's life: start, poll, commit, stop, all on one thread. It converts what the task returns and queues
super-rows; it neither produces nor decides. Whatever the task throws ends this host alone.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from spark_connect_rt.api.records import Delivered, RecordMetadata, SourceBatch, SourceRecord
from spark_connect_rt.api.task import OffsetReader, PluginMetrics, SourceTask, SourceTaskContext
from spark_connect_rt.config.worker.exactly_once import Boundary, interval_ms
from spark_connect_rt.errors import ConnectError, DataError, RetriableError, ShuttingDownError, TimedOutError
from spark_connect_rt.pipeline.dead_letters import DeadLetters, ReportSettings
from spark_connect_rt.pipeline.delivery_runs import DeliveryRuns
from spark_connect_rt.pipeline.retry_tolerance import RetryInterrupted, Waiting
from spark_connect_rt.pipeline.source_pipeline import ConvertedBatch, SourcePipeline
from spark_connect_rt.pipeline.transaction_boundaries import End, TransactionBoundaries
from spark_connect_rt.ports.executor_clients import DeliveryReports, ExecutorClients
from spark_connect_rt.ports.task_runner import TaskLaunch
from spark_connect_rt.spark.executor.errant_reports import ErrantLog, ensure_dead_letter_queue
from spark_connect_rt.spark.executor.frames import EXACT, BatchHead, Row, RowKind, encode_records
from spark_connect_rt.spark.executor.hosting import (
    Switches,
    load_class,
    monotonic_ms,
    trace_of,
)
from spark_connect_rt.spark.executor.plugin_metrics import MeteredPluginMetrics
from spark_connect_rt.spark.executor.row_queue import RowQueue
from spark_connect_rt.spark.executor.sources.sent_records import (
    SentRecords,
    delivery_reports_of,
    wants_commits,
    wants_offsets,
)
from spark_connect_rt.spark.executor.task_meter import TaskMeter


class LookUpEndedError(TimedOutError):
    """The task is to stop, and what it waited for is of no use any more."""


class DriverLink(Protocol):
    """What a host may say to the driver."""

    def ask_offsets(self, host: int, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        """Return the stored offset of each source partition; waits for the driver's answer.

        Raises LookUpEndedError: the task is to stop. TimedOutError: they cannot be read.
        """

    def wants_commits(self, host: int) -> None:
        """Have ``SourceHost.durable`` called for each durable batch."""


_Durable = tuple[int, Sequence[Delivered], Iterable[RecordMetadata | None]]
"""(BATCH rows, where they went, where each of their records went)"""

_RETRY_WAIT_S = 0.1  # Java: a retriable poll counts as an empty one
log = logging.getLogger(__name__)


class _OffsetReader(OffsetReader):
    """Asks the driver, which reads the offset store to its end."""

    def __init__(self, host: int, driver: DriverLink) -> None:
        self._host = host
        self._driver = driver

    def offsets(self, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        return self._driver.ask_offsets(self._host, partitions)


class _Context(SourceTaskContext):
    """The task's SourceTaskContext."""

    def __init__(self, launch: TaskLaunch, offset_reader: OffsetReader, metrics: PluginMetrics) -> None:
        self.offset_reader = offset_reader
        self.metrics = metrics
        self.pipeline: SourcePipeline | None = None
        self._task = launch.task

    def report_errant(self, place: str, error: Exception, data: bytes | None = None) -> None:
        assert self.pipeline is not None
        self.pipeline.report_errant(f"task {self._task}: unreadable input at {place}", error, data)


class SourceHost(threading.Thread):
    """One source task, hosted."""

    def __init__(
        self, host: int, launch: TaskLaunch, rows: RowQueue, clients: ExecutorClients, driver: DriverLink
    ) -> None:
        super().__init__(name=f"source-{launch.task}", daemon=True)
        self.switches = Switches(paused=launch.paused)
        self.meter = TaskMeter("reader")
        self._host = host
        self._launch = launch
        self._rows = rows
        self._clients = clients
        self._context = _Context(launch, _OffsetReader(host, driver), MeteredPluginMetrics(self.meter))
        self._driver = driver
        self._sent = SentRecords()  # only of tasks with commit_record
        self._durable: deque[_Durable] = deque()  # not reported yet
        self._delivery_reports = DeliveryReports.NOTHING
        self._boundaries: TransactionBoundaries | None = None  # exactly-once only
        self.claimed = threading.Event()  # the writer has shut out earlier producers of this task

    def durable(
        self, rows: int, delivered: Sequence[Delivered], metadata: Iterable[RecordMetadata | None] = ()
    ) -> None:
        """Take note that so many more BATCH rows are durable, and where their records are (channel thread)."""
        self._durable.append((rows, delivered, metadata))
        self.switches.nudge()

    def news(self, now_s: float, *, last: bool = False) -> Mapping[str, Any] | None:
        """Return what this half has not reported to the driver yet, None: nothing. The reader's own thread."""
        return self.meter.news(now_s, anyway=last)

    def run(self) -> None:
        """Thread body: nothing escapes but rows."""
        try:
            try:
                self._run_task()
            except ShuttingDownError:
                raise
            except LookUpEndedError as error:
                log.info("task=%s run=%d: %s", self._launch.task, self._launch.run, error)
            except BaseException as error:  # SystemExit, too: a thread that ends unreported leaves its task RUNNING
                log.exception("task=%s run=%d FAILED", self._launch.task, self._launch.run)
                self._rows.put(Row(self._host, RowKind.FAILED, trace_of(error).encode()))
            end_by_ms = self.switches.end_by_ms
            self._rows.put(Row(self._host, RowKind.ENDED, b"" if end_by_ms is None else b"%d" % end_by_ms))
        except ShuttingDownError:
            log.info("task=%s run=%d: the slice is over", self._launch.task, self._launch.run)

    def _run_task(self) -> None:
        if self.switches.paused:
            self._wait_while_paused()
        if self.switches.stopping:
            return
        task_class = load_class(self._launch.task_class)
        self._delivery_reports = delivery_reports_of(task_class)
        if self._launch.offsets_topic and not self._claim():
            return
        task: SourceTask = task_class()
        if wants_commits(task_class):
            self._driver.wants_commits(self._host)
        task.context = self._context
        worker_config = self._clients.resolve(self._launch.worker_config, self._launch.worker_config)
        connector_config = self._clients.resolve(self._launch.connector_config, self._launch.worker_config)
        waiting = Waiting(monotonic_ms, self._wait_ms)
        settings = ReportSettings.from_config(connector_config)
        self._errant_log = ErrantLog(self._launch.task, settings, self._clients, self.meter)
        letters = self._dead_letters(settings)
        pipeline = SourcePipeline.from_config(connector_config, worker_config, self._clients.plugin, waiting, letters)
        self._context.pipeline = pipeline
        self._bound(connector_config)
        try:
            task.start(self._clients.resolve(self._launch.config, self._launch.worker_config))
            self._rows.put(Row(self._host, RowKind.RUNNING))
            self._poll_until_stopped(task, pipeline)
        finally:
            self._stop(task, pipeline)

    def _wait_ms(self, wait_ms: int) -> bool:
        """Wait between attempts at converting one record; False when the task is to stop."""
        goes_on = self.switches.wait_ms(wait_ms)
        self.meter.count_attempt(again=goes_on)
        return goes_on

    def _claim(self) -> bool:
        """Have earlier producers of this task shut out, then ask whether it may still start; False: it is to stop.

        T1: only then may it read where it is; what an earlier producer left open is aborted by now.
        """
        self._rows.put(Row(self._host, RowKind.CLAIM, b"%d" % self._delivery_reports))
        while not self.claimed.is_set():
            if self.switches.stopping:
                return False
            self.switches.wait(None)
        self._driver.ask_offsets(self._host, [])
        return True

    def _bound(self, connector_config: Mapping[str, str]) -> None:
        if self._launch.offsets_topic:
            length_ms = interval_ms(self._launch.flush, connector_config)
            self._boundaries = TransactionBoundaries(Boundary.of(connector_config), length_ms, monotonic_ms())
            self._context.transaction_context = self._boundaries.requests

    def _dead_letters(self, settings: ReportSettings) -> DeadLetters | None:
        """Return what makes dead letters, their topic created; None without a queue."""
        if not settings.topic:
            return None
        admin = self._clients.resolve(self._launch.dead_letter_admin, self._launch.worker_config)
        ensure_dead_letter_queue(self._clients, settings, admin)
        return DeadLetters(settings, self._launch.task, self._clients.name_of)

    def _stop(self, task: SourceTask, pipeline: SourcePipeline) -> None:
        try:
            self._report_durable(task)
            task.stop()
            pipeline.close()
        except Exception:
            log.exception("task=%s: stop failed, ignored", self._launch.task)

    def _poll_until_stopped(self, task: SourceTask, pipeline: SourcePipeline) -> None:
        switches = self.switches
        while not switches.stopping:
            if self._durable:
                self._report_durable(task)
            if switches.paused:
                self._wait_while_paused()
                if not switches.stopping:
                    self._rows.put(Row(self._host, RowKind.RUNNING))
                continue
            if switches.throttled:
                switches.wait(None)
                continue
            self._poll_once(task, pipeline)
        self._end_transaction(self._final_end())

    def _poll_once(self, task: SourceTask, pipeline: SourcePipeline) -> None:
        try:
            polled = self._polled(task)
            if polled is None:
                return
            pieces, rows_of_each = self._converted(polled, pipeline)
        except RetryInterrupted:
            pipeline.give_up()  # what was polled is polled again after the next start
            return
        except DataError:
            last = pipeline.give_up()
            if last is not None:  # as Java: also the record that fails the task is reported
                self._send(last)
                if self._boundaries is not None and self._boundaries.requests is None:
                    self._end_transaction(End.COMMIT)
            raise
        if self._delivery_reports is DeliveryReports.RECORDS:
            sent = [(one.records, one.batch.num_rows) for batches, _ in pieces for one in batches]
            self._sent.add(polled, rows_of_each, sent)
        for batches, end in pieces:
            for converted in batches:
                self._send(converted)
            self._end_transaction(end)
        if not polled:
            self.switches.wait(task.idle_wait_ms() / 1000)

    def _converted(
        self, polled: Sequence[SourceRecord | SourceBatch], pipeline: SourcePipeline
    ) -> tuple[list[tuple[list[ConvertedBatch], End]], list[int]]:
        """Return what a poll brought, cut where transactions end, and how many Kafka records each piece became."""
        pieces, rows_of_each = [], list[int]()
        for piece, end in self._cut(polled):
            pieces.append((pipeline.convert(piece), end))
            rows_of_each += pipeline.rows_of_each
        return pieces, rows_of_each

    def _polled(self, task: SourceTask) -> Sequence[SourceRecord | SourceBatch] | None:
        """Return what a poll brought; None: it is to be tried again."""
        try:
            return self._metered_poll(task)
        except RetriableError as error:
            log.warning("task=%s: poll will be tried again: %s", self._launch.task, error)
            self.switches.wait(_RETRY_WAIT_S)
            return None

    def _metered_poll(self, task: SourceTask) -> Sequence[SourceRecord | SourceBatch]:
        with self.meter.call("poll"):
            polled = task.poll() or ()
        if polled:
            self.meter.moved("poll", _count(polled))
        return polled

    def _cut(self, polled: Sequence[SourceRecord | SourceBatch]) -> Sequence[tuple[Sequence[Any], End]]:
        return ((polled, End.NONE),) if self._boundaries is None else self._boundaries.cut(polled, monotonic_ms())

    def _end_transaction(self, end: End) -> None:
        """Tell the writer what happens behind the rows so far."""
        if end is End.ABORT:
            self._rows.put(Row(self._host, RowKind.ABORT))
        if end is not End.NONE:
            shared = self._boundaries is not None and self._boundaries.boundary is Boundary.POLL
            self._rows.put(Row(self._host, RowKind.COMMIT, b"" if shared else EXACT))

    def _final_end(self) -> End:
        return End.NONE if self._boundaries is None else self._boundaries.final()

    def _wait_while_paused(self) -> None:
        self._end_transaction(self._final_end())
        self._rows.put(Row(self._host, RowKind.PAUSED))
        while self.switches.paused and not self.switches.stopping:
            self.switches.wait(None)

    def _send(self, converted: ConvertedBatch) -> None:
        if self._launch.offsets_topic in converted.topics:
            raise ConnectError(
                "Source tasks may not produce to their own offsets topics when exactly-once support is enabled"
            )
        self._errant_log.write(converted.errants)
        if dead := converted.batch.num_rows - converted.records:
            self.meter.count("dead_letters.records", dead)
        head = BatchHead(
            converted.records,
            tuple(converted.source_offsets),
            converted.skipped,
            tuple(sorted(converted.topics)),
            self._delivery_reports,
        )
        data = encode_records(converted.batch) if converted.batch.num_rows else None
        self._rows.put(Row(self._host, RowKind.BATCH, head.encode(), data))

    def _report_durable(self, task: SourceTask) -> None:
        """Call the task's commit hooks on its own thread; what Java's two raise is logged, as there."""
        any_rows, delivered, runs = False, list[Delivered](), DeliveryRuns()
        while self._durable:
            rows, where, metadata = self._durable.popleft()
            any_rows = any_rows or rows > 0
            delivered += where
            if self._delivery_reports is DeliveryReports.RECORDS:
                for record, place in self._sent.durable(rows, metadata):
                    self._hook(task.commit_record, record, place)
                    if place is not None:
                        runs.note(place.topic, place.partition, place.offset)
        delivered += runs.take()
        if delivered and wants_offsets(type(task)):
            task.commit_offsets(delivered)
        if any_rows:
            self._hook(task.commit)

    def _hook(self, hook: Callable[..., None], *arguments: object) -> None:
        try:
            hook(*arguments)
        except Exception:
            log.exception("task=%s: %s failed, ignored", self._launch.task, hook.__name__)


def _count(polled: Sequence[SourceRecord | SourceBatch]) -> int:
    return sum(len(one.values) if isinstance(one, SourceBatch) else 1 for one in polled)
