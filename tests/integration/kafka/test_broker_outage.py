"""A broker that is killed and comes back: what was taken before and meanwhile arrives, nobody has to be restarted."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from spark_connect_rt.config.client_properties import sink_consumer_properties, source_producer_properties
from spark_connect_rt.embedded.java import Java
from spark_connect_rt.embedded.kafka import EmbeddedKafka
from spark_connect_rt.errors import FencedError, RetriableError, TimedOutError
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.batch_consumer import KafkaBatchConsumer
from spark_connect_rt.kafka.batch_producer import KafkaBatchProducer
from spark_connect_rt.kafka.compacted_log import KafkaCompactedLog
from spark_connect_rt.kafka.group_offsets import KafkaGroupOffsets
from spark_connect_rt.kafka.sink_group import KafkaSinkGroup
from spark_connect_rt.pipeline.columns import produce_batch
from spark_connect_rt.protocol.ids import TopicPartition
from tests.contract.batch_clients_contract import rows_of
from tests.contract.compacted_log_contract import LIMIT_MS, Seen, until
from tests.contract.sink_group_contract import POLL_MS, Member
from tests.integration.kafka.test_compacted_log import clients_of

DATA = TopicPartition("data", 0)


def test_everything_goes_on_after_a_killed_broker_came_back(tmp_path: Path, java: Java) -> None:
    with EmbeddedKafka(tmp_path, java=java, die_with_parent=True) as broker:
        worker = {"bootstrap.servers": broker.bootstrap_servers, "producer.reconnect.backoff.max.ms": "500"}
        admin = KafkaAdmin(worker)
        admin.create_topic(TopicSpec("data", 1, 1))
        seen = Seen()
        log = KafkaCompactedLog(TopicSpec("log", 1, 1), admin, clients_of(broker.bootstrap_servers))
        log.start(seen)
        log.append([(b"before", b"1")])
        log.read_to_end(LIMIT_MS)
        producer = KafkaBatchProducer(source_producer_properties(worker, {}, "c", 0))
        producer.produce(produce_batch("data", pa.array(["1"])))
        producer.flush(LIMIT_MS)
        consumer = KafkaBatchConsumer(sink_consumer_properties(worker, {}, "c", 0))
        consumer.assign({DATA: -1})
        read: list[bytes] = []

        def has_read(count: int) -> bool:
            batch = consumer.poll(10, 100)
            read.extend(row["value"] for row in rows_of(batch)) if batch is not None else None
            return len(read) == count

        until(lambda: has_read(1))
        member = Member(KafkaSinkGroup(sink_consumer_properties(worker, {}, "c", 0))).subscribe(["data"])

        def member_holds() -> bool:
            member.group.poll(POLL_MS)
            return set(member.held) == {DATA}

        until(member_holds)

        broker.kill()
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

        broker.start()
        log.read_to_end(60_000)
        producer.flush(60_000)
        assert answers == [None]
        assert seen.pairs() == [(b"before", b"1"), (b"meanwhile", b"2")]
        until(lambda: has_read(2), limit_s=60)
        assert read == [b"1", b"2"]

        def committed() -> bool:
            member.group.poll(POLL_MS)
            try:
                member.group.commit({DATA: 2})
            except (RetriableError, FencedError):  # the member may have to join anew
                return False
            return True

        until(committed, limit_s=60)
        assert KafkaGroupOffsets().committed(worker, "connect-c") == {DATA: 2}
        for one in (log.stop, producer.close, consumer.close, member.group.close):
            one()
