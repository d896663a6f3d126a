"""In-memory twin of ``kafka.logs.compacted_log``: topics as lists, any number of logs over one topic.

Owns: ``MemoryLogTopic`` (the broker's content) and ``MemoryCompactedLog`` (one reader and writer of it).
Must not: import a Kafka client. Passes tests/contract/compacted_log_contract.py.

Two ways of delivery: ``threaded`` (default; a thread per log, as the real one) and manual. In manual mode records reach
``on_records`` only inside ``read_to_end`` or ``deliver``, for tests that control the order of everything.
"""

from __future__ import annotations

import logging
import threading
import time
import zlib
from collections import deque
from collections.abc import Iterable, Sequence

from spark_connect_rt.base.supervision import Report, SupervisedPart, report_nowhere
from spark_connect_rt.errors import BadConfigError, ConnectError, FencedError, RetriableError, TimedOutError
from spark_connect_rt.topics.compacted_log import LogRecord, OnAppended, OnRecords
from spark_connect_rt.topics.key_places import BY_KEY, KeyPlaces, Write

_log = logging.getLogger(__name__)


class MemoryLogTopic:
    """One topic of a make-believe broker. Offsets survive ``compact``; failures can be injected."""

    def __init__(
        self, name: str = "log", *, partitions: int = 1, cleanup_policy: str = "compact", timestamp_ms: int = 0
    ) -> None:
        self.name = name
        self.cleanup_policy = cleanup_policy
        self.timestamp_ms = timestamp_ms  # put into every record appended from now on
        self.reachable = True
        self.stalled = False  # appends are taken, fetches are not answered: readers wait
        self.changed = threading.Condition()
        self._ends = [0] * partitions
        self._records: list[LogRecord] = []  # all partitions, in order of arrival
        self._failures: deque[Exception] = deque()
        self._epochs: dict[str, int] = {}  # transactional id -> how often it was claimed

    @property
    def partitions(self) -> int:
        """Return the number of partitions."""
        return len(self._ends)

    def fail_next_append(self, error: Exception) -> None:
        """Make the next append of any log fail with ``error``, writing nothing."""
        with self.changed:
            self._failures.append(error)

    def write(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Append records as some other client would. Raises the injected failure, if any."""
        self.write_placed(Write(key or b"", value) for key, value in records)

    def write_placed(self, writes: Iterable[Write]) -> None:
        """Append records to the partitions and with the times that they name. Raises the injected failure, if any."""
        with self.changed:
            if self._failures:
                raise self._failures.popleft()
            for key, value, chosen, at_ms in writes:
                partition = placement(key, len(self._ends)) if chosen == BY_KEY else chosen
                self._records.append(
                    LogRecord(partition, self._ends[partition], key, value, at_ms or self.timestamp_ms)
                )
                self._ends[partition] += 1
            self.changed.notify_all()

    def add_partition(self) -> None:
        """Add an empty partition, as an administrator may at any time."""
        with self.changed:
            self._ends.append(0)
            self.changed.notify_all()

    def claim(self, transactional_id: str) -> int:
        """Return a new epoch of a transactional id; older ones are fenced."""
        with self.changed:
            self._epochs[transactional_id] = self._epochs.get(transactional_id, 0) + 1
            return self._epochs[transactional_id]

    def write_fenced(self, records: Iterable[tuple[bytes, bytes | None]], transactional_id: str, epoch: int) -> None:
        """Append one transaction: the records, then the marker that takes an offset and is never delivered."""
        with self.changed:
            if self._epochs.get(transactional_id) != epoch:
                raise FencedError(f"topic {self.name}: {transactional_id} was claimed by a newer writer")
            before = list(self._ends)
            self.write(records)
            self._ends = [end + (end > was) for end, was in zip(self._ends, before, strict=True)]

    def compact(self) -> None:
        """Drop every record that a later one of the same key supersedes; tombstones stay."""
        with self.changed:
            last = {(record.partition, record.key): record.offset for record in self._records}
            self._records = [r for r in self._records if last[r.partition, r.key] == r.offset]

    def records(self) -> list[LogRecord]:
        """Return the records of the topic, in order of arrival."""
        with self.changed:
            return list(self._records)

    def ends(self) -> list[int]:
        """Return the end offset of each partition."""
        with self.changed:
            return list(self._ends)

    def after(self, positions: Sequence[int]) -> tuple[list[LogRecord], list[int]]:
        """Return the records at or after ``positions`` (next offset per partition), and the ends they reach to."""
        with self.changed:
            known = [*positions, *[0] * (len(self._ends) - len(positions))]
            ends = list(known if self.stalled else self._ends)
            if known == ends:
                return [], ends
            return [r for r in self._records if r.offset >= known[r.partition]], ends

    def stall(self, stalled: bool) -> None:
        """Stop answering fetches, or answer them again."""
        with self.changed:
            self.stalled = stalled
            self.changed.notify_all()

    def wake(self) -> None:
        """Wake every log that waits on this topic."""
        with self.changed:
            self.changed.notify_all()


def placement(key: bytes, partitions: int) -> int:
    """Return the partition of a key."""
    return zlib.crc32(key) % partitions


class MemoryCompactedLog:
    """A CompactedLog over a MemoryLogTopic."""

    def __init__(
        self,
        topic: MemoryLogTopic,
        *,
        exact_partitions: int | None = None,
        threaded: bool = True,
        report: Report = report_nowhere,
    ) -> None:
        self.topic = topic
        self._report = report
        self.stalled = False  # the fetches of this log alone are not answered
        self._exact_partitions = exact_partitions
        self._threaded = threaded
        self._positions = [0] * topic.partitions
        self._places = KeyPlaces(topic.partitions, placement, may_grow=exact_partitions is None)
        self._on_records: OnRecords | None = None
        self._answers: deque[tuple[OnAppended, Exception | None]] = deque()
        self._failed: Exception | None = None  # of the appends since the last flush
        self._broken: Exception | None = None  # raised by on_records
        self._delivering = threading.RLock()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self, on_records: OnRecords) -> None:
        """Deliver the topic's records, then start the thread that delivers later ones.

        Raises BadConfigError, RetriableError as a log of Kafka does.
        """
        if not self.topic.reachable:
            raise RetriableError(f"topic {self.topic.name}: broker not reachable")
        self._check()
        self._on_records = self._places.reading(on_records)
        self.deliver()
        if self._threaded:
            self._thread = threading.Thread(target=self._run, name=f"log-{self.topic.name}", daemon=True)
            self._thread.start()

    def append(self, records: Sequence[tuple[bytes, bytes | None]], on_appended: OnAppended | None = None) -> None:
        """Append the records to the topic. The answer follows at the next delivery or ``flush``."""
        if self._stopping:
            raise ConnectError(f"topic {self.topic.name}: the log is stopped")
        failure: Exception | None = None
        try:
            if not self.topic.reachable:
                raise RetriableError(f"topic {self.topic.name}: broker not reachable")
            self.topic.write_placed(self._places.writes(records))
        except Exception as error:  # noqa: BLE001 - the injected failure is the answer
            failure = self._failed = error
        if on_appended is not None:
            with self.topic.changed:
                self._answers.append((on_appended, failure))
            if self._threaded and self._thread is not None:
                self.topic.wake()
            else:
                self._answer()

    def flush(self, timeout_ms: int) -> None:
        """Answer pending appends. Raises RetriableError: one of them failed."""
        self._answer()
        failed, self._failed = self._failed, None
        if failed is not None:
            raise RetriableError(f"topic {self.topic.name}: append failed: {failed}") from failed

    def read_to_end(self, timeout_ms: int) -> None:
        """Flush, then return when ``on_records`` has seen every record of the topic. Raises TimedOutError."""
        self.flush(timeout_ms)
        if not self.topic.reachable:
            raise TimedOutError(f"topic {self.topic.name}: end not reached in {timeout_ms} ms")
        ends = self.topic.ends()  # before delivery, which may have more written
        if not self._threaded:
            self.deliver()
        deadline = time.monotonic() + timeout_ms / 1000
        with self.topic.changed:
            while not self._reached(ends):
                left_s = deadline - time.monotonic()
                if left_s <= 0 or not self.topic.changed.wait(left_s):
                    raise TimedOutError(f"topic {self.topic.name}: end not reached in {timeout_ms} ms")

    def read_back(self, timeout_ms: int) -> None:
        """Read to the end, as ``read_to_end`` does."""
        self.read_to_end(timeout_ms)

    def delete_leftovers(self, keys: Sequence[bytes]) -> None:
        """Delete older records of these keys in other partitions, as far as they were delivered."""
        self.topic.write_placed(self._places.leftovers(keys))

    def deliver(self) -> int:
        """Hand every new record to ``on_records`` now; return how many there were."""
        with self._delivering:
            if self.stalled:
                return 0
            records, ends = self.topic.after(self._positions)
            self._places.grow(len(ends))
            if records and self._on_records is not None:
                self._on_records(records)
            with self.topic.changed:
                self._positions = ends
                self.topic.changed.notify_all()
            return len(records)

    def stop(self) -> None:
        """Stop delivering, wait for the thread, and answer pending appends."""
        self._stopping = True
        self.topic.wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._answer()

    def _check(self) -> None:
        if self.topic.cleanup_policy != "compact":
            raise BadConfigError(
                {self.topic.name: [f"cleanup.policy is {self.topic.cleanup_policy} but must be compact"]}
            )
        if self._exact_partitions not in (None, self.topic.partitions):
            raise BadConfigError(
                {self.topic.name: [f"{self.topic.partitions} partitions, but must be {self._exact_partitions}"]}
            )

    def _reached(self, ends: Sequence[int]) -> bool:
        if self._broken is not None:
            raise ConnectError(f"topic {self.topic.name}: reader failed: {self._broken}") from self._broken
        known = [*self._positions, *[0] * (len(ends) - len(self._positions))]
        return all(position >= end for position, end in zip(known, ends, strict=False))

    def _answer(self) -> None:
        while True:
            with self.topic.changed:
                if not self._answers:
                    return
                on_appended, failure = self._answers.popleft()
            on_appended(failure)

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._answer()
                self.deliver()
                with self.topic.changed:
                    behind = not (self.stalled or self.topic.stalled) and self._positions != self.topic.ends()
                    if not (self._stopping or self._answers or behind):
                        self.topic.changed.wait(1.0)
        except Exception as error:  # noqa: BLE001 - top of a thread: every waiter is notified
            _log.exception("log %s: the reader failed", self.topic.name)
            with self.topic.changed:
                self._broken = error
                self.topic.changed.notify_all()
            self._report(SupervisedPart.LOG, error)
