"""Compacted logs of a simulation: every append, answer and fetch travels, and may be delayed or lost.

Owns ``Link`` (one worker's way to the brokers), ``SimulatedTopic`` (the broker's content, and its readers) and
``SimulatedLog`` (port CompactedLog). A producer is idempotent: its appends arrive in order and once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from spark_connect_rt.errors import ConnectError, RetriableError, TimedOutError
from spark_connect_rt.testing.memory_compacted_log import MemoryLogTopic
from spark_connect_rt.topics.compacted_log import OnAppended, OnRecords
from tests.support.simulation.simulated_threads import Scheduler, SimulatedProcess

Records = Sequence[tuple[bytes, bytes | None]]
START_LIMIT_MS = 30_000


class Link:
    """One worker's way to the brokers: up or down; a message takes a while, and none overtakes another."""

    def __init__(self, scheduler: Scheduler, slow_ms: int = 20) -> None:
        self.scheduler = scheduler
        self.up = True
        self.slow_ms = slow_ms  # longest way of one message
        self._waiting: list[Callable[[], None]] = []

    def later(self, call: Callable[[], None], slow_ms: int) -> None:
        """Call once a message has travelled, for ``slow_ms`` at most, and the link is up."""
        self.scheduler.later(self.scheduler.between(1, slow_ms), lambda: self.when_up(call))

    def when_up(self, call: Callable[[], None]) -> None:
        """Call now, or when the link is up again."""
        if self.up:
            call()
        else:
            self._waiting.append(call)

    def cut(self) -> None:
        """Let no message through from now on."""
        self.up = False

    def mend(self) -> None:
        """Let all messages through again, first those that waited."""
        self.up = True
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()


