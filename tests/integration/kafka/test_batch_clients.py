"""The Kafka batch clients keep the contract, and what only a real broker can show."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka, free_ports
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.client_properties import sink_consumer_properties, source_producer_properties
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError, TimedOutError
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.executor_clients import RECORD_REPORTS, SkipsRefused
from spark_connect_rt.kafka.reading.batch_consumer import KafkaBatchConsumer
from spark_connect_rt.kafka.reading.fetch_consumer import FetchConsumer
from spark_connect_rt.kafka.reading.log_moves import LogMove, LogWatch
from spark_connect_rt.kafka.writing.batch_producer import KafkaBatchProducer
from spark_connect_rt.records.pipeline.columns import produce_batch
from spark_connect_rt.testing.worker_settings import worker_settings
from tests.contract.batch_clients_contract import BEGINNING, LIMIT_MS, BatchClientsContract, rows_batch
from tests.contract.compacted_log_contract import fresh_name, until
from tests.topics import add_partitions


class KafkaClients(BatchClientsContract):
    """The contract on a real broker."""

    consumer_kind: type[KafkaBatchConsumer | FetchConsumer] = KafkaBatchConsumer

    @pytest.fixture(autouse=True)
    def _cluster(self, broker: EmbeddedKafka) -> Iterator[None]:
        self.worker = {"bootstrap.servers": broker.bootstrap_servers}
        self.admin = KafkaAdmin(self.worker)
        yield
        del self.admin  # pytest keeps the instance until the end, and a client has twenty file descriptors

    def new_topic(self, name: str, partitions: int) -> None:
        self.admin.create_topic(TopicSpec(name, partitions, 1))

    def new_consumer(self) -> KafkaBatchConsumer | FetchConsumer:
        return self.consumer_kind(sink_consumer_properties(worker_settings(self.worker), {}, "c", 0))


class TestKafkaBatchClients(KafkaClients):
    def new_producer(self, **overrides: str) -> KafkaBatchProducer:
        given = {f"producer.override.{name}": value for name, value in overrides.items()}
        return KafkaBatchProducer(source_producer_properties(worker_settings(self.worker), given, "c", 0))

    def test_a_full_buffer_delays_but_loses_and_reorders_nothing(self, topic: str) -> None:
        producer = self.new_producer(**{"queue.buffering.max.messages": "100"})
        values = [b"%d" % n for n in range(5_000)]
        for start in range(0, 5_000, 1_000):
            rows = [{"topic": topic, "partition": 0, "value": v} for v in values[start : start + 1_000]]
            producer.produce(rows_batch(rows))
        keyed = pa.array([b"k"] * 500, pa.binary())
        producer.produce(produce_batch(topic, pa.array(values[:500], pa.binary()), keyed))
        producer.produce(produce_batch(topic, pa.array(values[:500], pa.binary())))
        producer.flush(LIMIT_MS)
        producer.close()
        got = self.values(topic, 6_000)
        assert len(got) == 6_000
        consumer = self.new_consumer()
        consumer.assign({TopicPartition(topic, 0): 0})
        assert [row["value"] for row in self.read(consumer, 5_000)][:5_000] == values
        consumer.close()

    def test_deleted_records_are_counted_and_may_be_refused(self, topic: str) -> None:
        self.written(rows_batch([{"topic": topic, "partition": 0, "value": b"%d" % n} for n in range(5)]))
        self.admin.delete_records(topic, {0: 3})
        place, moves, refuses = TopicPartition(topic, 0), list[LogMove](), [True]

        def decide(move: LogMove) -> None:
            moves.append(move)
            if refuses[0]:
                raise ConnectError("refused")

        properties = sink_consumer_properties(worker_settings(self.worker), {}, "c", 0)
        consumer = self.consumer_kind(properties, LogWatch(decide=decide))
        consumer.assign({place: 1})
        for _ in range(2):
            with pytest.raises(ConnectError, match="refused"):
                self.read(consumer, 1)
        refuses[0] = False
        assert [row["value"] for row in self.read(consumer, 2)] == [b"3", b"4"]
        assert {(log_move.wanted, log_move.found, log_move.missed) for log_move in moves} == {(1, 3, 2)}
        consumer.close()

    @pytest.mark.parametrize("start", [0, BEGINNING])
    def test_a_partition_added_while_the_topic_is_read(self, topic: str, start: int) -> None:
        consumer = self.new_consumer()
        consumer.assign({TopicPartition(topic, 0): start})
        consumer.poll(10, 100)
        add_partitions(self.worker["bootstrap.servers"], topic, 3)
        self.written(rows_batch([{"topic": topic, "partition": 2, "value": b"added"}]))
        consumer.assign({TopicPartition(topic, 2): start})
        assert [row["value"] for row in self.read(consumer, 1)] == [b"added"]
        consumer.close()

    def test_a_record_too_large_for_the_client_is_a_data_error(self, topic: str) -> None:
        producer = self.new_producer()
        with pytest.raises(DataError, match="MSG_SIZE_TOO_LARGE"):
            producer.produce(produce_batch(topic, pa.array([b"x" * 2_000_000], pa.binary())))
        producer.close()

    def test_a_record_too_large_for_the_topic_fails_the_flush_and_stays_failed(self) -> None:
        topic = fresh_name("small")
        self.admin.create_topic(TopicSpec(topic, 1, 1, {"max.message.bytes": "2000"}))
        producer = self.new_producer()
        producer.produce(produce_batch(topic, pa.array([b"x" * 50_000], pa.binary())))
        for _ in range(2):
            with pytest.raises(DataError, match=f"producing to {topic}-0"):
                producer.flush(LIMIT_MS)
        producer.close()

    def test_records_that_are_too_large_are_left_out_and_the_others_are_written(self) -> None:
        topic = fresh_name("small")
        self.admin.create_topic(TopicSpec(topic, 1, 1, {"max.message.bytes": "2000"}))
        producer = self.new_producer(**RECORD_REPORTS)
        assert isinstance(producer, SkipsRefused)
        producer.skip_refused()
        values = [b"1", b"x" * 2_000_000, b"2"]
        producer.produce(produce_batch(topic, pa.array(values, pa.binary())))
        producer.flush(LIMIT_MS)
        producer.produce(produce_batch(topic, pa.array([b"x" * 50_000], pa.binary())))
        producer.flush(LIMIT_MS)
        assert [record_metadata and record_metadata.offset for record_metadata in producer.metadata()] == [
            0,
            None,
            1,
            None,
        ]
        refused = producer.refused()
        assert [isinstance(record.error, DataError) for record in refused] == [True, True]
        assert [(record.topic, record.size, record.value) for record in refused] == [
            (topic, 2_000_000, b"x" * 1024),
            (topic, 50_000, b"x" * 50_000),
        ]
        producer.close()

    def test_a_partition_that_does_not_exist_is_a_data_error(self, topic: str) -> None:
        producer = self.new_producer()
        producer.produce(produce_batch(topic, pa.array([b"known now"])))
        producer.flush(LIMIT_MS)
        with pytest.raises(DataError, match="_UNKNOWN_PARTITION"):
            producer.produce(rows_batch([{"topic": topic, "partition": 9, "value": b"x"}]))
        producer.close()

    def test_idempotence_and_compression_can_be_set(self, topic: str) -> None:
        producer = self.new_producer(
            **{"enable.idempotence": "true", "compression.type": "zstd", "compression.zstd.level": "3"}
        )
        producer.produce(produce_batch(topic, pa.array([b"x" * 100] * 100, pa.binary())))
        producer.flush(LIMIT_MS)
        producer.close()
        assert len(self.values(topic, 100)) == 100

    def test_the_position_passes_transaction_markers(self, topic: str) -> None:
        only = TopicPartition(topic, 0)
        producer = Producer({**self.worker, "transactional.id": topic})
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce(topic, b"1", partition=0)
        producer.commit_transaction(20)
        consumer = self.new_consumer()
        consumer.assign({only: -1})
        assert [row["value"] for row in self.read(consumer, 1)] == [b"1"]

        def at_end() -> bool:
            assert consumer.poll(10, 50) is None
            return consumer.position(only) == consumer.end_offsets([only])[only] == 2

        until(at_end)
        consumer.close()

    def test_reading_a_topic_that_is_not_there_is_refused(self) -> None:
        consumer = self.new_consumer()
        with pytest.raises(ConnectError, match=r"none-.*UNKNOWN_"):
            consumer.assign({TopicPartition(fresh_name("none"), 3): -1})
        consumer.close()


class TestFetchConsumer(TestKafkaBatchClients):
    """Whole record batches instead of one message after the other: the same contract."""

    consumer_kind = FetchConsumer


def test_nothing_is_lost_silently_when_no_broker_answers() -> None:
    worker = {"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"}
    producer = KafkaBatchProducer(source_producer_properties(worker_settings(worker), {}, "c", 0))
    producer.produce(produce_batch("t", pa.array(["x"])))
    with pytest.raises(TimedOutError, match="1 records not acknowledged in 300 ms"):
        producer.flush(300)
    producer.close()


def test_a_bad_value_names_the_setting() -> None:
    with pytest.raises(BadConfigError, match=r"linger\.ms"):
        KafkaBatchProducer({"bootstrap.servers": "127.0.0.1:1", "linger.ms": "soon"})
