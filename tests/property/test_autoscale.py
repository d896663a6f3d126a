"""The number of a sink's tasks over days of load: it follows, within its bounds, and does not flap."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.operations.placement.task_scaling import Look, ScaleMemory, ScaleRules, TaskRange, decide
from tests.support.load_curves import DAY_S, Curve, office_day, steady

LOOK_S = 30
RULES = ScaleRules()
TASK_BEARS = 2_000.0  # records a second
RESTART_S = 8  # in which nothing is taken


@dataclass
class Day:
    """The course of a connector's simulated day."""

    changes: list[tuple[int, int, int]] = field(default_factory=list)  # second, from, to
    tasks: list[int] = field(default_factory=list)  # at each check
    worst_wait_s: float = 0.0


def lived(curve: Curve, bounds: TaskRange, seconds: int = DAY_S, tasks: int = 1) -> Day:
    """Let a connector live through the curve. The capacity of a task is fixed."""
    day, memory, lag, busy_until, taken = Day(), ScaleMemory(), 0.0, 0, 0.0
    for second in range(seconds):
        lag += curve(second)
        if second >= busy_until:
            done = min(lag, tasks * TASK_BEARS)
            lag, taken = lag - done, taken + done
        if second % LOOK_S:
            continue
        day.worst_wait_s = max(day.worst_wait_s, lag / (tasks * TASK_BEARS))
        day.tasks.append(tasks)
        memory, wish = decide(memory, Look(second * 1000, tasks, int(lag), taken / LOOK_S), bounds)
        taken = 0.0
        if wish.tasks != tasks:
            day.changes.append((second, tasks, wish.tasks))
            tasks, busy_until = wish.tasks, second + RESTART_S
    return day


@pytest.mark.parametrize("seed", [1, 3])
def test_over_a_day_tasks_follow_the_load_in_few_steps(seed: int) -> None:
    day = lived(office_day(seed), TaskRange(1, 16))
    assert len(day.changes) <= 60  # twelve bursts of up to a quarter of an hour among them
    assert sum(day.tasks) / len(day.tasks) < 0.6 * 16
    assert max(day.tasks) >= 8
    assert day.worst_wait_s < 600
    alone = lived(office_day(seed), TaskRange(4, 4), tasks=4)
    assert alone.worst_wait_s > 3 * day.worst_wait_s
    for (one_s, before, after), (next_s, _, later) in zip(day.changes, day.changes[1:], strict=False):
        assert next_s - one_s >= RULES.pause_ms // 1000
        if after > before and later < after:  # it turned round
            assert next_s - one_s >= RULES.down_after_ms // 1000


@pytest.mark.parametrize("rate", [100.0, 1_900.0, 3_000.0, 9_900.0, 19_000.0])
def test_a_load_that_stays_is_left_alone_once_it_is_found(rate: float) -> None:
    day = lived(steady(rate), TaskRange(1, 16), seconds=2 * DAY_S)
    late = [change for change in day.changes if change[0] > DAY_S]
    assert len(late) <= 2, day.changes
    assert day.tasks[-1] * TASK_BEARS >= rate


def test_a_burst_of_a_minute_changes_nothing() -> None:
    day = lived(lambda second: 6_000.0 if 4_000 <= second < 4_030 else 1_000.0, TaskRange(1, 16), seconds=8_000)
    assert day.changes == []


def test_bounds_count_at_once_and_what_is_not_known_changes_nothing() -> None:
    memory, wish = decide(ScaleMemory(), Look(0, 1, None, 0.0), TaskRange(2, 4))
    assert (wish.tasks, wish.why) == (2, "tasks.max.auto is 2..4")
    for at_ms in range(0, 10_000_000, 30_000):
        memory, wish = decide(memory, Look(at_ms, 3, None, 0.0), TaskRange(2, 4))
        assert wish.tasks == 3


LOOKS = st.lists(
    st.tuples(st.integers(0, 10**7) | st.none(), st.floats(0, 1e6), st.booleans()), min_size=1, max_size=150
)


@settings(deadline=None)
@given(LOOKS, st.integers(1, 20), st.integers(0, 20), st.integers(1, 40))
def test_task_count_stays_within_bounds_and_changes_only_after_pauses(
    looks: list[tuple[int | None, float, bool]], least: int, more: int, tasks: int
) -> None:
    bounds, memory, changed_s = TaskRange(least, least + more), ScaleMemory(), None
    for number, (lag, rate, refused) in enumerate(looks):
        memory, wish = decide(memory, Look(number * 30_000, tasks, lag, rate), bounds)
        assert bounds.least <= wish.tasks <= bounds.most
        if wish.tasks == tasks:
            continue
        if bounds.clamped(tasks) == tasks:
            assert changed_s is None or number * 30 - changed_s >= RULES.pause_ms // 1000
            changed_s = number * 30
        assert wish.why
        tasks = tasks if refused else wish.tasks


@pytest.mark.parametrize("text", ["", "4", "4..2", "0..3", "a..b", "1..9999999", "-1..3", "1...3", "1..200000"])
def test_a_range_that_is_invalid_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match="min"):
        TaskRange.of(text)


def test_a_range() -> None:
    assert TaskRange.of(" 2 .. 16 ") == TaskRange(2, 16)
