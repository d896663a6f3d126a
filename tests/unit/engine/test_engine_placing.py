"""Where the engine hosts a run, and what it does for the neighbours of one that does not stop."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.driver.engine import Engine
from spark_connect_rt.engine.driver.model import EngineSettings
from spark_connect_rt.engine.driver.slot_jobs import OnSliceEvent, SliceConnected, SliceGone
from spark_connect_rt.engine.executor.control_wire import decode_java
from spark_connect_rt.engine.slot_losses import LossLimits
from spark_connect_rt.engine.task_runner import Expect, JavaCode, Start, Stop, TaskEvent, TaskWaiting
from spark_connect_rt.testing.memory_executor_clients import wait_until
from tests.unit.engine.test_revocations import Slice, Slices, Story, sink_launch


@pytest.fixture
def story() -> Iterator[Story]:
    running = Story()
    yield running
    running.engine.close(10)


def test_neighbours_of_a_hanging_run_are_drained_before_its_slot_is_killed(story: Story) -> None:
    stuck = story.start("stuck")
    story.engine.do(Start(sink_launch("good")))
    (first,) = story.slices.all
    wait_until(lambda: first.ops().count("start") == 2)
    story.engine.do(Stop(stuck, 20))
    wait_until(lambda: [message["host"] for message in first.told if message["op"] == "stop"] == [1, 2])
    assert not first.aborted.is_set()
    first.report("ended", host=2)
    wait_until(lambda: len(story.slices.all) == 2 and "start" in story.slices.all[1].ops())
    assert first.aborted.wait(5)


def test_e5_nothing_is_hosted_while_the_group_is_out_of_reach(story: Story) -> None:
    asked: list[bool] = []
    reachable = [False]

    def holds_lease() -> bool:
        asked.append(reachable[0])
        return reachable[0]

    story.engine.live_while(holds_lease)
    story.engine.do(Start(sink_launch("s")))
    wait_until(lambda: len(asked) >= 2)
    assert story.slices.all == []
    reachable[0] = True
    wait_until(lambda: [slice_.ops() for slice_ in story.slices.all] == [["start"]])


def test_a_run_without_an_executor_for_long_is_reported_until_it_is_hosted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gives = threading.Event()

    class Late(Slice):
        def __init__(self, slice_id: int, on_event: OnSliceEvent) -> None:
            super().__init__(slice_id, lambda event: on_event(event) if gives.is_set() else None)

    monkeypatch.setattr("tests.unit.engine.test_revocations.Slice", Late)
    slices, events = Slices(), list[TaskEvent]()
    engine = Engine(slices, EngineSettings(prewarm=False, housekeeping_ms=10, waiting_patience_ms=100))
    engine.open(events.append, lambda task, partitions: [])
    engine.do(Start(sink_launch("s")))
    wait_until(lambda: len(events) == 1)
    (waiting,) = events
    assert isinstance(waiting, TaskWaiting)
    assert 100 <= waiting.waited_ms < 5_000
    gives.set()
    slices.on_event(SliceConnected(1))
    wait_until(lambda: len(events) == 2)
    assert events[1] == TaskWaiting(waiting.task, waiting.run, 0)
    engine.close(10)


EXPECTED = Expect(ConnectorTaskId("j", 0), JavaCode(("/p/j",), connector_class="a.B"), {"key.converter": "K"})


def test_expected_task_is_announced_to_its_slot_and_is_not_a_task(story: Story) -> None:
    story.engine.do(EXPECTED)
    story.start("s")
    assert story.slices.all[0].ops() == ["start"]  # there was no slot yet, and none is opened for it
    story.engine.do(EXPECTED)
    (slice_,) = story.slices.all
    wait_until(lambda: slice_.ops() == ["start", "expect"])
    assert decode_java(slice_.told[1]["java"]) == EXPECTED.java
    assert slice_.told[1]["worker_config"] == EXPECTED.worker_config
    story.engine.close(10)
    assert [event for event in story.events if event.task == EXPECTED.task] == []


@pytest.mark.parametrize(
    "error",
    [
        "the reader process died: ExecutorLostFailure (executor 1 exited unrelated to the running tasks)",
        "Executor decommission: spot instance reclaimed",
    ],
)
def test_tasks_of_lost_machines_stay_together(error: str) -> None:
    slices, events = Slices(), list[TaskEvent]()
    engine = Engine(slices, EngineSettings(prewarm=False, housekeeping_ms=10, losses=LossLimits(backoff_ms=1)))
    engine.open(events.append, lambda task, partitions: [])
    for name in ("a", "b"):
        engine.do(Start(sink_launch(name)))
    for number in range(4):
        wait_until(lambda number=number: len(slices.all) == number + 1 and slices.all[number].ops() == ["start"] * 2)  # type: ignore[misc]
        slices.on_event(SliceGone(number + 1, error))
    wait_until(lambda: len(slices.all) == 5 and slices.all[4].ops() == ["start"] * 2)
    assert events == []
    engine.close(10)


def test_a_suspect_that_gets_no_core_shares_a_slot_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    class Short(Slice):
        """The fourth slot gets no core."""

        def __init__(self, slice_id: int, on_event: OnSliceEvent) -> None:
            starved = slice_id == 4
            super().__init__(
                slice_id, lambda event: on_event(event) if not starved or event != SliceConnected(4) else None
            )

    monkeypatch.setattr("tests.unit.engine.test_revocations.Slice", Short)
    slices, events = Slices(), list[TaskEvent]()
    settings = EngineSettings(prewarm=False, housekeeping_ms=10, losses=LossLimits(backoff_ms=1), apart_patience_ms=100)
    engine = Engine(slices, settings)
    engine.open(events.append, lambda task, partitions: [])
    for name in ("a", "b"):
        engine.do(Start(sink_launch(name)))
    for number in (0, 1):  # twice they are lost together
        wait_until(lambda number=number: len(slices.all) == number + 1 and slices.all[number].ops() == ["start"] * 2)  # type: ignore[misc]
        slices.on_event(SliceGone(number + 1, "the reader process died"))
    wait_until(
        lambda: [slice_.ops() for slice_ in slices.all[2:]] == [["start"], []]
    )  # apart, as far as there are cores
    wait_until(lambda: slices.all[2].ops() == ["start"] * 2)
    assert slices.all[3].aborted.wait(5)
    assert events == []
    engine.close(10)


def test_suspects_that_are_cleared_share_one_slot_again_whichever_is_cleared_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Late(Slice):
        """The lower slots of those that are apart are connected last, so their tasks are cleared last."""

        def __init__(self, slice_id: int, on_event: OnSliceEvent) -> None:
            held: list[SliceConnected] = []
            is_late = slice_id in (3, 4)
            super().__init__(slice_id, (lambda event: held.append(event)) if is_late else on_event)  # type: ignore[arg-type]
            self._on_event = on_event
            for event in held:
                threading.Timer(0.3 * (5 - slice_id), on_event, [event]).start()

    monkeypatch.setattr("tests.unit.engine.test_revocations.Slice", Late)
    slices = Slices()
    losses = LossLimits(backoff_ms=1, cleared_after_ms=1_000)
    engine = Engine(slices, EngineSettings(prewarm=False, housekeeping_ms=10, losses=losses, idle_linger_ms=20))
    engine.open(lambda _: None, lambda task, partitions: [])
    for name in ("a", "b", "c"):
        engine.do(Start(sink_launch(name)))
    for number in (0, 1):  # twice they are lost together
        wait_until(lambda number=number: len(slices.all) == number + 1 and slices.all[number].ops() == ["start"] * 3)  # type: ignore[misc]
        slices.on_event(SliceGone(number + 1, "the reader process died"))
    wait_until(lambda: [slice_.ops() for slice_ in slices.all[2:]] == [["start"]] * 3)  # apart
    ended: set[int] = set()

    def one_is_left() -> bool:
        for slice_ in slices.all[2:]:
            for message in [told for told in slice_.told if told["op"] == "stop" and told["host"] not in ended]:
                ended.add(message["host"])
                slice_.report("ended", host=message["host"])
        return sorted(slice_.ops().count("start") - slice_.ops().count("stop") for slice_ in slices.all[2:]) == [
            0,
            0,
            3,
        ]

    wait_until(one_is_left)
    engine.close(10)


def test_task_that_fits_an_open_slot_does_not_wait_for_a_failing_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Failing(Slice):
        """Only the first slot can be opened."""

        def __init__(self, slice_id: int, on_event: OnSliceEvent) -> None:
            super().__init__(slice_id, on_event if slice_id == 1 else lambda event: None)
            if slice_id > 1:
                on_event(SliceGone(slice_id, "[Errno 28] No space left on device"))

    monkeypatch.setattr("tests.unit.engine.test_revocations.Slice", Failing)
    slices, events = Slices(), list[TaskEvent]()
    engine = Engine(slices, EngineSettings(prewarm=False, housekeeping_ms=10))
    engine.open(events.append, lambda task, partitions: [])
    engine.do(Start(sink_launch("a")))
    wait_until(lambda: [slice_.ops() for slice_ in slices.all] == [["start"]])
    alone = replace(sink_launch("alone"), isolation="process")
    engine.do(Start(alone))
    wait_until(lambda: len(slices.all) >= 3)
    engine.do(Start(sink_launch("b")))
    wait_until(lambda: slices.all[0].ops() == ["start"] * 2)
    assert events == []  # and the other waits
    monkeypatch.setattr("spark_connect_rt.engine.driver.reports.WHY_PATIENCE_MS", 1)
    wait_until(lambda: bool(events))
    (waiting,) = events
    assert isinstance(waiting, TaskWaiting)
    assert (waiting.task, waiting.is_late) == (alone.task, False)
    assert waiting.why == "no process can be opened: [Errno 28] No space left on device"
    engine.close(10)
