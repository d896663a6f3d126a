"""Hands converted batches to a sink task, and finds what it refuses (engine.executor.put_delivery does the finding)."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_connect_rt.api.records import SinkBatch, SinkRecord
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.adaptive_fallback import BackedOffTries
from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.base.loggers import working_for
from spark_connect_rt.engine.executor.errant_reports import ErrantReports
from spark_connect_rt.engine.executor.frames import Row, RowKind, decode_records
from spark_connect_rt.engine.executor.hosted_sink import HostedSink, Outcome
from spark_connect_rt.engine.executor.task_meter import TaskMeter
from spark_connect_rt.errors import ConnectError, DataError, ExternalError, RetriableError
from spark_connect_rt.records.pipeline.columns import PARTITION, TOPIC
from spark_connect_rt.records.pipeline.errant_records import Errant, errant_put
from spark_connect_rt.records.pipeline.sink_pipeline import SinkConverted, SinkPipeline, place_of, place_of_record

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


Put = Callable[[Sequence[SinkRecord]], None]


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
class RefusedRecord:
    """One record that ``put`` refused by itself, and with what."""

    record: SinkRecord
    error: Exception


class PutIsolation:
    """Works off one refused batch; after a RetriableError ``run`` goes on where it stopped."""

    def __init__(self, records: Sequence[SinkRecord], error: Exception, most_in_a_row: int, in_a_row: int = 0) -> None:
        """Take a batch that ``put`` refused with ``error``.

        Args:
            most_in_a_row: after so many records refused and none taken between, the fault is elsewhere.
            in_a_row: how many that were before this batch.
        """
        self.refused: list[RefusedRecord] = []
        self.in_a_row = in_a_row
        self._most_in_a_row = most_in_a_row
        self._todo: list[Sequence[SinkRecord]] = []  # next piece last
        self._split(records, error)

    def run(self, put: Put) -> None:
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
        if self.in_a_row > self._most_in_a_row:
            raise ConnectError(
                f"put rejected {self.in_a_row} single records in a row and accepted none, so the records are not "
                f"the cause (connectrt.errors.put.refusals.max={self._most_in_a_row}). Last error: "
                f"{type(error).__name__}: {error}",
                code="CRT-1056",
            ) from error
        self.refused.extend(RefusedRecord(record, error) for record in piece)


# Rows of a consumed batch by their topic partition: apart, and a batch without some of them. Pure.


def without_partitions(batch: pa.RecordBatch, leaving: AbstractSet[TopicPartition]) -> pa.RecordBatch:
    """Drop the rows of ``leaving`` from a batch in consume form: their next owner reads them again."""
    if not leaving:
        return batch
    kept = [place not in leaving for place in _places(batch)]
    return batch if all(kept) else batch.filter(pa.array(kept))


def is_of_one_partition(batch: pa.RecordBatch) -> bool:
    """Tell whether topic and partition of a batch in consume form are in its metadata."""
    return not {"topic", "partition"} & set(batch.schema.names)


def by_partition(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Return a batch in consume form as one of each partition, topic and partition in the metadata."""
    if is_of_one_partition(batch):
        return [batch]
    rows: dict[TopicPartition, list[int]] = {}
    for row, place in enumerate(_places(batch)):
        rows.setdefault(place, []).append(row)
    plain = batch.select([name for name in batch.schema.names if name not in ("topic", "partition")])
    return [
        plain.take(pa.array(chosen)).replace_schema_metadata(
            {TOPIC: place.topic.encode(), PARTITION: str(place.partition).encode()}
        )
        for place, chosen in rows.items()
    ]


