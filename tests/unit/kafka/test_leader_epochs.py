"""An unclean election cuts the log that is being read: a new leader is asked before anything is read of it (KIP-320).

The broker is a script behind aiokafka's connection; requests and answers go through their wire form.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from spark_connect_rt.errors import ConnectError
from spark_connect_rt.kafka.reading import fetch_consumer
from spark_connect_rt.kafka.reading.fetch_consumer import FetchConsumer
from spark_connect_rt.protocol.ids import TopicPartition

PLACE = TopicPartition("t", 0)
METADATA, FETCH, LIST_OFFSETS, EPOCH_ENDS = 3, 1, 2, 23
POLL_MS = 400  # long enough for the loop: a script has no socket that would wake a shorter one
OUT_OF_RANGE, FENCED, UNKNOWN_EPOCH = 1, 74, 75
VERSIONS = {METADATA: (0, 13), FETCH: (4, 17), LIST_OFFSETS: (1, 9), EPOCH_ENDS: (2, 4)}


class FakeBroker:
    """One broker that leads one partition. Its log is a list of (leader epoch, value), an entry a batch."""

    def __init__(self) -> None:
        self.log: list[tuple[int, str]] = []
        self.epoch = 0
        self.versions = dict(VERSIONS)
        self.asked: list[int] = []  # API keys
        self.hold_fetches_s = 0.005
        self.answers_epochs = True

    def write(self, *values: str) -> None:
        self.log += [(self.epoch, value) for value in values]

    def elect(self, epoch: int, end_offset: int) -> None:
        """Make the leader one of another epoch that lacks what is behind ``end_offset``."""
        self.epoch, self.log = epoch, self.log[:end_offset]

    def answer(self, request: Any) -> Any:
        self.asked.append(request.API_KEY)
        return {
            METADATA: self._metadata,
            FETCH: self._fetch,
            LIST_OFFSETS: lambda asked: (0, [("t", [(0, 0, -1, self._end(asked.topics[0][1][0][1]))])]),
            EPOCH_ENDS: lambda asked: (0, [("t", [self._epoch_end(*asked.topics[0][1][0])])]),
        }[request.API_KEY](request)

    def _end(self, which: int) -> int:
        return 0 if which == -2 else len(self.log)

    def _metadata(self, request: Any) -> tuple[Any, ...]:
        brokers = [(1, "broker", 9092, None)]
        if request.API_VERSION < 8:
            return 0, brokers, "cluster", 1, [(0, "t", False, [(0, 0, 1, [1], [1], [])])]
        return 0, brokers, "cluster", 1, [(0, "t", False, [(0, 0, 1, self.epoch, [1], [1], [])], -1)], -1

    def _fetch(self, request: Any) -> tuple[Any, ...]:
        (_, ((_, epoch, offset, _, _),)), code, batches = request.topics[0], 0, b""
        if epoch not in (-1, self.epoch):
            code = FENCED if epoch < self.epoch else UNKNOWN_EPOCH
        elif offset > len(self.log):
            code = OUT_OF_RANGE
        else:
            batches = b"".join(_batch(at, *one) for at, one in enumerate(self.log) if at >= offset)
        end = len(self.log)
        return 0, 0, 0, [("t", [(0, code, end, end, 0, None, -1, batches)])]

    def _epoch_end(self, partition: int, current_epoch: int, epoch: int) -> tuple[int, int, int, int]:
        """As Kafka's ``LeaderEpochFileCache.endOffsetFor``."""
        if current_epoch != self.epoch:
            return FENCED if current_epoch < self.epoch else UNKNOWN_EPOCH, partition, -1, -1
        known = [one for one, _ in self.log] + [self.epoch]
        earlier = [one for one in known if one <= epoch]
        if epoch > max(known) or not earlier or not self.answers_epochs:
            return 0, partition, -1, -1
        return 0, partition, max(earlier), sum(one <= epoch for one, _ in self.log)


def _batch(offset: int, epoch: int, value: str) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    builder.append(0, 1, None, value.encode(), [])
    batch = bytearray(builder.build())
    struct.pack_into(">q", batch, 0, offset)
    struct.pack_into(">i", batch, 12, epoch)  # neither is part of the checksum
    return bytes(batch)


class FakeConnection:
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


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    broker = FakeBroker()

    async def connect(*_: Any, **__: Any) -> FakeConnection:
        return FakeConnection(broker)

    monkeypatch.setattr(fetch_consumer, "connect_buffered", connect)
    return broker


def consumer_of(reset: str = "earliest") -> FetchConsumer:
    settings = {"auto.offset.reset": reset, "retry.backoff.ms": "1", "retry.backoff.max.ms": "5"}
    return FetchConsumer({"bootstrap.servers": "broker:9092", **settings})


