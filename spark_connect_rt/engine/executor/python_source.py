"""A Python source task behind the contract of ``source_task.py``.

Read it downward: start, poll, transform, convert, send, then the commit hooks for durable records, and stop.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from spark_connect_rt.api.records import Delivered, Polled, RecordMetadata, SourceBatch, SourceRecord, Written
from spark_connect_rt.api.task import OffsetReader, OwnWrites, SourceTask, SourceTaskContext
from spark_connect_rt.base.hidden_values import without_secrets
from spark_connect_rt.config.client_properties import SHARED_CLIENT
from spark_connect_rt.engine.executor.errant_reports import ErrantLog, ensure_dead_letter_queue
from spark_connect_rt.engine.executor.hosting import load_class, monotonic_ms
from spark_connect_rt.engine.executor.idle_poller import IDLE_POLLER
from spark_connect_rt.engine.executor.poll_gate import POLL_GATE, GatedPolls
from spark_connect_rt.engine.executor.source_task import DriverLink, Durable, HostedSource, SourceParts
from spark_connect_rt.engine.executor.task_meter import MeteredPluginMetrics, TaskMeter
from spark_connect_rt.engine.task_runner import TaskLaunch
from spark_connect_rt.errors import DataError, RetriableError
from spark_connect_rt.kafka.executor_clients import DeliveryReports
from spark_connect_rt.records.pipeline.dead_letters import DeadLetters, ReportSettings
from spark_connect_rt.records.pipeline.delivery_runs import DeliveryRuns
from spark_connect_rt.records.pipeline.errant_records import RetryInterrupted, RetryWait
from spark_connect_rt.records.pipeline.source_pipeline import ConvertedBatch, SourcePipeline
from spark_connect_rt.records.pipeline.transaction_boundaries import End, TransactionBoundaries

_RETRY_WAIT_S = 0.1  # before the next poll after a RetriableError
log = logging.getLogger(__name__)


class _OffsetReader(OffsetReader):
    """Asks the driver, which reads the offset store to its end."""

    def __init__(self, host: int, driver: DriverLink) -> None:
        self._host = host
        self._driver = driver

    def offsets(self, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        return self._driver.ask_offsets(self._host, partitions)


class _Context(SourceTaskContext):
    """The ``SourceTaskContext`` of a task."""

    def __init__(self, launch: TaskLaunch, offset_reader: OffsetReader, meter: TaskMeter) -> None:
        self.offset_reader = offset_reader
        self.metrics = MeteredPluginMetrics(meter)
        self._meter = meter
        self.own_writes = OwnWrites()
        self.pipeline: SourcePipeline | None = None
        self._task = launch.task

    def report_errant(self, place: str, error: Exception, data: bytes | None = None) -> None:
        assert self.pipeline is not None
        self.pipeline.report_errant(f"task {self._task}: unreadable input at {place}", error, data)

    def record_event(self, summary: str, **details: str | int) -> None:
        self._meter.record_event(summary, **details)


class PythonSource(HostedSource):
    """A ``SourceTask`` in this process, with its pipeline and its commit hooks."""

    def __init__(self, parts: SourceParts, task_class: type[SourceTask]) -> None:
        """Take the parts and the class of the task, and make nothing yet."""
        super().__init__(parts)
        self.delivery_reports = delivery_reports_of(task_class)
        self._task_class = task_class
        self._task: SourceTask | None = None
        self._sent = SentRecords()  # used only for tasks with commit_record
        self._boundaries: TransactionBoundaries | None = None
        self._gated = GatedPolls(POLL_GATE)

    # -- start

    def start(self, boundaries: TransactionBoundaries | None) -> None:
        """Make the task with its context and its pipeline, create its dead letter queue if missing, and start it."""
        parts, launch = self.parts, self.parts.launch
        context = _Context(launch, _OffsetReader(parts.host, parts.driver), parts.meter)
        context.previewed = parts.previewed
        task = self._task_class()
        self.wants_commits = wants_commits(self._task_class)
        task.context = context
        worker_config = parts.resolved(launch.worker_config)
        connector_config = parts.resolved(launch.connector_config)
        waiting = RetryWait(monotonic_ms, self._wait_ms)
        settings = ReportSettings.from_config(connector_config)
        self._errant_log = ErrantLog(launch.task, settings, parts.clients, parts.meter)
        letters = self._dead_letters(settings)
        pipeline = SourcePipeline.from_config(connector_config, worker_config, parts.clients.plugin, waiting, letters)
        self._pipeline = context.pipeline = pipeline
        self._boundaries = boundaries
        context.own_writes = self._own_writes(pipeline.onlookers(), boundaries is not None)
        if boundaries is not None:
            context.transaction_context = boundaries.requests
        self._task = task
        task.start(parts.resolved(launch.config))

    def _dead_letters(self, settings: ReportSettings) -> DeadLetters | None:
        """Return the maker of dead letters, after its topic is created. None if the connector has no queue."""
        if not settings.topic:
            return None
        clients, launch = self.parts.clients, self.parts.launch
        ensure_dead_letter_queue(clients, settings, self.parts.resolved(launch.dead_letter_admin))
        return DeadLetters(settings, launch.task, clients.name_of, without_secrets)

    def _own_writes(self, onlookers: Sequence[str], exactly_once: bool) -> OwnWrites:
        obstacles = [*onlookers, *(["exactly.once.source.support"] if exactly_once else [])]
        if obstacles:
            return OwnWrites(None, obstacles)
        # The task writes with its own connections, so it does not matter whether task writers share theirs.
        properties = self.parts.resolved(self.parts.launch.client_config)
        return OwnWrites({name: text for name, text in properties.items() if name not in SHARED_CLIENT}, obstacles)

    @property
    def _running(self) -> SourceTask:
        assert self._task is not None
        return self._task

    # -- poll, transform, convert, send

    def poll(self) -> None:
        """Poll once, convert and send, and wait if the task had nothing."""
        if self._gated.run(self._poll_once):
            self._wait_idle(self._running)

    def _poll_once(self) -> bool:
        """Poll, convert and send. Returns whether the task had nothing."""
        task, output = self._running, self.parts.output
        try:
            polled = self._polled(task)
            if polled is None:
                return False
            pieces, rows_of_each = self._converted(polled)
        except RetryInterrupted:
            self._pipeline.give_up()  # the next start polls the same records again
            return False
        except DataError:
            last = self._pipeline.give_up()
            if last is not None:  # as in Java, also the record that fails the task is reported
                self._send(last)
                if self._boundaries is not None and self._boundaries.requests is None:
                    output.end(End.COMMIT)
            raise
        if self.delivery_reports is DeliveryReports.RECORDS:
            sent = [(batch.records, batch.batch.num_rows) for batches, _ in pieces for batch in batches]
            self._sent.add(polled, rows_of_each, sent)
        for batches, end in pieces:
            for converted in batches:
                self._send(converted)
            output.end(end)
        return not polled

    def _polled(self, task: SourceTask) -> Sequence[Polled] | None:
        """Return the result of a poll, None if it has to be tried again."""
        try:
            return self._metered_poll(task)
        except RetriableError as error:
            # As in Java, the task is not failed, and this counts as an empty poll.
            log.warning("task=%s: poll will be retried: %s", self.parts.launch.task, error)
            self.parts.switches.wait(_RETRY_WAIT_S)
            return None

    def _metered_poll(self, task: SourceTask) -> Sequence[Polled]:
        with self.parts.meter.call("poll"):
            polled = task.poll() or ()
        if polled:
            self.parts.meter.moved("poll", _count(polled))
        return polled

    def _converted(self, polled: Sequence[Polled]) -> tuple[list[tuple[list[ConvertedBatch], End]], list[int]]:
        """Convert the result of a poll, in pieces that end where transactions end.

        Also returns how many Kafka records each polled piece became.
        """
        pieces, rows_of_each = [], list[int]()
        for piece, end in self._cut(polled):
            pieces.append((self._pipeline.convert(piece), end))
            rows_of_each += self._pipeline.rows_of_each
        return pieces, rows_of_each

    def _cut(self, polled: Sequence[Polled]) -> Sequence[tuple[Sequence[Any], End]]:
        return ((polled, End.NONE),) if self._boundaries is None else self._boundaries.cut(polled, monotonic_ms())

    def _wait_ms(self, wait_ms: int) -> bool:
        """Wait between two attempts at converting a record. Returns False if the task has to stop."""
        goes_on = self.parts.switches.wait_ms(wait_ms)
        self.parts.meter.count_attempt(again=goes_on)
        return goes_on

    def _send(self, converted: ConvertedBatch) -> None:
        self._errant_log.write(converted.errants)
        self.parts.output.send(converted)

    def _wait_idle(self, task: SourceTask) -> None:
        wait_s = self._gated.waits(task.idle_wait_ms() / 1000)
        # With transactions the task keeps polling, because only a poll ends a transaction that is due.
        look = task.idle_look() if self._boundaries is None else None
        if look is None:
            self.parts.switches.wait(wait_s)
        else:
            IDLE_POLLER.wait(self.parts.switches, look, wait_s)

    # -- commit: call the hooks of the task for records that are durable

    def durable(self, reports: Sequence[Durable]) -> None:
        """Call ``commit_record``, ``commit_offsets`` and ``commit`` of the task for durable batches."""
        task = self._running
        any_rows, delivered, runs = False, list[Delivered](), DeliveryRuns()
        for rows, where, metadata in reports:
            any_rows = any_rows or rows > 0
            delivered += where
            if self.delivery_reports is DeliveryReports.RECORDS:
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
        except BaseException:
            log.exception("task=%s: %s failed, ignored", self.parts.launch.task, hook.__name__)

    def _take_last_reports(self) -> None:
        self.durable(self.parts.output.take_durable())

    # -- pause and stop

    def has_more(self) -> bool | None:
        """Return what the task says after an empty poll. None: it does not know."""
        return self._running.has_more()

    def settle(self) -> None:
        """Wait for the records that the task writes by itself, and send what it has written."""
        task, switches = self._task, self.parts.switches
        while task is not None and task.is_writing():
            if switches.stopping and switches.end_by_ms is not None and monotonic_ms() >= switches.end_by_ms:
                log.warning(
                    "task=%s stops without draining: records without an acknowledgement will be read again",
                    self.parts.launch.task,
                )
                return
            written = task.finish_writing()
            if written:
                self.parts.meter.moved("poll", _count(written))
                for converted in self._pipeline.convert(written):
                    self._send(converted)

    def stop(self) -> None:
        """Take the last reports, stop the task and close its pipeline. A step that fails does not stop the next."""
        if self._task is None:
            return
        steps: tuple[Callable[[], object], ...] = (self._take_last_reports, self._task.stop, self._pipeline.close)
        for step in steps:
            try:
                step()
            except BaseException:
                log.exception("task=%s: stop failed, ignored", self.parts.launch.task)


def _count(polled: Sequence[Polled]) -> int:
    return sum(map(_records_of, polled))


def _records_of(piece: Polled) -> int:
    if isinstance(piece, SourceBatch):
        return len(piece.values)
    return piece.records if isinstance(piece, Written) else 1


def make_hosted_source(parts: SourceParts) -> HostedSource:
    """Return the source that hosts the task of a launch.

    The task class of the launch is either a ``HostedSource`` itself (a task in a JVM) or a Python task. Raises
    NotFoundError for a class that cannot be loaded.
    """
    found = load_class(parts.launch.task_class)
    return found(parts) if issubclass(found, HostedSource) else PythonSource(parts, found)


RecordReport = tuple[SourceRecord, RecordMetadata | None]


@dataclass(frozen=True, slots=True)
class _Sent:
    """One BATCH row of ``rows`` Kafka records. The first ``records`` are the task's, the others are dead letters."""

    records: int
    rows: int
    ends: Sequence[tuple[Polled, int]] | None  # for the last row of a poll: its pieces, and the rows of each


