"""Where tasks are hosted, and which should move."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.driver.slot_packing import (
    Isolation,
    PackingLimits,
    SlotFacts,
    TaskLoad,
    choose_apart,
    choose_slot,
    is_calm,
    tasks_to_move,
)

LIMITS = PackingLimits(tasks_per_slot=3, slots_max=4, busy_bytes_per_s=1000, busy_records_per_s=100)


def load(name: str, slot: int, bytes_per_s: float, isolation: Isolation = Isolation.AUTO) -> TaskLoad:
    return TaskLoad(ConnectorTaskId(name, 0), slot, isolation, bytes_per_s, 0)


def test_shared_tasks_fill_the_fullest_slot_with_room() -> None:
    slots = [SlotFacts(1, 1), SlotFacts(2, 2), SlotFacts(3, 3)]
    assert choose_slot(slots, Isolation.AUTO, LIMITS) == 2


def test_an_exclusive_slot_is_not_shared() -> None:
    assert choose_slot([SlotFacts(1, 1, exclusive=True)], Isolation.THREAD, LIMITS) is None


def test_a_process_task_takes_an_empty_slot_or_a_new_one() -> None:
    assert choose_slot([SlotFacts(1, 1), SlotFacts(2, 0)], Isolation.PROCESS, LIMITS) == 2
    assert choose_slot([SlotFacts(1, 1)], Isolation.PROCESS, LIMITS) is None


def test_when_no_further_slot_may_be_opened_the_emptiest_is_shared() -> None:
    slots = [SlotFacts(n, n + 3, exclusive=n == 1) for n in (4, 3, 2, 1)]
    assert choose_slot(slots, Isolation.PROCESS, LIMITS) == 1


def test_with_a_shared_slot_for_each_core_tasks_crowd_the_emptiest() -> None:
    limits = replace(LIMITS, slots_max=40, shared_slots=2)
    full = [SlotFacts(1, 4), SlotFacts(2, 3), SlotFacts(3, 1, exclusive=True)]
    assert choose_slot(full, Isolation.AUTO, limits) == 2
    assert choose_slot(full, Isolation.THREAD, limits) == 2
    assert choose_slot(full, Isolation.PROCESS, limits) is None
    assert choose_slot(full, Isolation.AUTO, limits, crowds=False) is None
    assert choose_slot(full[:1], Isolation.AUTO, limits) is None  # a core without one


def test_slots_that_take_no_task_count_against_the_limit() -> None:
    assert choose_slot([SlotFacts(1, 3)], Isolation.AUTO, LIMITS, slots_open=4) == 1
    assert choose_slot([SlotFacts(1, 3)], Isolation.AUTO, LIMITS, slots_open=3) is None


def test_the_busiest_task_of_a_shared_slot_moves() -> None:
    loads = [load("quiet", 1, 1), load("busy", 1, 2000), load("busier", 1, 3000)]
    assert tasks_to_move(loads, LIMITS, slots_open=1) == (ConnectorTaskId("busier", 0),)


def test_a_task_alone_stays_and_so_does_a_thread_task() -> None:
    assert tasks_to_move([load("a", 1, 9000)], LIMITS, slots_open=1) == ()
    shared = [load("a", 1, 9000, Isolation.THREAD), load("b", 1, 0)]
    assert tasks_to_move(shared, LIMITS, slots_open=1) == ()


def test_nothing_moves_without_room() -> None:
    assert tasks_to_move([load("a", 1, 9000), load("b", 1, 0)], LIMITS, slots_open=4) == ()


@pytest.mark.parametrize(("bytes_per_s", "records_per_s", "calm"), [(249, 24, True), (250, 0, False), (0, 25, False)])
def test_a_task_is_calm_below_a_quarter_of_what_is_busy(bytes_per_s: float, records_per_s: float, calm: bool) -> None:
    moved = TaskLoad(ConnectorTaskId("a", 0), 1, Isolation.AUTO, bytes_per_s, records_per_s)
    assert is_calm(moved, LIMITS) is calm


def test_unknown_isolation_is_auto() -> None:
    assert Isolation.parse(" Process ") is Isolation.PROCESS
    assert Isolation.parse("whatever") is Isolation.AUTO


@given(st.lists(st.sampled_from(list(Isolation)), max_size=60))
def test_packing_never_overfills_while_slots_may_be_opened(tasks: list[Isolation]) -> None:
    limits = PackingLimits(tasks_per_slot=5, slots_max=1000)
    slots: dict[int, SlotFacts] = {}
    for isolation in tasks:
        number = choose_slot(list(slots.values()), isolation, limits)
        if number is None:
            number = len(slots)
            slots[number] = SlotFacts(number, 0)
        alone = isolation is Isolation.PROCESS
        slots[number] = SlotFacts(number, slots[number].tasks + 1, alone)
    assert all(slot.tasks <= (1 if slot.exclusive else 5) for slot in slots.values())
    shared = [isolation for isolation in tasks if isolation is not Isolation.PROCESS]
    assert sum(not slot.exclusive for slot in slots.values()) == -(-len(shared) // 5)


def test_a_suspect_gets_a_slot_for_itself_while_there_is_room() -> None:
    assert choose_apart([SlotFacts(1, 2)], LIMITS, 1) is None
    assert choose_apart([SlotFacts(1, 2), SlotFacts(2, 0)], LIMITS, 2) == 2
    assert choose_apart([SlotFacts(1, 2), SlotFacts(2, 1, suspects=True)], LIMITS, 2) is None


def test_a_suspect_shares_with_suspects_before_it_shares_with_others() -> None:
    slots = [SlotFacts(1, 1), SlotFacts(2, 3, suspects=True), SlotFacts(3, 2, suspects=True), SlotFacts(4, 1)]
    assert choose_apart(slots, LIMITS, 4) == 3
    assert choose_apart([SlotFacts(1, 2), SlotFacts(2, 1)], LIMITS, 4) == 2
    few = replace(LIMITS, apart_slots=2)
    assert choose_apart(slots[1:3], few, 2) == 3


def test_no_other_task_is_placed_among_suspects_while_there_is_room() -> None:
    assert choose_slot([SlotFacts(1, 1, suspects=True)], Isolation.AUTO, LIMITS) is None
    full = [SlotFacts(1, 1, suspects=True), SlotFacts(2, 3), SlotFacts(3, 3), SlotFacts(4, 3)]
    assert choose_slot(full, Isolation.AUTO, LIMITS) == 2