def first_offsets(batch: pa.RecordBatch, partitions: AbstractSet[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the least offset of each of ``partitions`` that has rows in a batch in consume form."""
    found: dict[TopicPartition, int] = {}
    if partitions:
        for place, offset in zip(_places(batch), batch.column("offset").to_pylist(), strict=True):
            if place in partitions:
                found[place] = min(offset, found.get(place, offset))
    return found


def _places(batch: pa.RecordBatch) -> list[TopicPartition]:
    metadata = batch.schema.metadata or {}
    columns = []
    for name, key, read in (("topic", TOPIC, bytes.decode), ("partition", PARTITION, int)):
        stands = metadata.get(key)
        fixed = None if stands is None or name in batch.schema.names else read(stands)
        columns.append(batch.column(name).to_pylist() if fixed is None else [fixed] * batch.num_rows)
    return [TopicPartition(*pair) for pair in zip(*columns, strict=True)]


log = logging.getLogger(__name__)


class PutDelivery:
    """One task's puts. One thread."""

    def __init__(
        self,
        task_id: ConnectorTaskId,
        task: SinkTask,
        pipeline: SinkPipeline,
        reports: ErrantReports,
        most_refusals: int,
        interrupted: Callable[[], bool],
        meter: TaskMeter | None = None,
    ) -> None:
        """Take the parts.

        Args:
            most_refusals: in a row, before the fault is not the records' (0: never look for the records to blame).
            interrupted: whether something must not wait for the end of the search.
        """
        self._task_id = task_id
        self._task = task
        self._pipeline = pipeline
        self._reports = reports
        self._most_refusals = most_refusals
        self._interrupted = interrupted
        self._meter = meter or TaskMeter("writer")
        self._isolates = reports.settings.tolerates_all and most_refusals > 0
        self._isolation: PutIsolation | None = None
        self._refused_in_a_row = 0
        self._column_tries = BackedOffTries()
        self.takes_columns = False  # the last ``parts`` may go as columns
        self.refused = 0  # of the batch delivered last

    def parts(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
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

    def deliver(self, converted: SinkConverted) -> Outcome:
        """Put what was converted, or go on with it. Raises what fails the task."""
        if converted.columns is not None:
            return self._put_batch(converted.columns)
        return Outcome.TAKEN if self.put(converted.records) else Outcome.AGAIN

    def _put_batch(self, batch: SinkBatch) -> Outcome:
        self.refused = 0
        if not len(batch.values):
            return Outcome.TAKEN
        try:
            with self._meter.call("put"):
                taken = self._task.put_batch(batch)
        except RetriableError as error:
            self._say_again(error)
            return Outcome.AGAIN
        except Exception as error:
            if not self._may_isolate(error):
                raise
            self._column_tries.failed()
            return Outcome.BY_RECORDS  # the record to blame is found there
        if not taken:
            self._column_tries.failed()
            return Outcome.BY_RECORDS
        self._column_tries.worked()
        self._meter.moved("put", len(batch.values))
        self._refused_in_a_row = 0
        return Outcome.TAKEN

    def _say_again(self, error: Exception) -> None:
        log.warning("task=%s: put will be retried: %s", self._task_id, error)

    def put(self, records: Sequence[SinkRecord]) -> bool:
        """Put a batch, or go on with it; False: the task asks for it again. Raises what fails the task."""
        try:
            self._put(records)
        except RetriableError as error:
            self._say_again(error)
            return False
        return True

    def forget(self) -> None:
        """The batch is given up or cut: the next ``put`` begins from scratch."""
        self._isolation = None

    def _put(self, records: Sequence[SinkRecord]) -> None:
        self.refused = 0
        if self._isolation is None:
            try:
                self._put_metered(records)
            except Exception as error:
                if not records or not self._may_isolate(error):
                    raise
                self._isolation = self._begin(records, error)
            else:
                if records:
                    self._refused_in_a_row = 0
                return
        self._isolation.run(self._put_half)
        isolation, self._isolation = self._isolation, None
        self._refused_in_a_row = isolation.in_a_row
        self.refused = len(isolation.refused)
        self._reports.tell(
            self._errant(refused_record.record, refused_record.error) for refused_record in isolation.refused
        )

    def _may_isolate(self, error: Exception) -> bool:
        """Return whether the records to blame for an error of a put are looked for."""
        if not self._isolates or isinstance(error, RetriableError):
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

    def _begin(self, records: Sequence[SinkRecord], error: Exception) -> PutIsolation:
        log.warning(
            "task=%s: put rejected %d records, searching for the bad ones: %s: %s",
            self._task_id,
            len(records),
            type(error).__name__,
            error,
        )
        return PutIsolation(records, error, self._most_refusals, self._refused_in_a_row)

    def _errant(self, record: SinkRecord, error: Exception) -> Errant:
        if self._reports.settings.reports:
            original = self._pipeline.original_of(record)
            return errant_put(place_of(original), error, original)
        return errant_put(place_of_record(record), error, None)


# What a sink lane puts next: queued batches as one lot, the next lot made ready while the task has the one before.
#
# Owns the thread that makes a lot ready and the queue's front, which that thread may look at while the lane puts, the
# lane at any other time. Nothing is put, reported or counted here, and nothing that is made ready has to be used: a
# lane that finds anything changed makes it by itself.


LOT_BYTES = 8 * 1024 * 1024  # of batches that are joined; a single one may be larger
LEAST_AHEAD = 500  # records: for fewer a thread costs more than it hides
LOOK_AGAIN_AFTER = 0.3  # of the last put's wait, where nothing has come yet: later, the lot is larger, but not ready
LEAST_WAIT_S = 0.001  # that the last put waited, else there is nothing to hide behind
MakeReady = Callable[[pa.RecordBatch], Any]


class LotQueue(queue.SimpleQueue["Row | None"]):
    """A lane's queue, whose reader may look at what comes next. One thread gets, any may put."""

    def __init__(self) -> None:
        self._seen: deque[Row | None] = deque()

    def get(self, block: bool = True, timeout: float | None = None) -> Row | None:
        """See SimpleQueue."""
        return self._seen.popleft() if self._seen else super().get(block, timeout)

    def empty(self) -> bool:
        """See SimpleQueue."""
        return not self._seen and super().empty()

    def peek(self, place: int) -> Row | None:
        """Return the row that so many are in front of; None: it is not there yet, or no row."""
        while len(self._seen) <= place:
            try:
                self._seen.append(super().get(block=False))
            except queue.Empty:
                return None
        return self._seen[place]


@dataclass(frozen=True, slots=True)
class Lot:
    """Rows of the queue that are delivered at once, and their records in consume form."""

    rows: tuple[Row, ...]
    batch: pa.RecordBatch

    @property
    def data_bytes(self) -> int:
        """Return what its rows hold."""
        return sum(row.data.size for row in self.rows if row.data is not None)


class _Ahead(threading.Thread):
    """Looks for the next lot and makes it ready. While it looks nobody else looks at the queue."""

    def __init__(self, look: Callable[[threading.Event], Lot | None], make_ready: MakeReady, task: ConnectorTaskId):
        super().__init__(name=f"sink-ahead-{task}", daemon=True)
        self.lot: Lot | None = None
        self.ready: Any = None
        self._look = look
        self._over = threading.Event()
        self._looked = threading.Event()
        self._make_ready = make_ready
        self._task = task

    def run(self) -> None:
        """Thread body: what fails here is done again by the lane, whose error it then is."""
        working_for(self._task)
        try:
            self.lot = self._look(self._over)
            self._looked.set()
            self.ready = None if self.lot is None else self._make_ready(self.lot.batch)
        except BaseException:  # SystemExit, too: nothing is lost by it
            log.debug("task=%s: a batch cannot be prepared in advance", self._task, exc_info=True)
        finally:
            self._looked.set()

    def end_look(self) -> None:
        """Return when the queue is looked at no more."""
        self._over.set()
        self._looked.wait()

    def lot_from(self, row: Row | None) -> Lot | None:
        """Return the lot that was found, if it begins with this row."""
        return self.lot if self.lot is not None and self.lot.rows[0] is row else None


class Lots:
    """Of one task. The lane's thread."""

    def __init__(self, rows: LotQueue, task: ConnectorTaskId) -> None:
        """Take the lane's queue. Until ``begin`` every batch is a lot by itself."""
        self._rows = rows
        self._task = task
        self._most: int | None = None
        self._sink: HostedSink | None = None
        self._ahead: _Ahead | None = None
        self._waited_s = 0.0
        self._records = 0  # of the lot taken last

    def begin(self, sink: HostedSink) -> None:
        """Deliver to this sink, which is started."""
        self._sink = sink
        self._most = sink.most_records()

    def take(self, row: Row) -> Lot:
        """Return the lot that begins with a BATCH row, which was got; those behind it are got with it."""
        lot = self._ahead.lot_from(row) if self._ahead is not None else None
        if lot is None:
            self.settle()
            lot = self._lot(row, 0)
        for _ in lot.rows[1:]:
            self._rows.get()
        self._records = lot.batch.num_rows
        return lot

    def _lot(self, first: Row, at: int) -> Lot:
        """Return the lot of ``first`` and of rows behind it, which begin at place ``at`` of the queue."""
        assert first.data is not None
        rows, batches = [first], [decode_records(first.data)]
        records, size = batches[0].num_rows, first.data.size
        schema = batches[0].schema
        while self._most is not None and self._may_join(batches[0]):
            row = self._rows.peek(at + len(rows) - 1)
            if row is None or row.kind is not RowKind.BATCH or row.data is None or size + row.data.size > LOT_BYTES:
                break
            batch = decode_records(row.data)
            if records + batch.num_rows > self._most or not batch.schema.equals(schema, check_metadata=True):
                break
            rows.append(row)
            batches.append(batch)
            records, size = records + batch.num_rows, size + row.data.size
        return Lot(tuple(rows), batches[0] if len(batches) == 1 else pa.concat_batches(batches))

    def _may_join(self, batch: pa.RecordBatch) -> bool:
        return self._sink is not None and (self._sink.joins_partitions or is_of_one_partition(batch))

    def prepare(self, batch: pa.RecordBatch, *, by_records: bool) -> Any | None:
        """Return what the sink makes of a batch, maybe ahead; see HostedSink.prepare."""
        assert self._sink is not None
        ready = None if by_records else self._ready(batch)
        accepted = None if ready is None else self._sink.accept(ready)
        return self._sink.prepare(batch, by_records=by_records) if accepted is None else accepted

    def _ready(self, batch: pa.RecordBatch) -> Any | None:
        """Return what was made of the very batch that was made ready, waited for, once; None: nothing was."""
        ahead = self._ahead
        if ahead is None or ahead.lot is None or ahead.lot.batch is not batch:
            return None
        self.settle()
        return ahead.ready

    def deliver(self, prepared: Any) -> Outcome:
        """Deliver a batch, and make the next lot ready meanwhile; see HostedSink.deliver."""
        assert self._sink is not None
        if self._waited_s >= LEAST_WAIT_S and self._sink.may_look_ahead(prepared):
            self._look_ahead(self._sink.make_ready)
        began_s, cpu_s = time.monotonic(), time.thread_time()
        try:
            return self._sink.deliver(prepared)
        finally:
            self._waited_s = time.monotonic() - began_s - (time.thread_time() - cpu_s)
            if self._ahead is not None:
                self._ahead.end_look()

    def _look_ahead(self, make_ready: MakeReady) -> None:
        """Have the next lot made ready: of what is there, or will have come when a part of the wait has passed.

        Not behind a small one: the next is likely to be as small.
        """
        if self._ahead is not None and self._ahead.lot_from(self._rows.peek(0)) is None:
            self.settle()  # its turn is over and it was of no use, as partitions left
        if self._ahead is not None or self._records < LEAST_AHEAD:
            return
        ahead = _Ahead(self._next_lot, make_ready, self._task)
        try:
            ahead.start()
        except RuntimeError:  # no more threads: then not
            return
        self._ahead = ahead

    def _next_lot(self, stop: threading.Event) -> Lot | None:
        """Return the lot that comes next, if it is worth a thread; the ahead's thread."""
        if self._rows.peek(0) is None and stop.wait(self._waited_s * LOOK_AGAIN_AFTER):
            return None
        first = self._rows.peek(0)
        if first is None or first.kind is not RowKind.BATCH or first.data is None:
            return None
        lot = self._lot(first, 1)
        return lot if lot.batch.num_rows >= LEAST_AHEAD else None

    def settle(self) -> None:
        """Wait for what is being made ready, and give it up."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.join()
