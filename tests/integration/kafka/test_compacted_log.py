"""The Kafka log keeps the contract, and what only a real broker can show."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest.mock import MagicMock

import pytest
from aiokafka.partitioner import murmur2
from confluent_kafka import KafkaException, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka, free_ports
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.client_properties import (
    LogClientProperties,
    leader_producer_properties,
    log_client_properties,
)
from spark_connect_rt.errors import BadConfigError, RetriableError
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.logs import compacted_log, log_clients
from spark_connect_rt.kafka.logs.compacted_log import KafkaCompactedLog
from spark_connect_rt.kafka.logs.topic_records import read_topic
from spark_connect_rt.kafka.writing.fenced_writer import KafkaFencedWriter
from spark_connect_rt.testing.worker_settings import worker_settings
from spark_connect_rt.topics.compacted_log import LogRecord
from tests.contract.compacted_log_contract import LIMIT_MS, CompactedLogContract, Seen, fresh_name, until
from tests.contract.fenced_writer_contract import FencedWriterContract


def partition_of(key: bytes) -> int:
    """Return where a producer places a key in a topic of four partitions."""
    return int(murmur2(key) & 0x7FFFFFFF) % 4


def clients_of(servers: str, **worker: str) -> LogClientProperties:
    return log_client_properties(worker_settings({"bootstrap.servers": servers, "group.id": "g", **worker}), "configs")


@pytest.fixture(scope="module")
def admin(broker: EmbeddedKafka) -> Iterator[KafkaAdmin]:
    made = KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers})
    yield made
    made.close()


class TestKafkaFencedWriter(FencedWriterContract):
    @pytest.fixture(autouse=True)
    def _cluster(self, broker: EmbeddedKafka, admin: KafkaAdmin) -> None:
        self.broker, self.admin = broker, admin

    def new_log(self, topic: str, partitions: int = 1) -> KafkaCompactedLog:
        clients = clients_of(self.broker.bootstrap_servers)
        return KafkaCompactedLog(TopicSpec(topic, partitions, 1), self.admin, clients)

    def new_writer(self, topic: str, transactional_id: str) -> KafkaFencedWriter:
        properties = leader_producer_properties(
            worker_settings({"bootstrap.servers": self.broker.bootstrap_servers, "group.id": "g"})
        )
        return KafkaFencedWriter(topic, {**properties, "transactional.id": transactional_id})

    def test_the_end_of_a_transaction_is_not_waited_for(self, topic: str) -> None:
        """A fetch that finds nothing is held for half a minute here: only by its answer would the reader know."""
        clients = clients_of(self.broker.bootstrap_servers, **{"exactly.once.source.support": "enabled"})
        clients.consumer["fetch.max.wait.ms"] = "30000"
        log, seen = KafkaCompactedLog(TopicSpec(topic, 2, 1), self.admin, clients), Seen()
        leader = self.new_writer(topic, topic)
        log.start(seen)
        leader.claim(LIMIT_MS)
        for number in range(3):
            leader.write([(b"a", b"%d" % number), (b"b", b"")], LIMIT_MS)
            log.read_to_end(LIMIT_MS)
            assert seen.pairs()[-2:] == [(b"a", b"%d" % number), (b"b", b"")]
            log.read_to_end(LIMIT_MS)
        log.stop()

    def test_transaction_left_open_by_a_fenced_leader_is_aborted_and_never_visible(self, topic: str) -> None:
        worker = {"exactly.once.source.support": "enabled"}
        clients = clients_of(self.broker.bootstrap_servers, **worker)
        log, seen = KafkaCompactedLog(TopicSpec(topic, 1, 1), self.admin, clients), Seen()
        log.start(seen)
        paused = Producer({"bootstrap.servers": self.broker.bootstrap_servers, "transactional.id": topic})
        paused.init_transactions(20)
        paused.begin_transaction()
        paused.produce(topic, b"zombie", b"a")
        paused.flush(20)  # in the topic, not committed: its worker was suspended here
        assert read_topic(clients.consumer, topic, 1) == []  # commands do not wait for it
        leader = self.new_writer(topic, topic)
        leader.claim(LIMIT_MS)
        leader.write([(b"a", b"leader")], LIMIT_MS)
        with pytest.raises(KafkaException):
            paused.commit_transaction(20)
        log.read_to_end(LIMIT_MS)
        log.stop()
        assert seen.pairs() == [(b"a", b"leader")]


class TestKafkaCompactedLog(CompactedLogContract):
    @pytest.fixture(autouse=True)
    def _cluster(self, broker: EmbeddedKafka, admin: KafkaAdmin) -> None:
        self.broker, self.admin = broker, admin

    def new_log(self, topic: str, partitions: int = 1) -> KafkaCompactedLog:
        spec = TopicSpec(topic, partitions, 1)
        return KafkaCompactedLog(spec, self.admin, clients_of(self.broker.bootstrap_servers))

    def test_a_missing_topic_is_created_compacted(self, topic: str) -> None:
        log, _ = self.started(topic, partitions=3)
        log.stop()
        assert self.admin.cleanup_policy(topic) == "compact"
        assert self.admin.partition_count(topic) == 3

    def test_partitions_with_nothing_to_read_are_left_out_until_the_others_are_read(
        self, topic: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A fetch of these alone is held for 2 s by the broker, and the others' would come behind it."""
        first, _ = self.started(topic, partitions=4)
        first.append([(b"a", b"1")])
        first.read_to_end(LIMIT_MS)
        (written,) = [number for number, at in first._positions.items() if at]
        first.stop()
        assigned: list[set[int]] = []
        made = log_clients.make_consumer

        def spied(*arguments: Any) -> Any:
            consumer = made(*arguments)
            mock = MagicMock(wraps=consumer)
            mock.assign = lambda places: (
                assigned.append({place.partition for place in places}) or consumer.assign(places)
            )
            return mock

        monkeypatch.setattr(log_clients, "make_consumer", spied)
        log, seen = self.started(topic, partitions=4)
        assert seen.pairs() == [(b"a", b"1")]
        until(lambda: len(assigned) == 2)
        assert assigned == [{written}, {0, 1, 2, 3}]
        others = [(b"%d" % number, b"2") for number in range(20)]
        log.append(others)
        log.read_to_end(LIMIT_MS)
        log.stop()
        assert sorted(seen.pairs()) == sorted([(b"a", b"1"), *others])

    def test_a_topic_that_would_lose_records_is_refused(self, topic: str) -> None:
        self.admin.create_topic(TopicSpec(topic, 1, 1, {"cleanup.policy": "compact,delete"}))
        with pytest.raises(BadConfigError, match="must be compact"):
            self.new_log(topic).start(Seen())

    def test_a_second_partition_of_the_config_topic_is_refused(self, topic: str) -> None:
        self.admin.create_topic(TopicSpec(topic, 2, 1, {"cleanup.policy": "compact"}))
        clients = clients_of(self.broker.bootstrap_servers)
        log = KafkaCompactedLog(TopicSpec(topic, 1, 1), self.admin, clients, exact_partitions=1)
        with pytest.raises(BadConfigError, match="2 partitions, but must be 1"):
            log.start(Seen())

    def test_added_partitions_are_read_without_a_restart(self, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(compacted_log, "PARTITIONS_CHECK_S", 0.5)
        log, seen = self.started(topic)
        log.append([(b"a", b"1")])
        log.read_to_end(LIMIT_MS)
        self.add_partitions(topic, 4)
        other = Producer({"bootstrap.servers": self.broker.bootstrap_servers})
        other.produce(topic, b"2", b"a", partition=(partition_of(b"a") + 1) % 4)
        other.produce(topic, b"1", b"b", partition=3)
        other.flush(20)
        until(lambda: {(b"a", b"2"), (b"b", b"1")} <= set(seen.pairs()))
        log.append([(b"a", b"3"), (b"b", b"2")])
        log.read_to_end(LIMIT_MS)
        assert dict(seen.pairs()) == {b"a": b"3", b"b": b"2"}
        log.stop()
        again, seen = self.started(topic)
        again.stop()
        assert {key: value for key, value in dict(seen.pairs()).items() if value} == {b"a": b"3", b"b": b"2"}

    def test_leftovers_of_a_transactions_key_are_deleted_when_they_were_read(self, topic: str) -> None:
        log, _ = self.started(topic)
        log.append([(b"a", b"1")])
        log.read_to_end(LIMIT_MS)
        log.stop()
        self.add_partitions(topic, 4)
        log, seen = self.started(topic)
        home = partition_of(b"a") or 1  # a key whose place moved
        key = next(key for key in map(b"%d".__mod__, range(99)) if partition_of(key) == home)
        other = Producer({"bootstrap.servers": self.broker.bootstrap_servers})
        other.produce(topic, b"old", key, partition=0, timestamp=1_000)
        other.produce(topic, b"new", key, partition=home, timestamp=2_000)
        other.flush(20)
        log.read_to_end(LIMIT_MS)
        log.delete_leftovers([key, b"unknown"])
        until(lambda: self.admin.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 3})
        log.stop()
        again, seen = self.started(topic)
        again.stop()
        assert (key, b"new") in seen.pairs()
        (deleted,) = [record for record in read_topic(self.clients().consumer, topic, 4) if record.value is None]
        assert (deleted.partition, deleted.timestamp_ms) == (0, 1_000)

    def test_only_partition_of_the_config_topic_is_written_to_after_another_was_added(
        self, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(compacted_log, "PARTITIONS_CHECK_S", 0.2)
        clients = self.clients()
        clients.producer["metadata.max.age.ms"] = "500"
        log = KafkaCompactedLog(TopicSpec(topic, 1, 1), self.admin, clients, exact_partitions=1)
        seen = Seen()
        log.start(seen)
        self.add_partitions(topic, 4)
        until(lambda: "has 4 partitions and must have 1" in caplog.text)
        threading.Event().wait(1.0)  # the producer hears of them, too
        log.append([(b"%d" % number, b"v") for number in range(20)])
        log.read_back(LIMIT_MS)
        log.stop()
        assert [record.partition for record in seen.records] == [0] * 20

    def clients(self) -> LogClientProperties:
        return clients_of(self.broker.bootstrap_servers)

    def add_partitions(self, topic: str, count: int) -> None:
        client = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})
        client.create_partitions([NewPartitions(topic, count)])[topic].result(20)
        until(lambda: self.admin.partition_count(topic) == count)

    def test_keys_go_where_java_puts_them(self, topic: str) -> None:
        log, seen = self.started(topic, partitions=25)
        keys = [b'["c",{"filename":"a.txt"}]', b"connector-fs1", b"", b"21"]
        log.append([(key, b"v") for key in keys])
        log.read_to_end(LIMIT_MS)
        log.stop()
        # Java Utils.toPositive(Utils.murmur2(key)) % 25; murmur2 of "21" is -973932308 in Kafka's own tests
        assert {record.key: record.partition for record in seen.records}[b"21"] == 1173551340 % 25

    def test_the_end_lies_behind_transaction_markers(self, topic: str) -> None:
        log, seen = self.started(topic)
        settings = {
            "bootstrap.servers": self.broker.bootstrap_servers,
            "transactional.id": topic,
        }
        producer = Producer(settings)
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce(topic, b"1", b"a")
        producer.commit_transaction(20)
        only = TopicPartition(topic, 0)
        until(lambda: self.admin.end_offsets([only]) == {only: 2})  # the marker is written a little later
        log.read_to_end(LIMIT_MS)
        assert seen.pairs() == [(b"a", b"1")]
        log.stop()
        again, seen = self.started(topic)
        again.stop()
        assert seen.pairs() == [(b"a", b"1")]

    def test_records_deleted_from_the_beginning_do_not_stall_the_start(self, topic: str) -> None:
        self.admin.create_topic(TopicSpec(topic, 1, 1))
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers, "enable.idempotence": True})
        producer.produce(topic, b"1", b"a")
        producer.produce(topic, b"2", b"b")
        assert producer.flush(20) == 0
        self._delete_records_then_compact(topic, before=2)
        log, seen = self.started(topic)
        log.append([(b"c", b"3")])
        log.read_to_end(LIMIT_MS)
        log.stop()
        assert seen.pairs() == [(b"c", b"3")]

    def test_a_record_that_is_too_large_is_answered_and_the_log_continues(self, topic: str) -> None:
        log, seen = self.started(topic)
        answers: list[Exception | None] = []
        log.append([(b"a", b"x" * 3_000_000)], answers.append)
        with pytest.raises(RetriableError, match="MSG_SIZE_TOO_LARGE"):
            log.flush(LIMIT_MS)
        log.append([(b"a", b"1")], answers.append)
        log.read_to_end(LIMIT_MS)
        log.stop()
        assert "MSG_SIZE_TOO_LARGE" in str(answers[0])
        assert answers[1] is None
        assert seen.pairs() == [(b"a", b"1")]

    def test_many_writers_at_once_lose_nothing(self, topic: str) -> None:
        log, seen = self.started(topic, partitions=5)

        def write(writer: int) -> None:
            for n in range(200):
                log.append([(b"w%d-%d" % (writer, n), b"v")])
            log.read_to_end(LIMIT_MS)

        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        log.stop()
        assert len({record.key for record in seen.records}) == len(seen.records) == 800

    def test_a_reader_that_hangs_does_not_keep_its_worker_from_stopping(
        self, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(compacted_log, "STOP_LIMIT_S", 0.3)
        log, hangs, let_go = self.new_log(topic), threading.Event(), threading.Event()

        def hang(records: Sequence[LogRecord]) -> None:
            hangs.set()
            let_go.wait(30)

        log.start(hang)
        log.append([(b"a", b"1")])
        assert hangs.wait(20)
        stopping = threading.Thread(target=log.stop, daemon=True)
        stopping.start()
        stopping.join(10)
        ended = not stopping.is_alive()
        let_go.set()
        assert ended
        assert "has not ended" in caplog.text

    def test_newest_record_counts_after_new_partitions_and_writes_remove_the_older(self, topic: str) -> None:
        key = next(key for key in (b"k%d" % number for number in range(99)) if partition_of(key))  # not in 0
        log = self.new_log(topic)
        log.start(Seen())
        log.append([(key, b"old")])
        log.flush(LIMIT_MS)
        log.stop()
        client = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})
        client.create_partitions([NewPartitions(topic, 4)])[topic].result(20)
        for value, places in ((b"new", {0: b"old"}), (b"newer", {0: None})):
            log, seen = self.new_log(topic, 4), Seen()
            log.start(seen)
            before = seen.pairs()
            log.append([(key, value)])
            log.read_back(LIMIT_MS)
            assert seen.pairs()[-1] == (key, value)
            log.stop()
            last = {
                record.partition: record.value
                for record in read_topic(clients_of(self.broker.bootstrap_servers).consumer, topic, 4)
            }
            assert {number: last[number] for number in places} == places
            assert last[partition_of(key)] == value
        assert before == [(key, b"old"), (key, b"new")] or before == [(key, b"new")]

    def _delete_records_then_compact(self, topic: str, before: int) -> None:
        client = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})
        for deleted in client.delete_records([ClientPartition(topic, 0, before)]).values():
            deleted.result(20)
        policy = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[policy])
        client.incremental_alter_configs([resource])[resource].result(20)
        until(lambda: self.admin.cleanup_policy(topic) == "compact")


def test_an_unreachable_broker_is_named() -> None:
    servers = f"127.0.0.1:{free_ports(1)[0]}"
    quiet = {"bootstrap.servers": servers}
    log = KafkaCompactedLog(TopicSpec(fresh_name("log")), KafkaAdmin(quiet), clients_of(servers), start_timeout_ms=500)
    with pytest.raises(RetriableError, match=servers):
        log.start(_nobody)
    log.stop()


def _nobody(records: Sequence[LogRecord]) -> None:
    raise AssertionError(f"nothing can be read: {records}")


def test_a_setting_without_effect_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    properties: Mapping[str, str] = {"bootstrap.servers": "127.0.0.1:1", "metric.reporters": "x.Y"}
    with caplog.at_level("WARNING"):
        KafkaAdmin(properties)
        KafkaAdmin(properties)
    assert [r.message for r in caplog.records if "metric.reporters" in r.message] == [
        "admin property metric.reporters has no effect: librdkafka has no such setting"
    ]