@pytest.fixture
def consumer(broker: FakeBroker) -> Iterator[FetchConsumer]:
    consumer = consumer_of()
    yield consumer
    consumer.close()


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


def test_what_was_written_in_the_place_of_what_was_cut_off_is_read(
    broker: FakeBroker, consumer: FetchConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    broker.write("a", "b", "c", "lost")
    consumer.assign({PLACE: 0})
    assert read(consumer, 4)[-1] == (3, "lost")
    broker.elect(epoch=1, end_offset=2)
    broker.write("C", "D", "E", "F")  # longer than before: no offset is out of range
    with caplog.at_level(logging.WARNING):
        assert read(consumer, 4) == [(2, "C"), (3, "D"), (4, "E"), (5, "F")]
    assert "t-0: the log was cut at offset 2 by an unclean election; it was read up to 4, going on at 2" in caplog.text
    assert consumer.position(PLACE) == 6


def test_a_position_beyond_a_shorter_log_goes_back_to_where_it_ends_not_to_the_beginning(
    broker: FakeBroker, consumer: FetchConsumer
) -> None:
    broker.write("a", "b", "c", "lost")
    consumer.assign({PLACE: 0})
    read(consumer, 4)
    broker.elect(epoch=3, end_offset=3)
    for _ in range(10):
        assert consumer.poll(100, POLL_MS) is None
        if consumer.position(PLACE) < 4:
            break
    assert consumer.position(PLACE) == 3
    broker.write("D")
    assert read(consumer, 1) == [(3, "D")]


def test_rows_that_were_answered_but_not_returned_are_read_anew(broker: FakeBroker, consumer: FetchConsumer) -> None:
    broker.write("a", "b", "lost", "lost")
    consumer.assign({PLACE: 0})
    assert read(consumer, 1, most=1) == [(0, "a")]
    broker.elect(epoch=1, end_offset=2)
    broker.write("C")
    found = [(0, "a"), *read(consumer, 2, most=1)]
    while found[-1][1] == "lost":  # returned before the election was heard of
        found += read(consumer, 1, most=1)
    assert found[-1] == (2, "C")
    assert [value for offset, value in found if offset < 2] == ["a", "b"]


def test_a_clean_election_is_asked_about_once_and_nothing_is_read_twice(
    broker: FakeBroker, consumer: FetchConsumer
) -> None:
    broker.write("a", "b")
    consumer.assign({PLACE: 0})
    read(consumer, 2)
    broker.elect(epoch=1, end_offset=2)
    broker.write("c")
    assert read(consumer, 1) == [(2, "c")]
    assert broker.asked.count(EPOCH_ENDS) == 1
    broker.write("d")
    assert read(consumer, 1) == [(3, "d")]
    assert broker.asked.count(EPOCH_ENDS) == 1


def test_nothing_is_asked_while_the_leader_stays(broker: FakeBroker, consumer: FetchConsumer) -> None:
    broker.epoch = 7
    broker.write("a")
    consumer.assign({PLACE: 0})
    read(consumer, 1)
    broker.write("b")
    assert read(consumer, 1) == [(1, "b")]
    assert EPOCH_ENDS not in broker.asked


def test_without_a_policy_the_cut_is_an_error_and_position_stays(broker: FakeBroker) -> None:
    consumer = consumer_of(reset="none")
    broker.write("a", "b", "lost")
    consumer.assign({PLACE: 0})
    read(consumer, 3)
    broker.elect(epoch=1, end_offset=2)
    with pytest.raises(ConnectError, match="cut at offset 2 by an unclean election"):
        read(consumer, 1)
    assert consumer.position(PLACE) == 3
    consumer.close()


def test_a_leader_that_knows_no_such_epoch_means_the_reset_policy(broker: FakeBroker, consumer: FetchConsumer) -> None:
    broker.epoch = 5
    broker.write("a", "b")
    consumer.assign({PLACE: 0})
    read(consumer, 2)
    broker.elect(epoch=0, end_offset=0)  # the topic was created again
    broker.write("A")
    assert read(consumer, 1) == [(0, "A")]


def test_brokers_that_tell_no_epochs_are_read_as_ever(broker: FakeBroker, consumer: FetchConsumer) -> None:
    broker.versions = {METADATA: (0, 5), FETCH: (4, 11), LIST_OFFSETS: (1, 5)}
    broker.write("a")
    consumer.assign({PLACE: 0})
    assert read(consumer, 1) == [(0, "a")]
    broker.write("b")
    assert read(consumer, 1) == [(1, "b")]
