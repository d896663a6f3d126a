"""Threads for calls that come often and take little: one that has nothing left to do waits a while for the next call.

A port Threads in front of another one. Starting a thread costs its caller a wait for it to come up; thousands of
connectors that are created in a row would cost the tick one each. A call that never returns keeps its thread, as ever.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from spark_connect_rt.ports.threads import Condition, Event, RunningThread, Threads, Timer

KEPT_S, KEPT_MOST = 2.0, 4  # threads that have nothing to do

log = logging.getLogger(__name__)


class _Run:
    """One call, as the thread that its caller thinks it has."""

    def __init__(self, name: str, call: Callable[[], None], over: Event) -> None:
        self.name = name
        self.call = call
        self.over = over

    def join(self, timeout: float | None = None) -> None:
        """See RunningThread."""
        self.over.wait(timeout)

    def is_alive(self) -> bool:
        """See RunningThread."""
        return not self.over.is_set()


class BriefThreads:
    """Any thread."""

    def __init__(self, threads: Threads, kept_s: float = KEPT_S, most: int = KEPT_MOST) -> None:
        self._threads = threads
        self._kept_s = kept_s
        self._most = most
        self._changed = threads.condition()
        self._waiting: deque[_Run] = deque()  # never more than there are idle threads
        self._idle = 0

    def start(self, name: str, run: Callable[[], None]) -> RunningThread:
        """See Threads. Raises RuntimeError: the machine has no thread left."""
        one = _Run(name, run, self._threads.event())
        with self._changed:
            if self._idle > len(self._waiting):
                self._waiting.append(one)
                self._changed.notify_all()
                return one
        self._threads.start(name, lambda: self._work(one))
        return one

    def condition(self) -> Condition:
        """See Threads."""
        return self._threads.condition()

    def event(self) -> Event:
        """See Threads."""
        return self._threads.event()

    def later(self, delay_ms: int, call: Callable[[], None]) -> Timer:
        """See Threads."""
        return self._threads.later(delay_ms, call)

    def _work(self, first: _Run) -> None:
        one: _Run | None = first
        while one is not None:
            threading.current_thread().name = one.name
            try:
                one.call()
            except Exception:
                log.exception("thread=%s a call raised", one.name)
            finally:
                one.over.set()
            one = self._next()

    def _next(self) -> _Run | None:
        with self._changed:
            if self._idle >= self._most:
                return None
            self._idle += 1
            self._changed.wait_for(lambda: self._waiting, self._kept_s)
            self._idle -= 1
            return self._waiting.popleft() if self._waiting else None
