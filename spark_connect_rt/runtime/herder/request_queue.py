"""Requests on their way to the tick thread: due time, then order of arrival; each answers a Future."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from spark_connect_rt.base.concurrency import Clock, SerialExecutor, Threads, answered, copy_outcome
from spark_connect_rt.base.supervision import Report
from spark_connect_rt.errors import ConnectError, FencedError, ShuttingDownError, TimedOutError
from spark_connect_rt.runtime.herder.event_log import EventLog
from spark_connect_rt.runtime.herder.tick import NOTHING, Verdict

log = logging.getLogger(__name__)

T = TypeVar("T")

REQUEST_LIMIT_MS = 90_000


@dataclass(order=True, slots=True)
class QueuedRequest(Generic[T]):
    """``action`` runs on the tick thread; it may return a Future of its own to be waited for."""

    due_ms: int
    sequence: int
    what: str = field(compare=False)  # ``create connector a``
    action: Callable[[], T | Future[T]] = field(compare=False)
    answer: Future[T] = field(compare=False)
    needs_group: bool = field(compare=False)
    expires_ms: int = field(compare=False)
    begun: bool = field(default=False, compare=False)

    def run(self, again: Callable[[QueuedRequest[T]], None]) -> None:
        """Run the action and answer, whatever it raises; FencedError: it had no effect, ``again`` has it run later."""
        if not self.begin():
            return
        outcome = answered(self.action)
        outcome.add_done_callback(lambda done: self._end(done, again))

    def begin(self) -> bool:
        """Return whether an answer is still wanted; from now on it cannot be cancelled."""
        if not self.begun:
            self.begun = self.answer.set_running_or_notify_cancel()
        return self.begun

    def _end(self, done: Future[T], again: Callable[[QueuedRequest[T]], None]) -> None:
        if isinstance(done.exception(), FencedError):
            again(self)
        else:
            copy_outcome(done, self.answer)


class RequestQueue:
    """Filled by any thread, emptied by the tick."""

    def __init__(self, clock: Clock, wakeup: Callable[[], None], limit_ms: int = REQUEST_LIMIT_MS) -> None:
        self._clock = clock
        self._wakeup = wakeup
        self._limit_ms = limit_ms
        self._heaps: dict[bool, list[QueuedRequest[Any]]] = {True: [], False: []}  # by needs_group
        self._none_expires_before_ms: int | None = None  # what waits; None: nothing has been put since
        self._sequence = itertools.count()
        self._lock = threading.Lock()
        self._closed = False

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, self._heaps.values()))

    def add(
        self, what: str, action: Callable[[], T | Future[T]], *, needs_group: bool = True, delay_ms: int = 0
    ) -> Future[T]:
        """Queue an action; return its answer to come. A closed queue answers ShuttingDownError."""
        answer: Future[T] = Future()
        due_ms = self._clock.monotonic_ms() + delay_ms
        request: QueuedRequest[T] = QueuedRequest(
            due_ms, next(self._sequence), what, action, answer, needs_group, due_ms + self._limit_ms
        )
        self.put(request)
        return answer

    def put(self, request: QueuedRequest[Any]) -> None:
        """Queue a request, or queue it again. A closed queue answers ShuttingDownError."""
        with self._lock:
            if not self._closed:
                heapq.heappush(self._heaps[request.needs_group], request)
                before_ms = self._none_expires_before_ms
                self._none_expires_before_ms = min(request.expires_ms, before_ms or request.expires_ms)
                self._wakeup()
                return
        if request.begin():
            request.answer.set_exception(ShuttingDownError("Worker is shutting down"))

    def take_due(self, now_ms: int, group_is_stable: bool, only: str | None = None) -> QueuedRequest[Any] | None:
        """Remove and return the first request that is due and may run now; None also if it is not ``only`` (what)."""
        with self._lock:
            heaps = self._heaps.values() if group_is_stable else [self._heaps[False]]
            runnable = [heap for heap in heaps if heap and heap[0].due_ms <= now_ms]
            if not runnable:
                return None
            first = min(runnable, key=lambda heap: heap[0])
            if only is not None and first[0].what != only:
                return None
            return heapq.heappop(first)

    def expire(self, now_ms: int, explain: Callable[[], str]) -> None:
        """Answer TimedOutError to every request that waited too long."""
        late: list[QueuedRequest[Any]] = []
        with self._lock:
            if self._none_expires_before_ms is None or now_ms < self._none_expires_before_ms:
                return
            for heap in self._heaps.values():
                late += (request for request in heap if request.expires_ms <= now_ms)
                heap[:] = (request for request in heap if request.expires_ms > now_ms)
                heapq.heapify(heap)
            waiting = itertools.chain(*self._heaps.values())
            self._none_expires_before_ms = min((request.expires_ms for request in waiting), default=None)
        for request in sorted(late):
            if request.begin():
                request.answer.set_exception(TimedOutError(f"Request timed out. {explain()}"))

    def waiting(self) -> list[str]:
        """Return what waits, in order."""
        with self._lock:
            return [request.what for request in heapq.merge(*map(sorted, self._heaps.values()))]

    def next_due_ms(self) -> int | None:
        """Return when the first waiting request is due, None without one."""
        with self._lock:
            return min((heap[0].due_ms for heap in self._heaps.values() if heap), default=None)

    def close(self) -> None:
        """Refuse everything from now on, also what waits."""
        with self._lock:
            self._closed = True
            waiting = self._heaps[True] + self._heaps[False]
            self._heaps = {True: [], False: []}
        for request in sorted(waiting):
            if request.begin():
                request.answer.set_exception(ShuttingDownError("Worker is shutting down"))


# Calls that wait for an internal topic: one at a time, beside the tick; outcomes come back onto the tick.
#
# So the tick reads group events and can stop work however late a broker answers (Java's tick thread waits itself). One at
# a time keeps what the tick thread gave for free: no request is judged by a snapshot that a write is about to change.


WORTH_SAYING_MS = 250  # thousands of writes a minute are not news

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
