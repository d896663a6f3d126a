"""Chooses the batch that a sink task is given next.

Rows that wait in the queue are joined to one batch. While the task puts it, another thread converts the next batch.

Owns that thread and the front of the queue. The thread may peek at the queue while the task's thread is in ``put``, and
at any other time only the task's thread may. Nothing is put, reported or counted here. A prepared batch need not be
used: if anything has changed, the task's thread prepares the batch again.
"""

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
from spark_connect_rt.engine.executor.frames import Row, RowKind
from spark_connect_rt.engine.executor.python_sink import HostedSink, PutOutcome
from spark_connect_rt.records.pipeline.columns import without_views
from spark_connect_rt.records.pipeline.sink_pipeline import is_of_one_partition

log = logging.getLogger(__name__)

PUT_BATCH_BYTES = 8 * 1024 * 1024  # limit for joined rows; a single row may be larger
MIN_RECORDS_AHEAD = 500  # for fewer records a thread costs more than it saves
GATHER_S = 0.05  # wait for more rows while they come fast: a call with few of them costs more for each
SECOND_PEEK_AFTER = 0.3  # share of the last wait; later there are more records, and less time to convert them
MIN_WAIT_S = 0.001  # if the last put waited less for its target, there is no time to use
PrepareAhead = Callable[[pa.RecordBatch], Any]


class PutBatchQueue(queue.SimpleQueue["Row | None"]):
    """The queue of a sink task, which its reader can peek into. One thread gets, any thread puts."""

    def __init__(self) -> None:
        self._seen: deque[Row | None] = deque()

    def get(self, block: bool = True, timeout: float | None = None) -> Row | None:
        """Return the next row, as ``SimpleQueue.get`` does."""
        return self._seen.popleft() if self._seen else super().get(block, timeout)

    def empty(self) -> bool:
        """Return whether there is no row, as ``SimpleQueue.empty`` does."""
        return not self._seen and super().empty()

    def peek(self, place: int, until_s: float = 0.0) -> Row | None:
        """Return the row with ``place`` rows before it, and leave it there. None if it has not come, or is a hint.

        Waits for it until a time of the monotonic clock.
        """
        while len(self._seen) <= place:
            try:
                self._seen.append(super().get(timeout=max(0.0, until_s - time.monotonic())))
            except queue.Empty:
                return None
        return self._seen[place]


@dataclass(frozen=True, slots=True)
class PutBatch:
    """The rows of the queue that are put together, and their records as one batch in consume form."""

    rows: tuple[Row, ...]
    batch: pa.RecordBatch

    @property
    def data_bytes(self) -> int:
        """Return the size of the rows in bytes."""
        return sum(row.data_bytes() for row in self.rows)


class _NextBatch(threading.Thread):
    """The thread that finds the next batch and prepares it. While it searches, only it peeks at the queue."""

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
        """Find and prepare. If this fails, the task's thread does it again, and the error is raised there."""
        working_for(self._task)
        try:
            self.put_batch = self._find(self._over)
            self._searched.set()
            self.prepared = None if self.put_batch is None else self._prepare_ahead(self.put_batch.batch)
        except BaseException:  # also SystemExit: the task's thread converts the batch again
            log.debug("task=%s: a batch cannot be prepared in advance", self._task, exc_info=True)
        finally:
            self._searched.set()

    def end_search(self) -> None:
        """End the search, and return when this thread does not peek at the queue any more."""
        self._over.set()
        self._searched.wait()

    def batch_from(self, row: Row | None) -> PutBatch | None:
        """Return the batch that was found if it begins with this row, else None."""
        return self.put_batch if self.put_batch is not None and self.put_batch.rows[0] is row else None


