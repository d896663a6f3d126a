"""Threads for calls that come often and take little: one that has nothing left to do waits a while for the next call.

A port Threads in front of another one. Starting a thread costs its caller a wait for it to come up; thousands of
connectors that are created in a row would cost the tick one each. Hundreds of calls that come at once run on a few
threads, one after the other: with a thread each they keep each other, and REST, from the interpreter. While calls wait,
a thread is added every few ms: a call that never returns keeps its thread, as ever, and no other from running, as long
as there are fewer threads than there may be.

Not a ThreadPoolExecutor: the interpreter waits for each of its threads when it ends, and a plug-in's call that hangs
would keep the process; and the tests' simulation schedules threads itself, which takes a port.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from spark_connect_rt.base.answers import answer_by
from spark_connect_rt.base.concurrency import Condition, Event, RunningThread, Threads, Timer

T = TypeVar("T")

KEPT_S, KEPT_MOST = 2.0, 4  # threads that have nothing to do
AT_ONCE, MORE_EACH_MS = 8, 10  # threads that are started without waiting; and then

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

    def __init__(
        self, threads: Threads, kept_s: float = KEPT_S, most: int = KEPT_MOST, at_most: int | None = None
    ) -> None:
        """``most``: idle threads that are kept; ``at_most``: threads that there may be, None: as many as calls wait."""
        self._threads = threads
        self._at_most = at_most
        self._kept_s = kept_s
        self._most = most
        self._changed = threads.condition()
        self._waiting: deque[_Run] = deque()
        self._count = 0  # of threads, idle ones among them
        self._idle = 0
        self._grows = False

    def start(self, name: str, run: Callable[[], None]) -> RunningThread:
        """See Threads. Raises RuntimeError: the machine has no thread left."""
        thread = _Run(name, run, self._threads.event())
        with self._changed:
            if self._idle > len(self._waiting) or self._count - self._idle >= AT_ONCE or self._is_full():
                self._waiting.append(thread)
                self._changed.notify_all()
                self._grow_later()
                return thread
            self._count += 1
        try:
            self._threads.start(name, lambda: self._work(thread))
        except RuntimeError:
            with self._changed:
                self._count -= 1
            raise
        return thread

    def _grow_later(self) -> None:
        """Have a thread added if calls still wait then for one. Under the lock."""
        if not self._grows and self._idle < len(self._waiting) and not self._is_full():
            self._grows = True
            self._threads.later(MORE_EACH_MS, self._grow)

    def _grow(self) -> None:
        with self._changed:
            self._grows = False
            if self._idle >= len(self._waiting) or self._is_full():
                return
            self._count += 1
            self._grow_later()
        try:
            self._threads.start("brief", lambda: self._work(self._next()))
        except RuntimeError:  # there is none to be had now; it is tried again
            with self._changed:
                self._count -= 1
                self._grow_later()

    def _is_full(self) -> bool:
        return self._at_most is not None and self._count >= self._at_most

    def answer(self, name: str, call: Callable[[], T | Future[T]]) -> Future[T]:
        """Run a call that may block; answer with what it returns or raises, or with what a Future gets it returns.

        Raises RuntimeError: the machine has no thread left.
        """
        answer: Future[T] = Future()
        self.start(name, lambda: answer_by(answer, call))
        return answer

    def condition(self) -> Condition:
        """See Threads."""
        return self._threads.condition()

    def event(self) -> Event:
        """See Threads."""
        return self._threads.event()

    def later(self, delay_ms: int, call: Callable[[], None]) -> Timer:
        """See Threads."""
        return self._threads.later(delay_ms, call)

    def _work(self, run: _Run | None) -> None:
        while run is not None:
            threading.current_thread().name = run.name
            try:
                run.call()
            except BaseException:  # SystemExit too: the thread is for the calls that follow
                log.exception("thread=%s a call raised", run.name)
            finally:
                run.over.set()
            run = self._next()

    def _next(self) -> _Run | None:
        with self._changed:
            if not self._waiting and self._idle < self._most:
                self._idle += 1
                self._changed.wait_for(lambda: self._waiting, self._kept_s)
                self._idle -= 1
            if self._waiting:
                return self._waiting.popleft()
            self._count -= 1
            return None
