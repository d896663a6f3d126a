"""Records of several partitions in the order of their times, each partition's in the order of its offsets.

Owns: one consumer without a group, records read ahead of a partition that waits for others, how far each was given.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import TopicPartition as _ClientPartition

from spark_connect_rt.kafka.client_factory import make_consumer
from spark_connect_rt.kafka.logs.topic_records import end_of_read

_BATCH_COUNT, _WAIT_S = 500, 0.1
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
        """Close the consumer."""
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
        messages = self._client.consume(_BATCH_COUNT, _WAIT_S)
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
