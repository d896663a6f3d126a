"""Threads, waiting and timers, as an argument: what runs beside the tick, and what it waits on.

The machine's own threads unless somebody hands in others; ``testing.simulated_threads`` hands in ones that a seed
schedules on virtual time. Short locks that nobody waits under stay ``threading.Lock``: they order, they do not wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, TypeVar

T = TypeVar("T")


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
        """Wake everybody who waits."""


class Event(Protocol):
    """A flag with waiting, as ``threading.Event``."""

    def set(self) -> None:
        """Raise it for good."""

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


class MachineThreads:
    """The machine's own threads, all daemons."""

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
        timer = threading.Timer(delay_ms / 1000, call)
        timer.daemon = True
        timer.start()
        return timer


MACHINE_THREADS = MachineThreads()
