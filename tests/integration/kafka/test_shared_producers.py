"""Producers that share a client keep the contract of batch producers, and feel nothing of each other's failures."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time

import pyarrow as pa
import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.client_properties import source_producer_properties
from spark_connect_rt.errors import ConnectError, DataError, NotFoundError
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.executor_clients import OFFSET_REPORTS
from spark_connect_rt.kafka.writing.column_settings import not_honoured
from spark_connect_rt.kafka.writing.shared_clients import SharedClients, SharedColumnProducer
from spark_connect_rt.records.pipeline.columns import TOPIC
from spark_connect_rt.testing.worker_settings import worker_settings
from tests.contract.batch_clients_contract import LIMIT_MS
from tests.contract.compacted_log_contract import fresh_name, until
from tests.integration.kafka.test_batch_clients import KafkaClients
from tests.integration.kafka.test_column_producer import LONG_MS, values_batch

SMALL = 50  # producers


def shared_producer(clients: SharedClients, servers: str, name: str = "c", **overrides: str) -> SharedColumnProducer:
    given = {f"producer.override.{key}": value for key, value in overrides.items()}
    properties = source_producer_properties(worker_settings({"bootstrap.servers": servers}), given, name, 0)
    assert not not_honoured(properties)
    return SharedColumnProducer(*clients.take(properties), clients.give_back)


class TestSharedColumnProducer(KafkaClients):
    clients = SharedClients()

    def new_producer(self, **overrides: str) -> SharedColumnProducer:
        return shared_producer(self.clients, self.worker["bootstrap.servers"], **overrides)

    def test_batches_of_many_producers_to_one_partition_keep_the_order_of_each(self, topic: str) -> None:
        producers = [self.new_producer(**OFFSET_REPORTS) for _ in range(10)]
        for number in range(20):
            for which, producer in enumerate(producers):
                producer.produce(values_batch(topic, [b"%d-%d" % (which, 2 * number + half) for half in range(2)]))
        for producer in producers:
            producer.flush(LONG_MS)
            assert sum(delivered[3] for delivered in producer.delivered()) == 40
            producer.close()
        consumer = self.new_consumer()
        consumer.assign({TopicPartition(topic, 0): 0})
        values = [row["value"].decode() for row in self.read(consumer, 400)]
        consumer.close()
        for which in range(10):
            mine = [value for value in values if value.startswith(f"{which}-")]
            assert mine == [f"{which}-{number}" for number in range(40)]


class Pair:
    """Two producers of one client."""

    def __init__(self, servers: str, **overrides: str) -> None:
        self.clients = SharedClients()
        self.a, self.b = (shared_producer(self.clients, servers, name, **overrides) for name in "ab")
        self.admin = KafkaAdmin({"bootstrap.servers": servers})

    def new_topic(self, **settings: str) -> str:
        topic = fresh_name("shared")
        self.admin.create_topic(TopicSpec(topic, 1, 1, settings))
        return topic


def test_a_record_that_is_too_large_fails_its_own_producer_alone(broker: EmbeddedKafka) -> None:
    pair = Pair(broker.bootstrap_servers)
    topic = pair.new_topic(**{"max.message.bytes": "2000"})
    for number in range(20):
        pair.b.produce(values_batch(topic, [b"%d" % number]))
        if number == 5:
            pair.a.produce(values_batch(topic, [b"x" * 50_000]))
    with pytest.raises(DataError, match="MSG_SIZE_TOO_LARGE"):
        pair.a.flush(LIMIT_MS)
    pair.b.produce(values_batch(topic, [b"behind"]))
    pair.b.flush(LIMIT_MS)
    pair.a.close()
    pair.b.produce(values_batch(topic, [b"behind its end"]))
    pair.b.flush(LIMIT_MS)
    pair.b.close()


def test_a_record_that_its_topic_refuses_fails_its_own_producer_alone(broker: EmbeddedKafka) -> None:
    clients = SharedClients()
    topic = Pair(broker.bootstrap_servers).new_topic(**{"cleanup.policy": "compact"})
    producers = [shared_producer(clients, broker.bootstrap_servers, f"c{number}") for number in range(6)]
    for turn in range(5):
        for number, producer in enumerate(producers):
            key = None if (number, turn) == (3, 2) else b"k"
            columns = {"key": pa.array([key], pa.binary()), "value": pa.array([b"v"], pa.binary())}
            with contextlib.suppress(ConnectError):  # of the one that failed by then
                producer.produce(pa.record_batch(columns, metadata={TOPIC: topic.encode()}))
    for number, producer in enumerate(producers):
        with pytest.raises(ConnectError, match="producing to") if number == 3 else contextlib.nullcontext():
            producer.flush(LIMIT_MS)
    for producer in producers:
        producer.close()


def test_a_topic_that_is_not_there_delays_its_own_producer_alone(broker: EmbeddedKafka) -> None:
    pair = Pair(broker.bootstrap_servers, **{"request.timeout.ms": "3000"})
    topic = pair.new_topic()
    pair.a.produce(values_batch("no name", [b"x"]))
    begun_s = time.monotonic()
    for _ in range(3):
        pair.b.produce(values_batch(topic, [b"x"]))
        pair.b.flush(LIMIT_MS)
    assert time.monotonic() - begun_s < 2.5
    with pytest.raises(NotFoundError):
        pair.a.flush(LONG_MS)
    pair.a.close()
    pair.b.close()


def test_the_last_to_go_closes_the_client(broker: EmbeddedKafka) -> None:
    before = threading.active_count()
    clients = SharedClients()
    producers = [shared_producer(clients, broker.bootstrap_servers, f"c{number}") for number in range(SMALL)]
    topic = Pair(broker.bootstrap_servers).new_topic()
    for producer in producers:
        producer.produce(values_batch(topic, [b"x"]))
    for producer in producers:
        producer.flush(LIMIT_MS)
    assert threading.active_count() - before < 10
    client = producers[0]._client
    for producer in producers[1:]:
        producer.close()
    producers[0].produce(values_batch(topic, [b"still"]))
    producers[0].flush(LIMIT_MS)
    assert client.users == 1
    producers[0].close()
    until(lambda: client.broken)
    again = shared_producer(clients, broker.bootstrap_servers)
    again.produce(values_batch(topic, [b"again"]))
    again.flush(LIMIT_MS)
    again.close()


def test_records_dropped_by_one_producer_are_not_sent_by_the_shared_client(broker: EmbeddedKafka) -> None:
    pair = Pair(broker.bootstrap_servers)
    topic = pair.new_topic()
    pair.b.produce(values_batch(topic, [b"x"]))
    pair.b.flush(LIMIT_MS)
    for _ in range(50):
        pair.a.produce(values_batch(topic, [b"y" * 10_000] * 200))
    pair.a.close()
    place = TopicPartition(topic, 0)
    ends = []
    for _ in range(3):
        pair.b.produce(values_batch(topic, [b"z"]))
        pair.b.flush(LIMIT_MS)
        ends.append(pair.admin.end_offsets([place], LIMIT_MS)[place])
        time.sleep(0.3)
    assert [later - earlier for earlier, later in itertools.pairwise(ends)] == [1, 1]
    pair.b.close()


def test_all_are_notified_when_their_loop_ends_and_the_next_one_gets_another(broker: EmbeddedKafka) -> None:
    pair = Pair(broker.bootstrap_servers)
    topic = pair.new_topic()
    for producer in (pair.a, pair.b):
        producer.produce(values_batch(topic, [b"x"]))
        producer.flush(LIMIT_MS)
    pair.a._loop.call_soon_threadsafe(pair.a._loop.stop)
    for producer in (pair.a, pair.b):
        until(lambda producer=producer: producer._over.is_set())  # type: ignore[misc]
        with pytest.raises(ConnectError, match="event loop"):
            producer.flush(LIMIT_MS)
        producer.close()
    again = shared_producer(pair.clients, broker.bootstrap_servers)
    again.produce(values_batch(topic, [b"again"]))
    again.flush(LIMIT_MS)
    again.close()
