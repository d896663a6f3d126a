"""A broker that is a script behind aiokafka's connection: requests and answers go through their wire form."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.kafka.reading.fetch_consumer import FetchConsumer
from spark_connect_rt.kafka.reading.log_moves import LogWatch

PLACE = TopicPartition("t", 0)
METADATA, FETCH, LIST_OFFSETS, EPOCH_ENDS = 3, 1, 2, 23
POLL_MS = 400  # long enough for the loop: a script has no socket that would wake a shorter one
OUT_OF_RANGE, UNKNOWN_TOPIC, FENCED, UNKNOWN_EPOCH = 1, 3, 74, 75
VERSIONS = {METADATA: (0, 13), FETCH: (4, 17), LIST_OFFSETS: (1, 9), EPOCH_ENDS: (2, 4)}


class FakeBroker:
    """One broker that leads one partition. Its log is a list of (leader epoch, value), an entry a batch."""

    def __init__(self) -> None:
        self.log: list[tuple[int, str]] = []
        self.epoch = 0
        self.topic_id = bytes([1] * 16)
        self.begin = 0  # records before it are deleted
        self.is_there = True
        self.versions = dict(VERSIONS)
        self.asked: list[int] = []  # API keys
        self.hold_fetches_s = 0.005
        self.answers_epochs = True

    def write(self, *values: str) -> None:
        self.log += [(self.epoch, value) for value in values]

    def elect(self, epoch: int, end_offset: int) -> None:
        """Make the leader one of another epoch that lacks what is behind ``end_offset``."""
        self.epoch, self.log = epoch, self.log[:end_offset]

    def delete_topic(self) -> None:
        """Have no such topic any more."""
        self.is_there = False

    def create_topic(self) -> None:
        """Have an empty topic of that name, with an id that none had before."""
        self.is_there, self.log, self.begin, self.epoch = True, [], 0, 0
        self.topic_id = bytes([self.topic_id[0] + 1] * 16)

    def answer(self, request: Any) -> Any:
        self.asked.append(request.API_KEY)
        return {
            METADATA: self._metadata,
            FETCH: self._fetch,
            LIST_OFFSETS: lambda asked: (0, [("t", [(0, 0, -1, self._end(asked.topics[0][1][0][1]))])]),
            EPOCH_ENDS: lambda asked: (0, [("t", [self._epoch_end(*asked.topics[0][1][0])])]),
        }[request.API_KEY](request)

    def _end(self, which: int) -> int:
        return self.begin if which == -2 else len(self.log)

    def _metadata(self, request: Any) -> tuple[Any, ...]:
        brokers = [(1, "broker", 9092, None)]
        if request.API_VERSION < 8:
            return 0, brokers, "cluster", 1, [(0, "t", False, [(0, 0, 1, [1], [1], [])])]
        partition = (0, 0, 1, self.epoch, [1], [1], [])
        if not self.is_there:
            return 0, [(*brokers[0], {})], "cluster", 1, [(UNKNOWN_TOPIC, "t", bytes(16), False, [], -1, {})], -1, {}
        if request.API_VERSION < 10:
            return 0, brokers, "cluster", 1, [(0, "t", False, [partition], -1)], -1
        topic = (0, "t", self.topic_id, False, [(*partition, {})], -1, {})
        return 0, [(*brokers[0], {})], "cluster", 1, [topic], -1, {}

    def _fetch(self, request: Any) -> tuple[Any, ...]:
        (_, ((_, epoch, offset, _, _),)), code, batches = request.topics[0], 0, b""
        if not self.is_there:
            code = UNKNOWN_TOPIC
        elif epoch not in (-1, self.epoch):
            code = FENCED if epoch < self.epoch else UNKNOWN_EPOCH
        elif not self.begin <= offset <= len(self.log):
            code = OUT_OF_RANGE
        else:
            batches = b"".join(_batch(at, *entry) for at, entry in enumerate(self.log) if at >= offset)
        end = len(self.log)
        return 0, 0, 0, [("t", [(0, code, end, end, 0, None, -1, batches)])]

    def _epoch_end(self, partition: int, current_epoch: int, epoch: int) -> tuple[int, int, int, int]:
        """As Kafka's ``LeaderEpochFileCache.endOffsetFor``."""
        if current_epoch != self.epoch:
            return FENCED if current_epoch < self.epoch else UNKNOWN_EPOCH, partition, -1, -1
        known = [other for other, _ in self.log] + [self.epoch]
        earlier = [other for other in known if other <= epoch]
        if epoch > max(known) or not earlier or not self.answers_epochs:
            return 0, partition, -1, -1
        return 0, partition, max(earlier), sum(other <= epoch for other, _ in self.log)


def _batch(offset: int, epoch: int, value: str) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    builder.append(0, 1, None, value.encode(), [])
    batch = bytearray(builder.build())
    struct.pack_into(">q", batch, 0, offset)
    struct.pack_into(">i", batch, 12, epoch)  # neither is part of the checksum
    return bytes(batch)


class FakeConnection:
    """A connection to it."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker

    def connected(self) -> bool:
        return True

    async def send(self, request: Any) -> Any:
        asked = request.prepare(self._broker.versions)
        asked = type(asked).decode(asked.encode())
        answer = asked.RESPONSE_TYPE(*self._broker.answer(asked))
        if asked.API_KEY == FETCH:
            await asyncio.sleep(self._broker.hold_fetches_s)
        return type(answer).decode(answer.encode())

    def close(self) -> None: ...


def consumer_of(reset: str = "earliest", watch: LogWatch | None = None) -> FetchConsumer:
    """Return a consumer of it."""
    settings = {"auto.offset.reset": reset, "retry.backoff.ms": "1", "retry.backoff.max.ms": "5"}
    return FetchConsumer({"bootstrap.servers": "broker:9092", **settings}, watch)


def read(consumer: FetchConsumer, count: int, most: int = 100) -> list[tuple[int, str]]:
    """Poll until there were so many rows; return their offsets and values."""
    rows: list[tuple[int, str]] = []
    for _ in range(20):
        batch = consumer.poll(most, POLL_MS)
        if batch is not None:
            values = [value.as_py().decode() for value in batch.column("value")]
            rows += zip(batch.column("offset").to_pylist(), values, strict=True)
        if len(rows) >= count:
            return rows
    raise AssertionError(f"only {rows}")
