"""A thread that runs calls one after another: where a connector's own code runs.

A connector that blocks keeps only itself waiting: the tick runs nothing of a connector's. Daemon threads, so that
one that never returns cannot keep the process alive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from spark_connect_rt.base.concurrency import RunningThread, Threads
from spark_connect_rt.base.supervision import Part, Report, report_nowhere, watched

Call = Callable[[], None]


class SerialThread:
    """Runs what it is given, in order. The thread starts with the first call and ends with ``close``."""

    def __init__(
        self, name: str, threads: Threads, report: Report = report_nowhere, linger_s: float | None = None
    ) -> None:
        """``report`` is called with what a call raises all the same: it ends the thread.

        ``linger_s``: a thread without a call for so long ends, and the next call starts another: of thousands, few are
        busy. None: it stays.
        """
        self._linger_s = linger_s
        self._name = name
        self._report = report
        self._threads = threads
        self._calls: deque[Call | None] = deque()  # None: the end
        self._thread: RunningThread | None = None
        self._changed = threads.condition()

    def submit(self, call: Call) -> None:
        """Queue a call that raises nothing. Any thread."""
        with self._changed:
            if self._thread is None:
                self._thread = self._threads.start(self._name, watched(self._run, Part.HERDER, self._report))
            self._calls.append(call)
            self._changed.notify_all()

    def close(self) -> None:
        """End the thread once everything queued before has run. Does not wait."""
        with self._changed:
            self._calls.append(None)
            self._changed.notify_all()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end; return whether it came."""
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (call := self._next()) is not None:
            call()

    def _next(self) -> Call | None:
        with self._changed:
            if not self._changed.wait_for(lambda: self._calls, self._linger_s):
                self._thread = None
                return None
            return self._calls.popleft()
