"""ColumnProducer keeps the contract of batch producers, and what only a real broker can show."""

from __future__ import annotations

import itertools
import time

import pyarrow as pa
import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import free_ports
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.client_properties import source_producer_properties
from spark_connect_rt.errors import DataError, NotFoundError, TimedOutError
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.executor_clients import OFFSET_REPORTS, RECORD_REPORTS, BatchProducer, SkipsRefused
from spark_connect_rt.kafka.records.partitioning import TopicPartitioning, rows_by_partition
from spark_connect_rt.kafka.writing.batch_producer import KafkaBatchProducer
from spark_connect_rt.kafka.writing.column_producer import ColumnProducer
from spark_connect_rt.kafka.writing.column_settings import column_settings
from spark_connect_rt.kafka.writing.producers import batch_producer
from spark_connect_rt.records.pipeline.columns import PARTITION, TOPIC, produce_batch
from spark_connect_rt.testing.worker_settings import worker_settings
from tests.contract.batch_clients_contract import LIMIT_MS, rows_batch
from tests.contract.compacted_log_contract import fresh_name, until
from tests.integration.kafka.secure_kafka import SCRAM, SecureKafka
from tests.integration.kafka.test_batch_clients import KafkaClients
from tests.integration.kafka.test_group_security import jaas
from tests.topics import add_partitions

LONG_MS = 60_000


def new_producer(bootstrap_servers: str, **overrides: str) -> ColumnProducer:
    given = {f"producer.override.{name}": value for name, value in overrides.items()}
    properties = source_producer_properties(worker_settings({"bootstrap.servers": bootstrap_servers}), given, "c", 0)
    settings = column_settings(properties)
    assert settings is not None
    return ColumnProducer(settings)


def values_batch(topic: str, values: list[bytes]) -> pa.RecordBatch:
    """Return rows of partition 0."""
    return rows_batch([{"value": value} for value in values], {TOPIC: topic.encode(), PARTITION: b"0"})


