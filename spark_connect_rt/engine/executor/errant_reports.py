"""Where a task's errant records go: its log and, of sinks, its dead letter queue (Java ``ErrorReporter``).

Owns the queue's producer, made at the first dead letter. A dead letter counts as reported only after ``flush``; no
offset may be reported before (I3). Any thread: tasks may report from their own.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager

from spark_connect_rt.api.records import SinkRecord
from spark_connect_rt.base.hidden_values import without_secrets
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.executor.task_meter import TaskMeter
from spark_connect_rt.errors import ConnectError, TimedOutError
from spark_connect_rt.kafka.executor_clients import BatchProducer, ExecutorClients, SkipsRefused
from spark_connect_rt.records.pipeline.columns import ProduceRows
from spark_connect_rt.records.pipeline.dead_letters import DeadLetters, ReportSettings
from spark_connect_rt.records.pipeline.errant_records import FailedRecord, errant_put, log_sentence
from spark_connect_rt.records.pipeline.sink_pipeline import SinkPipeline, place_of

ASK_TIMEOUT_MS = 120_000  # how long a task waits for the end of a report that it made
log = logging.getLogger(__name__)


class ErrantLog:
    """Counts errant records and writes them to the log, in Java's words where the connector asks for them."""

    def __init__(
        self, task: ConnectorTaskId, settings: ReportSettings, clients: ExecutorClients, meter: TaskMeter | None = None
    ) -> None:
        self._task = task
        self._meter = meter or TaskMeter("")
        self._settings = settings
        self._clients = clients

    def write(self, errants: Iterable[FailedRecord], *, by_task: bool = False) -> None:
        """Count and log each; its content only with errors.log.include.messages. ``by_task``: the task gave it up."""
        for errant in errants:
            self._count(by_task)
            if self._settings.logs:
                sentence = log_sentence(
                    self._task, errant, self._clients.name_of, with_record=self._settings.logs_records
                )
                log.error("%s", sentence, exc_info=errant.error)
                self._meter.count("errors.logged.records")
                continue
            error = f"{type(errant.error).__name__}: {errant.error}"
            what = "skipped" if self._settings.tolerates_all else "fails at"
            log.warning("task=%s %s %s, stage %s: %s", self._task, what, errant.place, errant.stage.value, error)

    def _count(self, by_task: bool) -> None:
        """Count as Java (``executeFailed``): a tolerated record of a task is neither an error nor skipped."""
        self._meter.count("errors.failures")
        if not (by_task and self._settings.tolerates_all):
            self._meter.count("errors.given_up")
            self._meter.count("errors.skipped", self._settings.tolerates_all)


def ensure_dead_letter_queue(
    clients: ExecutorClients, settings: ReportSettings, admin_config: Mapping[str, str]
) -> None:
    """Create the queue's topic when it is missing. Raises ConnectError in Java's words."""
    if not settings.topic:
        return
    try:
        created = clients.ensure_topic(admin_config, settings.topic, settings.replication_factor)
    except ConnectError as error:
        message = f"Could not initialize dead letter queue with topic={settings.topic}: {error}"
        raise ConnectError(message, code="CRT-1057") from error
    if created:
        log.info("dead letter queue %s was missing and is created", settings.topic)


