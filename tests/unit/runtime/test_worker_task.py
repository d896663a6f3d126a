"""A run is believed only while it is the current one; its end waits for its last offsets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.engine.task_runner import (
    BatchDurable,
    Pause,
    Start,
    Stop,
    TaskCommand,
    TaskEnded,
    TaskFailed,
    TaskKind,
    TaskLaunch,
    TaskMeasured,
    TaskPaused,
    TaskRunning,
)
from spark_connect_rt.errors import DataError
from spark_connect_rt.group.work_plan import Life
from spark_connect_rt.runtime.worker.worker_task import TaskServices, WorkerTask
from spark_connect_rt.topics.status_records import State

TASK = ConnectorTaskId("a", 0)


class StandingClock:
    def now_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> int:
        return 0


@dataclass
class Calls:
    """What the task asked of its worker and of the engine."""

    told: list[TaskCommand] = field(default_factory=list)
    statuses: list[State | None] = field(default_factory=list)
    traces: list[str | None] = field(default_factory=list)
    offsets: list[Any] = field(default_factory=list)
    written: list[Callable[[Exception | None], None]] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    durable_at_once: bool = True
    refuse: Exception | None = None

    def do(self, command: TaskCommand) -> None:
        self.told.append(command)

    def put_offsets(
        self, connector: str, offsets: Any, on_done: Callable[[Exception | None], None], is_wanted: Callable[[], bool]
    ) -> None:
        assert is_wanted()
        if self.refuse:
            raise self.refuse
        self.offsets.append((connector, offsets))
        self.written.append(on_done)
        if self.durable_at_once:
            on_done(None)

    def report(self, state: State | None, trace: str | None = None, version: str | None = None) -> None:
        self.statuses.append(state)
        self.traces.append(trace)


class FakeMembership:
    lag: int | None = None

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.committed = True

    def join(self) -> None:
        self.calls.append("join")

    def durable(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.calls.append(dict(offsets))

    def released(self, partitions: frozenset[TopicPartition]) -> None:
        self.calls.append(("released", partitions))

    def leave(self, commit: bool) -> None:
        self.calls.append(("leave", commit))


def make(calls: Calls, kind: TaskKind = TaskKind.SOURCE) -> WorkerTask:
    launch = TaskLaunch(TASK, 7, 3, kind, "m:C", {}, {}, {})
    services = TaskServices(
        clock=StandingClock(),
        runner=calls,  # type: ignore[arg-type]
        report=calls.report,
        put_offsets=calls.put_offsets,
        put_topic=lambda task, topic: calls.topics.append(topic),
        changed=lambda what: None,
        record_event=lambda kind, summary, **more: calls.events.append((kind, summary, more)),
        standing_changed=lambda: None,
        stop_limit_ms=500,
    )
    return WorkerTask(launch, "key", services)


def durable(run: int = 7, generation: int = 3, position: int = 1, topics: Sequence[str] = ("t",)) -> BatchDurable:
    return BatchDurable(
        TASK, run, generation, 10, 100, source_offsets=(({"f": 1}, {"p": position}),), topics=tuple(topics)
    )


def test_a_run_is_reported_running_paused_and_unassigned() -> None:
    calls = Calls()
    task = make(calls)
    task.start()
    task.on_event(TaskRunning(TASK, 7))
    task.switch(True)
    task.on_event(TaskPaused(TASK, 7))
    task.stop(500, State.UNASSIGNED)
    assert task.actual().life is Life.STOPPING
    task.on_event(TaskEnded(TASK, 7, True))
    assert calls.statuses == [State.RUNNING, State.PAUSED, State.UNASSIGNED]
    assert [type(command) for command in calls.told] == [Start, Pause, Stop]
    assert task.actual().life is Life.STOPPED


def test_report_of_a_task_is_an_event_under_its_name() -> None:
    calls = Calls()
    task = make(calls)
    task.on_event(TaskRunning(TASK, 7))
    events = (("t-0: 4 offsets were deleted", {"topic": "t"}),)
    task.on_event(TaskMeasured(TASK, 7, 1, "reader", {}, {}, events=events))
    assert calls.events == [
        ("report", "t-0: 4 offsets were deleted", {"connector": "a", "task": 0, "details": {"topic": "t"}})
    ]


def test_a_durable_batch_is_counted_and_its_offsets_written() -> None:
    calls = Calls()
    task = make(calls)
    task.on_event(TaskRunning(TASK, 7))
    task.on_event(durable())
    task.on_event(durable(position=2))
    assert calls.offsets == [("a", [({"f": 1}, {"p": 1})]), ("a", [({"f": 1}, {"p": 2})])]
    progress = task.progress()
    assert (progress.records, progress.data_bytes, progress.skipped) == (20, 200, 0)
    assert calls.topics == ["t", "t"]  # the status store knows which it has
    assert progress.topics == ("t",)


@pytest.mark.parametrize(
    "zombie",
    [
        pytest.param(durable(run=6), id="older run"),
        pytest.param(durable(generation=2), id="older generation"),
    ],
)
def test_i2_a_zombies_batch_commits_nothing_and_is_logged(
    zombie: BatchDurable, caplog: pytest.LogCaptureFixture
) -> None:
    calls = Calls()
    task = make(calls)
    task.on_event(TaskRunning(TASK, 7))
    task.on_event(zombie)
    assert calls.offsets == []
    assert task.progress().records == 0
    assert [caplog.messages[-1].split()[0], caplog.messages[-1].split()[-1]] == ["task=a-0", "rejected"]


def test_i2_a_fenced_run_commits_and_reports_nothing_more() -> None:
    calls = Calls()
    task = make(calls)
    task.on_event(TaskRunning(TASK, 7))
    task.fence()
    task.on_event(durable())
    task.stop(500, State.UNASSIGNED)
    task.on_event(TaskEnded(TASK, 7, True))
    assert calls.offsets == []
    assert calls.statuses == [State.RUNNING]
    assert task.actual().life is Life.STOPPED


def test_i5_a_run_is_over_when_its_last_offsets_are_durable() -> None:
    calls = Calls(durable_at_once=False)
    task = make(calls)
    task.on_event(TaskRunning(TASK, 7))
    task.on_event(durable())
    task.stop(500, State.UNASSIGNED)
    task.on_event(TaskEnded(TASK, 7, True))
    assert task.actual().life is Life.STOPPING
    calls.written[0](None)
    assert task.actual().life is Life.STOPPED


def test_a_failed_task_keeps_its_trace_until_it_is_restarted() -> None:
    calls = Calls()
    task = make(calls)
    task.on_event(TaskRunning(TASK, 7))
    task.on_event(TaskFailed(TASK, 7, "Trace\nValueError: no"))
    task.stop(500, State.UNASSIGNED)
    task.on_event(TaskEnded(TASK, 7, True))
    assert calls.statuses == [State.RUNNING, State.FAILED]
    assert calls.traces[-1] == "Trace\nValueError: no"


def test_a_failure_without_a_stop_leaves_it_failed() -> None:
    calls = Calls()
    task = make(calls)
    task.on_event(TaskFailed(TASK, 7, "no"))
    task.on_event(TaskEnded(TASK, 7, True))
    assert task.actual().life is Life.FAILED


def test_an_unrequested_end_is_a_failure() -> None:
    calls = Calls()
    task = make(calls)
    task.on_event(TaskRunning(TASK, 7))
    task.on_event(TaskEnded(TASK, 7, False))
    assert calls.statuses == [State.RUNNING, State.FAILED]
    assert task.actual().life is Life.FAILED


def test_a_status_of_none_removes_a_task_that_is_configured_no_more() -> None:
    calls = Calls()
    task = make(calls)
    task.on_event(TaskRunning(TASK, 7))
    task.stop(500, None)
    task.on_event(TaskEnded(TASK, 7, True))
    assert calls.statuses == [State.RUNNING, None]


def test_offsets_of_a_forbidden_type_fail_the_task() -> None:
    calls = Calls(refuse=DataError("offset 'p' is a list"))
    task = make(calls)
    task.on_event(TaskRunning(TASK, 7))
    task.on_event(durable())
    assert calls.statuses == [State.RUNNING, State.FAILED]
    assert "is a list" in (calls.traces[-1] or "")
    assert Stop(TASK, 500) in calls.told


def test_a_sink_task_joins_its_group_when_it_runs_and_leaves_before_it_is_over() -> None:
    calls, membership = Calls(), FakeMembership()
    task = make(calls, TaskKind.SINK)
    task.membership = membership
    task.on_event(TaskRunning(TASK, 7))
    part = TopicPartition("t", 0)
    task.on_event(BatchDurable(TASK, 7, 3, 5, 50, sink_offsets=((part, 5),)))
    task.stop(500, State.UNASSIGNED)
    task.on_event(TaskEnded(TASK, 7, True))
    assert membership.calls == ["join", {part: 5}, ("leave", True)]
    assert task.actual().life is Life.STOPPING
    task.membership_left()
    assert task.actual().life is Life.STOPPED


@pytest.mark.parametrize("committed", [True, False])
def test_run_is_over_only_after_the_work_behind_its_last_commit(
    committed: bool,
) -> None:
    calls, membership = Calls(), FakeMembership()
    membership.committed = committed
    task = make(calls, TaskKind.SPARK_SINK)
    task.membership = membership
    seen: list[Life] = []
    task.on_event(TaskRunning(TASK, 7))
    task.stop(500, State.UNASSIGNED)
    task.on_event(TaskEnded(TASK, 7, True, on_committed=lambda: seen.append(task.actual().life)))
    assert seen == []
    task.membership_left()
    assert seen == ([Life.STOPPING] if committed else [])
    assert task.actual().life is Life.STOPPED


def test_an_engine_that_refuses_a_run_fails_the_task_only() -> None:
    class Refusing(Calls):
        def do(self, command: TaskCommand) -> None:
            raise RuntimeError("no session")

    calls = Refusing()
    task = make(calls)
    task.start()
    assert calls.statuses == [State.FAILED]
    assert "no session" in (calls.traces[-1] or "")
    assert task.actual().life is Life.FAILED


def test_a_membership_that_fails_lets_its_task_drain_and_a_fence_does_not() -> None:
    """A limit of 0 kills the slot, with the neighbours of the task in it."""
    calls = Calls()
    task = make(calls, TaskKind.SINK)
    task.membership = FakeMembership()  # type: ignore[assignment]
    task.on_event(TaskRunning(TASK, 7))
    task.fail("no right to the group")
    assert calls.told == [Stop(TASK, 500)]
    assert calls.statuses == [State.RUNNING, State.FAILED]
    task.fence()
    assert calls.told[1:] == [Stop(TASK, 0)]
