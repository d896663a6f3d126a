"""Consumer groups' offsets changed from outside, on a real broker (OffsetDelete among them)."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka, free_ports
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.engine.startup.java_home import Java
from spark_connect_rt.errors import ConnectError, TimedOutError
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.group_offsets import KafkaGroupOffsets
from spark_connect_rt.kafka.interfaces import GroupInUseError
from spark_connect_rt.kafka.sink_group import KafkaSinkGroup

TOPIC = "group-offsets"
P0, P1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


@pytest.fixture
def properties(broker: EmbeddedKafka) -> dict[str, str]:
    properties = {"bootstrap.servers": broker.bootstrap_servers}
    KafkaAdmin(properties).create_topic(TopicSpec(TOPIC, 2))
    return properties


def test_a_cluster_where_no_group_ever_was(tmp_path: Path, java: Java) -> None:
    """It makes its offsets topic when the first group is looked for; librdkafka's admin client died meanwhile."""
    with EmbeddedKafka(tmp_path, java=java, die_with_parent=True) as fresh:
        properties = {"bootstrap.servers": fresh.bootstrap_servers}
        known, group = KafkaGroupOffsets(), "first"
        assert known.committed(properties, group) == {}
        KafkaAdmin(properties).create_topic(TopicSpec(TOPIC, 1, 1))
        known.alter(properties, group, {P0: 5})
        assert known.committed(properties, group) == {P0: 5}


def test_a_cluster_that_does_not_answer(properties: dict[str, str]) -> None:
    (port,) = free_ports(1)
    gone = {**properties, "bootstrap.servers": f"127.0.0.1:{port}"}
    with pytest.raises(TimedOutError, match=f"listing the offsets of group gone.*127.0.0.1:{port}"):
        KafkaGroupOffsets(timeout_ms=1_000).committed(gone, "gone")


def test_offsets_of_a_group_without_members(properties: dict[str, str]) -> None:
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
