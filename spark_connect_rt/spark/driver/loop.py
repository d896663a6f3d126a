"""One thread that does everything the engine decides, in the order it was asked.

Owns the thread, its inbox and its timers; no locks are needed behind it.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from spark_connect_rt.ports.supervision import Part, Report, report_nowhere, watched

MISSED_MAX = 5
Step = Callable[[], None]
log = logging.getLogger(__name__)


class Loop:
    """Runs steps one after another on its own thread."""

    def __init__(self, name: str, report: Report = report_nowhere) -> None:
        """``report`` hears of it when the thread ends by an error: what steps raise is caught."""
        self._report = report
        self._inbox: deque[Step] = deque()
        self._timers: list[tuple[float, int, Step]] = []
        self._order = itertools.count()
        self._wake = threading.Condition()
        self._stopped = self._running = False
        self._thread = threading.Thread(target=watched(self._run, Part.ENGINE, report), name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._running = True
        self._thread.start()

    def is_alive(self) -> bool:
        """Return whether steps are still run."""
        return self._running

    def submit(self, step: Step) -> None:
        """Run ``step`` soon. Any thread; after ``stop`` it is dropped."""
        with self._wake:
            self._inbox.append(step)
            self._wake.notify()

    def later(self, delay_ms: float, step: Step) -> None:
        """Run ``step`` after ``delay_ms``. Any thread."""
        with self._wake:
            heapq.heappush(self._timers, (time.monotonic() + delay_ms / 1000, next(self._order), step))
            self._wake.notify()

    def every(self, period_ms: float, step: Step, missed: int = 0) -> None:
        """Run ``step`` now and then; one that fails MISSED_MAX times in a row is reported. Any thread."""

        def run() -> None:
            failed = missed + 1
            try:
                step()
                failed = 0
            except Exception as error:
                if failed == MISSED_MAX:
                    self._report(Part.ENGINE, error)
                raise
            finally:
                self.every(period_ms, step, failed)

        self.later(period_ms, run)

    def stop(self) -> None:
        """End after the step that runs now; waits unless called from the loop."""
        with self._wake:
            self._stopped = True
            self._wake.notify()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(5)

    def _run(self) -> None:
        try:
            while (step := self._next()) is not None:
                self._guarded(step)
        finally:
            self._running = False  # before anybody is told of the end

    @staticmethod
    def _guarded(step: Step) -> None:
        try:
            step()
        except Exception:  # a bug of the engine must not end every task's supervision
            log.exception("engine step failed")

    def _next(self) -> Step | None:
        with self._wake:
            while not self._stopped:
                if self._inbox:
                    return self._inbox.popleft()
                now = time.monotonic()
                if self._timers and self._timers[0][0] <= now:
                    return heapq.heappop(self._timers)[2]
                self._wake.wait(self._timers[0][0] - now if self._timers else None)
        return None
