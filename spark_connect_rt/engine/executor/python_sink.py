"""The contract between a sink task and its runner, and the Python task behind it.

``SinkTaskRunner`` (``sink_task.py``) decides which call comes next. A ``HostedSink`` converts, transforms and calls the
task. ``PythonSink`` calls a task in this process, ``engine/java_host/sink_task.py`` a task in a JVM.

Read it downward: the contract, the Python task, its puts with the reason for each retry and each failure, and the
search for bad records.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeVar

import pyarrow as pa

from spark_connect_rt.api.records import SinkBatch, SinkRecord
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.adaptive_fallback import AdaptiveFallback
from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.config.connectrt_config import OF_SINKS_ONLY, REFUSALS_MAX
from spark_connect_rt.engine.executor.errant_reports import ErrantReports, SinkErrantReporter
from spark_connect_rt.engine.executor.hosting import load_class, monotonic_ms
from spark_connect_rt.engine.executor.sink_context import WorkerSinkTaskContext
from spark_connect_rt.engine.executor.task_meter import TaskMeter
from spark_connect_rt.engine.task_runner import TaskLaunch
from spark_connect_rt.errors import ConnectError, DataError, ExternalError, RetriableError
from spark_connect_rt.kafka.executor_clients import BatchConsumer, ExecutorClients
from spark_connect_rt.kafka.interfaces import GroupGeneration
from spark_connect_rt.records.pipeline.dead_letters import ReportSettings
from spark_connect_rt.records.pipeline.errant_records import FailedRecord, RetryInterrupted, RetryWait, errant_put
from spark_connect_rt.records.pipeline.sink_pipeline import (
    SinkConverted,
    SinkPipeline,
    by_partition,
    is_of_one_partition,
    place_of,
    place_of_record,
)

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")


class PutOutcome(Enum):
    """The result of a delivery."""

    TAKEN = auto()
    RETRY = auto()  # the task raised RetriableError: deliver again, without the first ``rows_taken`` rows
    PARTIAL = auto()  # prepare the rows after the first ``rows_taken``, and deliver them
    AS_RECORDS = auto()  # the task did not take the columns, or rejected them: convert the part to records


@dataclass(frozen=True, slots=True)
class SinkParts:
    """Everything that the runner gives to a hosted sink."""

    launch: TaskLaunch
    clients: ExecutorClients
    connector_config: Mapping[str, str]  # with resolved references, as the next
    worker_config: Mapping[str, str]
    context: WorkerSinkTaskContext  # collects the requests of the task
    meter: TaskMeter
    wait_ms: Callable[[int], bool]  # between two attempts at a record; False: a revocation or a stop waits
    must_not_wait: Callable[[], bool]  # whether a revocation or a stop waits
    ending: Callable[[], bool]  # whether a stop waits


class HostedSink(ABC):
    """One sink task with its converters and transformations, in whichever process its code runs.

    ``SinkTaskRunner`` calls it. Every call comes from the task's thread, except for the methods that name another. An
    error of a call fails the task, except where the method says otherwise.
    """

    joins_partitions = False  # whether batches of several partitions may be joined
    pre_commit_has_effects = False  # such as writing a file, so it is called less often; known after ``start``

    def __init__(self, parts: SinkParts) -> None:
        """Take the parts, and start nothing.

        Raises BadConfigError for a converter or a transformation that is missing or wrongly configured.
        """
        self.parts = parts

    @abstractmethod
    def start(self, reports: ErrantReports) -> None:
        """Make the task and start it. Its errant records go to ``reports``."""

    @abstractmethod
    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Open partitions that are newly assigned to the task."""

    def split(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        """Return the parts in which a batch in consume form is to be prepared and delivered."""
        return [batch]

    @abstractmethod
    def prepare(self, batch: pa.RecordBatch, *, as_records: bool) -> Any | None:
        """Convert one part, and return what ``deliver`` takes for it.

        ``as_records`` is true if the last delivery of the part ended with ``AS_RECORDS``. Returns None if a revocation
        or a stop interrupted the retry of a record: the caller then decides again which rows to prepare.
        """

    def max_put_records(self) -> int | None:
        """Return up to how many records of several reads may be delivered at once; None joins no reads."""
        return None

    def prepare_ahead(self, batch: pa.RecordBatch) -> Any | None:
        """Convert a batch in advance, without reporting or counting anything. Returns None if that is impossible.

        It is called on a separate thread, while ``deliver`` puts the batch before. The result is given to
        ``accept_prepared``.
        """
        return None

    def accept_prepared(self, ready: Any) -> Any | None:
        """Return what ``deliver`` takes for a batch that was prepared in advance; None has it prepared again."""
        return None

    def may_prepare_next(self, prepared: Any) -> bool:
        """Return whether the next batch can probably be prepared in advance while this one is delivered."""
        return False

    @abstractmethod
    def deliver(self, prepared: Any) -> PutOutcome:
        """Put the part that was prepared last. After ``RETRY`` it is called again with the same argument.

        A task that raises RetriableError from ``put`` does not fail: the outcome is ``RETRY``.
        """

    @property
    def rows_taken(self) -> int:
        """How many first rows of the part the last delivery put before it ended.

        It counts for every outcome but ``TAKEN``, and also if the delivery raised.
        """
        return 0

    @property
    @abstractmethod
    def counts(self) -> tuple[int, int]:
        """The records that the last delivery put, and the tolerated errant records that it skipped.

        It refers to the last delivery that took rows.
        """

    @abstractmethod
    def put_empty(self) -> None:
        """Put an empty batch, so that a task that buffers by time can check its clock.

        A RetriableError is logged, and the next empty put follows at its usual time.
        """

    @abstractmethod
    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return which of these next offsets the task says are safe to commit.

        An error does not fail the task: the runner rewinds to the last commit.
        """

    @abstractmethod
    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Close partitions that leave the task. Their ``pre_commit`` was called before."""

    def note_generation(self, generation: GroupGeneration) -> None:
        """Note the group generation that the task's member has joined. Any thread, also before ``start``."""

    def abandon(self) -> None:
        """End the call that the task is in, because the slice is over. Any thread."""

    def take_reported_count(self) -> int:
        """Return how many records the task itself has reported as errant since the last call."""
        return 0

    @abstractmethod
    def stop(self) -> None:
        """Stop the task, also if its ``start`` failed, and close everything that ``start`` opened."""


class PythonSink(HostedSink):
    """A ``SinkTask`` in this process, with its pipeline and its reporter of errant records."""

    def __init__(self, parts: SinkParts, task_class: type[SinkTask]) -> None:
        """Build the pipeline of converters and transformations. ``task_class`` is the class that the launch names."""
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
            RetryWait(monotonic_ms, parts.wait_ms),
            keeps_originals=ReportSettings.from_config(parts.connector_config).reports,
            guard=threading.RLock(),  # converters and transformations are made for one thread
        )

    def start(self, reports: ErrantReports) -> None:
        """Make the task, give it its context and its configuration with resolved references, and start it."""
        launch, context = self.parts.launch, self.parts.context
        self._reports = reports
        if reports.settings.reports:
            self._reporter = context.reporter = SinkErrantReporter(reports, self._pipeline)
        self._task = task = self._task_class()
        config = self.parts.clients.resolve(launch.config, launch.worker_config)
        context.set_config(config)
        context.ask_topic_ids = lambda topics: self._asked(lambda consumer: consumer.topic_ids(topics))
        context.ask_end_offsets = lambda places: self._asked(lambda consumer: consumer.end_offsets(places))
        context.ask_partition_counts = lambda topics: self._asked(lambda consumer: consumer.partition_counts(topics))
        task.context = context
        max_rejections: int = OF_SINKS_ONLY.parse(self.parts.connector_config)[REFUSALS_MAX]
        self._delivery = PutDelivery(
            launch.task, task, self._pipeline, reports, max_rejections, self.parts.must_not_wait, self.parts.meter
        )
        task.start(config)

    def _asked(self, ask: Callable[[BatchConsumer], Answer]) -> Answer:
        """Ask with a consumer that is made for this question, because few tasks ask, and rarely."""
        launch, clients = self.parts.launch, self.parts.clients
        consumer = clients.consumer(clients.resolve(launch.client_config, launch.worker_config))
        try:
            return ask(consumer)
        finally:
            consumer.close()

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Open partitions that are newly assigned to the task."""
        self.running.open(partitions)

    @property
    def running(self) -> SinkTask:
        """The task, between ``start`` and ``stop``."""
        assert self._task is not None
        return self._task

    def split(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        """Return a part for each partition if the task takes columns and wants partitions apart, else the batch."""
        return self._delivery.split(batch)

    def prepare(self, batch: pa.RecordBatch, *, as_records: bool) -> SinkConverted | None:
        """Convert a part to columns if the task takes them, else to records.

        Raises DataError for a record that is not tolerated. That record is reported before.
        """
        converted = self._convert(batch, as_records)
        if converted is not None:
            self._delivery.start_over()
        return converted

    def _convert(self, batch: pa.RecordBatch, as_records: bool) -> SinkConverted | None:
        if not as_records and (columns := self._delivery.columns(batch)) is not None:
            return columns
        return converted_and_reported(self._pipeline, batch, self._reports, self._flush_timeout_ms)

    def max_put_records(self) -> int | None:
        """Return ``max.poll.records`` of the connector's consumer settings, else the size that the task prefers."""
        launch = self.parts.launch
        own = self.parts.clients.resolve(launch.client_config, launch.worker_config).get("max.poll.records")
        return self.running.largest_put() if own is None else int(own)

    def prepare_ahead(self, batch: pa.RecordBatch) -> SinkConverted | None:
        """Convert a batch to columns. Records are never prepared in advance, because they may be errant."""
        return self._delivery.columns_ahead(batch)

    def accept_prepared(self, ready: SinkConverted) -> SinkConverted | None:
        """Return columns that were prepared in advance, if columns are still wanted for this part."""
        if not self._delivery.takes_columns:
            return None
        self._delivery.start_over()
        return ready

    def may_prepare_next(self, prepared: SinkConverted) -> bool:
        """Return whether this part is columns, because columns usually follow columns."""
        return prepared.columns is not None

    def deliver(self, prepared: SinkConverted) -> PutOutcome:
        """Put the part, and count the records that the search for bad records has rejected as skipped."""
        outcome = self._delivery.deliver(prepared)
        rejected = self._delivery.rejected
        self._counts = prepared.count - rejected, prepared.skipped + rejected
        return outcome

    @property
    def counts(self) -> tuple[int, int]:
        """The records that the last delivery put, and the ones that were skipped before or rejected by ``put``."""
        return self._counts

    def put_empty(self) -> None:
        """Put an empty batch. The result is ignored, because the next empty put follows anyway."""
        self._delivery.put([])

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return which of these next offsets the task says are safe to commit."""
        return self.running.pre_commit(offsets)

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Close partitions that leave the task."""
        self.running.close(partitions)

    def take_reported_count(self) -> int:
        """Return how many records the task has reported by its reporter since the last call."""
        return 0 if self._reporter is None else self._reporter.take_count()

    def stop(self) -> None:
        """Stop the task and close its pipeline. Nothing happens if the task was never made."""
        task, self._task = self._task, None
        if task is not None:
            with ExitStack() as last_first:
                last_first.callback(self._pipeline.close)
                last_first.callback(task.stop)


