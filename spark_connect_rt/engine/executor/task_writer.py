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
"""Sends one report to the driver. Any thread. Raises TypeError: it cannot be sent."""

THROTTLE_BYTES = 16 * 1024 * 1024
UNTHROTTLE_BYTES = 8 * 1024 * 1024
QUEUE_BYTES = 64 * 1024 * 1024  # more comes only while the driver is slow: then the whole slot waits
QUEUE_PATIENCE_S = 6.0  # but not for ever behind a task writer that hangs
log = logging.getLogger(__name__)


@dataclass(slots=True)
class Totals:
    """What a task writer reported durable; ``commit`` compares it with what the driver received."""

    records: int = 0
    batches: int = 0


class TaskWriter(ABC, threading.Thread):
    """Base of both task writers. The dispatcher calls ``give``; everything else runs on the task writer's thread."""

    step_name = "send"  # what a step counts as in the meter; empty: the task writer names its calls itself

    def __init__(self, host: int, launch: TaskLaunch, report: Report) -> None:
        threading.Thread.__init__(self, name=f"lane-{launch.task}", daemon=True)
        self.host = host
        self.launch = launch
        self.totals = Totals()
        self.meter = TaskMeter("writer")
        self._report = report
        self._rows: queue.SimpleQueue[Row | None] = queue.SimpleQueue()
        self._queue_changed = threading.Condition()  # of the following
        self._queued_bytes = self._unserved = 0  # of rows that were given
        self._throttled = self._waited = False
        self._serving = threading.Lock()  # held for each step; others try it, and never wait for it
        self._out = report  # of what became durable; under ``_serving``
        self._failed = False
        self._end_by_s: float | None = None  # what is not begun by then is dropped; known ahead of the rows before it
        self._dropped = False
        self._telling = threading.Lock()  # the dispatcher tells each second, the task writer when it ends: in order
        self.abandoned = False
        self.joint: JointReports | None = None  # where it leaves what its producer says to
        self.sees_idle = False  # no one says when the reader runs out: it has, when the queue is empty

    # -- dispatcher's thread

    def give(self, row: Row) -> None:
        """Queue a row; asks the driver to hold the reader back when too much waits; waits itself while that is late."""
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
        """Bound the queue though the driver is slow: rows that no one takes stay in Spark's pipes, neighbours' too."""
        if row.data is not None and self._throttled and not self._waited:
            enough = self._queue_changed.wait_for(
                lambda: self.abandoned or self._queued_bytes <= QUEUE_BYTES, QUEUE_PATIENCE_S
            )
            self._waited = not enough

    def serve_at_once(self, head: BatchHead, batch: pa.RecordBatch) -> bool:
        """Serve a batch on its reader's thread, where it is the next one and nothing has to be waited for.

        Waking another thread for it costs more than a small batch does. False: it is to be given.
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
        """Say that the reader has nothing more right now; task writers with nothing undone are left asleep."""
        if self._queued_bytes or self.wait_s() is not None:
            self._rows.put(None)

    def tell_measures(self, report: Report | None = None, *, anyway: bool = False) -> None:
        """Tell the driver, or ``report``, what was counted, if it is worth a message. Any of both threads."""
        if self.abandoned:
            return
        with self._telling:
            news = self.meter.news(now_s(), anyway=anyway)
            if news is not None:
                tell_or_log(report or self._report, {"op": "measures", "host": self.host, **news})

    def abandon(self) -> None:
        """Give up at once: the slice is over, nothing may be reported any more."""
        with self._queue_changed:
            self.abandoned = True
            self._queue_changed.notify_all()
        self._rows.put(None)

    # -- the task writer's own thread

    def run(self) -> None:
        """Thread body: take rows until ENDED; a failure is reported once, later rows are dropped."""
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
        """Serve one row or the time; return whether the host ended."""
        timeout_s = None if self._failed else self.wait_s()  # nothing of what was due is done any more
        try:
            row = self._rows.get(timeout=timeout_s)
        except queue.Empty:
            with self._serving:
                self._guarded(self.on_time)
            return False
        with self._serving:
            return self._serve(row)

    def _serve(self, row: Row | None) -> bool:
        """Serve a row, or that the reader is idle; return whether the host ended."""
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
        """Tell whether a stop's time is up. From then on nothing is sent: the rest comes again at the next start."""
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
        except BaseException:  # as Java: a failing stop is logged, what was reported stands
            log.exception("task=%s: closing failed, ignored", self.launch.task)

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run a step of the task's or a client's code; its error fails this host only."""
        if self._failed or self.abandoned:
            return
        try:
            with self.meter.call(self.step_name) if self.step_name else nullcontext():
                step()
        except (HostLostError, ClientLostError) as error:
            self._lose(text_of(error))
        except BaseException as error:  # SystemExit, too: a thread that ends untold leaves its task RUNNING
            if isinstance(error, TimedOutError) and self._must_drop():
                return  # hurried: what this step did not report comes again
            log.exception("task=%s run=%d FAILED", self.launch.task, self.launch.run)
            trace = trace_of(error)
            self._close_quietly()  # before it is reported: a failed run sends nothing more (E2)
            self._fail(trace)

    def _close_quietly(self) -> None:
        if self.abandoned:
            return
        try:
            self.close_failed()
        except BaseException:  # as Java: it is suppressed beside the error that failed the task
            log.exception("task=%s: closing after its failure also failed, ignored", self.launch.task)

    def _lose(self, why: str) -> None:
        """What hosts the task is gone: nothing of it can be closed or committed; rows until ENDED are dropped."""
        if not self._failed and not self.abandoned:
            log.error("task=%s run=%d was lost: %s", self.launch.task, self.launch.run, why)
            self._failed = True
            self._report({"op": "lost", "host": self.host, "why": why})

    def _fail(self, trace: str) -> None:
        if not self._failed and not self.abandoned:
            self._failed = True
            self.tell_measures(anyway=True)  # behind it nothing is sent (E2)
            self._report({"op": "failed", "host": self.host, "trace": trace})

    def report_durable(self, records: int, **fields: Any) -> None:
        """Report a batch as durable (I3: its offsets may be committed only after this)."""
        if self.abandoned:
            return
        self.totals.records += records
        self.totals.batches += 1
        self._out({"op": "durable", "host": self.host, "n": records, **fields})

    def report(self, op: str, **fields: Any) -> None:
        """Report something else of this host."""
        if not self.abandoned:
            self._report({"op": op, "host": self.host, **fields})

    # -- what the two kinds do

    def hurry(self, end_by_s: float) -> None:
        """The host is to end by then, whatever is being waited for. The dispatcher's thread."""

    @abstractmethod
    def begin(self) -> None:
        """Open what the task writer needs."""

    @abstractmethod
    def on_row(self, row: Row) -> None:
        """Serve a row that is neither FAILED nor ENDED."""

    def is_ready_for(self, head: BatchHead, batch: pa.RecordBatch) -> bool:
        """Tell whether ``on_batch`` may serve this batch now, without a wait."""
        return False

    def on_batch(self, head: BatchHead, batch: pa.RecordBatch) -> None:
        """Serve a batch that ``is_ready_for`` takes: as a BATCH row, on the host's thread."""

    @abstractmethod
    def on_reader_idle(self) -> None:
        """The reader has nothing more right now."""

    @abstractmethod
    def on_time(self) -> None:
        """``wait_s`` passed without a row."""

    @abstractmethod
    def wait_s(self) -> float | None:
        """Return how long to wait for the next row."""

    @abstractmethod
    def drain(self) -> None:
        """Make everything taken so far durable, and report it."""

    def close_failed(self) -> None:
        """A step failed: save what came before it. May raise."""

    @abstractmethod
    def finish(self) -> None:
        """Close what ``begin`` opened; also after a failure."""


def now_s() -> float:
    """Return the monotonic clock, s."""
    return time.monotonic()
