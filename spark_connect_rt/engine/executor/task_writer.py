"""The thread and the queue that write for one task, so that a slow target delays no other task.

Owns the queue, its throttle, and the handling of failures and endings that all task writers share.
``SourceTaskWriter``, ``TransactionalTaskWriter`` and ``SinkTaskRunner`` decide what happens to the rows.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_connect_rt.base.loggers import working_for
from spark_connect_rt.engine.executor.frames import Row, RowKind
from spark_connect_rt.engine.executor.hosting import HostLostError, tell_or_log, text_of, trace_of
from spark_connect_rt.engine.executor.task_meter import TaskMeter
from spark_connect_rt.engine.task_runner import TaskLaunch
from spark_connect_rt.errors import TimedOutError
from spark_connect_rt.kafka.cluster_contact import listen
from spark_connect_rt.kafka.executor_clients import ClientLostError

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_connect_rt.engine.executor.frames import BatchHead
    from spark_connect_rt.engine.executor.joint_reports import JointReports

Report = Callable[[Mapping[str, Any]], None]
"""Sends one report to the driver. Any thread. Raises TypeError for a report that cannot be encoded."""

THROTTLE_BYTES = 16 * 1024 * 1024
UNTHROTTLE_BYTES = 8 * 1024 * 1024
QUEUE_BYTES = 64 * 1024 * 1024  # reached only while the driver is slow: then the whole slot waits
QUEUE_PATIENCE_S = 6.0  # but not without a limit for a writer that hangs
log = logging.getLogger(__name__)


@dataclass(slots=True)
class Totals:
    """The numbers that a task writer reported as durable. The driver compares them with its own (E4)."""

    records: int = 0
    batches: int = 0


class TaskWriter(ABC, threading.Thread):
    """Base of the writers of source and sink tasks.

    The dispatcher, which is the thread that reads or deals rows, calls the methods of the first section. Everything
    else runs on the writer's own thread, one step at a time.
    """

    step_name = "send"  # the call that a step is measured as; empty: the subclass measures its calls itself

    def __init__(self, host: int, launch: TaskLaunch, report: Report) -> None:
        threading.Thread.__init__(self, name=f"lane-{launch.task}", daemon=True)
        self.host = host
        self.launch = launch
        self.totals = Totals()
        self.meter = TaskMeter("writer")
        self._report = report
        self._rows: queue.SimpleQueue[Row | None] = queue.SimpleQueue()
        self._queue_changed = threading.Condition()  # guards the next two lines
        self._queued_bytes = self._unserved = 0  # of rows that were given and not served
        self._throttled = self._waited = False
        self._serving = threading.Lock()  # held during each step; other threads try to get it, and never wait for it
        self._out = report  # takes the durable reports; guarded by ``_serving``
        self._failed = False
        self._end_by_s: float | None = None  # of a stop: rows that are not served by then are dropped
        self._dropped = False
        self._telling = threading.Lock()  # keeps the measures of the dispatcher and of the writer's end in order
        self.abandoned = False
        self.joint: JointReports | None = None  # batches the reports of acknowledged records
        self.sees_idle = False  # True: no hints come, and the reader is idle when the queue is empty

    # -- called by the dispatcher

    def give(self, row: Row) -> None:
        """Queue a row.

        Asks the driver to hold the reader back when too much is queued. If that takes effect too slowly, the call waits
        for room for ``QUEUE_PATIENCE_S`` at most.
        """
        if row.kind is RowKind.ENDED and row.head:
            self._end_by_s = int(row.head) / 1000
            self.hurry(self._end_by_s)
        with self._queue_changed:
            self._await_room(row)
            self._queued_bytes += row.size_bytes()
            self._unserved += 1
            throttle = not self._throttled and self._queued_bytes > THROTTLE_BYTES
            self._throttled = self._throttled or throttle
        if throttle:
            self._report({"op": "throttle", "host": self.host, "on": True})
        self._rows.put(row)

    def _await_room(self, row: Row) -> None:
        """Wait for room, so that rows stay in Spark's pipes. This also delays the neighbours in the slot."""
        if row.has_records() and self._throttled and not self._waited:
            enough = self._queue_changed.wait_for(
                lambda: self.abandoned or self._queued_bytes <= QUEUE_BYTES, QUEUE_PATIENCE_S
            )
            self._waited = not enough

    def serve_at_once(self, head: BatchHead, batch: pa.RecordBatch) -> bool:
        """Serve a small batch on its reader's thread if it is the next row and nothing has to be waited for.

        For a small batch, waking another thread costs more than serving it. Returns False if the batch has to be given.
        """
        if self._unserved or not self._serving.acquire(blocking=False):
            return False
        try:
            if self._unserved or self._failed or self.abandoned or not self.is_ready_for(head, batch):
                return False
            self._guarded(lambda: self.on_batch(head, batch))
            return True
        finally:
            self._serving.release()

    def hint_idle(self) -> None:
        """Note that the reader has nothing more right now. A writer without pending work is not woken."""
        if self._queued_bytes or self.wait_s() is not None:
            self._rows.put(None)

    def tell_measures(self, report: Report | None = None, *, anyway: bool = False) -> None:
        """Report the measures since the last report, to ``report`` or the driver, if they are worth a message.

        It may be called by the dispatcher and by the writer's thread. ``anyway`` reports them in any case.
        """
        if self.abandoned:
            return
        with self._telling:
            news = self.meter.news(now_s(), anyway=anyway)
            if news is not None:
                tell_or_log(report or self._report, {"op": "measures", "host": self.host, **news})

    def abandon(self) -> None:
        """Stop at once, because the slice is over. Nothing is reported any more."""
        with self._queue_changed:
            self.abandoned = True
            self._queue_changed.notify_all()
        self._rows.put(None)

    # -- the writer's own thread

    def run(self) -> None:
        """Serve rows until ENDED. A failure is reported once, and later rows are dropped."""
        working_for(self.launch.task)
        listen(self.meter.contact)
        try:
            self._guarded(self.begin)
            ended = False
            while not ended and not self.abandoned:
                ended = self._take_one()
        finally:
            self._finish_quietly()
        if not self.abandoned:
            self.tell_measures(anyway=True)
            self._report({"op": "ended", "host": self.host})

    def _take_one(self) -> bool:
        """Serve one row, or the time if it comes first. Returns whether the host has ended."""
        timeout_s = None if self._failed else self.wait_s()  # after a failure nothing is due any more
        try:
            row = self._rows.get(timeout=timeout_s)
        except queue.Empty:
            with self._serving:
                self._guarded(self.on_time)
            return False
        with self._serving:
            return self._serve(row)

    def _serve(self, row: Row | None) -> bool:
        """Serve a row, or the hint that the reader is idle. Returns whether the host has ended."""
        if row is None:
            self._guarded(self.on_reader_idle)
            return False
        match row.kind:
            case RowKind.ENDED:
                self._guarded(self.drain)
            case RowKind.FAILED:
                self._guarded(self.drain)
                self._fail(row.head.decode(errors="replace"))
            case RowKind.LOST:
                self._guarded(self.drain)
                self._lose(row.head.decode(errors="replace"))
            case _ if not self._must_drop():
                self._guarded(lambda: self.on_row(row))
        self._done_with(row)
        if self.sees_idle and row.kind is RowKind.BATCH and self._rows.empty():
            self._guarded(self.on_reader_idle)
        return row.kind is RowKind.ENDED

    def _must_drop(self) -> bool:
        """Return whether the time of a stop is over. Then nothing more is sent, and the next start reads the rest."""
        if not self._dropped and self._end_by_s is not None and now_s() >= self._end_by_s:
            self._dropped = True
            log.warning("task=%s stops without draining: unsent records will be read again", self.launch.task)
        return self._dropped

    def _done_with(self, row: Row) -> None:
        with self._queue_changed:
            self._queued_bytes -= row.size_bytes()
            self._unserved -= 1
            release = self._throttled and self._queued_bytes < UNTHROTTLE_BYTES
            if release:
                self._throttled = self._waited = False
            self._queue_changed.notify_all()
        if release:
            self._report({"op": "throttle", "host": self.host, "on": False})

    def _finish_quietly(self) -> None:
        try:
            self.finish()
        except BaseException:  # as in Java, a failing stop is logged, and earlier reports stay valid
            log.exception("task=%s: closing failed, ignored", self.launch.task)

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run a step, which calls code of the task or of a Kafka client. An error fails this host only.

        HostLostError means that the process of the task is gone: the task is started again. Any other error fails the
        task. Before it is reported, the writer saves what came before the error.
        """
        if self._failed or self.abandoned:
            return
        try:
            with self.meter.call(self.step_name) if self.step_name else nullcontext():
                step()
        except (HostLostError, ClientLostError) as error:
            self._lose(text_of(error))
        except BaseException as error:  # also SystemExit: a thread that ended silently would leave its task RUNNING
            if isinstance(error, TimedOutError) and self._must_drop():
                return  # a stop hurried it, and the next start reads again what was not reported
            log.exception("task=%s run=%d FAILED", self.launch.task, self.launch.run)
            trace = trace_of(error)
            self._close_quietly()  # before the report, because a failed run sends nothing more (E2)
            self._fail(trace)

    def _close_quietly(self) -> None:
        if self.abandoned:
            return
        try:
            self.close_failed()
        except BaseException:  # as in Java, the error that failed the task is the one that is reported
            log.exception("task=%s: closing after its failure also failed, ignored", self.launch.task)

    def _lose(self, why: str) -> None:
        """Report that the process of the task is gone. Nothing can be committed, and later rows are dropped."""
        if not self._failed and not self.abandoned:
            log.error("task=%s run=%d was lost: %s", self.launch.task, self.launch.run, why)
            self._failed = True
            self._report({"op": "lost", "host": self.host, "why": why})

    def _fail(self, trace: str) -> None:
        if not self._failed and not self.abandoned:
            self._failed = True
            self.tell_measures(anyway=True)  # now, because nothing is sent after the failure (E2)
            self._report({"op": "failed", "host": self.host, "trace": trace})

    def report_durable(self, records: int, **fields: Any) -> None:
        """Report a batch as durable. Only now may its offsets be committed (I3)."""
        if self.abandoned:
            return
        self.totals.records += records
        self.totals.batches += 1
        self._out({"op": "durable", "host": self.host, "n": records, **fields})

    def report(self, op: str, **fields: Any) -> None:
        """Send any other report of this host."""
        if not self.abandoned:
            self._report({"op": op, "host": self.host, **fields})

    # -- implemented by each kind of writer

    def hurry(self, end_by_s: float) -> None:
        """Note that the host has to end by this time, whatever it waits for. The dispatcher's thread."""

    @abstractmethod
    def begin(self) -> None:
        """Open everything that the writer needs. An error fails the task."""

    @abstractmethod
    def on_row(self, row: Row) -> None:
        """Serve a row that is neither FAILED nor LOST nor ENDED."""

    def is_ready_for(self, head: BatchHead, batch: pa.RecordBatch) -> bool:
        """Return whether ``on_batch`` can serve this batch now without waiting."""
        return False

    def on_batch(self, head: BatchHead, batch: pa.RecordBatch) -> None:
        """Serve a batch for which ``is_ready_for`` was true, as a BATCH row. The reader's thread."""

    @abstractmethod
    def on_reader_idle(self) -> None:
        """React to a reader that has nothing more right now."""

    @abstractmethod
    def on_time(self) -> None:
        """React to the end of ``wait_s`` without a row."""

    @abstractmethod
    def wait_s(self) -> float | None:
        """Return how long to wait for the next row, in s. None waits without a limit."""

    @abstractmethod
    def drain(self) -> None:
        """Make everything that was taken so far durable, and report it."""

    def close_failed(self) -> None:
        """Save everything that came before a step that failed. May raise."""

    @abstractmethod
    def finish(self) -> None:
        """Close everything that ``begin`` opened, also after a failure."""


def now_s() -> float:
    """Return the monotonic clock in s."""
    return time.monotonic()