def converted_and_reported(
    pipeline: SinkPipeline, batch: pa.RecordBatch, reports: ErrantReports, flush_timeout_ms: int
) -> SinkConverted | None:
    """Convert a batch to records and report its errant records.

    Returns None if a revocation or a stop interrupted the retry of a record. Raises DataError for a record that is not
    tolerated. That record is reported before.
    """
    try:
        converted = pipeline.convert(batch)
    except RetryInterrupted:
        pipeline.take_errants()  # they are found again when the batch is converted again
        return None
    except DataError:
        reports.tell(pipeline.take_errants())  # as in Java, also the record that fails the task
        reports.flush(flush_timeout_ms)
        raise
    reports.tell(converted.errants)
    return converted


def make_hosted_sink(parts: SinkParts) -> HostedSink:
    """Return the sink that hosts the task of a launch.

    The task class of the launch is either a ``HostedSink`` itself (a task in a JVM) or a Python task. Raises
    NotFoundError for a class that cannot be loaded, and BadConfigError for its converters and transformations.
    """
    found = load_class(parts.launch.task_class)
    return found(parts) if issubclass(found, HostedSink) else PythonSink(parts, found)


class PutDelivery:
    """The calls of ``put`` and ``put_batch`` of one Python task, and the decision about every error of them.

    A sink task in a worker uses it by ``PythonSink``, a write with ``format("connectrt")`` directly. It is used by one
    thread, except for ``columns_ahead``.
    """

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
        """Take one task and the parts of its worker that its puts need.

        Args:
            max_rejections: how many single records in a row may be rejected before the task fails. 0 searches for no
                bad records.
            interrupted: returns whether a revocation or a stop waits, so that a search has to pause.
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
        self._column_tries = AdaptiveFallback()
        self.takes_columns = False  # whether the last parts may be put as columns
        self.rejected = 0  # records of the last delivery that ``put`` rejected

    def split(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Return the parts in which a batch in consume form is to be converted.

        Sets ``takes_columns``: the task implements ``put_batch``, columns have not just failed, and each part is of one
        partition.
        """
        takes_columns = type(self._task).put_batch is not SinkTask.put_batch and self._column_tries.due()
        parts = by_partition(batch) if takes_columns and self._task.wants_partitions_apart() else [batch]
        self.takes_columns = takes_columns and all(map(is_of_one_partition, parts))
        return parts

    def columns(self, batch: pa.RecordBatch) -> SinkConverted | None:
        """Return one of the last parts as columns; None if it has to be converted to records."""
        if not self.takes_columns:
            return None
        converted = self.columns_ahead(batch)
        if converted is None:
            self._column_tries.failed()
        return converted

    def columns_ahead(self, batch: pa.RecordBatch) -> SinkConverted | None:
        """Return a batch as ``columns`` would convert it, without counting anything. Any thread."""
        task = self._task
        return self._pipeline.columns(
            batch,
            absent_values=task.takes_absent_values(),
            nested_structs=task.takes_nested_structs(),
            headers_matter=task.reads_headers(),
            with_headers=task.takes_headers(),
        )

    def deliver(self, converted: SinkConverted) -> PutOutcome:
        """Put a converted part, or continue with it after ``RETRY``. Raises what fails the task."""
        if converted.columns is not None:
            return self._put_batch(converted.columns)
        return PutOutcome.TAKEN if self.put(converted.records) else PutOutcome.RETRY

    def _put_batch(self, batch: SinkBatch) -> PutOutcome:
        """Put columns. Raises every error that is neither retriable nor a reason to search for bad records."""
        self.rejected = 0
        if not len(batch.values):
            return PutOutcome.TAKEN
        try:
            with self._meter.call("put"):
                taken = self._task.put_batch(batch)
        except RetriableError as error:
            # The target is down for now, and no record is bad. The runner puts the same columns again after a wait.
            self._log_retry(error)
            return PutOutcome.RETRY
        except Exception as error:
            if not self._may_search(error):
                raise
            self._column_tries.failed()
            return PutOutcome.AS_RECORDS  # the search for the bad record needs records
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
        """Put records, or continue with the same records. Returns False if they have to be put again.

        Raises what fails the task.
        """
        try:
            self._put(records)
        except RetriableError as error:
            # As in Java, the task is not failed: the runner puts the same records again after a wait. Either ``put``
            # raised it, or a search was interrupted. A search continues with the half that it was at.
            self._log_retry(error)
            return False
        return True

    def start_over(self) -> None:
        """Forget the search for bad records, because the next records are another batch or a part of it."""
        self._search = None

    def _put(self, records: Sequence[SinkRecord]) -> None:
        """Put records, or the next halves of a batch that was rejected, and report the bad records that were found."""
        self.rejected = 0
        if self._search is None:
            try:
                self._put_metered(records)
            except Exception as error:
                if not records or not self._may_search(error):
                    raise  # fails the task, or is a RetriableError for ``put``
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
        """Return whether an error of ``put`` starts a search for the bad records of its batch."""
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
        """Put a half for the search. Raises RetriableError to pause the search when a revocation or a stop waits."""
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

    def _errant(self, record: SinkRecord, error: Exception) -> FailedRecord:
        if self._reports.settings.reports:
            original = self._pipeline.original_of(record)
            return errant_put(place_of(original), error, original)
        return errant_put(place_of_record(record), error, None)


