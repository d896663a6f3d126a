"""One thread that runs calls one after another: where a connector's own code runs.

A connector that blocks keeps nobody but itself waiting: the tick never runs a connector's code. Daemon threads,
so that one that never returns cannot keep the process alive.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

Call = Callable[[], None]


class SerialThread:
    """Runs what it is given, in order. The thread starts with the first call and ends with ``close``."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def submit(self, call: Call) -> None:
        """Queue a call that raises nothing. Any thread."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._calls.put(call)

    def close(self) -> None:
        """End the thread once everything queued before has run. Does not wait."""
        with self._lock:
            self._calls.put(None)

    def join(self, timeout_s: float) -> bool:
        """Wait for the end; return whether it came."""
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
