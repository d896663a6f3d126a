"""A thread that does one piece of work again and again, beside the connectors: the worker goes on without it.

Owns: the thread, what becomes of its errors, and the line of ``/health`` that says that it ended or hangs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import TimeoutError as LateError

from spark_connect_rt.errors import ConnectError

STUCK_S = 120.0
log = logging.getLogger(__name__)


class Repeated:
    """One piece of work of one thread. What the work raises is logged, and it is done again."""

    def __init__(self, name: str, work: Callable[[], None], wait_s: Callable[[], float], failed: str) -> None:
        """Take the work and what to do about it.

        Args:
            name: of the thread.
            work: one round; it may block, and may raise.
            wait_s: seconds until the next round.
            failed: what a round that raised means, for the log.
        """
        self._name = name
        self._work = work
        self._wait_s = wait_s
        self._failed = failed
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._begun_s: float | None = None  # when the round under way began

    @property
    def stopped(self) -> bool:
        """Return whether it is to end: long rounds look."""
        return self._stopped.is_set()

    def start(self) -> None:
        """Start the thread; the first round comes after the first wait."""
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def stop(self, join_s: float = 0.0) -> None:
        """End it, and wait so long for a round under way. Also if it never started."""
        self._stopped.set()
        if self._thread is not None and join_s:
            self._thread.join(join_s)

    def trouble(self) -> str:
        """Return why the work is not done; empty: nothing is known to be in its way."""
        begun_s = self._begun_s
        if begun_s is not None and (lasted_s := time.monotonic() - begun_s) > STUCK_S:
            return f"{self._name} has been at one round for {lasted_s:.0f} s: {self._failed}"
        return "" if self.stopped else ended(self._thread, self._failed)

    def _run(self) -> None:
        while not self._stopped.wait(self._wait_s()):
            self._begun_s = time.monotonic()
            try:
                self._work()
            except (ConnectError, LateError) as error:
                log.warning("%s: %s", self._failed, error)
            except Exception:
                log.exception("%s, the next round follows", self._failed)
            self._begun_s = None


def ended(thread: threading.Thread | None, failed: str) -> str:
    """Return a line when a thread that was started, and not asked to end, is no more; else nothing."""
    return f"the thread {thread.name} ended: {failed}" if thread is not None and not thread.is_alive() else ""
