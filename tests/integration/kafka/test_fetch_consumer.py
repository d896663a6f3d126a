"""What FetchConsumer does where the contract says nothing: logs cut short, topics deleted, brokers that refuse."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka, free_ports
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import ConnectError, NotFoundError, RetriableError
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.executor_clients import BatchConsumer
from spark_connect_rt.kafka.reading import fetch_consumer, fetcher
from spark_connect_rt.kafka.reading.batch_consumer import KafkaBatchConsumer
from spark_connect_rt.kafka.reading.consumers import batch_consumer, polled_apart
from spark_connect_rt.kafka.reading.fetch_consumer import FetchConsumer
from tests.contract.batch_clients_contract import rows_of
from tests.contract.compacted_log_contract import fresh_name, until
from tests.integration.kafka.secure_kafka import PLAIN, SecureKafka
from tests.topics import delete_topic


@pytest.fixture
def worker(broker: EmbeddedKafka) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap_servers}


@pytest.fixture
def topic(worker: dict[str, str]) -> str:
    name = fresh_name("fetched")
    KafkaAdmin(worker).create_topic(TopicSpec(name, 2, 1))
    return name


def write(servers: dict[str, str], topic: str, count: int, **settings: object) -> None:
    producer = Producer({**servers, "linger.ms": 20, "enable.idempotence": True, **settings})
    for number in range(count):
        headers = [("n", b"%d" % number), ("none", None)] if number % 3 == 0 else None
        key = b"%d" % number if number % 2 else None
        producer.produce(topic, b"%d" % number * 20, key, partition=number // 700 % 2, headers=headers)
        producer.poll(0)
    assert producer.flush(60) == 0


def read(consumer: BatchConsumer, count: int, most: int = 1_000) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []

    def enough() -> bool:
        batch = consumer.poll(most, 200)
        rows.extend(rows_of(batch) if batch is not None else [])
        return len(rows) >= count

    until(enough, limit_s=60)
    return rows


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_every_column_is_what_librdkafka_says(worker: dict[str, str], topic: str, codec: str) -> None:
    write(worker, topic, 6_000, **{"compression.type": codec})
    found = []
    for kind in (FetchConsumer, KafkaBatchConsumer):
        consumer = kind(worker)
        consumer.assign({TopicPartition(topic, number): -1 for number in range(2)})
        rows = read(consumer, 6_000)
        found.append(sorted(rows, key=lambda row: (row["partition"], row["offset"])))  # type: ignore[arg-type]
        assert consumer.partition_counts([topic, f"{topic}-missing"]) == {topic: 2}
        consumer.close()
    assert len(found[0]) == 6_000
    names = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
    assert [[row.get(name) for name in names] for row in found[0]] == [
        [row.get(name) for name in names] for row in found[1]
    ]


@pytest.mark.parametrize(("reset", "first"), [("earliest", 5), ("latest", 10)])
def test_an_offset_that_is_gone(worker: dict[str, str], topic: str, reset: str, first: int) -> None:
    cut_short(worker, topic)
    consumer = FetchConsumer({**worker, "auto.offset.reset": reset})
    consumer.assign({TopicPartition(topic, 0): 2})

    seen = 0  # the first row may come with the poll that finds the way, or behind it

    def is_reset() -> bool:
        nonlocal seen
        seen += consumer.poll(1, 50) is not None
        return consumer.position(TopicPartition(topic, 0)) >= first

    until(is_reset)
    write(worker, topic, 1)
    rest = read(consumer, (6 if reset == "earliest" else 1) - seen, most=1)
    assert [row["offset"] for row in rest][-1] == 10
    consumer.close()


def test_a_deleted_offset_without_a_reset_policy_is_an_error(worker: dict[str, str], topic: str) -> None:
    cut_short(worker, topic)
    consumer = FetchConsumer({**worker, "auto.offset.reset": "none"})
    consumer.assign({TopicPartition(topic, 0): 2})
    with pytest.raises(ConnectError, match=rf"reading {topic}-0: .*_AUTO_OFFSET_RESET"):
        until(lambda: consumer.poll(1, 50) is not None)
    consumer.close()


def cut_short(worker: dict[str, str], topic: str) -> None:
    write(worker, topic, 10)
    admin = AdminClient({**worker, "log_level": 0})
    for done in admin.delete_records([ClientPartition(topic, 0, 5)]).values():
        done.result(30)


def test_a_deleted_topic_is_awaited_then_reported(
    worker: dict[str, str], topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher, "UNKNOWN_LIMIT_S", 1.0)
    write(worker, topic, 10)
    consumer = FetchConsumer(worker)
    consumer.assign({TopicPartition(topic, 0): 0})
    read(consumer, 10)
    delete_topic(worker["bootstrap.servers"], topic)
    with pytest.raises(NotFoundError, match=f"reading {topic}-0: .*UNKNOWN_TOPIC_OR_PART"):
        until(lambda: consumer.poll(1, 50) is not None)
    consumer.close()
    assert topic not in AdminClient({**worker, "log_level": 0}).list_topics(timeout=30).topics


def test_fetch_in_flight_for_another_position_is_dropped(worker: dict[str, str], topic: str) -> None:
    write(worker, topic, 700)
    place = TopicPartition(topic, 0)
    consumer = FetchConsumer(worker)
    consumer.assign({place: 0})
    assert [row["offset"] for row in read(consumer, 1, most=1)] == [0]
    consumer.assign({place: 600})  # rows are there, and a request is under way
    assert [row["offset"] for row in read(consumer, 100, most=50)] == list(range(600, 700))
    consumer.assign({place: 10})
    assert [row["offset"] for row in read(consumer, 1, most=1)] == [10]
    consumer.unassign([place])
    assert consumer.poll(10, 700) is None
    consumer.close()


def test_no_server_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_consumer, "LOOKUP_TIMEOUT_S", 0.3)
    consumer = FetchConsumer({"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"})
    with pytest.raises(RetriableError, match="Connect call failed"):
        consumer.assign({TopicPartition("t", 0): -1})
    consumer.assign({TopicPartition("t", 0): 0})
    assert consumer.poll(10, 100) is None
    consumer.close()


def test_tls_and_passwords(secure: SecureKafka) -> None:
    plain = {"bootstrap.servers": secure.settings("PLAINTEXT")["bootstrap.servers"]}
    topic = fresh_name("secured")
    KafkaAdmin(plain).create_topic(TopicSpec(topic, 2, 1))
    write(plain, topic, 5)
    own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(secure.client)}
    sasl = {"sasl.mechanism": "PLAIN", "security.protocol": "SASL_PLAINTEXT"}
    good = {**sasl, "sasl.jaas.config": f'{PLAIN} required username="worker" password="open sesame";'}
    for settings in (
        secure.settings("TLS", **{"security.protocol": "SSL", **own}),
        secure.settings("PLAIN", **good),
    ):
        consumer = batch_consumer(settings)
        assert isinstance(consumer, FetchConsumer)
        consumer.assign({TopicPartition(topic, 0): -1})
        assert len(read(consumer, 5)) == 5
        consumer.close()
    bad = {**sasl, "sasl.jaas.config": f'{PLAIN} required username="worker" password="no";'}
    consumer = batch_consumer(secure.settings("PLAIN", **bad))
    consumer.assign({TopicPartition(topic, 0): 0})
    with pytest.raises(ConnectError, match=r"sasl\.jaas\.config: "):
        until(lambda: consumer.poll(1, 50) is not None)
    consumer.close()


def test_a_setting_that_it_does_not_honour_brings_the_other_consumer(worker: dict[str, str]) -> None:
    consumer = batch_consumer({**worker, "client.rack": "here"})
    assert isinstance(consumer, KafkaBatchConsumer)
    consumer.close()


def test_a_batch_of_several_topics(worker: dict[str, str], topic: str) -> None:
    other = fresh_name("fetched")
    KafkaAdmin(worker).create_topic(TopicSpec(other, 2, 1))
    write(worker, topic, 10)
    write(worker, other, 10)
    consumer = FetchConsumer(worker)
    consumer.assign({TopicPartition(name, 0): 0 for name in (topic, other)})
    rows = read(consumer, 20)
    assert {(row["topic"], row["partition"], row["offset"]) for row in rows} == {
        (name, 0, offset) for name in (topic, other) for offset in range(10)
    }
    consumer.close()


@pytest.mark.parametrize("kind", [FetchConsumer, KafkaBatchConsumer])
def test_partitions_apart_have_their_own_rows_in_order(
    worker: dict[str, str], topic: str, kind: type[FetchConsumer | KafkaBatchConsumer]
) -> None:
    write(worker, topic, 1_000)
    consumer, found = kind(worker), defaultdict[TopicPartition, list[bytes]](list)
    consumer.assign({TopicPartition(topic, number): 0 for number in range(2)})

    def enough() -> bool:
        for place, rows in polled_apart(consumer, 1_000, 200):
            found[place] += rows.column("value").to_pylist()
        return sum(map(len, found.values())) >= 1_000

    until(enough, limit_s=60)
    consumer.close()
    values = [b"%d" % number * 20 for number in range(1_000)]
    assert found == {TopicPartition(topic, 0): values[:700], TopicPartition(topic, 1): values[700:]}


def test_positions_and_columns_of_an_empty_poll(worker: dict[str, str], topic: str) -> None:
    consumer = FetchConsumer(worker)
    consumer.assign({TopicPartition(topic, 1): -2})
    assert consumer.poll(10, 20) is None
    assert consumer.position(TopicPartition(topic, 1)) == 0
    write(worker, topic, 1_400)
    batch = None

    def there() -> bool:
        nonlocal batch
        batch = consumer.poll(1, 200)
        return batch is not None

    until(there)
    assert isinstance(batch, pa.RecordBatch)
    assert consumer.position(TopicPartition(topic, 1)) == 1
    consumer.close()
