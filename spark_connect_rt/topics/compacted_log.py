"""A topic whose readers agree on one value per key (Java ``KafkaBasedLog``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol


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

        A log made for a long topic may return once the topic is checked, read on in the background and leave out
        records that a later one of their key replaces; ``read_to_end`` then waits for it as long as it gets on.

        Raises BadConfigError (wrong cleanup.policy or partition count), RetriableError (broker not reachable).
        """

    def append(self, records: Sequence[tuple[bytes, bytes | None]], on_appended: OnAppended | None = None) -> None:
        """Send (key, value) records in order; returns at once. ``None`` value is a tombstone.

        ``on_appended`` gets RetriableError when too much is under way already; then none or some of them are sent.
        """

    def flush(self, timeout_ms: int) -> None:
        """Wait until everything appended is durable. Raises RetriableError when time is up or a send failed."""

    def read_to_end(self, timeout_ms: int) -> None:
        """Flush, then return when ``on_records`` has seen every record that was in the topic at the call.

        Raises TimedOutError.
        """

    def read_back(self, timeout_ms: int) -> None:
        """Flush, then return when ``on_records`` has seen what this log appended before, and all that lies before it.

        One question less to the broker than ``read_to_end``. Raises as that, RetriableError as ``flush``.
        """

    def stop(self) -> None:
        """Flush what can be, close both clients."""


class FencedWriter(Protocol):
    """Appends to a log in transactions, as the only one that may (KIP-618; the leader's producer).

    Writers of one transactional id shut each other out: who claimed last writes. What a fenced writer sends is
    refused by the broker, so it is never visible. One thread at a time.
    """

    def claim(self, timeout_ms: int) -> None:
        """Shut out any earlier claimant, and abort what it left open. Nothing to do while claimed.

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
