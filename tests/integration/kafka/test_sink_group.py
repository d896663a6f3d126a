"""The Kafka sink group keeps the contract, eager and cooperative, and what only a real broker can show."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from spark_connect_rt.config.client_properties import sink_consumer_properties
from spark_connect_rt.embedded.kafka import EmbeddedKafka
from spark_connect_rt.errors import BadConfigError, FencedError
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.sink_group import KafkaSinkGroup
from spark_connect_rt.protocol.ids import TopicPartition
from tests.contract.sink_group_contract import Member, SinkGroupContract

FAST = {"metadata.max.age.ms": "300", "heartbeat.interval.ms": "200"}


class TestKafkaSinkGroup(SinkGroupContract):
    strategy = "org.apache.kafka.clients.consumer.RangeAssignor"

    @pytest.fixture(autouse=True)
    def _cluster(self, broker: EmbeddedKafka) -> Iterator[None]:
        self.worker = {"bootstrap.servers": broker.bootstrap_servers}
        self.admin = KafkaAdmin(self.worker)
        yield
        self.admin.close()

    def new_topic(self, name: str, partitions: int) -> None:
        self.admin.create_topic(TopicSpec(name, partitions, 1))

    def write(self, partition: TopicPartition, count: int) -> None:
        producer = Producer(self.worker)
        for _ in range(count):
            producer.produce(partition.topic, b"x", partition=partition.partition)
        assert producer.flush(20) == 0

    def new_group(self, group: str, **overrides: str) -> KafkaSinkGroup:
        wanted = {**FAST, "group.id": group, "partition.assignment.strategy": self.strategy, **overrides}
        given = {f"consumer.override.{key}": value for key, value in wanted.items()}
        return KafkaSinkGroup(sink_consumer_properties(self.worker, given, "c", 0))

    def test_group_tools_see_the_committed_offsets(self, topic: str, name: str) -> None:
        member = Member(self.new_group(name)).subscribe([topic])
        self.poll_until(lambda: len(member.held) == 4, member)
        member.group.commit({TopicPartition(topic, 3): 12})
        assert self.admin.group_offsets(name) == {TopicPartition(topic, 3): 12}
        member.group.close()

    def test_a_member_that_stalled_is_fenced_and_hears_of_its_loss(self, topic: str, name: str) -> None:
        short = {"session.timeout.ms": "6000", "max.poll.interval.ms": "6000"}
        stalled = Member(self.new_group(name, **short)).subscribe([topic])
        self.poll_until(lambda: len(stalled.held) == 4, stalled)
        other = Member(self.new_group(name)).subscribe([topic])
        self.poll_until(lambda: len(other.held) == 4, other)  # only once the stalled one was thrown out
        with pytest.raises(FencedError):
            stalled.group.commit({TopicPartition(topic, 0): 1})

        def all_lost() -> bool:
            lost = {partition for what, ps in stalled.told if what == "lost" for partition in ps}
            return lost == self.all_of(topic)

        self.poll_until(all_lost, stalled, other)
        assert not [what for what, _ in stalled.told if what == "revoked"]
        stalled.group.close()
        other.group.close()


class TestCooperativeKafkaSinkGroup(TestKafkaSinkGroup):
    strategy = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"

    def test_partitions_that_stay_are_not_revoked(self, topic: str, name: str) -> None:
        first = Member(self.new_group(name)).subscribe([topic])
        self.poll_until(lambda: len(first.held) == 4, first)
        second = Member(self.new_group(name)).subscribe([topic])
        self.poll_until(lambda: len(first.held) == len(second.held) == 2, first, second)
        revoked = [partition for what, ps in first.told if what == "revoked" for partition in ps]
        assert len(revoked) == 2
        first.group.close()
        second.group.close()


def test_a_pattern_that_is_none_names_the_setting() -> None:
    group = KafkaSinkGroup({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"})
    with pytest.raises(BadConfigError, match=r"topics\.regex"):
        group.subscribe([], "a(", lambda o: None, lambda p: None, lambda p: None)
    group.close()
