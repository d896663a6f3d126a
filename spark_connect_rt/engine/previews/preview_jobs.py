"""Previews as Spark jobs of one partition: one process on an executor for each, ended at its limit whatever it does.

Owns the job's thread, its ticket and its one connection. No slot, no run, no group: the engine knows nothing of it. A
preview is over when its process is dead or has said goodbye.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.base.hidden_values import without_secrets
from spark_connect_rt.base.json_text import decode_json
from spark_connect_rt.engine.driver.control_channel import ControlChannel, SlotConnection
from spark_connect_rt.engine.driver.slice_runner import SparkSliceLauncher
from spark_connect_rt.engine.executor.control_wire import Message
from spark_connect_rt.engine.executor.late_plugins import ROLE as PLUGINS
from spark_connect_rt.engine.executor.ticket import SliceTicket
from spark_connect_rt.engine.previews.model import Ended, PreviewOrder, PreviewOutcome
from spark_connect_rt.engine.previews.preview_job import ROLE, PreviewPart, encode_order
from spark_connect_rt.errors import DataError

SPARK_WAIT_S = 120.0  # for a session that is being built
CORE_WAIT_S = 60.0  # for a free core of an executor
GRACE_S = 4.0  # behind a preview's own limit: for the task's stop
_DEATH_WAIT_S = 10.0
_ERROR_LIMIT = 2_000
_numbers = itertools.count(-1, -1)  # slices have the others
log = logging.getLogger(__name__)


class SparkPreviews:
    """Port PreviewRunner on the worker's Spark session."""

    def __init__(self, launcher: SparkSliceLauncher, core_wait_s: float = CORE_WAIT_S) -> None:
        """Take what slices are launched with."""
        self._launcher = launcher
        self._core_wait_s = core_wait_s

    def run(self, order: PreviewOrder, cancelled: threading.Event) -> PreviewOutcome:
        """See PreviewRunner. One that said goodbye is answered at once: its job ends behind that, still watched."""
        job = PreviewJob(self._launcher, order)
        threading.Thread(target=job.run, name=f"preview-{-job.number}", daemon=True).start()
        try:
            return job.outcome(cancelled, self._core_wait_s)
        finally:
            if job.said_goodbye():
                threading.Thread(target=job.end, name=f"preview-end-{-job.number}", daemon=True).start()
            else:
                job.end()


