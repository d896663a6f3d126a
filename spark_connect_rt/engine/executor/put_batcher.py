"""What a sink task is put next: queued batches as one, the next one converted while the task has the one before."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.loggers import working_for
from spark_connect_rt.engine.executor.frames import Row, RowKind, decode_records
from spark_connect_rt.engine.executor.python_sink import HostedSink, PutOutcome
from spark_connect_rt.records.pipeline.sink_pipeline import is_of_one_partition

log = logging.getLogger(__name__)

# Owns the thread that prepares the next batch, and the front of the queue. That thread may peek at the queue while the
# task's thread is in ``put``; at any other time only the task's thread does. Nothing is put, reported or counted here.
# A prepared batch need not be used: if anything has changed, the task's thread prepares the batch again.


PUT_BATCH_BYTES = 8 * 1024 * 1024  # of batches that are joined; a single one may be larger
MIN_RECORDS_AHEAD = 500  # records: for fewer a thread costs more than it hides
SECOND_PEEK_AFTER = 0.3  # share of the last wait: a later peek finds more records, and has no time to prepare them
MIN_WAIT_S = 0.001  # that the last put waited, else there is nothing to hide behind
PrepareAhead = Callable[[pa.RecordBatch], Any]


class PutBatchQueue(queue.SimpleQueue["Row | None"]):
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
class PutBatch:
    """Rows of the queue that are delivered at once, and their records in consume form."""

    rows: tuple[Row, ...]
    batch: pa.RecordBatch

    @property
    def data_bytes(self) -> int:
        """Return what its rows hold."""
        return sum(row.data.size for row in self.rows if row.data is not None)


class _NextBatch(threading.Thread):
    """Looks for the next put_batch and makes it ready. While it looks nobody else looks at the queue."""

    def __init__(
        self, find: Callable[[threading.Event], PutBatch | None], prepare_ahead: PrepareAhead, task: ConnectorTaskId
    ):
        super().__init__(name=f"sink-ahead-{task}", daemon=True)
        self.put_batch: PutBatch | None = None
        self.prepared: Any = None
        self._find = find
        self._over = threading.Event()
        self._searched = threading.Event()
        self._prepare_ahead = prepare_ahead
        self._task = task

    def run(self) -> None:
        """Thread body: what fails here is done again by the lane, whose error it then is."""
        working_for(self._task)
        try:
            self.put_batch = self._find(self._over)
            self._searched.set()
            self.prepared = None if self.put_batch is None else self._prepare_ahead(self.put_batch.batch)
        except BaseException:  # SystemExit, too: nothing is lost by it
            log.debug("task=%s: a batch cannot be prepared in advance", self._task, exc_info=True)
        finally:
            self._searched.set()

    def end_search(self) -> None:
        """Return when the queue is looked at no more."""
        self._over.set()
        self._searched.wait()

    def batch_from(self, row: Row | None) -> PutBatch | None:
        """Return the put_batch that was found, if it begins with this row."""
        return self.put_batch if self.put_batch is not None and self.put_batch.rows[0] is row else None


class PutBatcher:
    """Of one task. The lane's thread."""

    def __init__(self, rows: PutBatchQueue, task: ConnectorTaskId) -> None:
        """Take the lane's queue. Until ``begin`` every batch is a put_batch by itself."""
        self._rows = rows
        self._task = task
        self._max_records: int | None = None
        self._sink: HostedSink | None = None
        self._following: _NextBatch | None = None
        self._waited_s = 0.0
        self._records = 0  # of the put_batch taken last

    def begin(self, sink: HostedSink) -> None:
        """Deliver to this sink, which is started."""
        self._sink = sink
        self._max_records = sink.max_put_records()

    def take(self, row: Row) -> PutBatch:
        """Return the put_batch that begins with a BATCH row, which was got; those behind it are got with it."""
        put_batch = self._following.batch_from(row) if self._following is not None else None
        if put_batch is None:
            self.discard_prepared()
            put_batch = self._join_rows(row, 0)
        for _ in put_batch.rows[1:]:
            self._rows.get()
        self._records = put_batch.batch.num_rows
        return put_batch

    def _join_rows(self, first: Row, at: int) -> PutBatch:
        """Return the put_batch of ``first`` and of rows behind it, which begin at place ``at`` of the queue."""
        assert first.data is not None
        rows, batches = [first], [decode_records(first.data)]
        records, size = batches[0].num_rows, first.data.size
        schema = batches[0].schema
        while self._max_records is not None and self._may_be_joined(batches[0]):
            row = self._rows.peek(at + len(rows) - 1)
            if (
                row is None
                or row.kind is not RowKind.BATCH
                or row.data is None
                or size + row.data.size > PUT_BATCH_BYTES
            ):
                break
            batch = decode_records(row.data)
            if records + batch.num_rows > self._max_records or not batch.schema.equals(schema, check_metadata=True):
                break
            rows.append(row)
            batches.append(batch)
            records, size = records + batch.num_rows, size + row.data.size
        return PutBatch(tuple(rows), batches[0] if len(batches) == 1 else pa.concat_batches(batches))

    def _may_be_joined(self, batch: pa.RecordBatch) -> bool:
        return self._sink is not None and (self._sink.joins_partitions or is_of_one_partition(batch))

    def prepare(self, batch: pa.RecordBatch, *, as_records: bool) -> Any | None:
        """Return what the sink makes of a batch, maybe following; see HostedSink.prepare."""
        assert self._sink is not None
        ready = None if as_records else self._take_prepared(batch)
        accepted = None if ready is None else self._sink.accept_prepared(ready)
        return self._sink.prepare(batch, as_records=as_records) if accepted is None else accepted

    def _take_prepared(self, batch: pa.RecordBatch) -> Any | None:
        """Return what was made of the very batch that was made ready, waited for, once; None: nothing was."""
        following = self._following
        if following is None or following.put_batch is None or following.put_batch.batch is not batch:
            return None
        self.discard_prepared()
        return following.prepared

    def deliver(self, prepared: Any) -> PutOutcome:
        """Deliver a batch, and make the next put_batch ready meanwhile; see HostedSink.deliver."""
        assert self._sink is not None
        if self._waited_s >= MIN_WAIT_S and self._sink.may_prepare_next(prepared):
            self._prepare_next(self._sink.prepare_ahead)
        began_s, cpu_s = time.monotonic(), time.thread_time()
        try:
            return self._sink.deliver(prepared)
        finally:
            self._waited_s = time.monotonic() - began_s - (time.thread_time() - cpu_s)
            if self._following is not None:
                self._following.end_search()

    def _prepare_next(self, prepare_ahead: PrepareAhead) -> None:
        """Have the next put_batch made ready: of what is there, or will have come when a part of the wait has passed.

        Not behind a small one: the next is likely to be as small.
        """
        if self._following is not None and self._following.batch_from(self._rows.peek(0)) is None:
            self.discard_prepared()  # its turn is over and it was of no use, as partitions left
        if self._following is not None or self._records < MIN_RECORDS_AHEAD:
            return
        following = _NextBatch(self._find_next, prepare_ahead, self._task)
        try:
            following.start()
        except RuntimeError:  # no more threads: then not
            return
        self._following = following

    def _find_next(self, stop: threading.Event) -> PutBatch | None:
        """Return the put_batch that comes next, if it is worth a thread; the following's thread."""
        if self._rows.peek(0) is None and stop.wait(self._waited_s * SECOND_PEEK_AFTER):
            return None
        first = self._rows.peek(0)
        if first is None or first.kind is not RowKind.BATCH or first.data is None:
            return None
        put_batch = self._join_rows(first, 1)
        return put_batch if put_batch.batch.num_rows >= MIN_RECORDS_AHEAD else None

    def discard_prepared(self) -> None:
        """Wait for what is being made ready, and give it up."""
        following, self._following = self._following, None
        if following is not None:
            following.join()
