"""The life of one source task on an executor (Java ``AbstractWorkerSourceTask``, its loop).

Read it downward: the contract of a hosted source, then the runner, which claims, starts, polls, pauses and stops it.
``PythonSource`` (``python_source.py``) fulfils the contract for a task in this process,
``engine/java_host/source_task.py`` for a task in a JVM.

Every call of the task comes from one thread. The runner produces nothing: it queues rows, and the task writer
(``source_task_writer.py``) sends them. An error of the task ends this task alone.
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
"""The number of durable BATCH rows, the offsets that they have in Kafka, and the place of each of their records."""


class LookUpEndedError(TimedOutError):
    """The task has to stop, so the answer that it waited for is of no use any more."""


class DriverLink(Protocol):
    """The requests that a source task may send to the driver."""

    def ask_offsets(self, host: int, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        """Return the stored offset of each source partition. Waits for the driver's answer.

        Raises LookUpEndedError if the task has to stop, and TimedOutError if the offsets cannot be read.
        """

    def wants_commits(self, host: int) -> None:
        """Ask the driver to report each durable batch, so that ``HostedSource.durable`` is called for it."""


class SourceOutput(Protocol):
    """Takes the batches of a source task. The task's thread."""

    def send(self, converted: ConvertedBatch) -> None:
        """Queue a batch as one BATCH row. Waits while too much is queued.

        Raises ConnectError for a batch that goes to the task's own offsets topic, and ShuttingDownError when the slice
        is over.
        """

    def end(self, end: End) -> None:
        """End or abort the transaction of the batches so far."""

    def take_durable(self) -> Sequence[Durable]:
        """Return the reports of durable batches that were not taken yet."""


@dataclass(frozen=True, slots=True)
class SourceParts:
    """Everything that the runner gives to a hosted source."""

    host: int
    launch: TaskLaunch
    clients: ExecutorClients
    driver: DriverLink
    switches: Switches
    meter: TaskMeter
    output: SourceOutput
    previewed: bool = False  # whether the task runs for a preview

    def resolved(self, config: StoredConfig | Mapping[str, str]) -> dict[str, str]:
        """Return a configuration of the launch with resolved references. Raises BadConfigError."""
        return self.clients.resolve(config, self.launch.worker_config)


class HostedSource(ABC):
    """One source task with its transformations and converters, in whichever process its code runs.

    ``SourceTaskRunner`` calls it, always from the task's thread. An error of a call fails the task, except where the
    method says otherwise. HostLostError starts the task again in another process.
    """

    delivery_reports = DeliveryReports.NOTHING
    """The delivery reports that the task wants. An exactly-once source knows it after ``prepare``."""

    wants_commits = False
    """Whether ``durable`` is to be called, known after ``start``. It costs a message for each batch."""

    def __init__(self, parts: SourceParts) -> None:
        """Take the parts, and make nothing yet."""
        self.parts = parts

    def prepare(self) -> None:
        """Do the part of the start that reads no offsets.

        Earlier producers of the task may still write, so the task must not read its position yet.
        """

    @abstractmethod
    def start(self, boundaries: TransactionBoundaries | None) -> None:
        """Make the task and start it. ``boundaries`` are those of an exactly-once task."""

    @abstractmethod
    def poll(self) -> None:
        """Poll once and send everything that the task returned.

        Waits for records, but not longer than until a command of the driver or a report of a durable batch.
        """

    def has_more(self) -> bool | None:
        """Return what ``SourceTask.has_more`` of the task returns after an empty poll. None: it cannot be asked."""
        return None

    def is_within_change(self) -> bool:
        """Return whether the records so far end within a change, whose rest a later run would not get any more."""
        return False

    def settle(self) -> None:
        """Return when the task is in no call and has sent everything, because it has to pause or to stop.

        It also returns when the time of a stop is over.
        """

    @abstractmethod
    def durable(self, reports: Sequence[Durable]) -> None:
        """Call the commit hooks of the task for durable batches.

        As in Java, an error of ``commit`` and ``commit_record`` is logged and ignored.
        """

    def abandon(self) -> None:
        """Prepare for a ``stop`` that must not take long, because the slice is over."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the task, also if its ``start`` failed, and close everything that was opened. Errors are logged."""


