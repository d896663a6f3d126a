"""Transactions on a real Kafka: the producer's contract, the driver's fencing, what a zombie is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.config.client_properties import exactly_once_producer_properties, sink_consumer_properties
from spark_connect_rt.errors import DataError, FencedError
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.executor_clients import TransactionalProducer
from spark_connect_rt.kafka.reading.batch_consumer import KafkaBatchConsumer
from spark_connect_rt.kafka.reading.fetch_consumer import FetchConsumer
from spark_connect_rt.kafka.writing.column_transactions import ColumnTransactionalProducer
from spark_connect_rt.kafka.writing.fenced_writer import KafkaTransactions
from spark_connect_rt.kafka.writing.producers import transactional_producer
from spark_connect_rt.kafka.writing.transactional_producer import KafkaTransactionalProducer
from spark_connect_rt.records.pipeline.columns import produce_batch
from spark_connect_rt.testing.worker_settings import worker_settings
from tests.contract.transactions_contract import LIMIT_MS, TransactionsContract


class TestKafkaTransactions(TransactionsContract):
    consumer_kind: type[KafkaBatchConsumer | FetchConsumer] = KafkaBatchConsumer
    producer_kind: type[KafkaTransactionalProducer | ColumnTransactionalProducer] = KafkaTransactionalProducer
    forced: Mapping[str, str] = {"retries": "2147483647"}  # librdkafka's

    @pytest.fixture(autouse=True)
    def _cluster(self, broker: EmbeddedKafka) -> Iterator[None]:
        self.worker = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
        self.admin = KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers})
        yield
        del self.admin

    def properties(self, transactional_id: str) -> dict[str, str]:
        return {
            **exactly_once_producer_properties(worker_settings(self.worker), {}, "c", 0),
            "transactional.id": transactional_id,
        }

    def new_topic(self, name: str) -> None:
        self.admin.create_topic(TopicSpec(name, 1, 1))

    def new_producer(self, transactional_id: str, **properties: str) -> TransactionalProducer:
        producer = transactional_producer({**self.properties(transactional_id), **self.forced, **properties})
        assert isinstance(producer, KafkaTransactionalProducer if properties else self.producer_kind)
        return producer

    def new_consumer(self) -> KafkaBatchConsumer | FetchConsumer:
        committed = {"consumer.override.isolation.level": "read_committed"}
        return self.consumer_kind(sink_consumer_properties(worker_settings(self.worker), committed, "c", 0))

    def test_the_leader_fences_tasks_it_does_not_know(self, topic: str) -> None:
        tasks = [self.claimed(f"{topic}-{number}") for number in range(3)]
        for task in tasks:
            task.begin()
            task.produce(produce_batch(topic, pa.array(["open"])))
        KafkaTransactions().fence([self.properties(f"{topic}-{number}") for number in range(3)], LIMIT_MS)
        for number, task in enumerate(tasks):
            with pytest.raises(FencedError) as fenced:
                task.commit(LIMIT_MS)
            assert f"The producer with transactional id {topic}-{number} is fenced" in str(fenced.value)
            assert fenced.value.code == "CRT-1061"
            task.close()
        KafkaTransactions().write(self.properties(topic), topic, [(b"k", b"altered")], LIMIT_MS)
        assert self.read(topic, "altered") == ["altered"]

    def test_a_refused_record_takes_its_transaction_along_and_the_next_one_works(self, topic: str) -> None:
        narrow = f"{topic}-narrow"
        self.admin.create_topic(TopicSpec(narrow, 1, 1, {"max.message.bytes": "200"}))
        producer = self.claimed(topic)
        producer.begin()
        producer.produce(produce_batch(topic, pa.array(["with it"])))
        producer.produce(produce_batch(narrow, pa.array(["x" * 1_000])))
        with pytest.raises(DataError, match="MSG_SIZE_TOO_LARGE"):
            producer.commit(LIMIT_MS)
        producer.abort(LIMIT_MS)
        self.written(producer, topic, "next")
        producer.close()
        assert self.read(topic, "next") == ["next"]


class TestColumnTransactions(TestKafkaTransactions):
    """Whole record batches instead of one message after the other, both ways."""

    consumer_kind = FetchConsumer
    producer_kind = ColumnTransactionalProducer
    forced: Mapping[str, str] = {}
