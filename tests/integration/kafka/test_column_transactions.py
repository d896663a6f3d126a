"""Transactions by whole record batches on a real Kafka when answers are lost, records refused, epochs used up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from aiokafka.errors import KafkaConnectionError

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.client_properties import exactly_once_producer_properties
from spark_connect_rt.errors import ConnectError, FencedError, TimedOutError
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.reading.fetch_consumer import FetchConsumer
from spark_connect_rt.kafka.records.record_batch_columns import MOST_SEQUENCE
from spark_connect_rt.kafka.writing.column_settings import column_settings
from spark_connect_rt.kafka.writing.column_transactions import ColumnTransactionalProducer
from spark_connect_rt.records.pipeline.columns import produce_batch
from spark_connect_rt.testing.worker_settings import worker_settings
from tests.contract.batch_clients_contract import rows_of
from tests.contract.compacted_log_contract import fresh_name, until
from tests.contract.transactions_contract import LIMIT_MS
from tests.topics import CommittedReader

PLACES = 3


def new_transactional_producer(servers: str, name: str, **overrides: str) -> ColumnTransactionalProducer:
    """Return the producer of a connector's task, which has claimed its transactional id."""
    worker = worker_settings({"bootstrap.servers": servers, "group.id": "g"})
    given = {f"producer.override.{setting}": value for setting, value in overrides.items()}
    settings = column_settings(exactly_once_producer_properties(worker, given, name, 0))
    assert settings is not None
    producer = ColumnTransactionalProducer(settings)
    producer.claim(LIMIT_MS)
    return producer


class Written:
    """A topic, producers of one transactional id, and what readers of committed data get."""

    def __init__(self, broker: EmbeddedKafka) -> None:
        self.servers = broker.bootstrap_servers
        self.topic = fresh_name("txn")
        KafkaAdmin({"bootstrap.servers": self.servers}).create_topic(TopicSpec(self.topic, PLACES, 1))
        self.producers = list[ColumnTransactionalProducer]()

    def producer(self, **overrides: str) -> ColumnTransactionalProducer:
        self.producers.append(new_transactional_producer(self.servers, self.topic, **overrides))
        return self.producers[-1]

    def rows(self, *values: str) -> pa.RecordBatch:
        """Return values that go to several partitions."""
        return produce_batch(self.topic, pa.array(values), pa.array([f"k{value}" for value in values]))

    def write(self, producer: ColumnTransactionalProducer, *values: str) -> None:
        producer.begin()
        producer.produce(self.rows(*values))
        producer.commit(LIMIT_MS)

    def committed(self) -> list[str]:
        """Return every value, sorted: of several partitions."""
        consumer = FetchConsumer({"bootstrap.servers": self.servers, "isolation.level": "read_committed"})
        places = [TopicPartition(self.topic, number) for number in range(PLACES)]
        consumer.assign(dict.fromkeys(places, 0))
        ends, values = consumer.end_offsets(places), list[str]()

        def at_end() -> bool:
            batch = consumer.poll(1_000, 100)
            values.extend(row["value"].decode() for row in (rows_of(batch) if batch is not None else []))
            return batch is None and all(consumer.position(place) >= ends[place] for place in places)

        until(at_end)
        consumer.close()
        return sorted(values)


@pytest.fixture
def written(broker: EmbeddedKafka) -> Iterator[Written]:
    made = Written(broker)
    yield made
    for producer in made.producers:
        producer.close()


def lose_answers(producer: ColumnTransactionalProducer, requests: list[str]) -> None:
    """Have the broker get the next requests of these kinds, and the client nothing: its connection broke meanwhile."""
    client = producer._sender._producer.client
    send = client.send

    async def sent(node: int, request: Any, **more: Any) -> Any:
        answer = await send(node, request, **more)
        if type(request).__name__ in requests:
            requests.remove(type(request).__name__)
            raise KafkaConnectionError("lost")
        return answer

    client.send = sent


@pytest.mark.parametrize("request_name", ["ProduceRequest", "AddPartitionsToTxnRequest", "EndTxnRequest"])
def test_an_answer_that_is_lost_leaves_no_duplicate_and_no_gap(written: Written, request_name: str) -> None:
    producer = written.producer()
    written.write(producer, "a", "b", "c")
    lost = [request_name] * 2
    lose_answers(producer, lost)
    written.write(producer, "d", "e", "f")
    written.write(producer, "g", "h")
    assert lost == []
    assert written.committed() == list("abcdefgh")


