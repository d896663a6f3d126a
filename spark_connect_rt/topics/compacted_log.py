"""A topic whose readers agree on one value per key (Java ``KafkaBasedLog``)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from spark_connect_rt.errors import ConnectError


class LogRecord(NamedTuple):  # a tuple: millions are made at a start, half the time of a frozen dataclass
    """One record of a log; ``value`` None is a tombstone."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int = 0


OnRecords = Callable[[Sequence[LogRecord]], None]
"""Called with each batch read, in order per partition, from ONE thread of the log at a time."""

OnAppended = Callable[[Exception | None], None]
"""Called once per append: None when every record is durable, else the error. From any thread."""


class CompactedLog(Protocol):
    """Append and read to the end. One consumer of all partitions, no group; one producer."""

    def start(self, on_records: OnRecords) -> None:
        """Check or create the topic, then read to its end before returning; keep reading afterwards.

        The log of a long topic may return once the topic is checked and continue to read in the background. It leaves
        out records that a later one of the same key replaces. ``read_to_end`` then waits for it as long as it makes
        progress.

        Raises BadConfigError (wrong cleanup.policy or partition count), RetriableError (broker not reachable).
        """

    def append(self, records: Sequence[tuple[bytes, bytes | None]], on_appended: OnAppended | None = None) -> None:
        """Send (key, value) records in order; returns at once. ``None`` value is a tombstone.

        ``on_appended`` gets RetriableError when too many records are in flight; then none or some of them are sent.
        """

    def flush(self, timeout_ms: int) -> None:
        """Wait until everything appended is durable. Raises RetriableError when time is up or a send failed."""

    def read_to_end(self, timeout_ms: int) -> None:
        """Flush, then return when ``on_records`` has seen every record that was in the topic at the call.

        Raises TimedOutError.
        """

    def read_back(self, timeout_ms: int) -> None:
        """Flush, then return when ``on_records`` has seen all earlier appends of this log, and all records before them.

        One request less to the broker than ``read_to_end``. Raises as that, RetriableError as ``flush``.
        """

    def delete_leftovers(self, keys: Sequence[bytes]) -> None:
        """Delete older records of these keys in other partitions, as far as this log has read them. Returns at once.

        For keys that another producer writes in transactions. ``append`` does it for what it writes itself. A failure
        is only logged: readers take the newest record in any case.
        """

    def stop(self) -> None:
        """Flush as far as possible, and close both clients."""


class FencedWriter(Protocol):
    """Appends to a log in transactions, as the only one that may (KIP-618; the leader's producer).

    Writers of one transactional id fence each other: only the last claimant can write. The broker rejects records of a
    fenced writer, so they are never visible. One thread at a time.
    """

    def claim(self, timeout_ms: int) -> None:
        """Fence any earlier claimant, and abort its open transaction. Nothing to do while claimed.

        Raises RetriableError, TimedOutError; ConnectError when this worker may not (authorization).
        """

    def is_claimed(self) -> bool:
        """Return whether ``write`` may be called: claimed, and no write has failed since. Any thread."""

    def write(self, records: Sequence[tuple[bytes, bytes | None]], timeout_ms: int) -> None:
        """Append all records or none, and wait until that is durable.

        Raises FencedError (claimed by another since), RetriableError, TimedOutError; after any of them the claim is
        given up, because the outcome is not known or not ours to decide.
        """

    def release(self) -> None:
        """Give the claim up, close the producer."""


# A compacted log that is opened on demand, and opened again when it ended: for data that Connect can do without.
#
# Owns: whether the topic exists yet, opening, the present problem of the log. Its reader's records go to one callback;
# a log that is opened again delivers everything again, after ``on_new``.


OnEnd = Callable[[str], None]
APPEND_LIMIT_MS = 15_000

log = logging.getLogger(__name__)


class LogSource:
    """How to check for and open the topic of a log."""

    def __init__(self, exists: Callable[[], bool], open_log: Callable[[OnEnd], CompactedLog]) -> None:
        """``exists`` may block and raises ConnectError; ``open_log`` takes a function to call when the reader ends."""
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
        """Close the log and stop opening it again."""
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