class ErrantReports:
    """Reports the errant records of one sink task."""

    def __init__(
        self,
        task: ConnectorTaskId,
        settings: ReportSettings,
        clients: ExecutorClients,
        producer_config: Mapping[str, str],
        meter: TaskMeter | None = None,
    ) -> None:
        """Take what it needs; ``producer_config`` has its secrets. Nothing is opened yet."""
        self.settings = settings
        self._meter = meter or TaskMeter("")
        self._log = ErrantLog(task, settings, clients, self._meter)
        self._clients = clients
        self._letters = DeadLetters(settings, task, clients.name_of, without_secrets)
        self._producer_config = producer_config
        self._producer: BatchProducer | None = None
        self._lock = threading.RLock()
        self._waiting: list[_Report] = []
        self._unflushed = False
        self._refused: ConnectError | None = None  # the first refusal: an offset behind it is never safe again

    def tell(self, errants: Iterable[FailedRecord], *, by_task: bool = False) -> None:
        """Log errant records and send them to the queue. Raises ConnectError: it refuses one, maybe an earlier one."""
        errants = tuple(errants)
        self._log.write(errants, by_task=by_task)
        rows = ProduceRows()
        for errant in errants if self.settings.topic else ():
            row = self._letters.of_sink(errant)
            if row is not None:
                rows.append(row)
        if len(rows):
            with self._lock, self._explained():
                self._unflushed = True
                self._meter.count("dead_letters.records", len(rows))
                self._open().produce(rows.take())

    def report(self, errant: FailedRecord) -> Future[None]:
        """Report an errant record; return a future that completes when its letter is acknowledged."""
        with self._lock:
            self.tell((errant,), by_task=True)
            report = _Report(self)
            if self._unflushed:
                self._waiting.append(report)
            else:
                report.set_result(None)
            return report

    def flush(self, timeout_ms: int) -> bool:
        """Wait for acknowledgements; False: not all came in time. Raises ConnectError: a dead letter is refused.

        Java logs that and continues, and the record is lost; here the task fails and nothing is committed.
        """
        with self._lock:
            if self._refused is not None:  # asked again when the failed task is closed: still nothing is safe
                raise self._refused
            if not self._unflushed or self._producer is None:
                return True
            try:
                with self._explained():
                    self._producer.flush(timeout_ms)
                    self._shorten(self._producer, timeout_ms)
            except TimedOutError as error:
                log.warning("dead letter queue %s: %s", self.settings.topic, error)
                return False
            self._unflushed = False
            self._end_reports(None)
            return True

    def _shorten(self, producer: BatchProducer, timeout_ms: int) -> None:
        """Send letters that are too large for the queue again, as their first bytes. Raises ConnectError as flush."""
        if not isinstance(producer, SkipsRefused) or not (refused := producer.refused()):
            return
        rows = ProduceRows()
        for letter in refused:
            row = self._letters.of_refused_letter(letter)
            if row is None:
                raise letter.error
            rows.append(row)
        log.warning("dead letter queue %s: %d letters are too large and are cut", self.settings.topic, len(rows))
        producer.produce(rows.take())
        producer.flush(timeout_ms)
        if again := producer.refused():
            raise again[0].error

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say of a refusal that it is the queue's; a timeout stays one."""
        try:
            yield
        except TimedOutError:
            raise
        except ConnectError as error:
            failure = ConnectError(
                f"dead letter queue {self.settings.topic} does not take a record: {error}", code="CRT-1057"
            )
            self._refused = failure
            self._meter.count("dead_letters.refused")
            self._end_reports(failure)
            raise failure from error

    def _end_reports(self, failure: ConnectError | None) -> None:
        waiting, self._waiting = self._waiting, []
        for report in waiting:
            if failure is None:
                report.set_result(None)
            else:
                report.set_exception(failure)

    def _open(self) -> BatchProducer:
        if self._producer is None:
            self._producer = self._clients.producer(self._producer_config)
            if isinstance(self._producer, SkipsRefused):
                self._producer.skip_refused()
        return self._producer

    def close(self, timeout_ms: int) -> None:
        """Flush and close. Dead letters that are not acknowledged in time are dropped; their records are read again."""
        with self._lock:
            try:
                if self._refused is None:
                    self.flush(timeout_ms)
            finally:
                if self._producer is not None:
                    self._producer.close()
                    self._producer = None
                for report in self._waiting:
                    report.cancel()
                self._waiting = []


class _Report(Future[None]):
    """A future that is done when its dead letter is acknowledged. Asking for its result flushes the queue."""

    def __init__(self, reports: ErrantReports) -> None:
        super().__init__()
        self._reports = reports

    def result(self, timeout: float | None = None) -> None:
        """Flush, then return. Raises TimeoutError, and what the delivery failed with."""
        if not self.done():
            self._reports.flush(ASK_TIMEOUT_MS if timeout is None else int(timeout * 1000))
        return super().result(0)


class SinkErrantReporter:
    """The sink task's ErrantRecordReporter (KIP-610)."""

    def __init__(self, reports: ErrantReports, pipeline: SinkPipeline) -> None:
        self._reports = reports
        self._pipeline = pipeline
        self._lock = threading.Lock()
        self._reported = 0

    def report(self, record: SinkRecord, error: Exception) -> Future[None]:
        """Skip one record and return its dead letter's future. Raises ConnectError when ``errors.tolerance=none``."""
        original = self._pipeline.original_of(record)
        future = self._reports.report(errant_put(place_of(original), error, original))
        if not self._reports.settings.tolerates_all:
            raise ConnectError("Tolerance exceeded in error handler") from error
        with self._lock:
            self._reported += 1
        return future

    def take_count(self) -> int:
        """Return how many records were reported since the last call."""
        with self._lock:
            taken, self._reported = self._reported, 0
            return taken
