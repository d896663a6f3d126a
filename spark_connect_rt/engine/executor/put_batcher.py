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
from spark_connect_rt.engine.executor.python_sink import HostedSink, Outcome
from spark_connect_rt.records.pipeline.sink_pipeline import is_of_one_partition

log = logging.getLogger(__name__)

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