class PutBatcher:
    """Joins the queued rows of one task to batches, and has the next batch prepared while the task puts.

    Every method but ``_find_next`` belongs to the task's thread.
    """

    def __init__(self, rows: PutBatchQueue, task: ConnectorTaskId) -> None:
        """Take the queue of the task. Until ``begin`` no rows are joined."""
        self._rows = rows
        self._task = task
        self._max_records: int | None = None
        self._sink: HostedSink | None = None
        self._next: _NextBatch | None = None
        self._waited_s = 0.0
        self._records = 0  # of the batch that was taken last

    def begin(self, sink: HostedSink) -> None:
        """Deliver to this sink, which is started."""
        self._sink = sink
        self._max_records = sink.max_put_records()

    def take(self, row: Row) -> PutBatch:
        """Return the batch that begins with a BATCH row that was taken, and take its other rows from the queue."""
        put_batch = self._next.batch_from(row) if self._next is not None else None
        if put_batch is None:
            self.discard_prepared()
            put_batch = self._join_rows(row, 0, GATHER_S if self._records >= MIN_RECORDS_AHEAD else 0.0)
        for _ in put_batch.rows[1:]:
            self._rows.get()
        self._records = put_batch.batch.num_rows
        return put_batch

    def _join_rows(self, first: Row, at: int, gather_s: float = 0.0) -> PutBatch:
        """Return the batch of ``first`` and of the rows after it, which begin at place ``at`` of the queue.

        While they are less than half of what a call may get, this waits for more, up to ``gather_s`` in all.
        """
        until_s = time.monotonic() + gather_s
        batch = first.records()
        assert batch is not None
        rows, batches = [first], [batch]
        records, size = batch.num_rows, first.data_bytes()
        schema = batches[0].schema
        while self._max_records is not None and self._may_be_joined(batches[0]):
            place = at + len(rows) - 1
            is_small = records < self._max_records // 2 and size < PUT_BATCH_BYTES // 2
            row = self._rows.peek(place, until_s if is_small else 0.0)
            if row is None or row.kind is not RowKind.BATCH or size + row.data_bytes() > PUT_BATCH_BYTES:
                break
            batch = row.records()
            if batch is None or records + batch.num_rows > self._max_records:
                break
            if not batch.schema.equals(schema, check_metadata=True):
                break
            rows.append(row)
            batches.append(batch)
            records, size = records + batch.num_rows, size + row.data_bytes()
        return PutBatch(tuple(rows), without_views(batches[0] if len(batches) == 1 else pa.concat_batches(batches)))

    def _may_be_joined(self, batch: pa.RecordBatch) -> bool:
        return self._sink is not None and (self._sink.joins_partitions or is_of_one_partition(batch))

    def prepare(self, batch: pa.RecordBatch, *, as_records: bool) -> Any | None:
        """Return what the sink made of a batch, in advance if it was the next one (``HostedSink.prepare``)."""
        assert self._sink is not None
        ready = None if as_records else self._take_prepared(batch)
        accepted = None if ready is None else self._sink.accept_prepared(ready)
        return self._sink.prepare(batch, as_records=as_records) if accepted is None else accepted

    def _take_prepared(self, batch: pa.RecordBatch) -> Any | None:
        """Wait for what was prepared of exactly this batch, and return it once. None if it was not prepared."""
        next_batch = self._next
        if next_batch is None or next_batch.put_batch is None or next_batch.put_batch.batch is not batch:
            return None
        self.discard_prepared()
        return next_batch.prepared

    def deliver(self, prepared: Any) -> PutOutcome:
        """Deliver a batch, and have the next one prepared meanwhile (``HostedSink.deliver``)."""
        assert self._sink is not None
        if self._waited_s >= MIN_WAIT_S and self._sink.may_prepare_next(prepared):
            self._prepare_next(self._sink.prepare_ahead)
        began_s, cpu_s = time.monotonic(), time.thread_time()
        try:
            return self._sink.deliver(prepared)
        finally:
            self._waited_s = time.monotonic() - began_s - (time.thread_time() - cpu_s)
            if self._next is not None:
                self._next.end_search()

    def _prepare_next(self, prepare_ahead: PrepareAhead) -> None:
        """Have the next batch prepared on another thread.

        It is taken from the rows that are there, or that have come when a part of the wait is over. A small batch is
        usually followed by a small batch, for which a thread is not worth its cost.
        """
        if self._next is not None and self._next.batch_from(self._rows.peek(0)) is None:
            self.discard_prepared()  # it was not used, because its partitions left or were moved
        if self._next is not None or self._records < MIN_RECORDS_AHEAD:
            return
        next_batch = _NextBatch(self._find_next, prepare_ahead, self._task)
        try:
            next_batch.start()
        except RuntimeError:  # no thread is available, so nothing is prepared in advance
            return
        self._next = next_batch

    def _find_next(self, stop: threading.Event) -> PutBatch | None:
        """Return the next batch if it is worth a thread. It runs on the thread of ``_NextBatch``."""
        if self._rows.peek(0) is None and stop.wait(self._waited_s * SECOND_PEEK_AFTER):
            return None
        first = self._rows.peek(0)
        if first is None or first.kind is not RowKind.BATCH or not first.has_records():
            return None
        put_batch = self._join_rows(first, 1)
        return put_batch if put_batch.batch.num_rows >= MIN_RECORDS_AHEAD else None

    def discard_prepared(self) -> None:
        """Wait for the batch that is being prepared, and forget it."""
        next_batch, self._next = self._next, None
        if next_batch is not None:
            next_batch.join()