class SimulatedTopic(MemoryLogTopic):
    """A topic that notifies its readers of new records, and passes every write to the watcher."""

    def __init__(self, name: str, watch: Callable[[Records], None] = lambda _: None) -> None:
        super().__init__(name)
        self.readers: list[SimulatedLog] = []
        self._watch = watch

    def write(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Append records and notify every reader."""
        written = [(key or b"", value) for key, value in records]
        super().write(written)
        self._watch(written)
        for reader in self.readers:
            reader.fetch_soon()


@dataclass(slots=True)
class _Append:
    """One append on its way."""

    records: Records
    on_appended: OnAppended | None
    give_up_ms: int
    over: bool = False


class SimulatedLog:
    """A CompactedLog of one worker."""

    def __init__(
        self, topic: SimulatedTopic, process: SimulatedProcess, link: Link, delivery_limit_ms: int = 120_000
    ) -> None:
        self.topic = topic
        self.lose_next_answer = False  # the next append is written, but its writer gets a failure
        self.slow_ms = link.slow_ms
        self.refuse_next = False  # the next append is not written, or not all of it
        self._process = process
        self._scheduler = process.scheduler
        self._link = link
        self._delivery_limit_ms = delivery_limit_ms
        self._changed = process.condition()
        self._on_records: OnRecords | None = None
        self._positions = [0] * topic.partitions
        self._queue: deque[_Append] = deque()
        self._sending = False
        self._failed: Exception | None = None
        self._fetching = False
        self._stopped = False

    def start(self, on_records: OnRecords) -> None:
        """Read the topic to its end, then deliver later records. Raises RetriableError: the end was not reached."""
        self._on_records = on_records
        self.topic.readers.append(self)
        try:
            self.read_to_end(START_LIMIT_MS)
        except TimedOutError as error:
            raise RetriableError(f"topic {self.topic.name}: broker not reachable") from error

    def append(self, records: Records, on_appended: OnAppended | None = None) -> None:
        """Queue records, which are sent in order and expire after the delivery limit."""
        if self._stopped:
            raise ConnectError(f"topic {self.topic.name}: the log is stopped")
        give_up_ms = self._scheduler.at_ms + self._delivery_limit_ms
        self._queue.append(_Append(list(records), on_appended, give_up_ms))
        self._process.later(self._delivery_limit_ms, self._expire)
        self._send_next()

    def flush(self, timeout_ms: int) -> None:
        """Wait until the queue is empty. Raises TimedOutError, and RetriableError: an append failed."""
        if not self._changed.wait_for(lambda: not self._queue, timeout_ms / 1000):
            raise TimedOutError(f"topic {self.topic.name}: not every append was acknowledged in {timeout_ms} ms")
        failed, self._failed = self._failed, None
        if failed is not None:
            raise RetriableError(f"topic {self.topic.name}: append failed: {failed}") from failed

    def read_to_end(self, timeout_ms: int) -> None:
        """Flush, ask for the topic's end, and wait until it is delivered. Raises TimedOutError."""
        end_ms = self._scheduler.at_ms + timeout_ms
        self.flush(timeout_ms)
        asked: list[list[int]] = []
        self._link.later(lambda: self._process.arrive(lambda: self._tell_ends(asked)), self.slow_ms)
        left_s = max(0, end_ms - self._scheduler.at_ms) / 1000
        if not self._changed.wait_for(lambda: bool(asked) and self._reached(asked[0]), left_s):
            raise TimedOutError(f"topic {self.topic.name}: end not reached in {timeout_ms} ms")

    def read_back(self, timeout_ms: int) -> None:
        """Read to the end, as ``read_to_end`` does."""
        self.read_to_end(timeout_ms)

    def delete_leftovers(self, keys: Sequence[bytes]) -> None:
        """Do nothing: there is only one partition."""

    def stop(self) -> None:
        """Stop delivering records to this log."""
        self._stopped = True
        if self in self.topic.readers:
            self.topic.readers.remove(self)

    def fetch_soon(self) -> None:
        """There is more to read."""
        if not self._fetching:
            self._fetching = True
            self._link.later(lambda: self._process.arrive(self._fetch), self.slow_ms)

    def _tell_ends(self, asked: list[list[int]]) -> None:
        asked.append(self.topic.ends())
        if self._reached(asked[0]):
            self._changed.notify_all()
        else:
            self.fetch_soon()

    def _reached(self, ends: Sequence[int]) -> bool:
        return all(position >= end for position, end in zip(self._positions, ends, strict=True))

    def _fetch(self) -> None:
        self._fetching = False
        if self._stopped or self._on_records is None:
            return
        records, ends = self.topic.after(self._positions)
        if records:
            self._on_records(records)
        self._positions = ends
        self._changed.notify_all()

    def _send_next(self) -> None:
        if self._queue and not self._sending:
            self._sending = True
            wait_ms = self._scheduler.between(1, self.slow_ms)
            self._scheduler.later(wait_ms, lambda: self._process.arrive(self._to_broker))

    def _to_broker(self) -> None:
        """The producer's own thread puts the first append on the wire (a frozen process does not)."""
        self._link.when_up(lambda: self._process.arrive(self._written))

    def _written(self) -> None:
        if not self._queue:
            self._sending = False
            return
        append = self._queue[0]
        if append.give_up_ms <= self._scheduler.at_ms:
            self._expire()
            self._sending = False
            self._send_next()
            return
        error: Exception | None = None
        if self.refuse_next:
            self.refuse_next, error = False, RetriableError(f"topic {self.topic.name}: refused")
            self._write_some(append.records)
        else:
            self.topic.write(append.records)
        if self.lose_next_answer:
            self.lose_next_answer, error = False, RetriableError(f"topic {self.topic.name}: the answer was lost")
        self._link.later(lambda: self._process.arrive(lambda: self._answered(append, error)), self.slow_ms)

    def _write_some(self, records: Records) -> None:
        """Write only the first records of an append, as a producer that needs more than one batch for it may do."""
        if len(records) > 1 and (written := self._scheduler.between(0, len(records) - 1)):
            self.topic.write(records[:written])

    def _answered(self, append: _Append, error: Exception | None) -> None:
        self._sending = False
        if self._queue and self._queue[0] is append:
            self._queue.popleft()
            self._conclude(append, error)
        self._send_next()

    def _expire(self) -> None:
        while self._queue and self._queue[0].give_up_ms <= self._scheduler.at_ms:
            late = self._queue.popleft()
            self._conclude(late, RetriableError(f"topic {self.topic.name}: not delivered in time"))

    def _conclude(self, append: _Append, error: Exception | None) -> None:
        self._failed = error or self._failed
        if append.on_appended is not None:
            append.on_appended(error)
        self._changed.notify_all()
