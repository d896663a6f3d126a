"""In-memory twin of ``kafka.sink_group``: a coordinator and its members, eager rebalances.

Owns: ``MemoryConsumerGroups`` (topics, committed offsets, generations) and ``MemorySinkGroup`` (one member).
Must not: import a Kafka client. Passes tests/contract/sink_group_contract.py.

A rebalance works as with Kafka's eager protocol. Every member gives up its partitions inside its own ``poll``. When the
last one has done so, partitions are assigned, and each member gets its own at its next ``poll``.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.java_regex import java_pattern
from spark_connect_rt.errors import FencedError
from spark_connect_rt.kafka.interfaces import GroupGeneration, GroupInUseError, OnAssigned, OnLost, OnRevoked


@dataclass(eq=False)
class _Group:
    """One consumer group; ``generation`` counts the rebalances asked for."""

    generation: int = 0
    members: list[MemorySinkGroup] = field(default_factory=list)
    # members that gave up their partitions, for this generation
    ready: set[MemorySinkGroup] = field(default_factory=set)
    dealt: dict[MemorySinkGroup, list[TopicPartition]] | None = None
    committed: dict[TopicPartition, int] = field(default_factory=dict)


class MemoryConsumerGroups:
    """The state of the brokers: topics with their ends, and every group."""

    def __init__(self, partitions: Mapping[str, int] | None = None) -> None:
        self.changed = threading.Condition(threading.RLock())
        self._ends: dict[TopicPartition, int] = {}
        self._groups: dict[str, _Group] = {}
        for topic, count in (partitions or {}).items():
            self.set_partitions(topic, count)

    def set_partitions(self, topic: str, count: int) -> None:
        """Create a topic or give it more partitions; members that read it rebalance."""
        with self.changed:
            for number in range(count):
                self._ends.setdefault(TopicPartition(topic, number), 0)
            for group in self._groups.values():
                if any(member.wants(topic) for member in group.members):
                    self._rebalance(group)
            self.changed.notify_all()

    def set_end(self, partition: TopicPartition, offset: int) -> None:
        """Set where a partition's log ends."""
        with self.changed:
            self._ends[partition] = offset

    def ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log end of each partition."""
        with self.changed:
            return {partition: self._ends[partition] for partition in partitions}

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group."""
        with self.changed:
            return dict(self._group(group).committed)

    def set_committed(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit from outside, as an admin would."""
        with self.changed:
            self._group(group).committed.update(offsets)

    def forget(self, group: str, partitions: Collection[TopicPartition] | None = None) -> None:
        """Forget offsets of a group from outside, None: all of them."""
        with self.changed:
            committed = self._group(group).committed
            for partition in list(committed) if partitions is None else partitions:
                committed.pop(partition, None)

    def has_members(self, group: str) -> bool:
        """Return whether the group has a member."""
        with self.changed:
            return bool(self._group(group).members)

    def member(self, properties: Mapping[str, str]) -> MemorySinkGroup:
        """Return a new member; it joins when it subscribes. Fits kafka.interfaces.SinkGroupFactory."""
        return MemorySinkGroup(self, properties)

    def expel(self, member: MemorySinkGroup) -> None:
        """Throw a member out, as after its session timed out; it is notified at its next poll and rejoins."""
        with self.changed:
            group = self._group(member.group)
            if member in group.members:
                group.members.remove(member)
                member.expelled = True
                self._rebalance(group)

    # The methods below are for members, which hold ``changed``.

    def _group(self, name: str) -> _Group:
        return self._groups.setdefault(name, _Group())

    def _rebalance(self, group: _Group) -> None:
        group.generation += 1
        group.ready, group.dealt = set(), None
        self.changed.notify_all()

    def _join(self, member: MemorySinkGroup) -> None:
        group = self._group(member.group)
        group.members.append(member)
        self._rebalance(group)

    def _leave(self, member: MemorySinkGroup) -> None:
        group = self._group(member.group)
        if member in group.members:
            group.members.remove(member)
            self._rebalance(group)

    def _deal(self, group: _Group) -> None:
        """Assign each topic's partitions in turn, once every member gave up its own."""
        if group.dealt is not None or len(group.ready) < len(group.members):
            return
        dealt: dict[MemorySinkGroup, list[TopicPartition]] = {member: [] for member in group.members}
        for index, partition in enumerate(sorted(self._ends)):
            wanting = [member for member in group.members if member.wants(partition.topic)]
            if wanting:
                dealt[wanting[index % len(wanting)]].append(partition)
        group.dealt = dealt
        self.changed.notify_all()


class MemoryGroupOffsets:
    """Port GroupOffsets over the groups of one MemoryConsumerGroups."""

    def __init__(self, groups: MemoryConsumerGroups) -> None:
        self._groups = groups

    def committed(self, properties: Mapping[str, str], group: str) -> dict[TopicPartition, int]:
        """Return the next offset of each partition that the group has committed."""
        return self._groups.committed(group)

    def is_in_use(self, properties: Mapping[str, str], group: str) -> bool:
        """Return whether the group has a member."""
        return self._groups.has_members(group)

    def alter(self, properties: Mapping[str, str], group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group without members. Raises an error if it has some."""
        self._refuse_members(group)
        self._groups.ends(list(offsets))  # KeyError for unknown partitions
        self._groups.set_committed(group, offsets)

    def forget(self, properties: Mapping[str, str], group: str, partitions: Collection[TopicPartition]) -> None:
        """Remove committed offsets of a group without members."""
        self._refuse_members(group)
        self._groups.forget(group, partitions)

    def delete(self, properties: Mapping[str, str], group: str) -> None:
        """Remove all committed offsets of a group without members."""
        self._refuse_members(group)
        self._groups.forget(group)

    def _refuse_members(self, group: str) -> None:
        if self._groups.has_members(group):
            raise GroupInUseError(f"group {group} has members")


class MemorySinkGroup:
    """A SinkGroup of a MemoryConsumerGroups. One thread."""

    def __init__(self, groups: MemoryConsumerGroups, properties: Mapping[str, str]) -> None:
        self.group = properties["group.id"]
        self.expelled = False
        self._groups = groups
        self._held: list[TopicPartition] = []
        self._generation = 0  # the generation of the held assignment
        self._topics: frozenset[str] = frozenset()
        self._pattern: str | None = None
        self._joined = False

    def wants(self, topic: str) -> bool:
        """Return whether this member reads ``topic``."""
        if self._pattern is not None:
            return java_pattern(self._pattern).fullmatch(topic) is not None
        return topic in self._topics

    def subscribe(
        self,
        topics: Sequence[str],
        pattern: str | None,
        on_assigned: OnAssigned,
        on_revoked: OnRevoked,
        on_lost: OnLost,
    ) -> None:
        """Join the group for these topics, or for the topics that match ``pattern``."""
        self._topics, self._pattern = frozenset(topics), pattern
        self._tell_assigned, self._tell_revoked, self._tell_lost = on_assigned, on_revoked, on_lost
        self._joined = True
        with self._groups.changed:
            self._groups._join(self)

    def poll(self, timeout_ms: int) -> None:
        """Take part in a rebalance, and call the listeners. Waits up to ``timeout_ms`` for a change."""
        with self._groups.changed:
            if self._joined and not self._due():
                self._groups.changed.wait_for(self._due, timeout_ms / 1000)
        if not self._joined:
            return
        if self.expelled:
            self._take_loss()
        with self._groups.changed:
            group = self._groups._group(self.group)
            asked = group.generation
        if asked != self._generation and self not in group.ready:
            self._give_up()
            with self._groups.changed:
                if group.generation == asked:
                    group.ready.add(self)
                    self._groups._deal(group)
        self._take_assignment(group)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets. Raises FencedError: a partition is not assigned to this member any more."""
        with self._groups.changed:
            gone = sorted(str(offset) for offset in offsets if offset not in self._held)
            if offsets and (gone or self.expelled):
                raise FencedError(f"group {self.group}: {', '.join(gone) or 'all'} is no longer this member's")
            self._groups._group(self.group).committed.update(offsets)

    def generation(self) -> GroupGeneration | None:
        """Return the generation in which this member takes part, None before the first assignment."""
        return GroupGeneration(self.group, self._generation, f"member-{id(self)}") if self._generation else None

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end offset of each partition."""
        return self._groups.ends(partitions)

    def close(self) -> None:
        """Give up the partitions and leave the group."""
        if self._joined:
            self._joined = False
            if not self.expelled:
                self._give_up()
            with self._groups.changed:
                self._groups._leave(self)

    def _due(self) -> bool:
        group = self._groups._group(self.group)
        if self.expelled:
            return True
        if self in group.ready:
            return group.dealt is not None and self._generation != group.generation
        return self._generation != group.generation

    def _give_up(self) -> None:
        if self._held:
            self._tell_revoked(list(self._held))
            self._held = []

    def _take_loss(self) -> None:
        lost, self._held = self._held, []
        if lost:
            self._tell_lost(lost)
        self.expelled = False
        with self._groups.changed:
            self._groups._join(self)

    def _take_assignment(self, group: _Group) -> None:
        with self._groups.changed:
            if group.dealt is None or self not in group.dealt or self._generation == group.generation:
                return
            self._generation = group.generation
            self._held = list(group.dealt[self])
            committed = {partition: group.committed.get(partition, -1) for partition in self._held}
        self._tell_assigned(committed)
