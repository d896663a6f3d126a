"""A client that has lost all its brokers is replaced, and nothing has to be restarted.

librdkafka offers no way to lose all brokers on purpose. A client that was made without bootstrap.servers is in the same
state: it knows no broker, lists none in its statistics, and never finds one. The last test lets real clients get there:
it asks for metadata all the time while a broker stops.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.client_properties import sink_consumer_properties
from spark_connect_rt.connectors.mirror import mirror_admin
from spark_connect_rt.connectors.mirror.mirror_admin import MirrorAdmin
from spark_connect_rt.engine.startup.java_home import Java
from spark_connect_rt.errors import ConnectError, RetriableError
from spark_connect_rt.kafka import admin as admin_module
from spark_connect_rt.kafka import lost_brokers, sink_group
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.executor_clients import ClientLostError
from spark_connect_rt.kafka.logs import log_clients
from spark_connect_rt.kafka.logs.compacted_log import KafkaCompactedLog
from spark_connect_rt.kafka.reading import batch_consumer
from spark_connect_rt.kafka.reading.batch_consumer import KafkaBatchConsumer
from spark_connect_rt.kafka.sink_group import KafkaSinkGroup
from spark_connect_rt.kafka.writing import batch_producer
from spark_connect_rt.kafka.writing.batch_producer import KafkaBatchProducer
from spark_connect_rt.kafka.writing.transactional_producer import KafkaTransactionalProducer
from spark_connect_rt.records.pipeline.columns import produce_batch
from spark_connect_rt.testing.worker_settings import worker_settings
from tests.contract.compacted_log_contract import LIMIT_MS, Seen, fresh_name, until
from tests.contract.sink_group_contract import POLL_MS, Member
from tests.integration.kafka.test_compacted_log import clients_of

BACK_S = 40.0  # at most, from the loss to the next answer
REPLACED = "had no usable broker"
MOST_RESTARTS = int(os.environ.get("CONNECTRT_BROKER_RESTARTS", "1"))


def lost_at_first(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[bool]:
    """Have the first client that ``module`` makes know no broker. Return whether each one made knows any."""
    make, made = getattr(module, name), list[bool]()

    def making(properties: Mapping[str, str], *settings: Any) -> Any:
        made.append(bool(made))
        if not made[-1]:
            properties = {key: value for key, value in properties.items() if key != "bootstrap.servers"}
        return make(properties, *settings)

    monkeypatch.setattr(module, name, making)
    return made


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notice the loss sooner."""
    monkeypatch.setattr(lost_brokers, "STATISTICS_MS", 1_000)
    monkeypatch.setattr(lost_brokers, "PATIENCE_S", 2.0)


@pytest.fixture
def topic(broker: EmbeddedKafka) -> str:
    name = fresh_name("lost")
    admin = KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topic(TopicSpec(name, 1, 1, {"cleanup.policy": "compact"}))
    admin.close()
    return name


@pytest.fixture
def admin(broker: EmbeddedKafka) -> Iterator[KafkaAdmin]:
    made = KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers})
    yield made
    made.close()


def new_log(servers: str, admin: KafkaAdmin, topic: str) -> KafkaCompactedLog:
    return KafkaCompactedLog(TopicSpec(topic, 1, 1), admin, clients_of(servers))


