"""Where the engine hosts a run, and what it does for the neighbours of one that does not stop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_connect_rt.ports.task_runner import Start, Stop
from spark_connect_rt.testing.memory_executor_clients import wait_until
from tests.unit.spark.test_revocations import Story, sink_launch


@pytest.fixture
def story() -> Iterator[Story]:
    running = Story()
    yield running
    running.engine.close(10)


def test_neighbours_of_a_run_that_does_not_stop_are_drained_before_its_slot_is_killed(story: Story) -> None:
    stuck = story.start("stuck")
    story.engine.do(Start(sink_launch("good")))
    (first,) = story.slices.all
    wait_until(lambda: first.ops().count("start") == 2)
    story.engine.do(Stop(stuck, 20))
    wait_until(lambda: [one["host"] for one in first.told if one["op"] == "stop"] == [1, 2])
    assert not first.aborted.is_set()
    first.report("ended", host=2)
    wait_until(lambda: len(story.slices.all) == 2 and "start" in story.slices.all[1].ops())
    assert first.aborted.wait(5)


def test_e5_nothing_is_hosted_while_the_group_is_out_of_reach(story: Story) -> None:
    asked: list[bool] = []
    reachable = [False]

    def may_vouch() -> bool:
        asked.append(reachable[0])
        return reachable[0]

    story.engine.live_while(may_vouch)
    story.engine.do(Start(sink_launch("s")))
    wait_until(lambda: len(asked) >= 2)
    assert story.slices.all == []
    reachable[0] = True
    wait_until(lambda: [one.ops() for one in story.slices.all] == [["start"]])
