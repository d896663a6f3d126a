"""A broker that is killed and comes back: what was taken before and meanwhile arrives, nobody has to be restarted."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.client_properties import sink_consumer_properties, source_producer_properties
from spark_connect_rt.engine.startup.java_home import Java
from spark_connect_rt.errors import FencedError, RetriableError, TimedOutError
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.executor_clients import OFFSET_REPORTS
from spark_connect_rt.kafka.group_offsets import KafkaGroupOffsets
from spark_connect_rt.kafka.logs.compacted_log import KafkaCompactedLog
from spark_connect_rt.kafka.reading.batch_consumer import KafkaBatchConsumer
from spark_connect_rt.kafka.reading.fetch_consumer import FetchConsumer
from spark_connect_rt.kafka.sink_group import KafkaSinkGroup
from spark_connect_rt.kafka.writing.batch_producer import KafkaBatchProducer
from spark_connect_rt.records.pipeline.columns import produce_batch
from spark_connect_rt.testing.worker_settings import worker_settings
from tests.contract.batch_clients_contract import rows_of
from tests.contract.compacted_log_contract import LIMIT_MS, Seen, until
from tests.contract.sink_group_contract import POLL_MS, Member
from tests.integration.kafka.test_column_producer import new_producer, values_batch
from tests.integration.kafka.test_column_transactions import new_transactional_producer
from tests.integration.kafka.test_compacted_log import clients_of
from tests.topics import CommittedReader

DATA = TopicPartition("data", 0)


class Readers:
    """A consumer of each kind, and what each has read since it was assigned."""

    def __init__(self, worker: dict[str, str]) -> None:
        properties = sink_consumer_properties(worker_settings(worker), {}, "c", 0)
        self.consumers = [KafkaBatchConsumer(properties), FetchConsumer(properties)]
        self.values: list[list[bytes]] = []

    def assign(self, partition: TopicPartition, offset: int) -> None:
        self.values = [[] for _ in self.consumers]
        for consumer in self.consumers:
            consumer.assign({partition: offset})

    def have_read(self, last: bytes) -> bool:
        for consumer, values in zip(self.consumers, self.values, strict=True):
            batch = consumer.poll(10, 100)
            values += [row["value"] for row in rows_of(batch)] if batch is not None else []
        return all(last in values for values in self.values)


def test_everything_resumes_after_a_killed_broker_came_back(tmp_path: Path, java: Java) -> None:
    with EmbeddedKafka(tmp_path, java=java, die_with_parent=True) as broker:
        worker = {"bootstrap.servers": broker.bootstrap_servers, "producer.reconnect.backoff.max.ms": "500"}
        admin = KafkaAdmin(worker)
        admin.create_topic(TopicSpec("data", 1, 1))
        seen = Seen()
        log = KafkaCompactedLog(TopicSpec("log", 1, 1), admin, clients_of(broker.bootstrap_servers))
        log.start(seen)
        log.append([(b"before", b"1")])
        log.read_to_end(LIMIT_MS)
        producer = KafkaBatchProducer(source_producer_properties(worker_settings(worker), {}, "c", 0))
        producer.produce(produce_batch("data", pa.array(["1"])))
        producer.flush(LIMIT_MS)
        KafkaAdmin(worker).create_topic(TopicSpec("columns", 1, 1))
        patient = new_producer(broker.bootstrap_servers, **{"request.timeout.ms": "1000"}, **OFFSET_REPORTS)
        strict = new_producer(broker.bootstrap_servers, **{"request.timeout.ms": "1000", "delivery.timeout.ms": "1500"})
        for columns in (patient, strict):
            columns.produce(values_batch("columns", [b"0", b"1"]))
            columns.flush(LIMIT_MS)
        readers = Readers(worker)
        readers.assign(DATA, -1)
        until(lambda: readers.have_read(b"1"))
        member = Member(KafkaSinkGroup(sink_consumer_properties(worker_settings(worker), {}, "c", 0))).subscribe(
            ["data"]
        )

        def member_holds() -> bool:
            member.group.poll(POLL_MS)
            return set(member.held) == {DATA}

        until(member_holds)

        KafkaAdmin(worker).create_topic(TopicSpec("transactions", 1, 1))
        transactional = new_transactional_producer(broker.bootstrap_servers, "c", **{"request.timeout.ms": "1000"})
        transactional.begin()
        transactional.produce(values_batch("transactions", [b"a"]))
        transactional.flush(LIMIT_MS)

        broker.kill()
        transactional.produce(values_batch("transactions", [b"b"]))
        with pytest.raises(TimedOutError, match="1 records not acknowledged in 300 ms"):
            transactional.commit(300)
        assert not readers.have_read(b"2")
        answers: list[Exception | None] = []
        log.append([(b"meanwhile", b"2")], answers.append)
        producer.produce(produce_batch("data", pa.array(["2"])))
        with pytest.raises(TimedOutError):
            producer.flush(300)
        with pytest.raises(TimedOutError):
            log.read_to_end(300)
        with pytest.raises(RetriableError, match=broker.bootstrap_servers):
            admin.check_reachable(300)
        assert answers == []
        for number in range(2, 5):
            patient.produce(values_batch("columns", [b"%d" % number]))
        strict.produce(values_batch("columns", [b"never"]))
        with pytest.raises(TimedOutError, match=r"producing to columns-0: no answer in delivery\.timeout\.ms=1500"):
            strict.flush(LIMIT_MS)
        with pytest.raises(TimedOutError, match="3 records not acknowledged in 300 ms"):
            patient.flush(300)

        broker.start()
        log.read_to_end(60_000)
        producer.flush(60_000)
        assert answers == [None]
        assert seen.pairs() == [(b"before", b"1"), (b"meanwhile", b"2")]
        until(lambda: readers.have_read(b"2"), limit_s=60)
        assert readers.values == [[b"1", b"2"]] * 2
        patient.flush(60_000)
        assert patient.delivered()[0][:3] == ("columns", 0, 0)
        readers.assign(TopicPartition("columns", 0), 0)
        until(lambda: readers.have_read(b"4"), limit_s=60)
        transactional.commit(60_000)
        transactional.close()
        committed_values = CommittedReader(broker.bootstrap_servers, "transactions")
        assert [value for _, value in committed_values.to_end()] == [b"a", b"b"]
        committed_values.close()
        for values in readers.values:
            assert list(dict.fromkeys(values)) == [b"0", b"1", b"2", b"3", b"4"]  # once at least, and in order

        def committed() -> bool:
            member.group.poll(POLL_MS)
            try:
                member.group.commit({DATA: 2})
            except (RetriableError, FencedError):  # the member may have to join anew
                return False
            return True

        until(committed, limit_s=60)
        assert KafkaGroupOffsets().committed(worker, "connect-c") == {DATA: 2}
        log.stop()
        for client in (producer, patient, strict, *readers.consumers, member.group):
            client.close()
