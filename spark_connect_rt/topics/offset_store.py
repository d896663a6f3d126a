"""The offset topic as a store: where every source partition is (Java ``OffsetStorageWriter`` and ``-Reader``).

Owns coalescing: one append is in flight. Offsets that are put meanwhile are sent together, the newest per partition.
After an append of several puts the next one waits for a moment, because tasks report together. Writes nothing when
nothing changed, retries failed appends, and notifies the caller when its offsets are durable.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from spark_connect_rt.base.concurrency import MACHINE_THREADS, Threads, Timer
from spark_connect_rt.errors import ConnectError, FencedError, RetriableError, TimedOutError
from spark_connect_rt.topics.compacted_log import CompactedLog, LogRecord
from spark_connect_rt.topics.offset_records import (
    OffsetFold,
    OffsetMap,
    PartitionKey,
    checked_offset,
    encode_key,
    partition_key,
    same_offset,
)

OnDone = Callable[[Exception | None], None]
"""Called once: None when the offsets are durable, else the failure (they are retried nevertheless)."""
IsWanted = Callable[[], bool]

READ_LIMIT_MS = 30_000
RETRY_WAIT_MS = 500  # after a failed append
GATHER_MS = 4  # for the others of a burst: else its first offset is a separate append, for twice the CPU

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Put:
    """The newest offset of one partition that is not yet sent."""

    connector: str
    partition: OffsetMap | None
    offset: OffsetMap | None
    is_wanted: IsWanted


@dataclass(frozen=True, slots=True)
class _Waiter:
    """A caller that is notified of the result of the first append, or, while ``waits_on``, of the first success."""

    on_done: OnDone
    waits_on: IsWanted


@dataclass(slots=True)
class _Batch:
    """Offsets that are sent together, and the callers that wait for them."""

    puts: dict[PartitionKey, _Put] = field(default_factory=dict)
    waiting: list[_Waiter] = field(default_factory=list)


class OffsetStore:
    """Any thread may read and put."""

    def __init__(
        self, log: CompactedLog, threads: Threads = MACHINE_THREADS, may_write: Callable[[], bool] = lambda: True
    ) -> None:
        """Take the topic; ``may_write`` is asked at the last moment before anything is appended (I7)."""
        self._log = log
        self._may_write = may_write
        self._threads = threads
        self._lock = threads.condition()
        self._fold = OffsetFold()
        self._pending = _Batch()
        self._in_flight: _Batch | None = None
        # Offsets appended by this store and not read back yet: until then the fold is older than they are.
        self._unread: dict[PartitionKey, deque[OffsetMap | None]] = {}
        self._uncertain: set[PartitionKey] = set()  # an append failed: the store does not know what the topic holds
        self._of_transactions: set[bytes] = set()  # keys that this worker's tasks write in transactions
        self._loaded = False
        self._retry: Timer | None = None
        self._bursts = False  # the last append was of several puts, or one of several in a row
        self._follows = False  # the next append holds the puts made during the last one
        self._gathering = False

    def start(self) -> None:
        """Check the topic and begin to read it; reads wait for its end. Raises as ``CompactedLog.start``."""
        self._log.start(self._on_records)

    def stop(self) -> None:
        """Close the log. Call ``flush`` first: ``stop`` drops pending offsets."""
        with self._lock:
            if self._retry is not None:
                self._retry.cancel()
        self._log.stop()

    def read(
        self, connector: str, partitions: Sequence[OffsetMap], timeout_ms: int = READ_LIMIT_MS
    ) -> list[OffsetMap | None]:
        """Read to the end, then return each partition's offset, None where there is none.

        Raises TimedOutError, RetriableError, DataError (a partition of a type that is not allowed).
        """
        keys = [partition_key(connector, partition) for partition in partitions]
        self.flush(timeout_ms)
        self._log.read_to_end(timeout_ms)
        with self._lock:
            return [self._fold.offset(key) for key in keys]

    def connector_offsets(
        self, connector: str, timeout_ms: int = READ_LIMIT_MS
    ) -> list[tuple[OffsetMap | None, OffsetMap]]:
        """Return (partition, offset) of a connector as far as the topic was read.

        Waits only for the first reading of the topic. Raises TimedOutError, RetriableError.
        """
        self.await_loaded(timeout_ms)
        with self._lock:
            return self._fold.connector_offsets(connector)

    def await_loaded(self, timeout_ms: int = READ_LIMIT_MS) -> None:
        """Wait for the first reading of the topic. Raises TimedOutError, RetriableError."""
        if not self._loaded:
            self._log.read_to_end(timeout_ms)
            self._loaded = True

    def put(
        self,
        connector: str,
        offsets: Iterable[tuple[OffsetMap | None, OffsetMap | None]],
        on_done: OnDone | None = None,
        is_wanted: IsWanted = lambda: True,
        *,
        until_durable: bool = False,
    ) -> None:
        """Commit (partition, offset) pairs; a None offset forgets the partition. Returns at once.

        Failed appends are retried, after a while or with the next put. ``is_wanted`` is called each time before they
        are sent. It returns False for a task that is over, whose next owner may have committed more by then (I7). It
        takes no lock.

        ``on_done`` is called after the first attempt. With ``until_durable`` it is called only after a success, after a
        failure that waiting does not resolve, or once they are not wanted any more (I5).

        Raises DataError, before anything is written, for a type that is not allowed.
        """
        puts = [_Put(connector, partition, offset, is_wanted) for partition, offset in offsets]
        keys = [partition_key(connector, put.partition) for put in puts]
        for put in puts:
            checked_offset(put.offset)
        with self._lock:
            changed = False
            for key, put in zip(keys, puts, strict=True):
                if self._changes(key, put.offset):
                    self._pending.puts[key] = put
                    changed = True
            waits = changed or any(self._is_unsent(key) for key in keys)
            if on_done is not None and waits:
                # Also when only equal offsets are in flight: they are not durable yet.
                self._pending.waiting.append(_Waiter(on_done, is_wanted if until_durable else _never))
        if on_done is not None and not waits:
            on_done(None)
        if not self._gathers():
            self._send()

    def _gathers(self) -> bool:
        """Return whether pending offsets should wait a moment and be sent together with the next ones."""
        with self._lock:
            if not self._bursts or self._in_flight is not None or not self._pending.puts:
                return False
            if not self._gathering:
                self._gathering = True
                self._threads.later(GATHER_MS, self._gathered)
            return True

    def _gathered(self) -> None:
        with self._lock:
            self._gathering = False
        self._send()

    def records(
        self, connector: str, offsets: Iterable[tuple[OffsetMap | None, OffsetMap | None]]
    ) -> list[tuple[bytes, bytes | None]]:
        """Return the records that make these the partitions' only offsets. Raises DataError (a type not allowed)."""
        with self._lock:
            return [
                record for partition, offset in offsets for record in self._fold.writes(connector, partition, offset)
            ]

    def delete_leftovers(self, connector: str, partitions: Iterable[OffsetMap | None]) -> None:
        """Delete older offsets of these partitions that lie in other partitions of the topic. Returns at once.

        For offsets that a task's own transactions write: its producer knows nothing of them. The transaction may not
        be read yet, so it is done again whenever one of the partitions is read.
        """
        with self._lock:
            keys = [
                self._fold.spelling(connector, partition) or encode_key(connector, partition)
                for partition in partitions
            ]
            self._of_transactions.update(keys)
        self._clean(keys)

    def _clean(self, keys: Sequence[bytes]) -> None:
        if keys and self._may_write():
            self._log.delete_leftovers(keys)

    def flush(self, timeout_ms: int) -> None:
        """Wait until everything put so far is durable. Raises TimedOutError, or RetriableError when it failed."""
        answers: list[Exception | None] = []
        with self._lock:
            if not self._pending.puts and self._in_flight is None:
                return
            self._pending.waiting.append(_Waiter(answers.append, _never))
        self._send()
        with self._lock:
            if not self._lock.wait_for(lambda: answers, timeout_ms / 1000):
                raise TimedOutError(f"offsets cannot be written within {timeout_ms} ms")
        if answers[0] is not None:
            raise RetriableError(f"offsets cannot be written: {answers[0]}") from answers[0]

    def give_up(self) -> None:
        """Drop all offsets put so far: another worker may write them now (I7)."""
        with self._lock:
            self._pending.puts.clear()
            self._of_transactions.clear()
            if self._in_flight is not None:
                for key in self._in_flight.puts:
                    self._uncertain.add(key)
                    self._unread.pop(key, None)
                self._in_flight.puts.clear()

    def _is_unsent(self, key: PartitionKey) -> bool:
        in_flight = self._in_flight is not None and key in self._in_flight.puts
        return key in self._pending.puts or in_flight

    def _changes(self, key: PartitionKey, offset: OffsetMap | None) -> bool:
        """Return whether ``offset`` differs from the topic's content after all puts so far."""
        if key in self._pending.puts:
            return not same_offset(self._pending.puts[key].offset, offset)
        if key in self._uncertain:
            return True
        unread = self._unread.get(key)
        return not same_offset(unread[-1] if unread else self._fold.offset(key), offset)

    def _send(self) -> None:
        """Append the pending offsets unless an append is in flight, whose end calls this again."""
        with self._lock:
            if self._in_flight is not None or not (self._pending.puts or self._pending.waiting):
                return
            batch, self._pending = self._pending, _Batch()
            batch.puts = {key: put for key, put in batch.puts.items() if put.is_wanted()}
            self._in_flight = batch
            records = [record for put in batch.puts.values() for record in self._records(put)]
            for key, put in batch.puts.items():
                self._unread.setdefault(key, deque()).append(put.offset)
        if not records:
            self._on_appended(batch, None)
            return
        if not self._may_write():
            # I7: the coordinator may have assigned the work elsewhere, so the reports must not reach the topic any
            # more.
            self.give_up()
            self._on_appended(batch, FencedError("contact to the group is lost"))
            return
        try:
            self._log.append(records, lambda error: self._on_appended(batch, error))
        except ConnectError as error:  # the log is stopped: the caller is notified as of any failed write
            self._on_appended(batch, error)

    def _records(self, put: _Put) -> Sequence[tuple[bytes, bytes | None]]:
        return self._fold.writes(put.connector, put.partition, put.offset)

    def _on_appended(self, batch: _Batch, error: Exception | None) -> None:
        with self._lock:
            self._in_flight = None
            more = bool(self._pending.puts or self._pending.waiting)  # put meanwhile
            self._bursts = more or self._follows or len(batch.puts) > 1
            self._follows = more
            notified = batch.waiting
            self._note_outcome(batch, error)
            if isinstance(error, RetriableError) and batch.puts:
                patient = [waiter for waiter in notified if waiter.waits_on()]
                notified = [waiter for waiter in notified if waiter not in patient]
                self._pending.waiting = patient + self._pending.waiting
                self._retry = self._retry or self._threads.later(RETRY_WAIT_MS, self._try_again)
        if error is not None:
            _log.warning("%d source offsets cannot be written: %s", len(batch.puts), error)
        for waiter in notified:
            waiter.on_done(error)
        with self._lock:
            self._lock.notify_all()
        if more:
            self._send()

    def _note_outcome(self, batch: _Batch, error: Exception | None) -> None:
        if error is None:
            self._uncertain -= batch.puts.keys()
            return
        self._uncertain |= batch.puts.keys()
        for key in batch.puts:
            self._unread.pop(key, None)
        self._pending.puts = {**batch.puts, **self._pending.puts}  # never over newer offsets, as in Java

    def _try_again(self) -> None:
        with self._lock:
            self._retry = None
        self._send()

    def _on_records(self, batch: Sequence[LogRecord]) -> None:
        with self._lock:
            keys = [record.key for record in batch if record.key is not None and record.key in self._of_transactions]
            for record in batch:
                try:
                    self._mark_read(self._fold.apply(record.key, record.value))
                except Exception as error:  # noqa: BLE001 - an unexpected error must not end the reader
                    _log.warning(
                        "offset topic partition=%d offset=%d ignored: %s",
                        record.partition,
                        record.offset,
                        error,
                    )
        self._clean(keys)

    def _mark_read(self, key: PartitionKey) -> None:
        unread = self._unread.get(key, deque())
        read = self._fold.offset(key)
        position = next((at for at, offset in enumerate(unread) if same_offset(offset, read)), None)
        if position is None:
            return
        for _ in range(position + 1):  # earlier ones too: compaction may have taken them before they were read
            unread.popleft()
        if not unread:
            del self._unread[key]


def _never() -> bool:
    return False
