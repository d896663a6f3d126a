"""What one task moved: totals, and the rate of the last five seconds. Owns no decision."""

from __future__ import annotations

from collections import deque
from typing import Any

RATE_WINDOW_MS = 5_000


class TaskCounters:
    """Totals and a sliding rate. Not thread-safe: the task's lock guards it."""

    def __init__(self, now_ms: int) -> None:
        self.records = 0
        self.data_bytes = 0
        self.skipped = 0
        self._since_ms = now_ms
        self._marks: deque[tuple[int, int]] = deque()  # (when, records of that batch)
        self._in_window = 0

    def add(self, now_ms: int, records: int, data_bytes: int, skipped: int) -> None:
        """Count one durable batch: its records, bytes and skipped records."""
        self.records += records
        self.data_bytes += data_bytes
        self.skipped += skipped
        self._marks.append((now_ms, records))
        self._in_window += records
        self._forget_before(now_ms - RATE_WINDOW_MS)

    def records_per_s(self, now_ms: int) -> float:
        """Return the rate over the last five seconds, or since the start if that is shorter."""
        self._forget_before(now_ms - RATE_WINDOW_MS)
        window_ms = max(1_000, min(RATE_WINDOW_MS, now_ms - self._since_ms))
        return round(self._in_window * 1_000 / window_ms, 1)

    def shown(self, now_ms: int) -> dict[str, Any]:
        """Return what a task's progress shows of them."""
        counted = {"records": self.records, "data_bytes": self.data_bytes, "skipped": self.skipped}
        return {**counted, "records_per_s": self.records_per_s(now_ms)}

    def _forget_before(self, limit_ms: int) -> None:
        while self._marks and self._marks[0][0] <= limit_ms:
            self._in_window -= self._marks.popleft()[1]
