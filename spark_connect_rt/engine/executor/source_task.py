"""Runs one source task in a thread of a slot's reader process (Java ``AbstractWorkerSourceTask``, its loop).

Owns the task's life: claim, start, polls, pauses, stop, all on one thread, and the rows it queues; it neither produces
nor decides. What polls and converts is behind ``HostedSource``. Whatever the task throws ends this host alone.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from spark_connect_rt.api.records import Delivered, RecordMetadata
from spark_connect_rt.base.loggers import working_for
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.config.worker_settings import Boundary, interval_ms
from spark_connect_rt.engine.executor.frames import EXACT, BatchHead, Row, RowKind, Rows, encode_records
from spark_connect_rt.engine.executor.hosting import HostLostError, Switches, monotonic_ms, text_of, trace_of
from spark_connect_rt.engine.executor.task_meter import TaskMeter
from spark_connect_rt.engine.task_runner import TaskLaunch
from spark_connect_rt.errors import ConnectError, ShuttingDownError, TimedOutError
from spark_connect_rt.kafka.cluster_contact import listen
from spark_connect_rt.kafka.executor_clients import ClientLostError, DeliveryReports, ExecutorClients
from spark_connect_rt.records.pipeline.source_pipeline import ConvertedBatch
from spark_connect_rt.records.pipeline.transaction_boundaries import End, TransactionBoundaries

AWAIT_SHARE = 0.6  # of a stop's time
log = logging.getLogger(__name__)

Durable = tuple[int, Sequence[Delivered], Iterable[RecordMetadata | None]]
"""(BATCH rows, where they went, where each of their records went)"""


class LookUpEndedError(TimedOutError):
    """The task is to stop, and what it waited for is of no use any more."""


class DriverLink(Protocol):
    """What a host may say to the driver."""

    def ask_offsets(self, host: int, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        """Return the stored offset of each source partition; waits for the driver's answer.

        Raises LookUpEndedError: the task is to stop. TimedOutError: they cannot be read.
        """

    def wants_commits(self, host: int) -> None:
        """Have ``HostedSource.durable`` called for each durable batch."""


class SourceOutput(Protocol):
    """Where a task's batches go. The host's thread."""

    def send(self, converted: ConvertedBatch) -> None:
        """Queue a batch as one BATCH row; waits while too much is queued.

        Raises ConnectError (it is for the task's own offsets topic), ShuttingDownError.
        """

    def end(self, end: End) -> None:
        """Say what happens behind the batches so far."""

    def take_durable(self) -> Sequence[Durable]:
        """Return what became durable and was not taken yet."""


@dataclass(frozen=True, slots=True)
class SourceParts:
    """What a host hands to what polls its task."""

    host: int
    launch: TaskLaunch
    clients: ExecutorClients
    driver: DriverLink
    switches: Switches
    meter: TaskMeter
    output: SourceOutput
    previewed: bool = False  # the task runs for a preview

    def resolved(self, config: StoredConfig | Mapping[str, str]) -> dict[str, str]:
        """Return a configuration of the launch without references to secrets. Raises BadConfigError."""
        return self.clients.resolve(config, self.launch.worker_config)


class HostedSource(ABC):
    """One source task with its transformations and converters. Every call comes from the host's thread.

    What a call raises fails the task, unless it says otherwise; HostLostError: it is hosted again.
    """

    delivery_reports = DeliveryReports.NOTHING
    """What the task wants reported of its records; exactly-once sources know it after ``prepare``."""

    wants_commits = False
    """Whether ``durable`` is to be called; known after ``start``. A message for each batch is its price."""

    def __init__(self, parts: SourceParts) -> None:
        """Take what the host has; nothing is made yet."""
        self.parts = parts

    def prepare(self) -> None:
        """Make ready what can be: earlier producers of the task may still write, so it may not read where it is."""

    @abstractmethod
    def start(self, boundaries: TransactionBoundaries | None) -> None:
        """Make and start the task. ``boundaries``: of exactly-once sources."""

    @abstractmethod
    def poll(self) -> None:
        """Hand over what the task has next; waits for it, or until a switch turns or something became durable."""

    def settle(self) -> None:
        """Return when the task is in no call and all it brought is handed over: it is to pause, or to stop.

        Then, too, when a stop's time is up.
        """

    @abstractmethod
    def durable(self, reports: Sequence[Durable]) -> None:
        """Call the task's commit hooks for what became durable; what Java's two hooks raise is logged, as there."""

    def abandon(self) -> None:
        """The slice is over: ``stop`` follows and may not take long."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the task, also one whose ``start`` failed, and close what was opened; what goes wrong is logged."""


class SourceTaskRunner(threading.Thread):
    """One source task, hosted."""

    def __init__(
        self,
        host: int,
        launch: TaskLaunch,
        rows: Rows,
        clients: ExecutorClients,
        driver: DriverLink,
        make_source: Callable[[SourceParts], HostedSource],
    ) -> None:
        super().__init__(name=f"source-{launch.task}", daemon=True)
        self.switches = Switches(paused=launch.paused)
        self.meter = TaskMeter("reader")
        self._parts = SourceParts(host, launch, clients, driver, self.switches, self.meter, self)
        self._host = host
        self._launch = launch
        self.task = launch.task
        self._rows = rows
        self._make_source = make_source
        self._durable: deque[Durable] = deque()  # not reported yet
        self._undurable = 0  # BATCH rows that were handed over
        self._delivery_reports = DeliveryReports.NOTHING
        self._boundaries: TransactionBoundaries | None = None  # exactly-once only
        self.claimed = threading.Event()  # the writer has shut out earlier producers of this task

    # -- called by the threads of the channel and of the reader

    def durable(
        self, rows: int, delivered: Sequence[Delivered], metadata: Iterable[RecordMetadata | None] = ()
    ) -> None:
        """Take note that so many more BATCH rows are durable, and where their records are (channel thread)."""
        self._durable.append((rows, delivered, metadata))
        self.switches.nudge()

    def news(self, now_s: float, *, last: bool = False) -> Mapping[str, Any] | None:
        """Return what this half has not reported to the driver yet, None: nothing. The reader's own thread."""
        return self.meter.news(now_s, anyway=last)

    # -- start, on the task's thread, as everything below

    def run(self) -> None:
        """Thread body: nothing escapes but rows."""
        working_for(self.task)
        listen(self.meter.contact)
        try:
            try:
                self._run_task()
            except ShuttingDownError:
                raise
            except LookUpEndedError as error:
                log.info("task=%s run=%d: %s", self._launch.task, self._launch.run, error)
            except (HostLostError, ClientLostError) as error:
                self._rows.put(Row(self._host, RowKind.LOST, text_of(error).encode()))
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
        source = self._make_source(self._parts)
        try:
            source.prepare()
            if self._launch.offsets_topic and not self._claim(source.delivery_reports):
                return
            self._boundaries = self._bounds()
            source.start(self._boundaries)
            if source.wants_commits:
                self._parts.driver.wants_commits(self._host)
            self._delivery_reports = source.delivery_reports
            self._rows.put(Row(self._host, RowKind.RUNNING))
            self._poll_until_stopped(source)
        except ShuttingDownError:
            source.abandon()
            raise
        finally:
            source.stop()

    def _claim(self, delivery_reports: DeliveryReports) -> bool:
        """Have earlier producers of this task shut out, then ask whether it may still start; False: it is to stop.

        T1: only then may it read where it is; what an earlier producer left open is aborted by now.
        """
        self._rows.put(Row(self._host, RowKind.CLAIM, b"%d" % delivery_reports))
        while not self.claimed.is_set():
            if self.switches.stopping:
                return False
            self.switches.wait(None)
        self._parts.driver.ask_offsets(self._host, [])
        return not self.switches.stopping

    def _bounds(self) -> TransactionBoundaries | None:
        if not self._launch.offsets_topic:
            return None
        connector_config = self._parts.resolved(self._launch.connector_config)
        length_ms = interval_ms(self._launch.flush, connector_config)
        return TransactionBoundaries(Boundary.of(connector_config), length_ms, monotonic_ms())

    # -- poll until a pause or a stop

    def _poll_until_stopped(self, source: HostedSource) -> None:
        switches = self.switches
        while not switches.stopping:
            if self._durable:
                source.durable(self.take_durable())
            if switches.paused:
                source.settle()
                self._wait_while_paused(source)
                if not switches.stopping:
                    self._rows.put(Row(self._host, RowKind.RUNNING))
                continue
            if switches.throttled:
                switches.wait(None)
                continue
            source.poll()
        source.settle()
        self.end(self._final_end())
        self._await_durable(source)

    def _wait_while_paused(self, source: HostedSource | None = None) -> None:
        self.end(self._final_end())
        self._rows.put(Row(self._host, RowKind.PAUSED))
        while self.switches.paused and not self.switches.stopping:
            if source is not None and self._durable:
                source.durable(self.take_durable())
            self.switches.wait(None)

    # -- SourceOutput: what the source polled and converted becomes rows for the writer

    def send(self, converted: ConvertedBatch) -> None:
        """Queue a batch as a BATCH row."""
        if self._launch.offsets_topic in converted.topics:
            raise ConnectError(
                "Source tasks may not produce to their own offsets topics when exactly-once support is enabled"
            )
        if converted.written is None and (dead := converted.batch.num_rows - converted.records):
            self.meter.count("dead_letters.records", dead)
        head = BatchHead(
            converted.records,
            tuple(converted.source_offsets),
            converted.skipped,
            tuple(sorted(converted.topics)),
            self._delivery_reports,
            converted.written,
        )
        self._undurable += 1
        if converted.batch.num_rows and self._rows.serve_at_once(self._host, head, converted.batch):
            return
        data = encode_records(converted.batch) if converted.batch.num_rows else None
        self._rows.put(Row(self._host, RowKind.BATCH, head.encode(), data))

    def end(self, end: End) -> None:
        """Say to the writer what happens behind the rows so far."""
        if end is End.ABORT:
            self._rows.put(Row(self._host, RowKind.ABORT))
        if end is not End.NONE:
            shared = self._boundaries is not None and self._boundaries.boundary is Boundary.POLL
            self._rows.put(Row(self._host, RowKind.COMMIT, b"" if shared else EXACT))

    def take_durable(self) -> Sequence[Durable]:
        """Return what became durable and was not taken yet."""
        taken: list[Durable] = []
        while self._durable:
            taken.append(self._durable.popleft())
        self._undurable -= sum(rows for rows, _, _ in taken)
        return taken

    # -- the last reports before the task stops

    def _final_end(self) -> End:
        return End.NONE if self._boundaries is None else self._boundaries.final()

    def _await_durable(self, source: HostedSource) -> None:
        """Let the task's hooks learn what became durable last, before it is stopped (Java ``finalOffsetCommit``).

        As long as a flush may take, and no longer than a part of the stop's time: the task's own stop follows.
        """
        wait_ms = self._launch.flush.offset_flush_timeout_ms
        if self.switches.end_by_ms is not None:
            wait_ms = min(wait_ms, int(AWAIT_SHARE * (self.switches.end_by_ms - monotonic_ms())))
        until_ms = monotonic_ms() + wait_ms
        open_for_long = self._boundaries is not None and self._boundaries.requests is not None  # its own transaction
        while source.wants_commits and not open_for_long:
            if self._durable:
                source.durable(self.take_durable())
            if self._undurable <= 0 or (left_ms := until_ms - monotonic_ms()) <= 0:
                return
            self.switches.wait(left_ms / 1000)