def test_a_log_reads_and_appends_with_new_clients(
    broker: EmbeddedKafka, admin: KafkaAdmin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, other_saw = new_log(broker.bootstrap_servers, admin, topic), Seen()
    other.start(other_saw)
    consumers = lost_at_first(monkeypatch, log_clients, "make_consumer")
    producers = lost_at_first(monkeypatch, log_clients, "make_producer")
    log, saw = new_log(broker.bootstrap_servers, admin, topic), Seen()
    log.start(saw)
    answers: list[Exception | None] = []
    threads = threading.active_count()
    for number in range(3):
        log.append([(b"early", b"%d" % number)], answers.append)
    other.append([(b"other", b"1")])
    until(lambda: len(saw.records) == 1 and len(answers) == 3, BACK_S)
    assert {type(answer) for answer in answers} == {RetriableError}  # one answer each: send again
    with pytest.raises(RetriableError):
        log.flush(LIMIT_MS)
    log.append([(b"late", b"1")], answers.append)
    log.read_to_end(LIMIT_MS)
    other.read_to_end(LIMIT_MS)
    assert answers[3:] == [None]
    assert saw.pairs() == other_saw.pairs() == [(b"other", b"1"), (b"late", b"1")]
    assert (consumers, producers) == ([False, True], [False, True])
    assert threading.active_count() <= threads
    log.stop()
    other.stop()


@pytest.mark.usefixtures("soon")
def test_a_log_with_a_broker_keeps_its_clients(
    broker: EmbeddedKafka, admin: KafkaAdmin, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = new_log(broker.bootstrap_servers, admin, topic)
    log.start(Seen())
    end_s = time.monotonic() + 5  # several statistics
    while time.monotonic() < end_s:
        log.append([(b"k", b"v")])
        log.read_to_end(LIMIT_MS)
        admin.partition_count(topic)
        with suppress(ConnectError):
            admin.end_offsets([TopicPartition(topic, 7)], 100)  # a failure that is no loss of brokers
        time.sleep(0.1)
    log.stop()
    assert REPLACED not in caplog.text


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("made", ["make_admin", "make_offsets_client"])
def test_an_admin_answers_with_a_new_client(
    made: str, broker: EmbeddedKafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = lost_at_first(monkeypatch, admin_module, made)
    admin = KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers})

    def answers() -> bool:
        with suppress(ConnectError):
            return (
                admin.partition_count(topic, 2_000) == 1
                and len(admin.end_offsets([TopicPartition(topic, 0)], 2_000)) == 1
            )
        return False

    until(answers, BACK_S)
    assert clients == [False, True]
    admin.close()


@pytest.mark.usefixtures("soon")
def test_a_mirror_admin_answers_with_a_new_client(
    broker: EmbeddedKafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = lost_at_first(monkeypatch, mirror_admin, "make_admin")
    admin = MirrorAdmin({"bootstrap.servers": broker.bootstrap_servers}, 2_000)

    def answers() -> bool:
        with suppress(ConnectError):
            return topic in admin.topics()
        return False

    until(answers, BACK_S)
    assert clients == [False, True]
    admin.close()


@pytest.mark.usefixtures("soon")
def test_a_member_joins_again_with_a_new_client(
    broker: EmbeddedKafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = lost_at_first(monkeypatch, sink_group, "make_consumer")
    worker = worker_settings({"bootstrap.servers": broker.bootstrap_servers})
    member = Member(KafkaSinkGroup(sink_consumer_properties(worker, {}, topic, 0))).subscribe([topic])

    def holds() -> bool:
        member.group.poll(POLL_MS)
        return set(member.held) == {TopicPartition(topic, 0)}

    until(holds, BACK_S)
    member.group.commit({TopicPartition(topic, 0): 0})
    assert clients == [False, True]
    member.group.close()


def test_a_consumer_reads_on_with_a_new_client(
    broker: EmbeddedKafka, admin: KafkaAdmin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_consumer, "SILENT_S", 6.0)
    topic += "-plain"
    admin.create_topic(TopicSpec(topic, 1, 1))
    clients = lost_at_first(monkeypatch, batch_consumer, "make_consumer")
    consumer = KafkaBatchConsumer({"bootstrap.servers": broker.bootstrap_servers})
    producer = KafkaBatchProducer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(_values(topic, b"0", b"1"))
    producer.flush(LIMIT_MS)
    consumer.assign({TopicPartition(topic, 0): 1})
    batches: list[Any] = []

    def has_read() -> bool:
        batches.append(consumer.poll(10, 100))
        return batches[-1] is not None

    until(has_read, BACK_S)
    assert batches[-1].column("value").to_pylist() == [b"1"]
    assert clients == [False, True]
    consumer.close()
    producer.close()


def test_a_producer_fails_so_that_its_owner_makes_a_new_one(
    broker: EmbeddedKafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_producer, "COMPARE_AFTER_S", 2.0)
    with monkeypatch.context() as first:
        lost_at_first(first, batch_producer, "make_producer")
        producer = KafkaBatchProducer({"bootstrap.servers": broker.bootstrap_servers})
    producer._properties["bootstrap.servers"] = broker.bootstrap_servers
    producer.produce(_values(topic, b"0"))
    with pytest.raises(ClientLostError, match="has lost all its brokers"):
        producer.flush(LIMIT_MS)
    producer.close()


@pytest.mark.parametrize("step", ["claim", "commit", "abort"])
def test_transactional_producer_fails_at_each_step_so_that_its_task_is_hosted_again(
    step: str, broker: EmbeddedKafka, admin: KafkaAdmin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_producer, "COMPARE_AFTER_S", 2.0)
    topic += "-plain"
    admin.create_topic(TopicSpec(topic, 1, 1))
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"{topic}-{step}"}
    with monkeypatch.context() as first:
        if step == "claim":
            lost_at_first(first, batch_producer, "make_producer")
        producer = KafkaTransactionalProducer(settings)
    producer._properties["bootstrap.servers"] = broker.bootstrap_servers
    if step != "claim":
        producer.claim(LIMIT_MS)
        producer.begin()
        producer.produce(_values(topic, b"0"))
        producer.flush(LIMIT_MS)
        # Stands for the loss, which cannot be brought about: the client does not answer, a new client would.
        monkeypatch.setattr(batch_producer, "is_left_behind", lambda *_: True)
        error = KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer", False, True))
        client = MagicMock(wraps=producer._producer)
        client.__len__.return_value = 0
        client.commit_transaction.side_effect = client.abort_transaction.side_effect = error
        producer._producer, lost = client, producer._producer
    began_s = time.monotonic()
    with pytest.raises(ClientLostError, match="has lost all its brokers"):
        getattr(producer, step)(60_000)
    assert time.monotonic() - began_s < 20
    if step != "claim":
        producer._producer = lost
    producer.close()
    again = KafkaTransactionalProducer(settings)
    again.claim(LIMIT_MS)
    again.begin()
    again.produce(_values(topic, b"1"))
    again.commit(LIMIT_MS)
    again.close()


def _values(topic: str, *values: bytes) -> pa.RecordBatch:
    return produce_batch(topic, pa.array(values, pa.binary()))


class HammeredLog(KafkaCompactedLog):
    """A log whose clients ask for metadata all the time while ``hammering`` is set."""

    hammering = threading.Event()

    def _next_messages(self) -> Sequence[Any]:
        if self.hammering.is_set():
            ask(self._consumer, self.topic)
        return super()._next_messages()


def ask(client: Any, topic: str) -> None:
    with suppress(KafkaException):
        client.list_topics(topic, timeout=0.3)


class Hammered:
    """Logs and admins of one broker."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.admins = [KafkaAdmin({"bootstrap.servers": servers}) for _ in range(4)]
        self.logs = [HammeredLog(TopicSpec(f"t{n}", 1, 1), self.admins[n % 4], clients_of(servers)) for n in range(8)]
        self.seen = [Seen() for _ in self.logs]
        for log, seen in zip(self.logs, self.seen, strict=True):
            log.start(seen)

    def restart(self, broker: EmbeddedKafka) -> None:
        """Stop and start the broker; all clients ask for metadata until it is gone."""
        HammeredLog.hammering.set()
        uses: list[tuple[Callable[[], Any], str]] = [(admin.client, "t0") for admin in self.admins]
        uses += [(log._producers.use, log.topic) for log in self.logs if log._producers is not None]
        threads = [threading.Thread(target=self._hammer, args=use) for use in uses]
        for thread in threads:
            thread.start()
        broker.stop()
        HammeredLog.hammering.clear()
        for thread in threads:
            thread.join()
        broker.start()

    def _hammer(self, use: Callable[[], Any], topic: str) -> None:
        with use() as client:
            while HammeredLog.hammering.is_set():
                ask(client, topic)

    def append_by_others(self, value: bytes) -> None:
        """Append a record to each topic with clients that are new."""
        admin = KafkaAdmin({"bootstrap.servers": self.servers})
        for log in self.logs:
            writer = KafkaCompactedLog(TopicSpec(log.topic, 1, 1), admin, clients_of(self.servers))
            writer.start(lambda _: None)
            writer.append([(b"other", value)])
            writer.stop()
        admin.close()

    def work(self, value: bytes) -> bool:
        """Return whether each log has read the record and can append, and each admin answers."""
        return (
            all((b"other", value) in seen.pairs() for seen in self.seen)
            and all(map(_appends, self.logs))
            and all(map(_answers, self.admins))
        )

    def close(self) -> None:
        for log in self.logs:
            log.stop()
        for admin in self.admins:
            admin.close()


def test_clients_that_lose_their_brokers_in_a_restart_come_back(
    tmp_path: Path, java: Java, caplog: pytest.LogCaptureFixture
) -> None:
    """A client loses its brokers only by an answer in a broker's last moment, so the long form restarts more often."""
    with EmbeddedKafka(tmp_path, java=java, die_with_parent=True) as broker:
        hammered = Hammered(broker.bootstrap_servers)
        for number in range(MOST_RESTARTS):
            hammered.restart(broker)
            back_s, value = time.monotonic(), str(number).encode()
            hammered.append_by_others(value)
            until(lambda value=value: hammered.work(value), back_s + BACK_S - time.monotonic())  # type: ignore[misc]
            if REPLACED in caplog.text:
                break
        hammered.close()
    assert REPLACED in caplog.text or MOST_RESTARTS == 1


def _appends(log: KafkaCompactedLog) -> bool:
    with suppress(ConnectError):
        log.append([(b"own", b"1")])
        log.flush(3_000)
        return True
    return False


def _answers(admin: KafkaAdmin) -> bool:
    with suppress(ConnectError):
        return admin.partition_count("t0", 3_000) == 1
    return False
