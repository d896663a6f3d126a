"""Every record of a topic, raw, once; and records written as they were, time included. For the ``store`` commands."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as _ClientPartition

from spark_connect_rt.base.checked_lines import RawRecord
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import ConnectError, RetriableError, TimedOutError
from spark_connect_rt.kafka.client_factory import make_consumer, make_producer
from spark_connect_rt.kafka.client_lifetime import close_producer
from spark_connect_rt.kafka.error_mapping import connect_error
from spark_connect_rt.kafka.logs.log_load import to_records
from spark_connect_rt.kafka.reading.offset_lookup import FIRST, NEXT, look_up_offsets
from spark_connect_rt.topics.compacted_log import LogRecord
from spark_connect_rt.topics.newest_records import in_time_order

STALLED_MS = 30_000
_BATCH_COUNT = 10_000


class HeadedRecord(NamedTuple):
    """A record and its headers."""

    record: LogRecord
    headers: list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class TopicPart:
    """The part of a topic that is to be read."""

    partitions: Sequence[int]
    first_offset: int | None = None
    last_offset: int | None = None
    since_ms: int | None = None  # records before the first one of this time or later are not read


def read_topic(consumer: Mapping[str, str], topic: str, partitions: int) -> list[LogRecord]:
    """Return all records that were there at the call, partitions in the order of time, each in its own order.

    A consumer of committed records reads up to the first open transaction: the state of later records is not known.

    Raises RetriableError, TimedOutError.
    """
    part = TopicPart(range(partitions))
    return in_time_order(record for found in _messages(consumer, topic, part) for record in to_records(found))


def read_with_headers(consumer: Mapping[str, str], topic: str, part: TopicPart) -> Iterator[HeadedRecord]:
    """Yield the records of a part that were there at the call. Raises as ``read_topic``."""
    for found in _messages(consumer, topic, part):
        for message, record in zip(found, to_records(found), strict=True):
            yield HeadedRecord(record, message.headers() or [])


def _messages(consumer: Mapping[str, str], topic: str, part: TopicPart) -> Iterator[list[Any]]:
    client = make_consumer({"group.id": topic, **consumer}, {"enable.partition.eof": "true"})
    received_s = time.monotonic()
    try:
        positions, ends = _span(client, topic, part)
        client.assign([_ClientPartition(topic, number, offset) for number, offset in positions.items()])
        while any(positions[number] < end for number, end in ends.items()):
            messages = client.consume(_BATCH_COUNT, 0.1)
            received_s = time.monotonic() if messages else received_s
            if time.monotonic() - received_s > STALLED_MS / 1000:
                raise TimedOutError(f"topic {topic}: nothing could be read for {STALLED_MS} ms")
            yield [
                message
                for message in messages
                if _moved(message, positions) and message.offset() < ends[message.partition()]
            ]
    finally:
        client.close()


def _span(client: Any, topic: str, part: TopicPart) -> tuple[dict[int, int], dict[int, int]]:
    """Return by partition where to begin, and the offset to end before."""
    wanted = [TopicPartition(topic, number) for number in part.partitions]
    first = part.first_offset or 0
    # Asked through the consumer that reads: under read_committed the end is before the first open transaction.
    begins, log_ends = (look_up_offsets(client, dict.fromkeys(wanted, end), STALLED_MS / 1000) for end in (FIRST, NEXT))
    positions = {partition.partition: max(offset, first) for partition, offset in begins.items()}
    ends = {partition.partition: offset for partition, offset in log_ends.items()}
    if part.last_offset is not None:
        ends = {number: min(end, part.last_offset + 1) for number, end in ends.items()}
    if part.since_ms is not None and wanted:
        times = look_up_offsets(client, dict.fromkeys(wanted, max(0, part.since_ms)), STALLED_MS / 1000)
        for partition, offset in times.items():
            since = offset if offset >= 0 else ends[partition.partition]  # none so late
            positions[partition.partition] = max(positions[partition.partition], since)
    return positions, ends


def write_topic(producer: Mapping[str, str], topic: str, records: Sequence[RawRecord], timeout_ms: int) -> None:
    """Append keys, values and times in order, each to the partition of its key. Raises RetriableError."""
    failures: list[Exception] = []

    def on_delivery(error: Any, _message: Any) -> None:
        if error is not None:
            failures.append(connect_error(error, f"writing to {topic}"))

    client = make_producer(producer, {"linger.ms": "5"})
    try:
        for _, _, key, value, timestamp_ms in records:
            while True:
                try:
                    client.produce(topic, value, key, timestamp=max(0, timestamp_ms), on_delivery=on_delivery)
                    break
                except BufferError:
                    client.poll(0.1)
        left = client.flush(timeout_ms / 1000)
    finally:
        close_producer(client)
    if failures or left:
        raise RetriableError(f"topic {topic}: {failures[0] if failures else f'{left} records were not written'}")


def _moved(message: Any, positions: dict[int, int]) -> bool:
    """Note how far the partition is read; return whether this is a record. Raises ConnectError."""
    end = end_of_read(message)
    if end is None:
        positions[message.partition()] = message.offset() + 1
        return True
    positions[message.partition()] = max(end, positions[message.partition()])
    return False


def end_of_read(message: Any) -> int | None:
    """Return where the partition ends, if that is what the client's message says; None: it is a record.

    Raises ConnectError.
    """
    error = message.error()
    if error is None:
        return None
    if error.code() != KafkaError._PARTITION_EOF:
        raise ConnectError(f"reading {message.topic()}: {error.str()}")
    return int(message.offset())


# Records of several partitions in the order of their times, each partition's in the order of its offsets.
#
# Owns: one consumer without a group, records read ahead of a partition that waits for others, how far each was given.


_MERGED_BATCH_COUNT, _WAIT_S = 500, 0.1
_AHEAD_COUNT = 1_000  # of one partition, while another has none; then it is paused
_AHEAD_BYTES, _AHEAD_BYTES_LEAST = 32 * 2**20, 2**18  # of all partitions, and of one at least
_SETTINGS = {
    "enable.partition.eof": "true",
    "isolation.level": "read_committed",
    "queued.max.messages.kbytes": "16384",
    "fetch.queue.backoff.ms": "5",
    "fetch.wait.max.ms": "50",
}


class MergedRead:
    """One reading of a topic from ``positions`` (partition -> offset) to before ``ends``. One thread; close it."""

    def __init__(
        self, consumer: Mapping[str, str], topic: str, positions: Mapping[int, int], ends: Mapping[int, int]
    ) -> None:
        """Take the consumer's properties and where to read; nothing is connected yet."""
        self.positions = dict(positions)  # next offset that was not given
        self._topic = topic
        self._ends = ends
        self._ahead: dict[int, deque[Any]] = {
            number: deque() for number, offset in positions.items() if offset < ends[number]
        }
        self._reached: dict[int, int] = {}  # read to their ends, or to where open transactions begin
        self._bytes = dict.fromkeys(self._ahead, 0)
        self._paused: set[int] = set()
        self._most = max(_AHEAD_BYTES_LEAST, _AHEAD_BYTES // max(1, len(self._ahead)))
        self._client: Any = make_consumer({"group.id": topic, **consumer}, _SETTINGS) if self._ahead else None
        if self._client is not None:
            self._client.assign([self._place(number, positions[number]) for number in self._ahead])

    def __iter__(self) -> Iterator[Any]:
        """Yield messages of the client, and None each time that none came for a while. Raises ConnectError."""
        while self._ahead:
            missing = [number for number, ahead in self._ahead.items() if not ahead and number not in self._reached]
            if missing:
                if not self._read_on(missing):
                    yield None
                continue
            self._drop_finished()
            if self._ahead:
                yield self._give(min(self._ahead, key=self._rank))

    def close(self) -> None:
        """Close the consumer, if it was opened."""
        if self._client is not None:
            self._client.close()

    def _rank(self, number: int) -> tuple[int, int]:
        return self._ahead[number][0].timestamp()[1], number

    def _give(self, number: int) -> Any:
        message = self._ahead[number].popleft()
        self._bytes[number] -= len(message)
        self.positions[number] = message.offset() + 1
        if number in self._paused and not self._ahead[number]:
            self._paused.discard(number)
            self._client.resume([self._place(number)])
        return message

    def _drop_finished(self) -> None:
        for number in [
            partition for partition in self._reached if partition in self._ahead and not self._ahead[partition]
        ]:
            del self._ahead[number]
            self.positions[number] = max(self.positions[number], self._reached[number])

    def _read_on(self, missing: list[int]) -> bool:
        messages = self._client.consume(_MERGED_BATCH_COUNT, _WAIT_S)
        for message in messages:
            self._take(message)
        for number, ahead in self._ahead.items():
            is_much = len(ahead) > _AHEAD_COUNT or self._bytes[number] > self._most
            if is_much and number not in self._paused and number not in missing:
                self._paused.add(number)
                self._client.pause([self._place(number)])
        return bool(messages)

    def _take(self, message: Any) -> None:
        number = message.partition()
        end = end_of_read(message)
        if number not in self._ahead or number in self._reached:
            return
        if end is not None:
            self._reached[number] = min(end, self._ends[number])
            return
        if message.offset() < self._ends[number]:
            self._ahead[number].append(message)
            self._bytes[number] += len(message)
        if message.offset() + 1 >= self._ends[number]:
            self._reached[number] = self._ends[number]

    def _place(self, number: int, offset: int | None = None) -> _ClientPartition:
        return (
            _ClientPartition(self._topic, number) if offset is None else _ClientPartition(self._topic, number, offset)
        )
