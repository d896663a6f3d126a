"""Calls that wait for an internal topic: one at a time, beside the tick; outcomes come back onto the tick.

So the tick reads group events and can stop work however late a broker answers (Java's tick thread waits itself). One at
a time keeps what the tick thread gave for free: no request is judged by a snapshot that a write is about to change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from spark_connect_rt.base.concurrency import SerialExecutor, Threads
from spark_connect_rt.base.supervision import Report
from spark_connect_rt.errors import ConnectError, ShuttingDownError
from spark_connect_rt.runtime.herder.event_log import EventLog
from spark_connect_rt.runtime.herder.tick import NOTHING, Verdict

WORTH_SAYING_MS = 250  # thousands of writes a minute are not news

log = logging.getLogger(__name__)

Done = Callable[[Exception | None, int], None]
"""Takes the call's error, None when it went well, and the tick's monotonic time, ms. On the tick thread."""


@dataclass(slots=True)
class _UnderWay:
    what: str
    done: Done
    looked_at_ms: int | None = None  # the first time
    ended: bool = False
    error: Exception | None = None


class TopicCalls:
    """The step ``collect answers``, and the thread that waits in the tick's place."""

    def __init__(self, threads: Threads, wakeup: Callable[[], None], events: EventLog, report: Report) -> None:
        self._wakeup = wakeup
        self._events = events
        self._thread = SerialExecutor("herder-topics", threads, report)
        self._under_way: _UnderWay | None = None
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether a call is under way or its outcome not collected yet; then ``begin`` must wait."""
        return self._under_way is not None or self._closed

    def begin(self, what: str, call: Callable[[], object], done: Done) -> None:
        """Start a call; ``what`` is Java's name of the stage. On the tick thread, and only when not busy."""
        assert not self.busy, f"{what}: {self._under_way} is under way"
        under_way = self._under_way = _UnderWay(what, done)
        self._thread.submit(lambda: self._run(under_way, call))

    def collect(self, now_ms: int) -> Verdict:
        """Hand the outcome to who asked."""
        under_way = self._under_way
        if under_way is None:
            return NOTHING
        if not under_way.ended:
            if under_way.looked_at_ms is None:
                under_way.looked_at_ms = now_ms
            said_ms = under_way.looked_at_ms + WORTH_SAYING_MS
            return Verdict(f"{under_way.what} is under way") if now_ms >= said_ms else Verdict("", said_ms)
        self._under_way = None
        under_way.done(under_way.error, now_ms)
        return NOTHING  # what the outcome made possible is for later steps, in this very tick

    def close(self) -> None:
        """Take no more; what waits is answered ShuttingDownError. On the tick thread."""
        self._closed = True
        self._thread.close()
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.done(under_way.error or ShuttingDownError("Worker is shutting down"), 0)

    def _run(self, under_way: _UnderWay, call: Callable[[], object]) -> None:
        try:
            with self._events.beside(under_way.what):
                call()
        except ConnectError as error:
            under_way.error = error
        except Exception as error:
            log.exception("%s failed", under_way.what)
            under_way.error = error
        under_way.ended = True
        self._wakeup()
