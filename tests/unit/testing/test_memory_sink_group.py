"""The in-memory sink group keeps the contract, and what only it can show: being thrown out."""

from __future__ import annotations

import pytest

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import FencedError
from spark_connect_rt.kafka.interfaces import SinkGroup
from spark_connect_rt.testing.memory_sink_group import MemoryConsumerGroups
from tests.contract.sink_group_contract import Member, SinkGroupContract


class TestMemorySinkGroup(SinkGroupContract):
    def setup_method(self) -> None:
        self.groups = MemoryConsumerGroups()

    def new_topic(self, name: str, partitions: int) -> None:
        self.groups.set_partitions(name, partitions)

    def write(self, partition: TopicPartition, count: int) -> None:
        self.groups.set_end(partition, count)

    def new_group(self, group: str) -> SinkGroup:
        return self.groups.member({"group.id": group})


def test_a_member_thrown_out_loses_everything_and_comes_back() -> None:
    groups = MemoryConsumerGroups({"t": 2})
    groups.set_committed("g", {TopicPartition("t", 1): 4})
    own = groups.member({"group.id": "g"})
    member = Member(own).subscribe(["t"])
    own.poll(10)
    both = [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert member.held == {both[0]: -1, both[1]: 4}
    groups.expel(own)
    with pytest.raises(FencedError):
        own.commit({both[0]: 3})
    own.poll(10)
    assert member.told == [("assigned", both), ("lost", both), ("assigned", both)]
    own.commit({both[0]: 3})
    assert groups.committed("g") == {both[0]: 3, both[1]: 4}
    own.close()


def test_more_partitions_rebalance_only_who_reads_the_topic() -> None:
    groups = MemoryConsumerGroups({"t": 1, "u": 1})
    own = groups.member({"group.id": "g"})
    member = Member(own).subscribe(["t"])
    own.poll(10)
    groups.set_partitions("u", 2)
    own.poll(1)
    assert len(member.told) == 1
    groups.set_partitions("t", 2)
    own.poll(10)
    assert sorted(member.held) == [TopicPartition("t", 0), TopicPartition("t", 1)]
