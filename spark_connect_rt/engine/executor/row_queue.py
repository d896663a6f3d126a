"""The queue between a slot's task threads and the one generator that Spark reads.

Owns back-pressure: each host may have ``limit_bytes`` queued, so a busy task waits for Spark while its quiet
neighbours' rows still get in. Rows leave in the order they came.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from spark_connect_rt.engine.executor.frames import BatchHead, Row
from spark_connect_rt.errors import ShuttingDownError

if TYPE_CHECKING:
    import pyarrow as pa


class Rows(Protocol):
    """Where a host's rows go."""

    def put(self, row: Row) -> None:
        """Hand a row on, maybe after a wait. Raises ShuttingDownError once the slice is over."""

    def serve_at_once(self, host: int, head: BatchHead, batch: pa.RecordBatch) -> bool:
        """Have a batch served on this thread, as it is; False: it is to be ``put`` as a row."""


class RowQueue:
    """First in, first out; bounded by bytes per host."""

    def __init__(self, limit_bytes: int = 4 * 1024 * 1024) -> None:
        self._limit_bytes = limit_bytes
        self._rows: deque[Row] = deque()
        self._queued_bytes: dict[int, int] = {}
        self._closed = False
        self.taken = 0  # rows that left
        self._lock = threading.Lock()
        self._not_empty = threading.Condition(self._lock)
        self._not_full = threading.Condition(self._lock)

    def put(self, row: Row) -> None:
        """Queue a row; waits while its host has too much queued. Raises ShuttingDownError once closed."""
        size = row.size_bytes()
        with self._lock:
            while not self._closed and row.data is not None and self._is_full(row.host):
                self._not_full.wait()
            if self._closed:
                raise ShuttingDownError("the slice is over, so rows are discarded")
            self._queued_bytes[row.host] = self._queued_bytes.get(row.host, 0) + size
            self._rows.append(row)
            self._not_empty.notify()

    def serve_at_once(self, host: int, head: BatchHead, batch: pa.RecordBatch) -> bool:
        """Refuse: it is served in another process."""
        return False

    def _is_full(self, host: int) -> bool:
        return self._queued_bytes.get(host, 0) >= self._limit_bytes

    def get(self, timeout_s: float) -> Row | None:
        """Return the next row, or None when none came in time or the queue is closed and empty."""
        with self._lock:
            if not self._rows and not self._closed:
                self._not_empty.wait(timeout_s)
            return self._take() if self._rows else None

    def take_while(self, wanted: Callable[[Row], bool], most: int) -> list[Row]:
        """Return up to so many rows from the front, as far as they are wanted; does not wait."""
        taken = list[Row]()
        with self._lock:
            while self._rows and len(taken) < most and wanted(self._rows[0]):
                taken.append(self._take())
        return taken

    def _take(self) -> Row:
        row = self._rows.popleft()
        self.taken += 1
        left = self._queued_bytes.pop(row.host, 0) - row.size_bytes()
        if left > 0:
            self._queued_bytes[row.host] = left
        if row.data is not None:
            self._not_full.notify_all()
        return row

    def empty(self) -> bool:
        """Tell whether nothing is queued right now."""
        return not self._rows

    def wake(self) -> None:
        """Make a waiting ``get`` return now."""
        with self._lock:
            self._not_empty.notify_all()

    def close(self) -> None:
        """Refuse further rows; waiting putters get ShuttingDownError."""
        with self._lock:
            self._closed = True
            self._not_empty.notify_all()
            self._not_full.notify_all()
