"""A CompactedLog without Kafka, for a standalone worker: one process writes and reads it, in memory or in a file.

Java ``MemoryConfigBackingStore``, ``MemoryStatusBackingStore``, ``FileOffsetBackingStore`` in one: the stores above
stay the same. One thread writes and delivers, so that a slow disk blocks no caller.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from spark_connect_rt.base.supervision import Report, SupervisedPart, report_nowhere, watched
from spark_connect_rt.errors import ConnectError, RetriableError, TimedOutError
from spark_connect_rt.topics.compacted_log import LogRecord, OnAppended, OnRecords

log = logging.getLogger(__name__)


class LogFile(Protocol):
    """The storage of the values after the process has ended. Used by one thread."""

    def load(self) -> Mapping[bytes, bytes]:
        """Return everything kept. Raises ConnectError."""

    def save(self, values: Mapping[bytes, bytes]) -> None:
        """Keep these values instead. Raises OSError."""


class LocalCompactedLog:
    """Port CompactedLog; ``keeper`` None: its content ends with the process."""

    def __init__(self, name: str, keeper: LogFile | None = None, report: Report = report_nowhere) -> None:
        self._name = name
        self._report = report
        self._keeper = keeper
        self._values: dict[bytes, bytes] = {}  # only records that are kept in the file
        self._changed = threading.Condition()
        self._queue: deque[tuple[Sequence[tuple[bytes, bytes | None]], OnAppended | None]] = deque()
        self._appended = self._done = 0  # appends so far, and how many of them are answered
        self._next_offset = 0
        self._failure: Exception | None = None  # of the appends since the last flush
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self, on_records: OnRecords) -> None:
        """Deliver the kept records, then start the thread that writes. Raises ConnectError: they cannot be loaded."""
        self._on_records = on_records
        if self._keeper is not None:
            self._values = dict(self._keeper.load())
            self._deliver(list(self._values.items()))
        self._thread = threading.Thread(
            target=watched(self._run, SupervisedPart.LOG, self._report), name=f"log-{self._name}", daemon=True
        )
        self._thread.start()

    def append(self, records: Sequence[tuple[bytes, bytes | None]], on_appended: OnAppended | None = None) -> None:
        """Queue records for the writing thread; returns at once. Raises ConnectError: the log is stopped."""
        with self._changed:
            if self._stopping:
                raise ConnectError(f"{self._name}: the log is stopped")
            self._queue.append((records, on_appended))
            self._appended += 1
            self._changed.notify_all()

    def flush(self, timeout_ms: int) -> None:
        """Wait until everything appended so far is written.

        Raises TimedOutError, and RetriableError when a write has failed since the last call.
        """
        with self._changed:
            wanted = self._appended
            if not self._changed.wait_for(lambda: self._done >= wanted, timeout_ms / 1000):
                raise TimedOutError(f"{self._name}: not written within {timeout_ms} ms")
            failure, self._failure = self._failure, None
        if failure is not None:
            raise RetriableError(f"{self._name}: not written: {failure}") from failure

    def read_to_end(self, timeout_ms: int) -> None:
        """Wait like ``flush``: this log has no other writer whose records it would have to read."""
        self.flush(timeout_ms)

    def read_back(self, timeout_ms: int) -> None:
        """Wait like ``flush``: written records are delivered without another read."""
        self.read_to_end(timeout_ms)

    def delete_leftovers(self, keys: Sequence[bytes]) -> None:
        """Do nothing: there is only one partition."""

    def stop(self) -> None:
        """Write the queued records, then end the thread and wait for it."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._stopping)
                appends = list(self._queue)
                self._queue.clear()
            if not appends:
                return
            self._write(appends)

    def _write(self, appends: Sequence[tuple[Sequence[tuple[bytes, bytes | None]], OnAppended | None]]) -> None:
        """Keep everything that waits at once, deliver it, answer."""
        records = [record for batch, _ in appends for record in batch]
        failure: Exception | None = None
        try:
            self._keep(records)
            self._deliver(records)
        except Exception as error:
            log.exception("log=%s write failed", self._name)
            failure = error
        for _, on_appended in appends:
            if on_appended is not None:
                on_appended(failure)
        with self._changed:
            self._failure = failure or self._failure
            self._done += len(appends)
            self._changed.notify_all()

    def _keep(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        if self._keeper is None:
            return
        values = dict(self._values)
        for key, value in records:
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value
        self._keeper.save(values)
        self._values = values

    def _deliver(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        made = [LogRecord(0, self._next_offset + place, key, value) for place, (key, value) in enumerate(records)]
        self._next_offset += len(made)
        if made:
            self._on_records(made)