class SourceTaskRunner(threading.Thread):
    """Runs one source task: its thread, every decision about its next call, and the rows that it sends."""

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
        self._durable: deque[Durable] = deque()  # not given to the task yet
        self._undurable = 0  # BATCH rows that were queued
        self._delivery_reports = DeliveryReports.NOTHING
        self._boundaries: TransactionBoundaries | None = None  # exactly-once only
        self.claimed = threading.Event()  # set when the writer has fenced earlier producers of this task

    # -- called by the threads of the channel and of the reader

    def durable(
        self, rows: int, delivered: Sequence[Delivered], metadata: Iterable[RecordMetadata | None] = ()
    ) -> None:
        """Note that more BATCH rows are durable, and where their records are. The channel's thread."""
        self._durable.append((rows, delivered, metadata))
        self.switches.nudge()

    def news(self, now_s: float, *, last: bool = False) -> Mapping[str, Any] | None:
        """Return the measures since the last report, None if there are none. The reader's own thread."""
        return self.meter.news(now_s, anyway=last)

    # -- start, on the task's thread, as everything below

    def run(self) -> None:
        """Run the task, and report its end by a row, whatever it raises.

        A request for offsets that was ended by a stop does not fail the task. A lost process gives a LOST row, and any
        other error a FAILED row. When the slice is over, nothing is reported.
        """
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
            except BaseException as error:  # also SystemExit: a thread that ended silently would leave its task RUNNING
                log.exception("task=%s run=%d FAILED", self._launch.task, self._launch.run)
                self._rows.put(Row(self._host, RowKind.FAILED, trace_of(error).encode()))
            end_by_ms = self.switches.end_by_ms
            self._rows.put(Row(self._host, RowKind.ENDED, b"" if end_by_ms is None else b"%d" % end_by_ms))
        except ShuttingDownError:
            log.info("task=%s run=%d: the slice is over", self._launch.task, self._launch.run)

    def _run_task(self) -> None:
        """Wait until the task is not paused, start it, poll until it has to stop, and stop it."""
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
        """Fence earlier producers, then ask whether the task may still start. Returns False if it has to stop.

        T1: only after that may the task read its position. Transactions of earlier producers are aborted by then.
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
        """Poll, with reports, pauses and throttling between two polls, until the task has to stop."""
        switches = self.switches
        while not switches.stopping:
            if self._durable:
                source.durable(self.take_durable())
            if switches.paused:
                source.settle()
                if source.is_within_change():  # the task continues from here: poll the rest of the change first
                    source.poll()
                    continue
                self._wait_while_paused(source)
                if not switches.stopping:
                    self._rows.put(Row(self._host, RowKind.RUNNING))
                continue
            if switches.throttled:
                switches.wait(None)
                continue
            source.poll()
        source.settle()
        if not source.is_within_change():  # else the transaction is dropped, and the next run reads all of it again
            self.end(self._final_end())
        self._await_durable(source)

    def _wait_while_paused(self, source: HostedSource | None = None) -> None:
        self.end(self._final_end())
        self._rows.put(Row(self._host, RowKind.PAUSED))
        while self.switches.paused and not self.switches.stopping:
            if source is not None and self._durable:
                source.durable(self.take_durable())
            self.switches.wait(None)

    # -- SourceOutput: batches become rows for the task writer

    def send(self, converted: ConvertedBatch) -> None:
        """Queue a batch as a BATCH row. A small batch may be served on this thread instead."""
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
        """Queue the end or the abort of a transaction after the rows so far."""
        if end is End.ABORT:
            self._rows.put(Row(self._host, RowKind.ABORT))
        if end is not End.NONE:
            shared = self._boundaries is not None and self._boundaries.boundary is Boundary.POLL
            self._rows.put(Row(self._host, RowKind.COMMIT, b"" if shared else EXACT))

    def take_durable(self) -> Sequence[Durable]:
        """Return the reports of durable batches that were not taken yet."""
        taken: list[Durable] = []
        while self._durable:
            taken.append(self._durable.popleft())
        self._undurable -= sum(rows for rows, _, _ in taken)
        return taken

    # -- the last reports before the task stops

    def _final_end(self) -> End:
        return End.NONE if self._boundaries is None else self._boundaries.final()

    def _await_durable(self, source: HostedSource) -> None:
        """Wait for the last durable batches, so that the hooks learn of them (Java ``finalOffsetCommit``).

        It waits as long as a flush may take, but only for a part of the stop's time, because ``stop`` of the task
        follows.
        """
        wait_ms = self._launch.flush.offset_flush_timeout_ms
        if self.switches.end_by_ms is not None:
            wait_ms = min(wait_ms, int(AWAIT_SHARE * (self.switches.end_by_ms - monotonic_ms())))
        until_ms = monotonic_ms() + wait_ms
        open_for_long = (
            self._boundaries is not None and self._boundaries.requests is not None
        )  # the task ends its own transactions
        while source.wants_commits and not open_for_long:
            if self._durable:
                source.durable(self.take_durable())
            if self._undurable <= 0 or (left_ms := until_ms - monotonic_ms()) <= 0:
                return
            self.switches.wait(left_ms / 1000)
