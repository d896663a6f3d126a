"""Who leads what: a question about one topic changes nothing of the others; what is unreadable is answered at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import NotFoundError
from spark_connect_rt.kafka.buffered_connection import BufferedConnection, BufferPool
from spark_connect_rt.kafka.reading import fetcher
from spark_connect_rt.kafka.reading.broker_links import BrokerLinks
from spark_connect_rt.kafka.reading.fetch_settings import fetch_settings
from spark_connect_rt.kafka.reading.fetcher import Fetcher, PartitionReading
from spark_connect_rt.kafka.reading.leaders_request import LeadersRequest, MetadataResponse_v8

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
SETTINGS = fetch_settings({"bootstrap.servers": "broker:9092"})
UNKNOWN_TOPIC = 3


class Broker:
    """One that says of each topic who leads it, by number; a topic it lacks is unknown."""

    def __init__(self, **leaders: int) -> None:
        self.leaders = leaders
        self.asked: list[list[str]] = []

    async def connect(self, *_: Any, **__: Any) -> Any:
        return self

    def connected(self) -> bool:
        return True

    def close(self) -> None: ...

    async def send(self, request: LeadersRequest) -> Any:
        self.asked.append(request._topics)
        topics = [self._topic(name) for name in request._topics]
        brokers = [(number, "broker", 9090 + number, None) for number in (1, 2)]
        return MetadataResponse_v8(0, brokers, "c", 1, topics, 0)

    def _topic(self, name: str) -> tuple[Any, ...]:
        leader = self.leaders.get(name)
        partitions: list[Any] = [] if leader is None else [(0, 0, leader, 7, [leader], [leader], [])]
        return 0 if partitions else UNKNOWN_TOPIC, name, False, partitions, 0


def test_leaders_of_other_topics_stay_known() -> None:
    async def run() -> None:
        broker = Broker(a=1, b=2)
        links = BrokerLinks(SETTINGS, broker.connect)
        await links.refresh({"a"})
        await links.refresh({"b"})
        assert (links.leaders, links.epochs) == ({A: 1, B: 2}, {A: 7, B: 7})
        del broker.leaders["a"]
        await links.refresh({"b"})
        assert links.leaders == {A: 1, B: 2}
        await links.refresh({"a"})
        assert (links.leaders, links.epochs, links.why_lost(A)) == ({B: 2}, {B: 7}, UNKNOWN_TOPIC)
        broker.leaders = {"a": 1}
        await links.refresh({"a"})
        assert (links.leaders, links.why_lost(A)) == ({A: 1, B: 2}, 5)

    asyncio.run(run())


def test_a_topic_that_is_gone_is_asked_for_no_more_often_than_retry_backoff_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who goes on in spite of the error, as a mirror's task does, must not ask in a circle."""
    monkeypatch.setattr(fetcher, "UNKNOWN_LIMIT_S", -1.0)
    broker = Broker()

    async def run() -> int:
        reader = Fetcher(SETTINGS, BrokerLinks(SETTINGS, broker.connect))
        reader.readings[A] = PartitionReading(0, 0)
        failures = 0
        for _ in range(50):
            try:
                await reader.fill(0.0)
            except NotFoundError:
                failures += 1
        await reader.close()
        return failures

    assert asyncio.run(run()) == len(broker.asked) == 1


def test_an_answer_that_cannot_be_read_is_an_error_at_once() -> None:
    async def run() -> None:
        connection = BufferedConnection(BufferPool(), "broker", 9092)
        request = LeadersRequest(["a"]).prepare({3: (0, 8)})
        answered = asyncio.get_running_loop().create_future()
        connection._requests.append((5, request, answered))
        connection.take_frame(memoryview((5).to_bytes(4, "big") + b"\x00\x00"))
        with pytest.raises(KafkaConnectionError, match="cannot be read"):
            await asyncio.wait_for(answered, 1)

    asyncio.run(run())
