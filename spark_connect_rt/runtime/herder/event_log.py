"""The herder's event log: reasons of its steps when they change, and the stage it is in (for time-outs and health)."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from spark_connect_rt.base.concurrency import Clock
from spark_connect_rt.runtime.values import HerderEvent

log = logging.getLogger(__name__)

LINES_MAX = 500


class EventLog:
    """The last reasons, oldest first. Written by the tick, read by any thread."""

    def __init__(self, clock: Clock, worker_id: str) -> None:
        self._clock = clock
        self._worker_id = worker_id
        self._lines: deque[HerderEvent] = deque(maxlen=LINES_MAX)
        self._last: dict[str, str] = {}
        self._lock = threading.Lock()
        self._stage = ("initializing and reading to the end of internal topics", clock.now_ms(), 0)
        self._beside: tuple[str, int] | None = None

    def record(self, step: str, reason: str) -> None:
        """Record a step's reason; only a change is a new event (and a log line)."""
        if self._last.get(step, "") == reason:
            return
        self._last[step] = reason
        if not reason:
            return
        log.info("worker=%s %s: %s", self._worker_id, step, reason)
        with self._lock:
            newest = self._lines[-1] if self._lines else None
            if newest is not None and (newest.step, newest.reason) == (step, reason):
                self._lines[-1] = replace(newest, times=newest.times + 1)
            else:
                self._lines.append(HerderEvent(self._clock.now_ms(), step, reason))

    def lines(self) -> list[HerderEvent]:
        """Return a copy of the last events, oldest first."""
        with self._lock:
            return list(self._lines)

    @contextmanager
    def stage(self, description: str) -> Iterator[None]:
        """Say what the tick thread does while it is inside (nothing nested: the innermost stays named)."""
        began_ms = self._clock.now_ms()
        self._stage = (description, began_ms, 0)
        try:
            yield
        finally:
            self._stage = (description, began_ms, self._clock.now_ms())

    @contextmanager
    def beside(self, description: str) -> Iterator[None]:
        """Note what is waited for on another thread; while it lasts, that is the stage shown to others."""
        self._beside = (description, self._clock.now_ms())
        try:
            yield
        finally:
            self._stage = (*self._beside, self._clock.now_ms())
            self._beside = None

    def stage_summary(self) -> str:
        """Return Java's sentence on the current or the last stage."""
        beside = self._beside
        description, began_ms, ended_ms = self._stage if beside is None else (*beside, 0)
        if not ended_ms:
            return f"The worker is currently {description}, which began at {_instant(began_ms)}."
        return (
            f"The last operation the worker completed was {description}, which began at {_instant(began_ms)}"
            f" and completed at {_instant(ended_ms)}."
        )


def _instant(at_ms: int) -> str:
    text = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
