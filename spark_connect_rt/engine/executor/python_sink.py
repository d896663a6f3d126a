"""Everything a worker asks of a sink task, and the Python task behind it.

``HostedSink`` is the contract: ``sink_task.py`` decides what comes next, an implementation converts, transforms and
calls the task. ``PythonSink`` runs the task in this process, ``engine.java_host.sink_task`` in a JVM.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import pyarrow as pa

from spark_connect_rt.api.records import SinkBatch, SinkRecord
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.adaptive_fallback import BackedOffTries
from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.config.connectrt_config import OF_SINKS_ONLY, REFUSALS_MAX
from spark_connect_rt.engine.executor.errant_reports import ErrantReports, SinkErrantReporter
from spark_connect_rt.engine.executor.hosting import load_class, monotonic_ms
from spark_connect_rt.engine.executor.sink_context import WorkerSinkTaskContext
from spark_connect_rt.engine.executor.task_meter import TaskMeter
from spark_connect_rt.engine.task_runner import TaskLaunch
from spark_connect_rt.errors import ConnectError, DataError, ExternalError, RetriableError
from spark_connect_rt.kafka.executor_clients import ExecutorClients
from spark_connect_rt.kafka.interfaces import GroupGeneration
from spark_connect_rt.records.pipeline.dead_letters import ReportSettings
from spark_connect_rt.records.pipeline.errant_records import Errant, RetryInterrupted, Waiting, errant_put
from spark_connect_rt.records.pipeline.sink_pipeline import (
    SinkConverted,
    SinkPipeline,
    by_partition,
    is_of_one_partition,
    place_of,
    place_of_record,
)

log = logging.getLogger(__name__)


class PutOutcome(Enum):
    """What became of a delivery."""

    TAKEN = auto()
    RETRY = auto()  # the task asks for it again, from behind ``rows_taken``
    PARTIAL = auto()  # what is behind ``rows_taken`` is prepared again
    AS_RECORDS = auto()  # columns that the task leaves, or refused: convert them to records


@dataclass(frozen=True, slots=True)
class SinkParts:
    """What a lane hands to what takes its batches."""

    launch: TaskLaunch
    clients: ExecutorClients
    connector_config: Mapping[str, str]  # resolved, as the next
    worker_config: Mapping[str, str]
    context: WorkerSinkTaskContext  # what the task asks for is gathered here
    meter: TaskMeter
    wait_ms: Callable[[int], bool]  # between attempts at one record; False: a revocation or the end waits
    must_not_wait: Callable[[], bool]  # a revocation or the end waits
    ending: Callable[[], bool]  # the end waits


class HostedSink(ABC):
    """One sink task with its converters and transformations.

    Every call but ``make_ready`` comes from the lane's thread. What a call raises fails the task, unless it says
    otherwise.
    """

    joins_partitions = False  # whether batches of several partitions may be joined for it
    pre_commit_has_effects = False  # whether ``pre_commit`` has effects whose number matters, known once it is started

    def __init__(self, parts: SinkParts) -> None:
        """Take what the lane has; nothing is started. Raises BadConfigError: no such converter or transformation."""
        self.parts = parts

    @abstractmethod
    def start(self, reports: ErrantReports) -> None:
        """Make and start the task. ``reports``: where its errant records go."""

    @abstractmethod
    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions are newly assigned."""

    def split(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        """Return a batch in consume form as it is to be delivered, maybe as several."""
        return [batch]

    @abstractmethod
    def prepare(self, batch: pa.RecordBatch, *, as_records: bool) -> Any | None:
        """Return what ``deliver`` takes for a batch; None: something could not wait, look at the batch again.

        ``as_records``: its last delivery was BY_RECORDS.
        """

    def max_put_records(self) -> int | None:
        """Return how many records of several reads are delivered at once; None: those of one read."""
        return None

    def prepare_ahead(self, batch: pa.RecordBatch) -> Any | None:
        """Return what ``accept`` takes instead of ``prepare``, None: nothing. Reports and counts nothing.

        On a thread of its own, while ``deliver`` is called for the batch before.
        """
        return None

    def accept_prepared(self, ready: Any) -> Any | None:
        """Return what ``deliver`` takes for the batch that ``make_ready`` was given; None: ``prepare`` it."""
        return None

    def may_prepare_next(self, prepared: Any) -> bool:
        """Tell whether the next batch is likely to be accepted when this one is being delivered."""
        return False

    @abstractmethod
    def deliver(self, prepared: Any) -> PutOutcome:
        """Put what was prepared last, or go on with it after AGAIN."""

    @property
    def rows_taken(self) -> int:
        """How many first rows of a batch its last delivery put, though it was not TAKEN, also when it raised."""
        return 0

    @property
    @abstractmethod
    def counts(self) -> tuple[int, int]:
        """How many records were put by the last delivery that took rows, and how many were tolerated errant ones."""

    @abstractmethod
    def put_empty(self) -> None:
        """Let the task look at its clock: an empty put. One that asks for it again gets it in time."""

    @abstractmethod
    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return which of these next offsets the task says are safe; what it raises fails nothing."""

    @abstractmethod
    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions go away; after their ``pre_commit``."""

    def note_generation(self, generation: GroupGeneration) -> None:
        """The task's group member has joined this generation. Any thread, also before ``start``."""

    def abandon(self) -> None:
        """End all of it at once, whatever call it is in: the slice is over. Any thread."""

    def take_reported_count(self) -> int:
        """Return how many records the task itself reported as errant since the last call."""
        return 0

    @abstractmethod
    def stop(self) -> None:
        """Stop the task, also one whose ``start`` failed, and close what ``start`` opened."""


class PythonSink(HostedSink):
    """A ``SinkTask`` in this process."""

    def __init__(self, parts: SinkParts, task_class: type[SinkTask]) -> None:
        """See HostedSink: the pipeline. ``task_class``: what ``parts.launch`` names."""
        super().__init__(parts)
        self._task_class = task_class
        self._task: SinkTask | None = None
        self._reporter: SinkErrantReporter | None = None
        self._counts = (0, 0)
        self._flush_timeout_ms = parts.launch.flush.offset_flush_timeout_ms
        self._pipeline = SinkPipeline.from_config(
            parts.connector_config,
            parts.worker_config,
            parts.clients.plugin,
            Waiting(monotonic_ms, parts.wait_ms),
            keeps_originals=ReportSettings.from_config(parts.connector_config).reports,
            guard=threading.RLock(),  # converters and transformations are made for one thread
        )

    def start(self, reports: ErrantReports) -> None:
        """See HostedSink."""
        launch, context = self.parts.launch, self.parts.context
        self._reports = reports
        if reports.settings.reports:
            self._reporter = context.reporter = SinkErrantReporter(reports, self._pipeline)
        self._task = task = self._task_class()
        config = self.parts.clients.resolve(launch.config, launch.worker_config)
        context.set_config(config)
        task.context = context
        max_rejections: int = OF_SINKS_ONLY.parse(self.parts.connector_config)[REFUSALS_MAX]
        self._delivery = PutDelivery(
            launch.task, task, self._pipeline, reports, max_rejections, self.parts.must_not_wait, self.parts.meter
        )
        task.start(config)

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """See HostedSink."""
        self.running.open(partitions)

    @property
    def running(self) -> SinkTask:
        """The task, between ``start`` and ``stop``."""
        assert self._task is not None
        return self._task

    def split(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        """See HostedSink: a task that takes columns gets each partition for itself."""
        return self._delivery.split(batch)

    def prepare(self, batch: pa.RecordBatch, *, as_records: bool) -> SinkConverted | None:
        """See HostedSink: converts. Raises DataError: a record that is not tolerated, reported before."""
        converted = self._convert(batch, as_records)
        if converted is not None:
            self._delivery.start_over()
        return converted

    def _convert(self, batch: pa.RecordBatch, as_records: bool) -> SinkConverted | None:
        if not as_records and (columns := self._delivery.columns(batch)) is not None:
            return columns
        return converted_and_reported(self._pipeline, batch, self._reports, self._flush_timeout_ms)

    def max_put_records(self) -> int | None:
        """See HostedSink: as the user says, else the task."""
        launch = self.parts.launch
        own = self.parts.clients.resolve(launch.client_config, launch.worker_config).get("max.poll.records")
        return self.running.largest_put() if own is None else int(own)

    def prepare_ahead(self, batch: pa.RecordBatch) -> SinkConverted | None:
        """See HostedSink: columns only, as records may be errant."""
        return self._delivery.columns_ahead(batch)

    def accept_prepared(self, ready: SinkConverted) -> SinkConverted | None:
        """See HostedSink."""
        if not self._delivery.takes_columns:
            return None
        self._delivery.start_over()
        return ready

    def may_prepare_next(self, prepared: SinkConverted) -> bool:
        """See HostedSink: columns are likely to be followed by columns."""
        return prepared.columns is not None

    def deliver(self, prepared: SinkConverted) -> PutOutcome:
        """See HostedSink."""
        outcome = self._delivery.deliver(prepared)
        rejected = self._delivery.rejected
        self._counts = prepared.count - rejected, prepared.skipped + rejected
        return outcome

    @property
    def counts(self) -> tuple[int, int]:
        """See HostedSink."""
        return self._counts

    def put_empty(self) -> None:
        """See HostedSink."""
        self._delivery.put([])

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """See HostedSink."""
        return self.running.pre_commit(offsets)

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """See HostedSink."""
        self.running.close(partitions)

    def take_reported_count(self) -> int:
        """See HostedSink."""
        return 0 if self._reporter is None else self._reporter.take_count()

    def stop(self) -> None:
        """See HostedSink."""
        task, self._task = self._task, None
        if task is not None:
            with ExitStack() as last_first:
                last_first.callback(self._pipeline.close)
                last_first.callback(task.stop)


def converted_and_reported(
    pipeline: SinkPipeline, batch: pa.RecordBatch, reports: ErrantReports, flush_timeout_ms: int
) -> SinkConverted | None:
    """Return the records of a batch, the errant ones reported; None: something could not wait for an attempt.

    Raises DataError: a record is errant and not tolerated, which was reported before.
    """
    try:
        converted = pipeline.convert(batch)
    except RetryInterrupted:
        pipeline.take_errants()  # found again when the batch is
        return None
    except DataError:
        reports.tell(pipeline.take_errants())  # as Java: also the one that fails the task
        reports.flush(flush_timeout_ms)
        raise
    reports.tell(converted.errants)
    return converted


def make_hosted_sink(parts: SinkParts) -> HostedSink:
    """Return what hosts the task of a launch: its class, if that is behind the seam, else this process.

    Raises NotFoundError; BadConfigError: no such converter or transformation.
    """
    found = load_class(parts.launch.task_class)
    return found(parts) if issubclass(found, HostedSink) else PythonSink(parts, found)


class PutDelivery:
    """One task's puts. One thread."""

    def __init__(
        self,
        task_id: ConnectorTaskId,
        task: SinkTask,
        pipeline: SinkPipeline,
        reports: ErrantReports,
        max_rejections: int,
        interrupted: Callable[[], bool],
        meter: TaskMeter | None = None,
    ) -> None:
        """Take the parts.

        Args:
            max_rejections: in a row, before the fault is not the records' (0: never look for the records to blame).
            interrupted: whether something must not wait for the end of the search.
        """
        self._task_id = task_id
        self._task = task
        self._pipeline = pipeline
        self._reports = reports
        self._max_rejections = max_rejections
        self._interrupted = interrupted
        self._meter = meter or TaskMeter("writer")
        self._searches = reports.settings.tolerates_all and max_rejections > 0
        self._search: BadRecordSearch | None = None
        self._rejected_in_a_row = 0
        self._column_tries = BackedOffTries()
        self.takes_columns = False  # the last ``parts`` may go as columns
        self.rejected = 0  # of the batch delivered last

    def split(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Return a batch in consume form as it is to be converted: maybe a part for each partition, for columns."""
        takes_columns = type(self._task).put_batch is not SinkTask.put_batch and self._column_tries.due()
        parts = by_partition(batch) if takes_columns and self._task.wants_partitions_apart() else [batch]
        self.takes_columns = takes_columns and all(map(is_of_one_partition, parts))
        return parts

    def columns(self, batch: pa.RecordBatch) -> SinkConverted | None:
        """Return one of the last ``parts`` as columns; None: it is to go by records."""
        if not self.takes_columns:
            return None
        converted = self.columns_ahead(batch)
        if converted is None:
            self._column_tries.failed()
        return converted

    def columns_ahead(self, batch: pa.RecordBatch) -> SinkConverted | None:
        """Return a batch as columns as ``columns`` may do later; nothing is counted. Any thread."""
        task = self._task
        return self._pipeline.columns(
            batch,
            absent_values=task.takes_absent_values(),
            headers_matter=task.reads_headers(),
            with_headers=task.takes_headers(),
        )

    def deliver(self, converted: SinkConverted) -> PutOutcome:
        """Put what was converted, or go on with it. Raises what fails the task."""
        if converted.columns is not None:
            return self._put_batch(converted.columns)
        return PutOutcome.TAKEN if self.put(converted.records) else PutOutcome.RETRY

    def _put_batch(self, batch: SinkBatch) -> PutOutcome:
        self.rejected = 0
        if not len(batch.values):
            return PutOutcome.TAKEN
        try:
            with self._meter.call("put"):
                taken = self._task.put_batch(batch)
        except RetriableError as error:
            self._log_retry(error)
            return PutOutcome.RETRY
        except Exception as error:
            if not self._may_search(error):
                raise
            self._column_tries.failed()
            return PutOutcome.AS_RECORDS  # the record to blame is found there
        if not taken:
            self._column_tries.failed()
            return PutOutcome.AS_RECORDS
        self._column_tries.worked()
        self._meter.moved("put", len(batch.values))
        self._rejected_in_a_row = 0
        return PutOutcome.TAKEN

    def _log_retry(self, error: Exception) -> None:
        log.warning("task=%s: put will be retried: %s", self._task_id, error)

    def put(self, records: Sequence[SinkRecord]) -> bool:
        """Put a batch, or go on with it; False: the task asks for it again. Raises what fails the task."""
        try:
            self._put(records)
        except RetriableError as error:
            self._log_retry(error)
            return False
        return True

    def start_over(self) -> None:
        """The batch is given up or cut: the next ``put`` begins from scratch."""
        self._search = None

    def _put(self, records: Sequence[SinkRecord]) -> None:
        self.rejected = 0
        if self._search is None:
            try:
                self._put_metered(records)
            except Exception as error:
                if not records or not self._may_search(error):
                    raise
                self._search = self._begin_search(records, error)
            else:
                if records:
                    self._rejected_in_a_row = 0
                return
        self._search.run(self._put_half)
        search, self._search = self._search, None
        self._rejected_in_a_row = search.in_a_row
        self.rejected = len(search.rejected)
        self._reports.tell(
            self._errant(rejected_record.record, rejected_record.error) for rejected_record in search.rejected
        )

    def _may_search(self, error: Exception) -> bool:
        """Return whether the records to blame for an error of a put are looked for."""
        if not self._searches or isinstance(error, RetriableError):
            return False
        if not blames_records(error):
            log.warning(
                "task=%s: put raised %s, which does not name a bad record, so the task fails and no record is "
                "dead-lettered. A sink raises DataError for a record that it cannot process.",
                self._task_id,
                type(error).__name__,
            )
            return False
        return self._task.may_put_halves()

    def _put_half(self, records: Sequence[SinkRecord]) -> None:
        if self._interrupted():
            raise RetriableError("partitions leave, or the task ends")
        self._put_metered(records)

    def _put_metered(self, records: Sequence[SinkRecord]) -> None:
        with self._meter.call("put"):
            self._task.put(records)
        if records:
            self._meter.moved("put", len(records))

    def _begin_search(self, records: Sequence[SinkRecord], error: Exception) -> BadRecordSearch:
        log.warning(
            "task=%s: put rejected %d records, searching for the bad ones: %s: %s",
            self._task_id,
            len(records),
            type(error).__name__,
            error,
        )
        return BadRecordSearch(records, error, self._max_rejections, self._rejected_in_a_row)

    def _errant(self, record: SinkRecord, error: Exception) -> Errant:
        if self._reports.settings.reports:
            original = self._pipeline.original_of(record)
            return errant_put(place_of(original), error, original)
        return errant_put(place_of_record(record), error, None)


# Finds the records a sink task refuses: a batch is halved down to them (beyond Java, ``errors.tolerance=all``). Pure.
#
# Every ``put`` of a half is a put of its own, in order: what a task delivered of a batch before it refused the whole is
# put again with its half (at-least-once). One bad record in n costs about 2 log2(n) puts.
#
# Only a DataError blames records. Whatever else ``put`` raises is a fault of the target, the settings or the task: it
# fails the task, as every error of ``put`` does in Java (``WorkerSinkTask.deliverMessages``), and no record is
# dead-lettered. So an outage never makes dead letters, however the sink reports that its retries are used up.
#
# When one record after the other is refused and none is taken, it is not the records' fault: the task fails, and
# nothing of the batch counts as delivered or dead.


PutRecords = Callable[[Sequence[SinkRecord]], None]


def blames_records(error: BaseException) -> bool:
    """Return whether an error of ``put`` means that a record is to blame, so that its batch may be halved.

    True for a DataError, unless it was raised ``from`` a RetriableError or an ExternalError: what was retriable does
    not become a record's fault when the retries are used up.
    """
    if not isinstance(error, DataError):
        return False
    cause = error.__cause__
    while cause is not None:
        if isinstance(cause, RetriableError | ExternalError):
            return False
        cause = cause.__cause__
    return True


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """One record that ``put`` refused by itself, and with what."""

    record: SinkRecord
    error: Exception


class BadRecordSearch:
    """Works off one refused batch; after a RetriableError ``run`` goes on where it stopped."""

    def __init__(self, records: Sequence[SinkRecord], error: Exception, max_in_a_row: int, in_a_row: int = 0) -> None:
        """Take a batch that ``put`` refused with ``error``.

        Args:
            max_in_a_row: after so many records refused and none taken between, the fault is elsewhere.
            in_a_row: how many that were before this batch.
        """
        self.rejected: list[RejectedRecord] = []
        self.in_a_row = in_a_row
        self._max_in_a_row = max_in_a_row
        self._todo: list[Sequence[SinkRecord]] = []  # next piece last
        self._split(records, error)

    def run(self, put: PutRecords) -> None:
        """Put every half until each record is delivered or in ``refused``.

        Raises what ``put`` raises without blaming a record (RetriableError: call again), and ConnectError when too many
        in a row were refused.
        """
        while self._todo:
            piece = self._todo[-1]
            try:
                put(piece)
            except DataError as error:
                if not blames_records(error):
                    raise
                self._todo.pop()
                self._split(piece, error)
            else:
                self._todo.pop()
                self.in_a_row = 0

    def _split(self, piece: Sequence[SinkRecord], error: Exception) -> None:
        if len(piece) > 1:
            half = len(piece) // 2
            self._todo += [piece[half:], piece[:half]]
            return
        self.in_a_row += 1
        if self.in_a_row > self._max_in_a_row:
            raise ConnectError(
                f"put rejected {self.in_a_row} single records in a row and accepted none, so the records are not "
                f"the cause (connectrt.errors.put.refusals.max={self._max_in_a_row}). Last error: "
                f"{type(error).__name__}: {error}",
                code="CRT-1056",
            ) from error
        self.rejected.extend(RejectedRecord(record, error) for record in piece)
