"""Consumer groups' offsets changed from outside, on a real broker (OffsetDelete among them)."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from spark_connect_rt.embedded.kafka import EmbeddedKafka
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.group_offsets import KafkaGroupOffsets
from spark_connect_rt.kafka.sink_group import KafkaSinkGroup
from spark_connect_rt.ports.group_offsets import GroupInUseError
from spark_connect_rt.protocol.ids import TopicPartition

TOPIC = "group-offsets"
P0, P1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


@pytest.fixture
def properties(broker: EmbeddedKafka) -> dict[str, str]:
    properties = {"bootstrap.servers": broker.bootstrap_servers}
    KafkaAdmin(properties).create_topic(TopicSpec(TOPIC, 2))
    # A broker makes its offset topic when a group is first looked for. librdkafka 2.16 ends the process when its admin
    # client asks meanwhile; a worker is a member of a group on that cluster before anybody can ask it.
    consumer = Consumer({**properties, "group.id": "first"})
    consumer.committed([ClientPartition(TOPIC, 0)], timeout=30)
    consumer.close()
    return properties


def test_offsets_of_a_group_that_nobody_is_in(properties: dict[str, str]) -> None:
    known, group = KafkaGroupOffsets(), "outside"
    assert known.committed(properties, group) == {}
    known.alter(properties, group, {P0: 7, P1: 9})
    assert known.committed(properties, group) == {P0: 7, P1: 9}
    known.alter(properties, group, {P0: 3})
    known.forget(properties, group, [P1])
    assert known.committed(properties, group) == {P0: 3}
    with pytest.raises(ConnectError, match=f"{TOPIC}-99"):
        known.alter(properties, group, {TopicPartition(TOPIC, 99): 1})
    for _ in range(2):
        known.delete(properties, group)
        assert known.committed(properties, group) == {}
    known.forget(properties, group, [P0])  # of a group that is gone


def test_a_member_keeps_everybody_else_out(properties: dict[str, str]) -> None:
    known, group = KafkaGroupOffsets(), "inhabited"
    assigned: dict[TopicPartition, int] = {}
    member = KafkaSinkGroup({**properties, "group.id": group, "session.timeout.ms": "10000"})
    member.subscribe([TOPIC], None, assigned.update, lambda _: None, lambda _: None)
    while not assigned:
        member.poll(200)
    member.commit({P0: 4})
    assert known.is_in_use(properties, group)
    with pytest.raises(GroupInUseError):
        known.alter(properties, group, {P0: 1})
    with pytest.raises(GroupInUseError):
        known.forget(properties, group, [P0])
    with pytest.raises(GroupInUseError):
        known.delete(properties, group)
    assert known.committed(properties, group) == {P0: 4}
    member.close()
    known.alter(properties, group, {P0: 1})
    assert known.committed(properties, group) == {P0: 1}
    assert not known.is_in_use(properties, group)
