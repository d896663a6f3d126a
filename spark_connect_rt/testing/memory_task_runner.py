"""A TaskRunner without Spark: the same engine and the same hosts, slices as plain threads.

Owns only the transport. Messages still go through their bytes, so a value that cannot cross in Spark cannot cross here.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from spark_connect_rt.base.concurrency import SYSTEM_CLOCK, Clock
from spark_connect_rt.base.supervision import Report, report_nowhere
from spark_connect_rt.engine.driver.engine import Engine
from spark_connect_rt.engine.driver.model import EngineSettings
from spark_connect_rt.engine.driver.slot_jobs import (
    OnSliceEvent,
    ReportedTotals,
    SliceConnected,
    SliceGone,
    SliceMessage,
)
from spark_connect_rt.engine.executor.control_wire import Message, MessageSplitter, encode_message
from spark_connect_rt.engine.executor.reader_side import ReaderSide
from spark_connect_rt.engine.executor.writer_side import WriterSide
from spark_connect_rt.engine.previews.model import Ended, PreviewOrder, PreviewOutcome
from spark_connect_rt.engine.previews.preview_job import carry_out
from spark_connect_rt.kafka.executor_clients import ExecutorClients

CUT_LIMIT_S = 2.0
GRACE_S = 4.0  # of a preview, after its own time


def _through_the_wire(message: Mapping[str, Any]) -> Message:
    return next(iter(MessageSplitter().feed(encode_message(message))))


class ThreadSlice:
    """One slice as a thread: the writer half drains the reader half's generator."""

    def __init__(self, slice_id: int, clients: ExecutorClients, on_event: OnSliceEvent) -> None:
        self.slice_id = slice_id
        self._on_event = on_event
        self._lock = threading.Lock()
        self._error: str | None = None
        self._aborted = self._ending = self._gone = False
        self._totals = ReportedTotals()
        self._reader = ReaderSide(clients, self._on_message)
        self._writer = WriterSide(clients, self._on_message)
        self._thread = threading.Thread(target=self._run, name=f"slice-{slice_id}", daemon=True)
        self._thread.start()

    def send(self, message: Message) -> None:
        """Hand a message to the reader half."""
        with self._lock:
            if self._aborted:
                return
            self._ending = self._ending or message["op"] == "end"
        self._reader.handle(_through_the_wire(message))

    def abort(self, error: str | None = "killed") -> None:
        """Give up both halves; nothing of them is reported afterwards."""
        with self._lock:
            if self._aborted:
                return
            self._aborted, self._error = True, error
        self._writer.abandon()
        self._reader.abandon()

    def join(self, limit_s: float) -> None:
        """Wait for the end of its thread, at most ``limit_s`` seconds."""
        self._thread.join(limit_s)

    def _on_message(self, message: Mapping[str, Any]) -> None:
        received = _through_the_wire(message)
        with self._lock:
            if self._aborted:
                return
            self._totals.count(received)
            self._on_event(SliceMessage(self.slice_id, received))

    def _run(self) -> None:
        self._on_event(SliceConnected(self.slice_id))
        try:
            totals = self._writer.run(self._reader.rows())
            written = {host: (total.records, total.batches) for host, total in totals.items()}
            differences = self._totals.differences(written)
            if differences and not self._aborted:
                self._error = "; ".join(differences)
        except Exception as error:
            if not self._aborted:  # a bug of the engine's: tests should see it
                self._error = f"{type(error).__name__}: {error}"
                raise  # else an aborted half failed: the reason of the abort stays
        finally:
            if not self._ending and self._error is None:
                self._error = "the slice ended unasked"
            self._on_event(SliceGone(self.slice_id, self._error))


class ThreadSliceLauncher:
    """A SlotLauncher that runs slices on threads of this process."""

    def __init__(self, clients: ExecutorClients) -> None:
        self._clients = clients
        self.slices: list[ThreadSlice] = []

    def open(self, on_event: OnSliceEvent) -> None:
        """Take the listener of all slices' events; before the first ``launch``."""
        self._on_event = on_event

    def live_while(self, holds_lease: Callable[[], bool]) -> None:
        """Do nothing: threads of this process live and die with it."""

    def launch(self, slice_id: int) -> ThreadSlice:
        """Start a slice on a new thread."""
        thread_slice = ThreadSlice(slice_id, self._clients, self._on_event)
        self.slices.append(thread_slice)
        return thread_slice

    def close(self) -> None:
        """Abort the slices that still run, as the end of the control channel does."""
        for slice_ in self.slices:
            slice_.abort()
        for slice_ in self.slices:
            slice_.join(CUT_LIMIT_S)


class MemoryPreviews:
    """Implements the port PreviewRunner on threads with the code of an executor; ends no preview that hangs."""

    def __init__(self, clients: ExecutorClients, grace_s: float = GRACE_S) -> None:
        """Take the clients that executors get."""
        self._clients, self._grace_s = clients, grace_s

    def run(self, order: PreviewOrder, cancelled: threading.Event) -> PreviewOutcome:
        """Run a preview and return its records, or the reason why it has none."""
        records: list[Any] = []
        doing: list[str] = []
        over: list[Any] = []

        def carry() -> None:
            def say(what: str, ended: Ended | None = None) -> None:
                doing.append(what)

            over.append(carry_out(order, self._clients, lambda text: records.append(json.loads(text)), say))

        thread = threading.Thread(target=carry, name="preview", daemon=True)
        thread.start()
        end_s = time.monotonic() + order.seconds + self._grace_s
        while thread.is_alive() and not cancelled.is_set() and time.monotonic() < end_s:
            thread.join(0.05)
        if not over:
            why = None if cancelled.is_set() else f"its time was over while {doing[-1:]}"
            return PreviewOutcome(tuple(records), Ended.TIME, why)
        return PreviewOutcome(tuple(records), Ended(over[0]["ended"]), over[0]["error"])


class MemoryTaskRunner(Engine):
    """Implements the port TaskRunner on threads, without Spark."""

    def __init__(
        self,
        clients: ExecutorClients,
        settings: EngineSettings | None = None,
        report: Report = report_nowhere,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.launcher = ThreadSliceLauncher(clients)
        self._clients = clients
        super().__init__(self.launcher, settings or EngineSettings(housekeeping_ms=50), report, clock=clock)

    def previews(self) -> MemoryPreviews:
        """Return a runner of previews, on threads as well."""
        return MemoryPreviews(self._clients)

    def lose_slices(self, error: str = "executor lost") -> None:
        """Let every slice die at once, as with a lost executor; the runner must recover."""
        for slice_ in self.launcher.slices:
            slice_.abort(error)