def test_a_transaction_of_unknown_outcome_is_aborted_and_a_new_epoch_begins(written: Written) -> None:
    """The broker has records that the producer never heard of: by the old numbers it would refuse the next ones."""
    producer = written.producer(**{"delivery.timeout.ms": "1500", "request.timeout.ms": "1000"})
    written.write(producer, "a")
    epoch = producer._coordinator.producer[1]
    client = producer._sender._producer.client
    send = client.send

    async def never_answered(node: int, request: Any, **more: Any) -> Any:
        answer = await send(node, request, **more)
        if type(request).__name__ == "ProduceRequest":
            await asyncio.sleep(3600)
        return answer

    client.send = never_answered
    producer.begin()
    producer.produce(written.rows("dropped", "dropped too"))
    with pytest.raises(TimedOutError, match=r"no answer in delivery\.timeout\.ms=1500"):
        producer.commit(LIMIT_MS)
    with pytest.raises(TimedOutError):
        producer.begin()
    producer.abort(LIMIT_MS)
    assert producer._coordinator.producer[1] > epoch
    written.write(producer, "b", "c")
    assert written.committed() == ["a", "b", "c"]


def test_abort_of_a_zombie_does_not_shut_the_newer_producer_out(written: Written) -> None:
    zombie = written.producer()
    zombie.begin()
    zombie.produce(written.rows("of the zombie"))
    zombie.flush(LIMIT_MS)
    newer = written.producer()
    newer.begin()
    newer.produce(written.rows("a"))
    newer.flush(LIMIT_MS)
    zombie._fail(ConnectError("anything"))  # so it would begin a new epoch
    with pytest.raises(FencedError, match="is fenced"):
        zombie.abort(LIMIT_MS)
    with pytest.raises(FencedError, match="is fenced"):
        zombie.begin()
    newer.commit(LIMIT_MS)
    written.write(newer, "b")
    assert written.committed() == ["a", "b"]


def test_a_fence_is_seen_by_the_records_themselves(written: Written) -> None:
    zombie = written.producer()
    zombie.begin()
    zombie.produce(written.rows("of the zombie"))
    zombie.flush(LIMIT_MS)
    written.write(written.producer(), "a")
    zombie.produce(written.rows("of the zombie", "again"))
    with pytest.raises(FencedError) as fenced:
        zombie.flush(LIMIT_MS)
    assert fenced.value.code == "CRT-1061"
    with pytest.raises(FencedError):
        zombie.abort(LIMIT_MS)
    assert written.committed() == ["a"]


def test_behind_the_largest_sequence_number_comes_zero(written: Written) -> None:
    producer = written.producer()
    places = {TopicPartition(written.topic, number): MOST_SEQUENCE - 1 for number in range(PLACES)}
    producer._sender._sequences.update(places)
    names = [f"{number:02d}" for number in range(30)]
    written.write(producer, *names[:15])
    written.write(producer, *names[15:])
    assert all(0 < number < 30 for number in producer._sender._sequences.values())
    assert written.committed() == names


def test_batches_too_large_for_a_topic_are_split_and_renumbered(written: Written) -> None:
    narrow = f"{written.topic}-narrow"
    KafkaAdmin({"bootstrap.servers": written.servers}).create_topic(
        TopicSpec(narrow, 1, 1, {"max.message.bytes": "2000"})
    )
    producer = written.producer()
    values = [f"{number:03d}" + "x" * 200 for number in range(50)]
    for half in (values[:25], values[25:]):
        producer.begin()
        producer.produce(produce_batch(narrow, pa.array(half)))
        producer.commit(LIMIT_MS)
    reader = CommittedReader(written.servers, narrow)
    assert [value.decode() for _, value in reader.to_end()] == values
    reader.close()


def test_an_empty_transaction_sends_no_request(written: Written) -> None:
    producer = written.producer()
    lose_answers(producer, lost := ["EndTxnRequest", "AddPartitionsToTxnRequest"])
    for end in (producer.commit, producer.abort):
        producer.begin()
        end(LIMIT_MS)
    assert len(lost) == 2
    written.write(producer, "a")
    assert written.committed() == ["a"]


def test_permanent_broker_refusal_is_reported_by_its_name(written: Written) -> None:
    with pytest.raises(ConnectError, match="INVALID_TRANSACTION_TIMEOUT"):
        written.producer(**{"transaction.timeout.ms": str(2**31 - 1)})
