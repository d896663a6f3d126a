"""A sink task's membership: what is read, drained, committed, and refused."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from spark_connect_rt.base.concurrency import SystemClock
from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.engine.task_runner import Assign, NoteGeneration, Revoke, TaskCommand, TaskKind, TaskLaunch
from spark_connect_rt.errors import ConnectError, FencedError, RetriableError
from spark_connect_rt.kafka.interfaces import GroupGeneration, OnAssigned, OnLost, OnRevoked
from spark_connect_rt.runtime.worker.launches import sink_settings
from spark_connect_rt.runtime.worker.worker_sink_task import SinkSettings, SinkTaskMembership
from spark_connect_rt.testing.memory_executor_clients import wait_until

TASK = ConnectorTaskId("s", 0)
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class ScriptedGroup:
    """A SinkGroup whose rebalances the test orders."""

    def __init__(self) -> None:
        self.script: list[Callable[[], None]] = []
        self.commits: list[dict[TopicPartition, int]] = []
        self.refuse: list[Exception] = []
        self.member = GroupGeneration("connect-s", 7, "m-1")
        self.closed = threading.Event()
        self.subscribed: tuple[Any, Any] = ((), None)
        self._news = threading.Event()

    def subscribe(
        self, topics: Sequence[str], pattern: str | None, assigned: OnAssigned, revoked: OnRevoked, lost: OnLost
    ) -> None:
        self.subscribed = (tuple(topics), pattern)
        self._assigned, self._revoked, self._lost = assigned, revoked, lost

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._then(lambda: self._assigned(offsets))

    def revoke(self, *partitions: TopicPartition) -> None:
        self._then(lambda: self._revoked(partitions))

    def lose(self, *partitions: TopicPartition) -> None:
        self._then(lambda: self._lost(partitions))

    def _then(self, call: Callable[[], None]) -> None:
        done = threading.Event()

        def run() -> None:
            call()
            done.set()

        self.script.append(run)
        self._news.set()
        self.last = done

    def poll(self, timeout_ms: int) -> None:
        self._news.wait(timeout_ms / 1000)
        self._news.clear()
        while self.script:
            self.script.pop(0)()

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self.refuse:
            raise self.refuse.pop(0)
        self.commits.append(dict(offsets))

    def generation(self) -> GroupGeneration:
        return self.member

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 100)

    def close(self) -> None:
        self.closed.set()


class RecordingRunner:
    def __init__(self) -> None:
        self.assigned: list[dict[TopicPartition, int]] = []
        self.revoked: list[tuple[TopicPartition, ...]] = []
        self.limits_ms: list[int] = []
        self.generations: list[tuple[GroupGeneration, int]] = []  # and how many assignments came before
        self.refuse: Exception | None = None

    def do(self, command: TaskCommand) -> None:
        match command:
            case Assign(_, offsets):
                if self.refuse:
                    raise self.refuse
                self.assigned.append(dict(offsets))
            case NoteGeneration(_, generation):
                self.generations.append((generation, len(self.assigned)))
            case Revoke(_, partitions, timeout_ms):
                self.limits_ms.append(timeout_ms)
                self.revoked.append(partitions)


class Story:
    def __init__(self, **settings: Any) -> None:
        self.group, self.runner = ScriptedGroup(), RecordingRunner()
        self.left, self.failures = threading.Event(), list[str]()
        config = {"group.id": "connect-s", **settings.pop("consumer", {})}
        defaults: dict[str, Any] = {"commit_interval_ms": 5, "lag_interval_ms": 5, "poll_ms": 5, "topics": ("t",)}
        self.membership = SinkTaskMembership(
            TASK,
            SinkSettings(config, **{**defaults, **settings}),
            lambda _: self.group,
            self.runner,  # type: ignore[arg-type]
            SystemClock(),
            self.left.set,
            self.failures.append,
        )
        self.membership.join()


@pytest.fixture
def story() -> Iterator[Story]:
    running = Story()
    yield running
    running.membership.leave(commit=True)
    assert running.left.wait(5)


def test_assigned_partitions_are_read_from_their_committed_offsets(story: Story) -> None:
    story.group.assign({P0: 5, P1: -1})
    wait_until(lambda: bool(story.runner.assigned))
    assert story.runner.assigned == [{P0: 5, P1: -1}]
    assert story.group.subscribed == (("t",), None)


def test_engine_learns_a_generation_before_its_assignment_where_requested(story: Story) -> None:
    asking = Story(reports_generation=True)
    for variant in (asking, story):
        variant.group.assign({P0: 5})
        wait_until(lambda variant=variant: bool(variant.runner.assigned))
    first = asking.group.member
    assert (asking.runner.generations, story.runner.generations) == ([(first, 0)], [])
    asking.group.member = replace(first, generation=8)  # a rebalance that moves nothing of this member's
    wait_until(lambda: len(asking.runner.generations) == 2)
    assert asking.runner.generations[1] == (asking.group.member, 1)
    asking.membership.leave(commit=True)
    assert asking.left.wait(5)


def test_latest_starts_at_the_end_where_nothing_is_committed() -> None:
    latest = Story(consumer={"auto.offset.reset": "latest"})
    latest.group.assign({P0: -1})
    wait_until(lambda: latest.runner.assigned == [{P0: -2}])
    latest.membership.leave(commit=True)
    assert latest.left.wait(5)


def test_durable_offsets_are_committed_once_and_lag_is_measured(story: Story) -> None:
    story.group.assign({P0: 0})
    wait_until(lambda: bool(story.runner.assigned))
    story.membership.durable({P0: 40})
    wait_until(lambda: story.group.commits == [{P0: 40}])
    wait_until(lambda: story.membership.lag == 60)
    story.membership.durable({P0: 100})
    wait_until(lambda: story.group.commits[1:] == [{P0: 100}])
    wait_until(lambda: story.membership.lag == 0)


def test_a_member_that_has_left_says_no_lag_rather_than_its_last_one(story: Story) -> None:
    story.group.assign({P0: 0})
    wait_until(lambda: bool(story.runner.assigned))
    story.membership.durable({P0: 100})
    wait_until(lambda: story.membership.lag == 0)
    story.membership.leave(commit=True)
    assert story.left.wait(5)
    assert story.membership.lag is None


def test_i2_offsets_of_partitions_it_does_not_hold_are_refused(story: Story) -> None:
    story.group.assign({P0: 0, P1: 0})
    story.group.lose(P1)
    assert story.group.last.wait(5)
    story.membership.durable({P0: 1, P1: 9})
    wait_until(lambda: story.group.commits == [{P0: 1}])
    assert story.runner.revoked == [(P1,)]


def test_i4_revoked_partitions_are_drained_and_committed_before_they_go(story: Story) -> None:
    story.group.assign({P0: 0, P1: 0})
    story.group.revoke(P1)
    wait_until(lambda: story.runner.revoked == [(P1,)])
    assert not story.group.last.is_set()
    story.membership.durable({P1: 7})
    story.membership.released(frozenset({P1}))
    assert story.group.last.wait(5)
    assert {P1: 7} in story.group.commits
    story.membership.durable({P1: 8})
    story.membership.durable({P0: 1})
    wait_until(lambda: {P0: 1} in story.group.commits)
    assert all(P1 not in commit or commit[P1] == 7 for commit in story.group.commits)


def test_i4_a_partition_moves_only_when_the_engine_reports_that_no_task_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_connect_rt.runtime.worker.worker_sink_task.WARN_EACH_S", 0.01)
    slow = Story(release_timeout_ms=30)
    slow.group.assign({P0: 0})
    slow.group.revoke(P0)
    wait_until(lambda: slow.runner.revoked == [(P0,)])
    assert slow.runner.limits_ms == [30]
    assert not slow.group.last.wait(0.1)
    slow.membership.released(frozenset({P0}))
    assert slow.group.last.wait(5)
    slow.membership.leave(commit=True)
    assert slow.left.wait(5)


def test_i4_the_answer_to_a_loss_is_not_that_to_the_revocation_after_it(story: Story) -> None:
    story.group.assign({P0: 0})
    story.group.lose(P0)
    story.group.assign({P0: 0})
    story.group.revoke(P0)
    wait_until(lambda: story.runner.revoked == [(P0,), (P0,)])
    story.membership.released(frozenset({P0}))
    assert not story.group.last.wait(0.05)
    story.membership.released(frozenset({P0}))
    assert story.group.last.wait(5)


@pytest.mark.parametrize(("interval_ms", "limit_ms"), [("300000", 285_000), ("20000", 10_000), (None, 285_000)])
def test_i4_the_limit_of_a_revocation_follows_the_consumers(interval_ms: str | None, limit_ms: int) -> None:
    consumer = {} if interval_ms is None else {"max.poll.interval.ms": "${vault:interval}"}
    launch = TaskLaunch(TASK, 1, 1, TaskKind.SINK, "m:C", {"topics": "t"}, {}, {}, client_config=consumer)
    settings = sink_settings(launch, lambda config: dict.fromkeys(consumer, interval_ms or "") | {"x": "y"})
    assert settings.resolved().release_timeout_ms == limit_ms


def test_a_commit_refused_for_a_while_is_tried_again_and_a_fenced_one_is_not(story: Story) -> None:
    story.group.assign({P0: 0})
    wait_until(lambda: bool(story.runner.assigned))
    story.group.refuse = [RetriableError("coordinator is loading")]
    story.membership.durable({P0: 3})
    wait_until(lambda: story.group.commits == [{P0: 3}])
    story.group.refuse = [FencedError("generation is over")]
    wait_until(lambda: story.membership.committed)
    story.membership.durable({P0: 4})
    wait_until(lambda: story.group.refuse == [])
    assert not story.membership.committed
    story.membership.durable({P0: 5})
    wait_until(lambda: story.group.commits == [{P0: 3}, {P0: 5}])
    wait_until(lambda: story.membership.committed)


def test_durable_offsets_of_a_lost_partition_are_not_committed(story: Story) -> None:
    story.group.assign({P0: 0, P1: 0})
    story.group.lose(P1)
    assert story.group.last.wait(5)
    story.membership.durable({P0: 1, P1: 9})
    wait_until(lambda: story.group.commits == [{P0: 1}])
    assert not story.membership.committed


def test_leaving_commits_what_is_durable_first() -> None:
    story = Story(commit_interval_ms=60_000)
    story.group.assign({P0: 0})
    wait_until(lambda: bool(story.runner.assigned))
    story.membership.durable({P0: 11})
    story.membership.leave(commit=True)
    assert story.left.wait(5)
    assert story.group.commits == [{P0: 11}]
    assert story.membership.committed
    assert story.group.closed.is_set()


def test_leaving_without_a_commit_leaves_the_offsets_to_the_new_owner() -> None:
    story = Story(commit_interval_ms=60_000)
    story.group.assign({P0: 0})
    wait_until(lambda: bool(story.runner.assigned))
    story.membership.durable({P0: 11})
    story.membership.leave(commit=False)
    assert story.left.wait(5)
    assert story.group.commits == []
    assert not story.membership.committed


def test_a_task_that_never_ran_leaves_at_once() -> None:
    left = threading.Event()
    membership = SinkTaskMembership(
        TASK,
        SinkSettings({}),
        lambda _: ScriptedGroup(),
        RecordingRunner(),  # type: ignore[arg-type]
        SystemClock(),
        left.set,
        lambda _: None,
    )
    membership.leave(commit=True)
    assert left.is_set()


def test_no_offset_and_reset_none_fails_the_task_naming_the_partition() -> None:
    story = Story(consumer={"auto.offset.reset": "none"})
    story.group.assign({P0: -1})
    wait_until(lambda: bool(story.failures))
    story.membership.leave(commit=True)
    assert story.left.wait(5)
    assert "no committed offset for t-0" in story.failures[0]


def test_i4_a_membership_that_failed_keeps_its_partitions_until_the_run_has_ended(story: Story) -> None:
    story.group.assign({P0: 0})
    wait_until(lambda: bool(story.runner.assigned))
    story.runner.refuse = ConnectError("a bug")
    story.group.assign({P1: 0})
    wait_until(lambda: bool(story.failures))
    assert not story.group.closed.wait(0.05)  # the task still writes: nobody else may have P0
    story.membership.durable({P0: 9})
    story.membership.leave(commit=True)
    assert story.left.wait(5)
    assert story.group.commits == [{P0: 9}]
