"""Where requests run what may block or belongs to a plug-in, beside the tick: on a bounded number of threads.

One that never returns keeps its thread, and holds up others only when all of them are kept like that.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from spark_connect_rt.ports.threads import Threads
from spark_connect_rt.runtime.herder.requests.request_queue import answer_by

MOST = 64
log = logging.getLogger(__name__)
T = TypeVar("T")


class RequestThreads:
    """Any thread. A thread ends when nothing is left to do."""

    def __init__(self, threads: Threads, most: int = MOST) -> None:
        self._threads = threads
        self._most = most
        self._lock = threading.Lock()
        self._running = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def answer(self, call: Callable[[], T]) -> Future[T]:
        """Run a call that may block, and answer with what it returns or raises."""
        answer: Future[T] = Future()
        self.run(lambda: answer_by(answer, call))
        return answer

    def run(self, call: Callable[[], None]) -> None:
        """Run ``call`` on a thread, as soon as one is free. Raises RuntimeError: the machine has no thread left."""
        with self._lock:
            if self._running >= self._most:
                self._waiting.append(call)
                return
            self._running += 1
        try:
            self._threads.start("herder-request", lambda: self._work(call))
        except RuntimeError:
            with self._lock:
                self._running -= 1
            raise

    def _work(self, call: Callable[[], None]) -> None:
        following: Callable[[], None] | None = call
        while following is not None:
            try:
                following()
            except Exception:
                log.exception("a request failed where it should have answered")
            with self._lock:
                following = self._waiting.popleft() if self._waiting else None
                self._running -= following is None
