"""The delivery reports of one append to a compacted topic: the last one of them answers it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from spark_connect_rt.kafka.error_mapping import connect_error
from spark_connect_rt.kafka.logs.own_records import OwnRecords


class AppendReports:
    """Counts the reports, which any thread may serve."""

    __slots__ = ("_done", "_error", "_left", "_lock", "_own", "_topic")

    def __init__(self, topic: str, count: int, own: OwnRecords, done: Callable[[Exception | None], None]) -> None:
        """``done`` is called once: with the first error, None when all ``count`` records are durable."""
        self._topic = topic
        self._left = count
        self._own = own
        self._done = done
        self._lock = threading.Lock()
        self._error: Exception | None = None

    def __call__(self, error: Any, message: Any) -> None:
        with self._lock:
            if error is not None and self._error is None:
                self._error = connect_error(error, f"appending to {self._topic}")
            self._left -= 1
            is_last = self._left == 0
        if error is None:
            self._own.acknowledged(message)
        if is_last:
            self._done(self._error)
