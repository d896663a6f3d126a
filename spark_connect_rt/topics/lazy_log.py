"""A compacted log that is opened when it is needed, and opened again when it ended: for what Connect can do without.

Owns: whether there is a topic yet, opening, what is wrong with it now. Its reader's records go to one callback; a log
that is opened again delivers everything again, after ``on_new``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from spark_connect_rt.errors import ConnectError
from spark_connect_rt.topics.compacted_log import CompactedLog, LogRecord

OnEnd = Callable[[str], None]
APPEND_LIMIT_MS = 15_000

log = logging.getLogger(__name__)


class LogSource:
    """Where a log comes from."""

    def __init__(self, exists: Callable[[], bool], open_log: Callable[[OnEnd], CompactedLog]) -> None:
        """``exists`` may block and raises ConnectError; ``open_log`` takes what is called when the reader ends."""
        self.exists = exists
        self.open = open_log


class LazyLog:
    """Any thread; everything but ``problem`` may block."""

    def __init__(
        self,
        name: str,
        source: LogSource,
        on_records: Callable[[Sequence[LogRecord]], None],
        on_new: Callable[[], None],
    ) -> None:
        self._name = name
        self._source = source
        self._on_records = on_records
        self._on_new = on_new
        self._opening = threading.Lock()
        self._log: CompactedLog | None = None
        self._ended = ""
        self._closed = False
        self.problem = ""  # of the last attempt to read or write; empty: it went well

    def append(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Append, made if it is not there, and read it back; with a new log if that of before ended meanwhile.

        Raises ConnectError: the records may be there.
        """
        for is_last in (False, True):
            try:
                opened = self._opened()
                opened.append(records)
                opened.read_back(APPEND_LIMIT_MS)
                self.problem = ""
                return
            except ConnectError as error:
                self._failed(error)
                if is_last:
                    raise

    def refresh(self, timeout_ms: int) -> bool:
        """Read to the end; return whether there is such a log at all. Raises ConnectError."""
        for is_last in (False, True):
            try:
                if self._log is None and not self._source.exists():
                    self.problem = ""
                    return False
                self._opened().read_to_end(timeout_ms)
                self.problem = ""
                return True
            except ConnectError as error:
                self._failed(error)
                if is_last or self._closed:
                    raise
        return False

    def close(self) -> None:
        """Close it for good."""
        self._closed = True
        self._close()

    def _opened(self) -> CompactedLog:
        with self._opening:
            if self._closed:
                raise ConnectError(f"{self._name}: the worker is stopping")
            if self._ended:
                raise ConnectError(f"{self._name}: {self._ended}")
            if self._log is None:
                opened = self._source.open(self._on_log_end)
                self._on_new()
                opened.start(self._on_records)
                self._log = opened
            return self._log

    def _on_log_end(self, why: str) -> None:
        self._ended = why

    def _failed(self, error: ConnectError) -> None:
        self.problem = f"{self._name}: {error}"
        self._close()

    def _close(self) -> None:
        with self._opening:
            opened, self._log, self._ended = self._log, None, ""
        if opened is not None:
            try:
                opened.stop()
            except Exception:
                log.exception("%s did not close cleanly", self._name)
