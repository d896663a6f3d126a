"""Where the transactions of an exactly-once source task end (Java ``TransactionBoundaryManager``).

Owns: the requests of the task in its TransactionContext, and when an interval is over. Pure: time is an argument. One
thread. A connector that asks for both ends at one place fails its task, as in Java.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from spark_connect_rt.api.records import Polled
from spark_connect_rt.api.task import TransactionContext
from spark_connect_rt.config.worker_settings import Boundary
from spark_connect_rt.errors import ConnectError


class End(Enum):
    """The fate of the transaction after some records."""

    NONE = "none"  # the transaction stays open
    COMMIT = "commit"
    ABORT = "abort"  # the records are dropped; their offsets are committed, so they are not read again


class BoundaryRequests(TransactionContext):
    """The ends that the task requested. A record is known by identity, and kept until it has passed."""

    def __init__(self) -> None:
        self._batch: set[End] = set()
        self._records: dict[int, tuple[Polled, set[End]]] = {}

    def commit_transaction(self, record: Polled | None = None) -> None:
        """Note a commit after this record. None: after the batch of this poll."""
        self._ask(End.COMMIT, record)

    def abort_transaction(self, record: Polled | None = None) -> None:
        """Note an abort up to this record. None: up to the end of this poll's batch."""
        self._ask(End.ABORT, record)

    def take(self, record: Polled) -> End:
        """Return and forget the end after this record. Raises ConnectError: both were asked for."""
        _, asked = self._records.pop(id(record), (record, set()))
        return _one_of(asked, f"the record for topic {record.topic}")

    def take_batch(self) -> End:
        """Return and forget the end after the batch. Raises ConnectError: both were asked for."""
        asked, self._batch = self._batch, set()
        return _one_of(asked, "the same batch")

    def _ask(self, end: End, record: Polled | None) -> None:
        if record is None:
            self._batch.add(end)
        else:
            self._records.setdefault(id(record), (record, set()))[1].add(end)


class TransactionBoundaries:
    """Cuts polls into pieces of transactions."""

    def __init__(self, boundary: Boundary, interval_ms: int, now_ms: int) -> None:
        """Begin at ``now_ms``; ``interval_ms`` counts only with boundary ``interval``."""
        self.boundary = boundary
        self.requests = BoundaryRequests() if boundary is Boundary.CONNECTOR else None
        self._interval_ms = interval_ms
        self._due_ms = now_ms + interval_ms

    def cut(self, polled: Sequence[Polled], now_ms: int) -> list[tuple[Sequence[Polled], End]]:
        """Return the pieces of one poll, maybe an empty one, each with the end after it."""
        if self.requests is None:
            return [(polled, End.COMMIT if self._is_over(now_ms) else End.NONE)]
        pieces: list[tuple[Sequence[Polled], End]] = []
        begin = 0
        for index, record in enumerate(polled, start=1):
            end = self.requests.take(record)
            if end is not End.NONE:
                pieces.append((polled[begin:index], end))
                begin = index
        pieces.append((polled[begin:], self.requests.take_batch()))
        return pieces

    def final(self) -> End:
        """Return how the open transaction ends when the task pauses or stops: a connector's own stays its own."""
        return End.COMMIT if self.requests is None else self.requests.take_batch()

    def _is_over(self, now_ms: int) -> bool:
        if self.boundary is Boundary.POLL:
            return True
        if now_ms < self._due_ms:
            return False
        self._due_ms = now_ms + self._interval_ms
        return True


def _one_of(asked: set[End], where: str) -> End:
    if len(asked) > 1:
        raise ConnectError(f"Connector requested both commit and abort of same transaction, at {where}")
    return asked.pop() if asked else End.NONE
