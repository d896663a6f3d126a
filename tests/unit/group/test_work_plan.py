"""Wanted against actual: every pair has one next step."""

import pytest

from spark_connect_rt.group.work_plan import Life, RunningWork, TargetWork, WorkActions, plan_work

A, B = TargetWork("key", False), TargetWork("other", False)


@pytest.mark.parametrize(
    ("want", "life", "step"),
    [
        (None, Life.ALIVE, "stop"),
        (None, Life.STOPPING, "waiting"),
        (None, Life.STOPPED, "forget"),
        (None, Life.FAILED, "forget"),
        (A, Life.ALIVE, None),
        (A, Life.STOPPING, "waiting"),
        (A, Life.STOPPED, "start"),
        (A, Life.FAILED, None),
        (B, Life.ALIVE, "stop"),
        (B, Life.STOPPING, "waiting"),
        (B, Life.STOPPED, "start"),
        (B, Life.FAILED, "start"),
        (TargetWork("key", True), Life.ALIVE, "switch"),
        (TargetWork("key", True), Life.FAILED, None),
    ],
)
def test_every_pair_of_wanted_and_actual_has_one_next_step(
    want: TargetWork | None, life: Life, step: str | None
) -> None:
    actions = plan_work({"x": want} if want else {}, {"x": RunningWork("key", False, life)}, may_start=True)
    expected = WorkActions(**{step: ("x",)}) if step else WorkActions()
    assert actions == expected


def test_new_work_starts_only_when_it_may() -> None:
    assert plan_work({"x": A}, {}, may_start=True).start == ("x",)
    assert plan_work({"x": A}, {}, may_start=False).held_back == ("x",)
    stopped = {"x": RunningWork("key", False, Life.STOPPED)}
    assert plan_work({"x": A}, stopped, may_start=False).held_back == ("x",)


def test_stops_never_wait_for_anything() -> None:
    assert plan_work({}, {"x": RunningWork("key", False, Life.ALIVE)}, may_start=False).stop == ("x",)