class TestColumnProducer(KafkaClients):
    def new_producer(self, **overrides: str) -> ColumnProducer:
        return new_producer(self.worker["bootstrap.servers"], **overrides)

    def first_partition(self, topic: str, count: int) -> list[bytes | None]:
        consumer = self.new_consumer()
        consumer.assign({TopicPartition(topic, 0): 0})
        values = [row["value"] for row in self.read(consumer, count)]
        consumer.close()
        return values

    def test_each_record_s_place_is_known_in_whatever_batches_they_were_sent(self) -> None:
        topic = fresh_name("placed")
        self.admin.create_topic(TopicSpec(topic, 2, 1, {"max.message.bytes": "2000"}))  # batches are halved, too
        rows = [{"topic": topic, "partition": n % 2, "value": b"%04d" % n * 30} for n in range(200)]
        producer = self.new_producer(**RECORD_REPORTS)
        found = []
        for first in (0, 150):
            producer.produce(rows_batch(rows[first : first + 50]))
            producer.produce(rows_batch(rows[first + 50 : first + 150]))
            producer.flush(LONG_MS)
            found += producer.metadata()
        producer.close()
        assert [record_metadata and record_metadata[:3] for record_metadata in found] == [
            (topic, n % 2, n // 2) for n in range(200)
        ]
        stamps = {record_metadata.timestamp_ms for record_metadata in found if record_metadata is not None}
        assert all(abs(stamp - time.time() * 1000) < LONG_MS for stamp in stamps if stamp)

    def test_a_topic_with_the_broker_s_time_says_that_time(self) -> None:
        topic = fresh_name("appended")
        self.admin.create_topic(TopicSpec(topic, 1, 1, {"message.timestamp.type": "LogAppendTime"}))
        producer = self.new_producer(**RECORD_REPORTS)
        producer.produce(rows_batch([{"topic": topic, "partition": 0, "value": b"v", "timestamp": 7_000}]))
        producer.flush(LONG_MS)
        (found,) = producer.metadata()
        producer.close()
        assert found is not None
        assert found.timestamp_ms is not None
        assert abs(found.timestamp_ms - time.time() * 1000) < LONG_MS

    @pytest.mark.parametrize(
        "settings",
        [{"buffer.memory": "20000"}, {"batch.size": "500"}, {"batch.size": "0"}, {"max.request.size": "4000"}],
    )
    def test_small_buffers_and_batches_delay_but_lose_and_reorder_nothing(
        self, topic: str, settings: dict[str, str]
    ) -> None:
        values = [b"%d" % n for n in range(1_000)]
        producer = self.new_producer(**settings, **OFFSET_REPORTS)
        for first in range(0, 1_000, 100):
            producer.produce(values_batch(topic, values[first : first + 100]))
        producer.flush(LONG_MS)
        assert producer.delivered() == [(topic, 0, 0, 1_000)]
        producer.close()
        assert self.first_partition(topic, 1_000) == values

    @pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
    def test_a_broker_reads_every_codec(self, topic: str, codec: str) -> None:
        values = [b"%d" % n + b"x" * 100 for n in range(2_000)]
        producer = self.new_producer(**{"compression.type": codec})
        producer.produce(values_batch(topic, values))
        producer.flush(LIMIT_MS)
        producer.close()
        assert self.first_partition(topic, 2_000) == values

    def test_rows_of_many_partitions_keep_their_order_in_each(self) -> None:
        topic = fresh_name("many")
        self.new_topic(topic, 5)
        rows = [{"topic": topic, "partition": n % 5, "value": b"%d" % n} for n in range(5_000)]
        self.written(rows_batch(rows[:3_000]), rows_batch(rows[3_000:]))
        for partition in range(5):
            consumer = self.new_consumer()
            consumer.assign({TopicPartition(topic, partition): 0})
            got = [row["value"] for row in self.read(consumer, 1_000)]
            consumer.close()
            assert got == [b"%d" % n for n in range(partition, 5_000, 5)]

    def test_keys_go_where_the_other_producer_sends_them(self, topic: str) -> None:
        keys = pa.array([f"key-{n}" for n in range(50)])
        self.written(produce_batch(topic, keys, keys))
        other = fresh_name("batch")
        self.new_topic(other, 2)
        librdkafka = KafkaBatchProducer(self.worker)
        librdkafka.produce(produce_batch(other, keys, keys))
        librdkafka.flush(LIMIT_MS)
        librdkafka.close()
        placed = []
        for name in (topic, other):
            consumer = self.new_consumer()
            consumer.assign({TopicPartition(name, number): 0 for number in range(2)})
            placed.append({row["key"]: row["partition"] for row in self.read(consumer, 50)})
            consumer.close()
        assert placed[0] == placed[1]
        assert set(placed[0].values()) == {0, 1}

    def test_batches_larger_than_the_topic_takes_are_halved(self) -> None:
        topic = fresh_name("small")
        self.admin.create_topic(TopicSpec(topic, 1, 1, {"max.message.bytes": "2000"}))
        values = [b"%04d" % n * 30 for n in range(200)]
        producer = self.new_producer()
        producer.produce(values_batch(topic, values))
        producer.flush(LONG_MS)
        producer.close()
        assert self.first_partition(topic, 200) == values

    def test_a_partition_that_is_added_later_is_found(self, topic: str) -> None:
        producer = self.new_producer()
        producer.produce(values_batch(topic, [b"known now"]))
        producer.flush(LIMIT_MS)
        add_partitions(self.worker["bootstrap.servers"], topic, 3)
        producer.produce(rows_batch([{"topic": topic, "partition": 2, "value": b"added"}]))
        producer.flush(LONG_MS)
        producer.close()

    def test_a_partition_that_does_not_exist_is_a_data_error_that_stays(self, topic: str) -> None:
        producer = self.new_producer()
        producer.produce(rows_batch([{"topic": topic, "partition": 9, "value": b"x"}]))
        for _ in range(2):
            with pytest.raises(DataError, match=rf"producing to {topic}-9.*_UNKNOWN_PARTITION"):
                producer.flush(LONG_MS)
        with pytest.raises(DataError, match="_UNKNOWN_PARTITION"):
            producer.produce(values_batch(topic, [b"x"]))
        producer.close()

    def test_a_topic_that_does_not_exist_is_not_found(self) -> None:
        producer = self.new_producer(**{"request.timeout.ms": "1000"})
        topic = fresh_name("not a name")  # blanks: no broker makes it
        producer.produce(values_batch(topic, [b"x"]))
        with pytest.raises(NotFoundError, match="UNKNOWN_TOPIC_OR_PART"):
            producer.flush(LONG_MS)
        producer.close()

    def test_a_record_too_large_for_the_client_is_a_data_error(self, topic: str) -> None:
        producer = self.new_producer()
        with pytest.raises(DataError, match="MSG_SIZE_TOO_LARGE"):
            producer.produce(values_batch(topic, [b"x" * 2_000_000]))
        producer.close()

    def test_a_record_too_large_for_the_topic_fails_the_flush_and_stays_failed(self) -> None:
        topic = fresh_name("small")
        self.admin.create_topic(TopicSpec(topic, 1, 1, {"max.message.bytes": "2000"}))
        producer = self.new_producer()
        producer.produce(values_batch(topic, [b"small", b"x" * 50_000]))
        for _ in range(2):
            with pytest.raises(DataError, match=f"producing to {topic}-0.*MSG_SIZE_TOO_LARGE"):
                producer.flush(LIMIT_MS)
        producer.close()

    def test_refused_records_are_left_out_and_the_rest_of_their_batch_is_written(self) -> None:
        small, compacted = fresh_name("small"), fresh_name("compacted")
        self.admin.create_topic(TopicSpec(small, 1, 1, {"max.message.bytes": "2000"}))
        self.admin.create_topic(TopicSpec(compacted, 1, 1, {"cleanup.policy": "compact"}))
        producer = self.new_producer(**RECORD_REPORTS)
        assert isinstance(producer, SkipsRefused)
        producer.skip_refused()
        producer.produce(values_batch(small, [b"1", b"x" * 2_000_000, b"2", b"x" * 50_000, b"3"]))
        keyed = [{"key": None if n == 1 else b"k", "value": b"%d" % n} for n in range(4)]
        producer.produce(rows_batch(keyed, {TOPIC: compacted.encode(), PARTITION: b"0"}))
        producer.flush(LONG_MS)
        places = [
            record_metadata and (record_metadata.topic, record_metadata.offset)
            for record_metadata in producer.metadata()
        ]
        found = producer.refused()
        refused = [str(record.error) for record in found]
        producer.close()
        kept = {(record.topic, record.partition, record.size, len(record.value or b"")) for record in found}
        assert {(small, 0, 50_000, 50_000), (compacted, 0, 1, 1)} < kept
        assert {(topic, size, kept) for topic, _, size, kept in kept if size > 50_000} == {(small, 2_000_000, 1024)}
        in_small = [(small, 0), None, (small, 1), None, (small, 2)]
        assert places == [*in_small, (compacted, 0), None, (compacted, 1), (compacted, 2)]
        assert self.first_partition(small, 3) == [b"1", b"2", b"3"]
        assert sorted(text.split("(")[1].split(")")[0] for text in refused) == [
            "INVALID_RECORD",
            "MSG_SIZE_TOO_LARGE",
            "MSG_SIZE_TOO_LARGE",
        ]

    def test_full_batches_that_wait_are_joined_and_cut_and_keep_their_order(self, topic: str) -> None:
        values = [b"%06d" % n + b"x" * (n % 300) for n in range(60_000)]
        producer = self.new_producer(**{"batch.size": "100000"}, **OFFSET_REPORTS)
        sizes = itertools.cycle((1, 20_000, 3, 400, 7_000))
        at = 0
        while at < len(values):
            end = at + next(sizes)
            producer.produce(values_batch(topic, values[at:end]))
            at = end
        producer.flush(LONG_MS)
        assert producer.delivered() == [(topic, 0, 0, 60_000)]
        producer.close()
        assert self.first_partition(topic, 60_000) == values

    def test_offsets_that_no_caller_wants_are_not_kept(self, topic: str) -> None:
        producer = self.new_producer()
        producer.produce(values_batch(topic, [b"v"]))
        producer.flush(LIMIT_MS)
        assert producer.delivered() == []
        producer.close()


class TestTheProducerOfSourceTasks(KafkaClients):
    """Whichever writes with a task's properties: columns, or librdkafka for who wants to hear of each record."""

    def new_producer(self, **overrides: str) -> BatchProducer:
        given = {f"producer.override.{name}": value for name, value in overrides.items()}
        return batch_producer(source_producer_properties(worker_settings(self.worker), given, "c", 0))

    @pytest.mark.parametrize("overrides", [{}, {"enable.idempotence": "true"}, {"retries": "5"}])
    def test_both_write_the_same(self, overrides: dict[str, str]) -> None:
        """Keys to the same partitions, timestamps, headers and nulls alike: rows of all kinds beside those of one."""
        rows = [
            {
                "key": None if n % 7 == 0 else b"key-%d" % (n % 50),
                "value": None if n % 11 == 0 else b"%d" % n,
                "timestamp": 1_700_000_000_000 + n,
                "headers": [{"key": "h", "value": b"%d" % n}] if n % 3 == 0 else None,
                "partition": 2 if n % 7 == 0 else None,
            }
            for n in range(2_000)
        ]
        topic = fresh_name("same")
        self.new_topic(topic, 5)
        producer = self.new_producer(**overrides)
        assert isinstance(producer, KafkaBatchProducer if overrides else ColumnProducer)
        producer.produce(rows_batch(rows, {TOPIC: topic.encode()}))
        producer.flush(LIMIT_MS)
        producer.close()
        consumer = self.new_consumer()
        consumer.assign({TopicPartition(topic, number): 0 for number in range(5)})
        found = self.read(consumer, 2_000)
        consumer.close()
        expected = {
            (place.partition, *(str(row[name] or None) for name in ("key", "value", "timestamp", "headers")))
            for place, placed in rows_by_partition(
                rows_batch(rows, {TOPIC: topic.encode()}), {topic: TopicPartitioning(5, 2)}
            )
            for row in placed.to_pylist()
        }
        names = ("partition", "key", "value", "timestamp", "headers")
        assert {(row["partition"], *(str(row[name] or None) for name in names[1:])) for row in found} == expected

    @pytest.mark.parametrize("overrides", [{}, {"retries": "5"}])
    def test_a_topic_that_a_broker_makes_at_the_first_record(self, overrides: dict[str, str]) -> None:
        topic = fresh_name("made")
        producer = self.new_producer(**overrides)
        producer.produce(values_batch(topic, [b"first"]))
        producer.flush(LONG_MS)
        producer.close()
        consumer = self.new_consumer()
        consumer.assign({TopicPartition(topic, 0): 0})
        assert [row["value"] for row in self.read(consumer, 1)] == [b"first"]
        consumer.close()


class TestNobodyAnswers:
    """All of it without a broker."""

    @pytest.fixture
    def nowhere(self) -> str:
        return f"127.0.0.1:{free_ports(1)[0]}"

    def test_nothing_is_lost_silently(self, nowhere: str) -> None:
        producer = new_producer(nowhere)
        producer.produce(produce_batch("t", pa.array(["x"])))
        with pytest.raises(TimedOutError, match="1 records not acknowledged in 300 ms"):
            producer.flush(300)
        until(lambda: "Unable to bootstrap" in _complaint(producer))
        producer.close()

    def test_a_full_buffer_is_waited_for_up_to_the_timeout(self, nowhere: str) -> None:
        producer = new_producer(nowhere, **{"max.block.ms": "100", "buffer.memory": "1000"})
        producer.produce(produce_batch("t", pa.array(["x" * 900])))
        with pytest.raises(TimedOutError, match=r"no room in the producer's buffer for max\.block\.ms=100"):
            producer.produce(produce_batch("t", pa.array(["x" * 900])))
        producer.close()


def _complaint(producer: ColumnProducer) -> str:
    with pytest.raises(TimedOutError) as raised:
        producer.flush(1)
    return str(raised.value)


def test_it_speaks_tls_and_scram(secure: SecureKafka) -> None:
    topic = fresh_name("secret")
    KafkaAdmin({"bootstrap.servers": secure.kafka.bootstrap_servers}).create_topic(TopicSpec(topic, 1, 1))
    own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(secure.client)}
    scram = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas(SCRAM)}
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(secure.authority)}
    for number, (listener, protocol, more) in enumerate([("TLS", "SSL", own), ("SCRAM", "SASL_SSL", scram)]):
        servers = f"127.0.0.1:{secure.ports[listener]}"
        producer = new_producer(servers, **OFFSET_REPORTS, **trust, **more, **{"security.protocol": protocol})
        producer.produce(values_batch(topic, [b"x"]))
        producer.flush(LONG_MS)
        assert producer.delivered() == [(topic, 0, number, 1)]
        producer.close()
