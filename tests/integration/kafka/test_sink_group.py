"""The Kafka sink group keeps the contract, eager and cooperative, and what only a real broker can show."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.client_properties import sink_consumer_properties
from spark_connect_rt.errors import BadConfigError, ConnectError, FencedError
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.group_offsets import KafkaGroupOffsets
from spark_connect_rt.kafka.sink_group import KafkaSinkGroup
from spark_connect_rt.testing.worker_settings import worker_settings
from tests.contract.compacted_log_contract import fresh_name
from tests.contract.sink_group_contract import Member, SinkGroupContract
from tests.topics import add_partitions, delete_topic

# Five minutes are Java's and our default: what must be quick must not be so by asking often. The broker creates topics.
PATIENT = {"metadata.max.age.ms": "300000", "allow.auto.create.topics": "false"}
FAST = {"metadata.max.age.ms": "300", "heartbeat.interval.ms": "200"}


class TestKafkaSinkGroup(SinkGroupContract):
    strategy = "org.apache.kafka.clients.consumer.RangeAssignor"

    @pytest.fixture(autouse=True)
    def _cluster(self, broker: EmbeddedKafka) -> Iterator[None]:
        self.worker = {"bootstrap.servers": broker.bootstrap_servers}
        self.admin = KafkaAdmin(self.worker)
        yield
        del self.admin

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
        return KafkaSinkGroup(sink_consumer_properties(worker_settings(self.worker), given, "c", 0))

    def test_group_tools_see_the_committed_offsets(self, topic: str, name: str) -> None:
        member = Member(self.new_group(name)).subscribe([topic])
        self.poll_until(lambda: len(member.held) == 4, member)
        member.group.commit({TopicPartition(topic, 3): 12})
        assert KafkaGroupOffsets().committed(self.worker, name) == {TopicPartition(topic, 3): 12}
        member.group.close()

    def test_group_tools_see_the_member_by_its_id_with_its_partitions(self, topic: str, name: str) -> None:
        """Iceberg's coordinator compares what it finds there with what its tasks hold."""
        member = Member(self.new_group(name)).subscribe([topic])
        self.poll_until(lambda: len(member.held) == 4, member)
        admin = AdminClient(self.worker)
        described = admin.describe_consumer_groups([name])[name].result(20)
        (seen,) = described.members
        generation = member.group.generation()
        assert generation is not None
        assert seen.member_id == generation.member
        assert {TopicPartition(p.topic, p.partition) for p in seen.assignment.topic_partitions} == self.all_of(topic)
        member.group.close()

    def test_a_stalled_member_is_fenced_and_notified_of_its_loss(self, topic: str, name: str) -> None:
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

    def topics_of(self, member: Member) -> set[str]:
        return {partition.topic for partition in member.held}

    def await_missing(self, member: Member, topic: str) -> None:
        """Wait until the member has looked for a topic in vain: librdkafka has done so long before."""
        group = member.group
        assert isinstance(group, KafkaSinkGroup)
        self.poll_until(lambda: topic in group.missing_topics(), member)

    def test_a_named_topic_that_comes_later_is_taken_up(self, topic: str, name: str) -> None:
        late = fresh_name("late")
        member = Member(self.new_group(name, **PATIENT)).subscribe([topic, late])
        self.poll_until(lambda: len(member.held) == 4, member)
        self.await_missing(member, late)
        self.new_topic(late, 2)
        self.poll_until(lambda: self.topics_of(member) == {topic, late}, member)
        assert len(member.held) == 6
        member.group.close()

    def test_a_named_topic_is_created_by_a_broker_that_may(self, topic: str, name: str) -> None:
        late = fresh_name("created")
        member = Member(self.new_group(name, **{**PATIENT, "allow.auto.create.topics": "true"}))
        member.subscribe([topic, late])
        self.poll_until(lambda: self.topics_of(member) == {topic, late}, member)
        member.group.close()

    def test_every_member_takes_up_a_topic_that_comes_later(self, topic: str, name: str) -> None:
        """By range each topic is shared: one that had not heard of it would hold two partitions, the other four."""
        late = fresh_name("late")
        members = [Member(self.new_group(name, **PATIENT)).subscribe([topic, late]) for _ in range(2)]
        self.poll_until(lambda: all(len(member.held) == 2 for member in members), *members)
        for member in members:
            self.await_missing(member, late)
        self.new_topic(late, 2)
        self.poll_until(lambda: all(len(member.held) == 3 for member in members), *members)
        assert {partition.topic for member in members for partition in member.held} == {topic, late}
        for member in members:
            member.group.close()

    def test_a_topic_deleted_and_created_again_is_held_again(self, topic: str, name: str) -> None:
        """Nothing is fetched here: asking for the ends, as is done for the lag, is what shows that it is gone."""
        servers, other = self.worker["bootstrap.servers"], fresh_name("stays")
        self.new_topic(other, 1)
        group = self.new_group(name, **PATIENT)
        member = Member(group).subscribe([topic, other])
        self.poll_until(lambda: len(member.held) == 5, member)
        member.group.commit({TopicPartition(topic, 0): 7})
        delete_topic(servers, topic)

        def gone() -> bool:
            with contextlib.suppress(ConnectError):
                group.end_offsets(sorted(member.held))
            return self.topics_of(member) == {other}

        self.poll_until(gone, member)
        self.await_missing(member, topic)
        self.new_topic(topic, 4)
        self.poll_until(lambda: len(member.held) == 5, member)
        assert member.held[TopicPartition(topic, 0)] == -1  # its offsets went with it
        member.group.close()

    def test_partitions_added_are_taken_up(self, topic: str, name: str) -> None:
        """FAST's ``metadata.max.age.ms`` is what makes this quick, as in Java."""
        member = Member(self.new_group(name)).subscribe([topic])
        self.poll_until(lambda: len(member.held) == 4, member)
        add_partitions(self.worker["bootstrap.servers"], topic, 6)
        self.poll_until(lambda: len(member.held) == 6, member)
        member.group.close()

    def test_a_deleted_topic_of_a_pattern_does_not_come_back_by_itself(self, name: str) -> None:
        stem, servers = fresh_name("rxgone"), self.worker["bootstrap.servers"]
        for end in ("a", "b"):
            self.new_topic(f"{stem}-{end}", 1)
        member = Member(self.new_group(name)).subscribe(pattern=f"{stem}-.*")
        self.poll_until(lambda: len(member.held) == 2, member)
        delete_topic(servers, f"{stem}-b")
        self.poll_until(lambda: self.topics_of(member) == {f"{stem}-a"}, member)
        again = time.monotonic() + 1.0  # more than three times FAST's age
        self.poll_until(lambda: time.monotonic() > again, member)
        assert self.admin.partition_count(f"{stem}-b") is None
        member.group.close()


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


def test_a_pattern_that_is_invalid_names_the_setting() -> None:
    group = KafkaSinkGroup({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"})
    with pytest.raises(BadConfigError, match=r"topics\.regex"):
        group.subscribe([], "a(", lambda o: None, lambda p: None, lambda p: None)
    group.close()
