"""The contract of every SinkGroup. Inherited by tests/unit/testing and tests/integration/kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import FencedError
from spark_connect_rt.kafka.interfaces import SinkGroup
from tests.contract.compacted_log_contract import fresh_name, until

POLL_MS = 20


class Member:
    """A member and the calls of its listeners."""

    def __init__(self, group: SinkGroup) -> None:
        self.group = group
        self.held: dict[TopicPartition, int] = {}  # -> committed offset it was given
        self.told: list[tuple[str, list[TopicPartition]]] = []
        self.on_assigned: Callable[[], None] = lambda: None
        self.before_release: Callable[[Sequence[TopicPartition]], None] = lambda partitions: None

    def subscribe(self, topics: Sequence[str] = (), pattern: str | None = None) -> Member:
        self.group.subscribe(topics, pattern, self._assigned, self._revoked, self._lost)
        return self

    def _assigned(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.told.append(("assigned", sorted(offsets)))
        self.held.update(offsets)
        self.on_assigned()

    def _revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.told.append(("revoked", sorted(partitions)))
        self.before_release(partitions)
        for partition in partitions:
            del self.held[partition]

    def _lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.told.append(("lost", sorted(partitions)))
        for partition in partitions:
            del self.held[partition]


class SinkGroupContract:
    """The subclass makes topics and members."""

    def new_topic(self, name: str, partitions: int) -> None:
        raise NotImplementedError

    def write(self, partition: TopicPartition, count: int) -> None:
        """Append ``count`` records to the partition."""
        raise NotImplementedError

    def new_group(self, group: str) -> SinkGroup:
        raise NotImplementedError

    @pytest.fixture
    def topic(self) -> str:
        name = fresh_name("sink")
        self.new_topic(name, 4)
        return name

    @pytest.fixture
    def name(self) -> str:
        return fresh_name("connect-g")

    def poll_until(self, fact: Callable[[], bool], *members: Member) -> None:
        def polled() -> bool:
            for member in members:
                member.group.poll(POLL_MS)
            return fact()

        until(polled)

    def all_of(self, topic: str) -> set[TopicPartition]:
        return {TopicPartition(topic, number) for number in range(4)}

    def test_a_lone_member_gets_every_partition_without_an_offset(self, topic: str, name: str) -> None:
        member = Member(self.new_group(name)).subscribe([topic])
        self.poll_until(lambda: set(member.held) == self.all_of(topic), member)
        assert set(member.held.values()) == {-1}
        member.group.close()

    def test_next_member_starts_at_the_committed_offsets(self, topic: str, name: str) -> None:
        self.write(TopicPartition(topic, 1), 30)
        first = Member(self.new_group(name)).subscribe([topic])
        self.poll_until(lambda: len(first.held) == 4, first)
        first.group.commit({TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 17})
        first.group.commit({})
        first.group.close()
        second = Member(self.new_group(name)).subscribe([topic])
        self.poll_until(lambda: len(second.held) == 4, second)
        second.group.close()
        # ``close`` returned everything, so check the call at the assignment
        assert second.told[0] == ("assigned", sorted(self.all_of(topic)))

    def test_offsets_arrive_with_the_assignment(self, topic: str, name: str) -> None:
        self.write(TopicPartition(topic, 1), 30)
        first = Member(self.new_group(name)).subscribe([topic])
        self.poll_until(lambda: len(first.held) == 4, first)
        first.group.commit({TopicPartition(topic, 1): 17})
        first.group.close()
        second = Member(self.new_group(name)).subscribe([topic])
        self.poll_until(lambda: len(second.held) == 4, second)
        assert second.held == {partition: 17 if partition.partition == 1 else -1 for partition in self.all_of(topic)}
        second.group.close()

    def test_two_members_share_and_the_first_gives_up_before(self, topic: str, name: str) -> None:
        first = Member(self.new_group(name)).subscribe([topic])
        self.poll_until(lambda: len(first.held) == 4, first)
        first.before_release = lambda partitions: first.group.commit(dict.fromkeys(partitions, 5))
        second = Member(self.new_group(name)).subscribe([topic])

        def shared() -> bool:
            assert not set(first.held) & set(second.held)
            return len(first.held) == len(second.held) == 2

        self.poll_until(shared, first, second)
        assert {*first.held, *second.held} == self.all_of(topic)
        assert set(second.held.values()) == {5}  # committed inside the callback
        second.group.close()
        self.poll_until(lambda: len(first.held) == 4, first)
        first.group.close()

    def test_the_generation_is_known_at_the_assignment_and_rises(self, topic: str, name: str) -> None:
        first = Member(self.new_group(name))
        at_assignment = []
        first.on_assigned = lambda: at_assignment.append(first.group.generation())
        first.subscribe([topic])
        self.poll_until(lambda: len(first.held) == 4, first)
        alone = first.group.generation()
        assert alone is not None
        assert (alone.group, alone.instance, at_assignment[-1]) == (name, None, alone)
        second = Member(self.new_group(name)).subscribe([topic])
        self.poll_until(lambda: len(first.held) == len(second.held) == 2, first, second)
        mine, other = first.group.generation(), second.group.generation()
        assert mine is not None
        assert other is not None
        assert mine.generation == other.generation > alone.generation
        assert mine.member == alone.member != other.member
        second.group.close()
        first.group.close()

    def test_closing_revokes_first_and_lets_commit(self, topic: str, name: str) -> None:
        first = Member(self.new_group(name)).subscribe([topic])
        self.poll_until(lambda: len(first.held) == 4, first)
        first.before_release = lambda partitions: first.group.commit(dict.fromkeys(partitions, 9))
        first.group.close()
        first.group.close()
        assert first.told[-1] == ("revoked", sorted(self.all_of(topic)))
        second = Member(self.new_group(name)).subscribe([topic])
        self.poll_until(lambda: len(second.held) == 4, second)
        assert set(second.held.values()) == {9}
        second.group.close()

    def test_a_partition_not_held_cannot_be_committed(self, topic: str, name: str) -> None:
        member = Member(self.new_group(name)).subscribe([topic])
        with pytest.raises(FencedError):
            member.group.commit({TopicPartition(topic, 0): 1})
        self.poll_until(lambda: len(member.held) == 4, member)
        with pytest.raises(FencedError, match="another-7"):
            member.group.commit({TopicPartition(topic, 0): 1, TopicPartition("another", 7): 1})
        member.group.close()

    def test_a_pattern_matches_whole_names_in_javas_spelling(self, name: str) -> None:
        stem = fresh_name("rx")
        for end in ("-1", "-22", "-x", "-1-tail"):
            self.new_topic(f"{stem}{end}", 1)
        member = Member(self.new_group(name)).subscribe(pattern=rf"\Q{stem}\E-(?<number>\p{{Digit}}+)")
        wanted = {TopicPartition(f"{stem}-1", 0), TopicPartition(f"{stem}-22", 0)}
        self.poll_until(lambda: set(member.held) == wanted, member)
        member.group.close()

    def test_a_topic_that_comes_later_is_taken_up(self, name: str) -> None:
        stem = fresh_name("late")
        member = Member(self.new_group(name)).subscribe(pattern=f"{stem}-.*")
        member.group.poll(POLL_MS)
        self.new_topic(f"{stem}-a", 1)
        self.poll_until(lambda: set(member.held) == {TopicPartition(f"{stem}-a", 0)}, member)
        self.new_topic(f"{stem}-b", 1)
        both = {TopicPartition(f"{stem}-a", 0), TopicPartition(f"{stem}-b", 0)}
        self.poll_until(lambda: set(member.held) == both, member)
        member.group.close()

    def test_log_ends_are_known_for_any_partition(self, topic: str, name: str) -> None:
        self.write(TopicPartition(topic, 2), 7)
        member = Member(self.new_group(name)).subscribe([topic])
        ends = member.group.end_offsets(sorted(self.all_of(topic)))
        assert ends == {partition: 7 if partition.partition == 2 else 0 for partition in self.all_of(topic)}
        assert member.group.end_offsets([]) == {}
        member.group.close()

    def test_callback_error_is_raised_by_poll(self, topic: str, name: str) -> None:
        group = self.new_group(name)

        def refuse(offsets: Mapping[TopicPartition, int]) -> None:
            raise ValueError("no place to start")

        group.subscribe([topic], None, refuse, lambda p: None, lambda p: None)

        def poll_for_ever() -> bool:
            group.poll(POLL_MS)
            return False

        with pytest.raises(ValueError, match="no place to start"):
            until(poll_for_ever)
        group.close()