PutRecords = Callable[[Sequence[SinkRecord]], None]


def blames_records(error: BaseException) -> bool:
    """Return whether an error of ``put`` means that a record is bad, so that its batch may be halved.

    This is so for a DataError, unless it was raised ``from`` a RetriableError or an ExternalError. An outage is not a
    record's fault, even when a sink has used up its own retries.
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
    """A record that ``put`` rejected when it was put alone, and the error."""

    record: SinkRecord
    error: Exception


class BadRecordSearch:
    """Finds the bad records of a batch that ``put`` rejected, by halving it (``errors.tolerance=all``). Pure.

    Java has no such search. Each half is put by a separate call, in order. Records that the task had delivered before
    it rejected the batch are put again with their half (at least once). One bad record of n costs about 2 log2(n) puts.

    Only a DataError blames records. Every other error is a fault of the target, the settings or the task, and fails the
    task as in Java (``WorkerSinkTask.deliverMessages``). So an outage never makes dead letters.

    If one record after the other is rejected and none is taken, the records are not the cause. Then the task fails, and
    no record of the batch counts as delivered or dead.
    """

    def __init__(self, records: Sequence[SinkRecord], error: Exception, max_in_a_row: int, in_a_row: int = 0) -> None:
        """Take a batch that ``put`` rejected with ``error``.

        Args:
            max_in_a_row: how many single records in a row may be rejected. One more fails the task.
            in_a_row: how many were rejected in a row before this batch.
        """
        self.rejected: list[RejectedRecord] = []
        self.in_a_row = in_a_row
        self._max_in_a_row = max_in_a_row
        self._todo: list[Sequence[SinkRecord]] = []  # the next piece is the last
        self._split(records, error)

    def run(self, put: PutRecords) -> None:
        """Put halves until each record is delivered or in ``rejected``.

        Raises an error of ``put`` that blames no record. After a RetriableError, the next call continues with the half
        that raised it. Raises ConnectError if too many records in a row were rejected.
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
        """Put two halves on the list, or reject a single record. Raises ConnectError as ``run``."""
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