class PreviewJob:
    """One preview: ChannelOwner of its process."""

    def __init__(self, launcher: SparkSliceLauncher, order: PreviewOrder) -> None:
        """Take the order; nothing runs yet."""
        self.number = next(_numbers)
        self.token = secrets.token_hex(16)
        self._launcher, self._order = launcher, order
        self._group = f"connectrt-preview{self.number}-{self.token[:6]}"
        self._changed = threading.Condition()
        self._records: list[Sequence[Mapping[str, Any]]] = []
        self._doing = ""
        self._stopping: tuple[Ended, float] | None = None  # why no more comes, and since when its task is to stop
        self._over: tuple[Ended, str | None] | None = None
        self._connection: SlotConnection | None = None
        self._up = self._begun = self._dead = self._job_done = self._ending = self._said_goodbye = False

    # -- the job's thread

    def run(self) -> None:
        """Run the job; returns when it is over."""
        error = ""
        try:
            spark = self._launcher.session.get()
            if not self._ending:
                channel = self._launcher.channel()
                channel.expect(self.number, self)
                with self._changed:
                    self._up = True
                    self._changed.notify_all()
                context = spark.sparkContext
                context.setJobGroup(self._group, "connectrt preview")
                context.parallelize([0], 1).foreachPartition(PreviewPart(self._ticket(channel)))
        except Exception as failure:  # noqa: BLE001 - top of the thread: it becomes the preview's error
            error = without_secrets(f"{type(failure).__name__}: {failure}")[:_ERROR_LIMIT]
        with self._changed:
            self._job_done = True
            if self._over is None and not self._ending:
                self._over = (
                    Ended.ERROR,
                    (f"the process of the preview ended unexpectedly: {error or 'its job is over'}"),
                )
            self._changed.notify_all()

    def _ticket(self, channel: ControlChannel) -> SliceTicket:
        launcher = self._launcher
        return SliceTicket(
            self.number,
            self.token,
            channel.address,
            launcher.session_timeout_ms,
            launcher.clients,
            channel.certificate,
        )

    # -- ChannelOwner, on the channel's thread

    def on_hello(self, connection: SlotConnection, message: Message) -> bool:
        """Give the process its order; a second process is refused."""
        if connection.role == PLUGINS:
            return True
        with self._changed:
            if connection.role != ROLE or self._begun or self._ending:
                return False
            self._begun, self._connection = True, connection
            self._changed.notify_all()
        self._launcher.channel().send(connection, encode_order(self._order))
        return True

    def on_message(self, connection: SlotConnection, message: Message) -> None:
        """Answer a question about plug-ins, or keep the record or state that the preview reports."""
        if connection.role == PLUGINS:
            self._launcher.channel().send(connection, self._launcher.plugins.answer(message))
            return
        with self._changed:
            match message["op"]:
                case "previewed":
                    with contextlib.suppress(DataError):
                        self._records.append(decode_json(message["stages"].encode()))
                case "doing":
                    self._doing = message["what"]
                    if message["ended"] is not None:
                        self._stopping = Ended(message["ended"]), time.monotonic()
                case "over":
                    self._over, self._said_goodbye = (Ended(message["ended"]), message["error"]), True
            self._changed.notify_all()

    def on_dead(self, connection: SlotConnection) -> None:
        """The process is dead, or has nothing more to say."""
        if connection.role == ROLE:
            with self._changed:
                self._dead = True
                self._changed.notify_all()

    # -- who asked for it

    def outcome(self, cancelled: threading.Event, core_wait_s: float) -> PreviewOutcome:
        """Wait until it is over, its time is up, or ``cancelled``; return what there is."""
        with self._changed:
            up = self._await(cancelled, SPARK_WAIT_S, lambda: self._up)
            began = up and self._await(cancelled, core_wait_s, lambda: self._begun)
            if not began and self._over is None:
                if cancelled.is_set():
                    return PreviewOutcome((), Ended.TIME)
                why = f"no executor had a free core for it within {core_wait_s:.0f} s"
                return PreviewOutcome(
                    (), Ended.ERROR, why if up else f"Spark was not ready within {SPARK_WAIT_S:.0f} s"
                )
            self._await(cancelled, self._order.seconds + GRACE_S, lambda: self._dead)
            if self._over is None and self._dead:
                self._over = Ended.ERROR, f"its process died while {self._doing or 'it began'}"
            if self._over is None:
                reached = Ended.TIME if self._stopping is None else self._stopping[0]
                self._over = reached, self._overdue(cancelled)
            ended, error = self._over
            return PreviewOutcome(tuple(self._records), ended, error)

    def _overdue(self, cancelled: threading.Event) -> str | None:
        if cancelled.is_set():
            return None
        if self._stopping is not None:
            return f"its task did not stop within {GRACE_S:g} s, and its process was killed"
        return f"its time was over while {self._doing or 'it began'}, which did not return, and its process was killed"

    def _await(self, cancelled: threading.Event, limit_s: float, happened: Any) -> bool:
        end_s = time.monotonic() + limit_s
        while not happened() and self._over is None and not cancelled.is_set():
            left_s = end_s - time.monotonic()
            if left_s <= 0 or (self._stopping is not None and time.monotonic() - self._stopping[1] > GRACE_S):
                break
            self._changed.wait(min(left_s, 0.1))
        return bool(happened())

    def said_goodbye(self) -> bool:
        """Return whether its process is done by its own words: plug-ins' code runs there no more."""
        with self._changed:
            return self._said_goodbye

    def end(self) -> None:
        """End whatever is left of it; returns when its process is dead, as far as that is known in some seconds."""
        with self._changed:
            self._ending = True
            connection = self._connection
            hurry = not self._said_goodbye
        if self._launcher.session.ready():
            with contextlib.suppress(Exception):  # a session that could not be made, a JVM that is gone
                self._end(connection, hurry=hurry)

    def _end(self, connection: SlotConnection | None, *, hurry: bool) -> None:
        channel = self._launcher.channel()
        if hurry or not self._await_end(GRACE_S):
            if connection is not None:
                channel.cut(connection)
            self._launcher.session.get().sparkContext.cancelJobGroup(self._group)
            if not self._await_end(_DEATH_WAIT_S):
                log.warning("preview=%s: its process has not ended yet", self.number)
        channel.forget(self.number)

    def _await_end(self, limit_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: (self._dead or self._connection is None) and self._job_done, limit_s)
