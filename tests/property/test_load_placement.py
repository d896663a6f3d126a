"""Tasks change places by load over a day: few moves, no way back, and the busiest worker has less to do."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.group.load import LoadMemory, LoadRules, Swap, TaskLoadSample, cores_of, decide
from tests.support.load_curves import DAY_S, Curve, office_day

RULES = LoadRules()
LOOK_S = 30
Held = dict[str, set[ConnectorTaskId]]


def dealt(workers: int, tasks: int) -> Held:
    """Assign a configuration that grew connector by connector as the assignor does: hot ones may meet."""
    held: Held = {f"w{n}": set() for n in range(workers)}
    for n in range(tasks):
        held[f"w{n % workers}"].add(ConnectorTaskId("c", n))
    return held


def swapped(held: Held, swaps: tuple[Swap, ...]) -> None:
    for swap in swaps:
        held[swap.giver].remove(swap.hot)
        held[swap.taker].remove(swap.cold)
        held[swap.giver].add(swap.cold)
        held[swap.taker].add(swap.hot)


def lived(held: Held, curves: dict[ConnectorTaskId, Curve], seconds: int, act: bool = True) -> tuple[list[Swap], float]:
    """Return the swaps of so many seconds, and the mean over time of how much more the busiest has than the mean."""
    memory, made, skews = LoadMemory(), list[Swap](), list[float]()
    for second in range(0, seconds, LOOK_S):
        loads = {w: {t: curves[t](second) for t in tasks} for w, tasks in held.items()}
        sums = [sum(tasks.values()) for tasks in loads.values()]
        skews.append(max(sums) * len(sums) / max(sum(sums), 1e-9))
        memory, swaps = decide(memory, loads, second * 1000, RULES)
        if act:
            swapped(held, swaps)
            made += swaps
    return made, sum(skews) / len(skews)


def day_of(seed: int, tasks: int, workers: int) -> dict[ConnectorTaskId, Curve]:
    """Return a day in which some tasks, which dealing put on the same worker, have most of the load."""
    chance = random.Random(seed)
    hot = {n for n in range(tasks) if n % workers == 0} | {chance.randrange(tasks) for _ in range(3)}
    return {ConnectorTaskId("c", n): office_day(seed + n, 0.9 if n in hot else 0.05) for n in range(tasks)}


@pytest.mark.parametrize("seed", [1, 2])
def test_over_a_day_hot_tasks_come_apart_in_few_moves(seed: int) -> None:
    workers, tasks = 10, 60
    curves = day_of(seed, tasks, workers)
    held = dealt(workers, tasks)
    made, skew = lived(held, curves, DAY_S)
    _, skew_alone = lived(dealt(workers, tasks), curves, DAY_S, act=False)
    assert 3 <= len(made) <= 40
    assert max(Counter(task for swap in made for task in (swap.hot, swap.cold)).values()) <= 6
    assert skew < 0.6 * skew_alone
    assert {len(tasks) for tasks in held.values()} == {6}


def test_even_load_with_noise_moves_nothing() -> None:
    held = dealt(8, 64)
    curves: dict[ConnectorTaskId, Curve] = {
        ConnectorTaskId("c", n): (lambda second, n=n: 0.2 * (1 + 0.5 * ((second * 31 + n * 17) % 97) / 97))  # type: ignore[misc]
        for n in range(64)
    }
    assert lived(held, curves, DAY_S)[0] == []


def test_a_task_that_is_hot_alone_is_not_chased_around() -> None:
    curves: dict[ConnectorTaskId, Curve] = {ConnectorTaskId("c", n): (lambda _: 0.001) for n in range(20)}
    curves[ConnectorTaskId("c", 0)] = lambda _: 4.0
    assert lived(dealt(5, 20), curves, DAY_S)[0] == []


LOADS = st.lists(st.floats(0, 8), min_size=4, max_size=24)


@settings(deadline=None)
@given(st.lists(LOADS, min_size=1, max_size=60), st.integers(2, 5))
def test_swaps_improve_any_load_keep_task_counts_and_let_tasks_rest(course: list[list[float]], workers: int) -> None:
    held, memory = dealt(workers, min(map(len, course))), LoadMemory()
    moved_at: dict[ConnectorTaskId, int] = {}
    last_ms = None
    for number, cores in enumerate(course):
        now_ms = number * 90_000
        loads = {w: {t: cores[t.task] for t in tasks} for w, tasks in held.items()}
        counts = {w: len(tasks) for w, tasks in held.items()}
        memory, swaps = decide(memory, loads, now_ms, RULES)
        if not swaps:
            continue
        assert len(swaps) <= max(1, workers // 10)
        assert last_ms is None or now_ms - last_ms >= RULES.pause_ms
        last_ms = now_ms
        for swap in swaps:
            for task in (swap.hot, swap.cold):
                assert now_ms - moved_at.get(task, -RULES.rest_ms) >= RULES.rest_ms
                moved_at[task] = now_ms
            assert memory.smooth[swap.hot] > memory.smooth[swap.cold]
        swapped(held, swaps)
        assert {w: len(tasks) for w, tasks in held.items()} == counts


def test_load_is_cpu_where_it_is_known_and_more_while_records_wait() -> None:
    assert cores_of(TaskLoadSample(1000, None, 40.0), TaskLoadSample(0, None, 10.0), 60) == 0.5
    assert cores_of(TaskLoadSample(1000, 60_000, 40.0), TaskLoadSample(0, None, 10.0), 60) == 1.0
    assert cores_of(TaskLoadSample(100_000), None, 60) == pytest.approx(0.2)
    assert cores_of(TaskLoadSample(0, None, 1.0), TaskLoadSample(0, None, 10.0), 60) == 0.0  # started again
