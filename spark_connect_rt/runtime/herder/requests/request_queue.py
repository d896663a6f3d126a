"""Requests on their way to the tick thread: due time, then order of arrival; each answers a Future."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from spark_connect_rt.errors import FencedError, ShuttingDownError, TimedOutError
from spark_connect_rt.ports.clock import Clock

T = TypeVar("T")

REQUEST_LIMIT_MS = 90_000


@dataclass(order=True, slots=True)
class Request(Generic[T]):
    """``action`` runs on the tick thread; it may return a Future of its own to be waited for."""

    due_ms: int
    sequence: int
    what: str = field(compare=False)  # ``create connector a``
    action: Callable[[], T | Future[T]] = field(compare=False)
    answer: Future[T] = field(compare=False)
    needs_group: bool = field(compare=False)
    expires_ms: int = field(compare=False)
    begun: bool = field(default=False, compare=False)

    def run(self, again: Callable[[Request[T]], None]) -> None:
        """Run the action and answer, whatever it raises; FencedError: it had no effect, ``again`` has it run later."""
        if not self.begin():
            return
        try:
            outcome = self.action()
        except Exception as error:  # noqa: BLE001 - the request's failure is its answer
            self.answer.set_exception(error)
            return
        if isinstance(outcome, Future):
            outcome.add_done_callback(lambda done: self._end(done, again))
        else:
            self.answer.set_result(outcome)

    def begin(self) -> bool:
        """Return whether an answer is still wanted; from now on it cannot be cancelled."""
        if not self.begun:
            self.begun = self.answer.set_running_or_notify_cancel()
        return self.begun

    def _end(self, done: Future[T], again: Callable[[Request[T]], None]) -> None:
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
        self._heap: list[Request[Any]] = []
        self._sequence = itertools.count()
        self._lock = threading.Lock()
        self._closed = False

    def add(
        self, what: str, action: Callable[[], T | Future[T]], *, needs_group: bool = True, delay_ms: int = 0
    ) -> Future[T]:
        """Queue an action; return its answer to come. A closed queue answers ShuttingDownError."""
        answer: Future[T] = Future()
        due_ms = self._clock.monotonic_ms() + delay_ms
        request: Request[T] = Request(
            due_ms, next(self._sequence), what, action, answer, needs_group, due_ms + self._limit_ms
        )
        self.put(request)
        return answer

    def put(self, request: Request[Any]) -> None:
        """Queue a request, or queue it again. A closed queue answers ShuttingDownError."""
        with self._lock:
            if not self._closed:
                heapq.heappush(self._heap, request)
                self._wakeup()
                return
        if request.begin():
            request.answer.set_exception(ShuttingDownError("Worker is shutting down"))

    def take_due(self, now_ms: int, group_is_stable: bool, only: str | None = None) -> Request[Any] | None:
        """Remove and return the first request that is due and may run now; None also if it is not ``only`` (what)."""
        with self._lock:
            runnable = [r for r in self._heap if r.due_ms <= now_ms and (group_is_stable or not r.needs_group)]
            if not runnable:
                return None
            first = min(runnable)
            if only is not None and first.what != only:
                return None
            self._heap.remove(first)
            heapq.heapify(self._heap)
            return first

    def expire(self, now_ms: int, explain: Callable[[], str]) -> None:
        """Answer TimedOutError to every request that waited too long."""
        with self._lock:
            late = [request for request in self._heap if request.expires_ms <= now_ms]
            self._heap = [request for request in self._heap if request.expires_ms > now_ms]
            heapq.heapify(self._heap)
        for request in late:
            if request.begin():
                request.answer.set_exception(TimedOutError(f"Request timed out. {explain()}"))

    def waiting(self) -> list[str]:
        """Return what waits, in order."""
        with self._lock:
            return [request.what for request in sorted(self._heap)]

    def next_due_ms(self) -> int | None:
        """Return when the first waiting request is due, None without one."""
        with self._lock:
            return self._heap[0].due_ms if self._heap else None

    def close(self) -> None:
        """Refuse everything from now on, also what waits."""
        with self._lock:
            self._closed = True
            waiting, self._heap = self._heap, []
        for request in waiting:
            if request.begin():
                request.answer.set_exception(ShuttingDownError("Worker is shutting down"))


def answered(call: Callable[[], T]) -> Future[T]:
    """Return what a call answered at once, or its error."""
    answer: Future[T] = Future()
    answer_by(answer, call)
    return answer


def answer_by(answer: Future[T], call: Callable[[], T]) -> None:
    """Give ``answer`` what a call returns or raises; an answer that was cancelled asks for no call."""
    if not answer.set_running_or_notify_cancel():  # from here on no one can cancel it
        return
    try:
        answer.set_result(call())
    except Exception as error:  # noqa: BLE001 - the request's failure is its answer
        answer.set_exception(error)


def copy_outcome(done: Future[T], answer: Future[T]) -> None:
    """Give ``answer`` what ``done`` got, unless no one waits for it any more."""
    if not (answer.running() or answer.set_running_or_notify_cancel()):
        return
    error = done.exception()
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(done.result())
