"""Threads, waiting and timers, as an argument: what runs beside the tick, and what it waits on.

The machine's own threads unless others are handed in; the tests' simulation hands in ones that a seed schedules on
virtual time. Short locks that no one waits under stay ``threading.Lock``: they order, they do not wait.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, TypeVar

T = TypeVar("T")
NO_THREAD_PAUSE_MS = 1_000


class RunningThread(Protocol):
    """A thread that was started."""

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end, at most ``timeout`` seconds."""

    def is_alive(self) -> bool:
        """Return whether it still runs."""


class Condition(Protocol):
    """A lock with waiting, as ``threading.Condition``."""

    def __enter__(self) -> bool: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a notification, at most ``timeout`` seconds; False: time was up."""

    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T:
        """Wait until ``predicate`` is true, at most ``timeout`` seconds; return its last value."""

    def notify_all(self) -> None:
        """Wake every waiting thread."""


class Event(Protocol):
    """A flag with waiting, as ``threading.Event``."""

    def set(self) -> None:
        """Set the event and wake every waiting thread."""

    def is_set(self) -> bool:
        """Return whether it is up."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for it, at most ``timeout`` seconds; return whether it is up."""


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Make it never happen, if it has not happened yet."""


class Threads(Protocol):
    """Where threads, conditions, events and timers come from. Any thread."""

    def start(self, name: str, run: Callable[[], None]) -> RunningThread:
        """Run ``run`` on a thread of its own that does not keep the process alive."""

    def condition(self) -> Condition:
        """Return a new condition."""

    def event(self) -> Event:
        """Return a new event."""

    def later(self, delay_ms: int, call: Callable[[], None]) -> Timer:
        """Run ``call`` once after ``delay_ms``, on a thread of its own."""


class _Alarms:
    """Every timer of the process: one thread waits for the first of them, and starts what is due on its own."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[_Alarm] = []  # a heap
        self._order = itertools.count()
        self._thread: threading.Thread | None = None

    def later(self, delay_ms: int, call: Callable[[], None]) -> Timer:
        alarm = _Alarm(time.monotonic() + delay_ms / 1000, next(self._order), call, self)
        with self._changed:
            heapq.heappush(self._waiting, alarm)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="timers", daemon=True)
                self._thread.start()
            self._changed.notify()
        return alarm

    def cancel(self, alarm: _Alarm) -> None:
        with self._changed:
            if alarm in self._waiting:
                self._waiting.remove(alarm)
                heapq.heapify(self._waiting)

    def _run(self) -> None:
        while True:
            call = self._next()
            try:  # on a thread of its own: what hangs or raises would keep all others waiting
                threading.Thread(target=call, name="timer", daemon=True).start()
            except RuntimeError:  # there is none to be had now
                self.later(NO_THREAD_PAUSE_MS, call)

    def _next(self) -> Callable[[], None]:
        with self._changed:
            while not self._waiting or (wait_s := self._waiting[0].due_s - time.monotonic()) > 0:
                self._changed.wait(wait_s if self._waiting else None)
            return heapq.heappop(self._waiting).call


@dataclass(order=True, slots=True)
class _Alarm:
    """One timer; code that still holds it when it was cancelled holds nothing of its call."""

    due_s: float
    order: int
    call: Callable[[], None] = field(compare=False)
    alarms: _Alarms = field(compare=False)

    def cancel(self) -> None:
        self.alarms.cancel(self)
        self.call = _nothing


def _nothing() -> None: ...


class MachineThreads:
    """The machine's own threads, all daemons."""

    def __init__(self) -> None:
        self._timers = _Alarms()

    def start(self, name: str, run: Callable[[], None]) -> RunningThread:
        """See Threads."""
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def condition(self) -> Condition:
        """See Threads."""
        return threading.Condition()

    def event(self) -> Event:
        """See Threads."""
        return threading.Event()

    def later(self, delay_ms: int, call: Callable[[], None]) -> Timer:
        """See Threads."""
        return self._timers.later(delay_ms, call)


MACHINE_THREADS = MachineThreads()
