"""BatchCopier between topics of a real broker: a consumer sees the same, whatever batches are like."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.client_properties import source_producer_properties
from spark_connect_rt.errors import DataError
from spark_connect_rt.kafka.copying.batch_copier import BatchCopier, obstacles
from spark_connect_rt.kafka.records.record_batches import whole_batches
from spark_connect_rt.testing.worker_settings import worker_settings
from tests.contract.compacted_log_contract import fresh_name, until
from tests.integration.kafka.secure_kafka import SecureKafka
from tests.topics import read_records

PARTITIONS = 3
WRITTEN_MS = int(time.time() * 1_000) - 7_200_000  # years of age, and the broker would delete them


class Copying:
    """A topic, its copy, and what the copier says of it."""

    def __init__(self, servers: str, source: dict[str, str] | None = None, **target: str) -> None:
        self.servers = servers
        self.topic = fresh_name("upstream")
        self.copy = f"A.{self.topic}"
        self.runs: list[tuple[int, int, int, int]] = []  # partition, at the source, at the target, records
        admin = AdminClient({"bootstrap.servers": servers})
        config = {name.replace("_", "."): value for name, value in target.items()}
        for name, settings in ((self.topic, source or {}), (self.copy, config)):
            admin.create_topics([NewTopic(name, PARTITIONS, 1, config=settings)])[name].result(30)

    def write(self, count: int, **settings: object) -> None:
        """Write records of all kinds; with a transactional.id every third transaction is aborted."""
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5, **settings})
        transactions = "transactional.id" in settings
        if transactions:
            producer.init_transactions()
        for number in range(count):
            if transactions and number % 50 == 0:
                producer.begin_transaction()
            value = None if number % 11 == 0 else b"%06d" % number * (number % 40)
            headers = [("h", b"%d" % number), ("none", None)] if number % 3 == 0 else None
            key = b"k%d" % number if number % 2 else None
            producer.produce(
                self.topic, value, key, number % PARTITIONS, headers=headers, timestamp=WRITTEN_MS + number
            )
            producer.poll(0)
            if transactions and number % 50 == 49:
                producer.flush(30)
                (producer.abort_transaction if number // 50 % 3 == 1 else producer.commit_transaction)()
        assert producer.flush(60) == 0

    def run(self, records: int, start: int = 0, *, consumer: dict[str, str] | None = None, **overrides: str) -> None:
        """Copy until so many records have arrived."""
        given = {f"producer.override.{name.replace('_', '.')}": value for name, value in overrides.items()}
        worker = worker_settings({"bootstrap.servers": self.servers})
        producer = source_producer_properties(worker, given, "c", 0)
        reading = {"bootstrap.servers": self.servers, "auto.offset.reset": "earliest", **(consumer or {})}
        assert obstacles(reading, producer) == []
        copier = BatchCopier(
            reading, producer, lambda partition: TopicPartition(f"A.{partition.topic}", partition.partition)
        )
        copier.assign({TopicPartition(self.topic, number): start for number in range(PARTITIONS)})
        found = 0

        def enough() -> bool:
            nonlocal found
            for copied in copier.poll(50):
                found += copied.records
                self.runs += [(copied.source.partition, *run) for run in copied.runs]
                assert copied.last == copied.runs[-1][0] + copied.runs[-1][2] - 1
            return found >= records

        try:
            until(enough, limit_s=60)
            assert (found, copier.under_way()) == (records, False)
        finally:
            copier.close()

    def digest(self, topic: str, count: int) -> tuple[int, str]:
        """Return how many committed records a topic has, up to ``count``, and SHA-256 of all that is in them."""
        found = read_records(self.servers, topic, count)
        digest = hashlib.sha256()
        for record in sorted(found, key=lambda message: (message.partition(), message.offset())):
            digest.update(
                repr((record.partition(), record.key(), record.value(), record.timestamp(), record.headers())).encode()
            )
        return len(found), digest.hexdigest()

    def holds_the_same(self, count: int) -> bool:
        copied = self.digest(self.copy, count)
        assert copied[0] == count
        return copied == self.digest(self.topic, count)


@pytest.fixture
def copying(broker: EmbeddedKafka) -> Callable[..., Copying]:
    return lambda *arguments, **target: Copying(broker.bootstrap_servers, *arguments, **target)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_same_bytes_arrive(copying: Callable[..., Copying], codec: str) -> None:
    copier = copying()
    copier.write(6_000, **{"compression.type": codec, "enable.idempotence": True})
    copier.run(6_000)
    assert copier.holds_the_same(6_000)
    assert sorted(copier.runs)[0][:3] == (0, 0, 0)
    assert all(upstream == downstream for _, upstream, downstream, _ in copier.runs)


def test_small_requests_and_small_answers_make_no_difference(copying: Callable[..., Copying]) -> None:
    copier = copying()
    copier.write(6_000, **{"batch.size": 3_000})
    sizes = {"fetch.max.bytes": "9000", "max.partition.fetch.bytes": "2000"}
    copier.run(6_000, consumer=sizes, max_request_size="20000", buffer_memory="40000")
    assert copier.holds_the_same(6_000)


def test_batch_too_large_for_the_copy_is_split(copying: Callable[..., Copying]) -> None:
    copier = copying(max_message_bytes="2000")
    copier.write(6_000)
    copier.run(6_000)
    assert copier.holds_the_same(6_000)


def test_another_compression_that_is_asked_for_takes_batches_apart(copying: Callable[..., Copying]) -> None:
    copier = copying()
    copier.write(3_000, **{"compression.type": "lz4"})
    copier.run(3_000, compression_type="gzip")
    assert copier.holds_the_same(3_000)


def test_times_of_a_log_that_gives_them_itself_are_kept(copying: Callable[..., Copying]) -> None:
    copier = copying({"message.timestamp.type": "LogAppendTime"})
    copier.write(1_000)
    copier.run(1_000)
    told = [
        [record.timestamp()[1] for record in read_records(copier.servers, name, 1_000)]
        for name in (copier.topic, copier.copy)
    ]
    assert sorted(told[0]) == sorted(told[1])


def test_records_of_one_each_in_a_batch(copying: Callable[..., Copying]) -> None:
    copier = copying()
    copier.write(2_000, **{"batch.num.messages": 1})
    copier.run(2_000)
    assert copier.holds_the_same(2_000)


def test_only_committed_records_are_copied_and_their_offsets_are_right(copying: Callable[..., Copying]) -> None:
    copier = copying()
    copier.write(900, **{"transactional.id": copier.topic})
    copier.run(600, consumer={"isolation.level": "read_committed"})
    assert copier.holds_the_same(600)
    upstream = {
        (record.partition(), record.offset()): record.key()
        for record in read_records(copier.servers, copier.topic, 600)
    }
    downstream = {
        (record.partition(), record.offset()): record.key() for record in read_records(copier.servers, copier.copy, 600)
    }
    pairs = {(part, at + n): (part, to + n) for part, at, to, count in copier.runs for n in range(count)}
    assert len(pairs) == 600
    assert all(upstream[here] == downstream[there] for here, there in pairs.items())


def test_it_begins_in_the_middle_of_a_batch(copying: Callable[..., Copying]) -> None:
    copier = copying()
    copier.write(3_000)
    copier.run(3_000 - 3 * 123, start=123)
    assert min(upstream for _, upstream, _, _ in copier.runs) == 123
    found = read_records(copier.servers, copier.copy, 3_000 - 3 * 123)
    assert {record.timestamp()[1] for record in found} == set(range(WRITTEN_MS + 369, WRITTEN_MS + 3_000))


@pytest.mark.parametrize("consumer", [{}, {"check.crcs": "true"}], ids=["the target's check", "our own"])
def test_batch_damaged_on_the_source_disk_is_reported_and_not_copied(
    copying: Callable[..., Copying], broker: EmbeddedKafka, consumer: dict[str, str]
) -> None:
    copier = copying()
    producer = Producer({"bootstrap.servers": copier.servers, "linger.ms": 100, "batch.num.messages": 10})
    for _ in range(30):  # three batches, none so small that it is joined with others
        producer.produce(copier.topic, b"x" * 1_000, partition=0)
    assert producer.flush(60) == 0
    (log,) = (broker.directory / "logs" / f"{copier.topic}-0").glob("*.log")
    content = bytearray(log.read_bytes())
    *_, last = whole_batches(content)
    content[last.end - 1] ^= 1
    log.write_bytes(content)
    with pytest.raises(DataError, match=f"offset {last.base_offset} is damaged"):
        copier.run(30, consumer=consumer)
    offsets = [record.offset() for record in read_records(copier.servers, copier.copy, 30, limit_s=2)]
    assert offsets == list(range(len(offsets)))
    assert len(offsets) <= last.base_offset


def test_both_sides_speak_tls(secure: SecureKafka) -> None:
    """What is sent of batches is then the transport's matter, not the socket's; large ones fill what it takes."""
    copier = Copying(secure.kafka.bootstrap_servers)
    copier.write(6_000, **{"linger.ms": 100})
    own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(secure.client), "security.protocol": "SSL"}
    settings = secure.settings("TLS", **own)
    plain, copier.servers = copier.servers, settings["bootstrap.servers"]
    security = {name: text for name, text in settings.items() if name.startswith(("ssl.", "security."))}
    copier.run(6_000, 0, consumer=settings, **security)
    copier.servers = plain
    assert copier.holds_the_same(6_000)


def test_settings_that_it_does_not_honour_are_named() -> None:
    producer = source_producer_properties(worker_settings({"bootstrap.servers": "k:1"}), {}, "c", 0)
    assert obstacles({"bootstrap.servers": "k:1"}, producer) == []
    assert obstacles({"client.rack": "r"}, {**producer, "enable.idempotence": "true"}) == [
        "client.rack",
        "enable.idempotence",
    ]
    assert obstacles({}, {**producer, "transactional.id": "t", "enable.idempotence": "true"}) == ["transactional.id"]
