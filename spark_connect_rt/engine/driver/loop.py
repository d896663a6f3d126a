"""One thread that does everything the engine decides, in the order it was asked.

Owns the thread and its inbox; no locks are needed behind it. Timers are those of ``base.concurrency``.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from spark_connect_rt.base.concurrency import MACHINE_THREADS, RunningThread, Threads
from spark_connect_rt.base.supervision import Report, SupervisedPart, report_nowhere, watched

MISSED_MAX = 5
END_WAIT_S = 5.0
Step = Callable[[], None]
log = logging.getLogger(__name__)


class Loop:
    """Runs steps one after another on its own thread."""

    def __init__(self, name: str, report: Report = report_nowhere, threads: Threads = MACHINE_THREADS) -> None:
        """``report`` is called when an error ends the thread. Errors of steps are caught."""
        self._name = name
        self._report = report
        self._threads = threads
        self._inbox: deque[Step] = deque()
        self._wake = threads.condition()
        self._stopped = self._running = False
        self._thread: RunningThread | None = None

    def start(self) -> None:
        """Start the thread that runs the steps."""
        self._running = True
        self._thread = self._threads.start(self._name, watched(self._run, SupervisedPart.ENGINE, self._report))

    def is_alive(self) -> bool:
        """Return whether steps are still run."""
        return self._running

    def submit(self, step: Step) -> None:
        """Run ``step`` soon. Any thread; after ``stop`` it is dropped."""
        with self._wake:
            if not self._stopped:
                self._inbox.append(step)
                self._wake.notify_all()

    def later(self, delay_ms: int, step: Step) -> None:
        """Run ``step`` after ``delay_ms``. Any thread."""
        self._threads.later(delay_ms, lambda: self.submit(step))

    def every(self, period_ms: int, step: Step, missed: int = 0) -> None:
        """Run ``step`` now and then; one that fails MISSED_MAX times in a row is reported. Any thread."""

        def run() -> None:
            failed = missed + 1
            try:
                step()
                failed = 0
            except Exception as error:
                if failed == MISSED_MAX:
                    self._report(SupervisedPart.ENGINE, error)
                raise
            finally:
                self.every(period_ms, step, failed)

        self.later(period_ms, run)

    def stop(self) -> None:
        """End after the step that runs now, and wait for that. Any thread but the loop's own."""
        with self._wake:
            self._stopped = True
            self._inbox.clear()
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join(END_WAIT_S)

    def _run(self) -> None:
        try:
            while (step := self._next()) is not None:
                self._guarded(step)
        finally:
            self._running = False  # before the end is reported to anyone

    @staticmethod
    def _guarded(step: Step) -> None:
        try:
            step()
        except Exception:  # a bug of the engine must not end every task's supervision
            log.exception("engine step failed")

    def _next(self) -> Step | None:
        with self._wake:
            while not self._inbox and not self._stopped:
                self._wake.wait()
            return None if self._stopped else self._inbox.popleft()