class SentRecords:
    """The records of a task that were sent and not yet reported, for a task with ``commit_record``. Pure.

    A poll becomes one or more BATCH rows. When the last of them is durable, each of its records is reported, in order.
    The task's thread.
    """

    def __init__(self) -> None:
        self._sent: deque[_Sent] = deque()
        self._places: deque[RecordMetadata | None] = deque()  # of a poll of which only a part is durable

    def add(
        self,
        polled: Sequence[Polled],
        rows_of_each: Sequence[int],
        batches: Sequence[tuple[int, int]],
    ) -> None:
        """Remember the records of a poll until their BATCH rows are durable.

        Args:
            polled: the result of the poll.
            rows_of_each: how many records of the topic each piece of it became. For a SourceRecord that is 1, or 0 if
                it was dropped.
            batches: the number of the task's records and of all rows, for each BATCH row of the poll.
        """
        pairs = list(zip(polled, rows_of_each, strict=True))
        for index, (records, rows) in enumerate(batches, 1):
            self._sent.append(_Sent(records, rows, pairs if index == len(batches) else None))

    def durable(self, batches: int, metadata: Iterable[RecordMetadata | None]) -> Iterator[RecordReport]:
        """Yield the reports that are due when this many more BATCH rows are durable.

        Args:
            batches: the number of BATCH rows.
            metadata: the place of each Kafka record of these rows, in order.
        """
        places = iter(metadata)
        for _ in range(min(batches, len(self._sent))):
            sent = self._sent.popleft()
            self._places.extend(list(islice(places, sent.rows))[: sent.records])
            if sent.ends is not None:
                yield from self._record_reports(sent.ends)

    def _record_reports(self, ends: Sequence[tuple[Polled, int]]) -> Iterator[RecordReport]:
        for piece, rows in ends:
            found = [self._places.popleft() for _ in range(min(rows, len(self._places)))]
            if isinstance(piece, SourceRecord):
                yield piece, found[0] if found else None
        self._places.clear()


def wants_commits(task_class: type[SourceTask]) -> bool:
    """Return whether the task has a hook that is called when batches are durable."""
    return task_class.commit is not SourceTask.commit or delivery_reports_of(task_class) is not DeliveryReports.NOTHING


def wants_offsets(task_class: type[SourceTask]) -> bool:
    """Return whether the task wants to know the offsets of its records."""
    return task_class.commit_offsets is not SourceTask.commit_offsets


def delivery_reports_of(task_class: type[SourceTask]) -> DeliveryReports:
    """Return the delivery reports that the task wants."""
    if task_class.commit_record is not SourceTask.commit_record:
        return DeliveryReports.RECORDS
    return DeliveryReports.OFFSETS if wants_offsets(task_class) else DeliveryReports.NOTHING
