"""Adopting assignments, what a worker wants to run, what needs a rebalance."""

from dataclasses import replace

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.group.assignments import ConnectorsAndTasks
from spark_connect_rt.group.rebalance_plan import (
    Adoption,
    Restarts,
    adoption,
    allocation_of,
    configured_work,
    held_after,
    needs_rebalance,
    status_after_stop,
    sync_backoff_ms,
    wanted_connectors,
    wanted_tasks,
)
from spark_connect_rt.group.subprotocol import CONFIG_MISMATCH, Assignment
from spark_connect_rt.topics.config_records import TargetState
from spark_connect_rt.topics.config_state import ClusterConfigState
from spark_connect_rt.topics.status_records import State

A0, A1, B0 = ConnectorTaskId("a", 0), ConnectorTaskId("a", 1), ConnectorTaskId("b", 0)
TOLD = Assignment("m", "u", 5)
SNAPSHOT = ClusterConfigState(
    offset=5,
    connector_configs={"a": {"x": "1"}, "b": {}},
    target_states={"a": TargetState.STARTED, "b": TargetState.PAUSED},
    task_counts={"a": 2, "b": 1},
    task_configs={A0: {"n": "0"}, A1: {"n": "1"}, B0: {}},
    applied_configs={"a": {"x": "1"}, "b": {}},
    generations={"a": 0, "b": 0},
)
NONE = Restarts({})


def test_an_incremental_assignment_adds_and_revokes_an_eager_one_replaces() -> None:
    held = ConnectorsAndTasks(("a",), (A0, A1))
    told = replace(TOLD, connectors=("b",), revoked_tasks=(A1,))
    assert held_after(held, told, incremental=True) == ConnectorsAndTasks(("b", "a"), (A0,))
    assert held_after(held, told, incremental=False) == ConnectorsAndTasks(("b",), ())
    assert held_after(None, told, incremental=True) == ConnectorsAndTasks(("b",), ())


def test_the_allocation_is_what_is_held_without_revocations_and_none_for_nothing() -> None:
    told = replace(TOLD, revoked_tasks=(A1,), delay_ms=300)
    allocation = allocation_of(ConnectorsAndTasks(("a",), (A0,)), told)
    assert allocation == Assignment("m", "u", 5, ("a",), (A0,), delay_ms=300)
    assert allocation_of(None, told) is None
    assert allocation_of(ConnectorsAndTasks(), None) is None


@pytest.mark.parametrize(
    ("own_offset", "failed", "leader", "read", "decision"),
    [
        (5, False, False, False, Adoption.START_WORK),
        (4, False, False, False, Adoption.READ_CONFIG),
        (4, False, False, True, Adoption.REJOIN),
        (6, False, False, False, Adoption.REJOIN),
        (5, True, False, False, Adoption.REJOIN),
        (5, True, True, False, Adoption.READ_CONFIG),
        (5, True, True, True, Adoption.REJOIN),
    ],
)
def test_work_starts_only_on_the_offset_the_leader_assigned_from(
    own_offset: int, failed: bool, leader: bool, read: bool, decision: Adoption
) -> None:
    told = replace(TOLD, error=CONFIG_MISMATCH if failed else 0)
    assert adoption(told, own_offset, leader, read) is decision


def test_an_inconsistent_connector_has_no_tasks_to_assign() -> None:
    assert configured_work(SNAPSHOT).tasks == (A0, A1, B0)
    assert configured_work(replace(SNAPSHOT, inconsistent=frozenset({"a"}))).tasks == (B0,)


def test_only_structure_needs_a_rebalance() -> None:
    assert needs_rebalance(SNAPSHOT, replace(SNAPSHOT, offset=9, target_states={})) is None
    assert needs_rebalance(SNAPSHOT, replace(SNAPSHOT, connector_configs={"a": {"x": "2"}, "b": {}})) is None
    assert needs_rebalance(SNAPSHOT, replace(SNAPSHOT, connector_configs={"a": {}})) is not None
    assert needs_rebalance(SNAPSHOT, replace(SNAPSHOT, generations={"a": 1, "b": 0})) is not None


def test_paused_work_is_wanted_paused_and_deleted_work_not_at_all() -> None:
    held = ConnectorsAndTasks(("a", "b", "gone"), (A0, B0, ConnectorTaskId("a", 7), ConnectorTaskId("gone", 0)))
    assert {name: want.mode for name, want in wanted_connectors(held, SNAPSHOT, NONE).items()} == {
        "a": False,
        "b": True,
    }
    assert {task: want.mode for task, want in wanted_tasks(held, SNAPSHOT, NONE).items()} == {A0: False, B0: True}
    assert wanted_tasks(None, SNAPSHOT, NONE) == {}


def test_a_restart_and_a_changed_connector_configuration_change_a_tasks_key() -> None:
    held = ConnectorsAndTasks((), (A0,))
    before = wanted_tasks(held, SNAPSHOT, NONE)[A0].key
    assert wanted_tasks(held, SNAPSHOT, NONE.plus(A0))[A0].key != before
    applied = replace(SNAPSHOT, applied_configs={"a": {"x": "2"}})
    assert wanted_tasks(held, applied, NONE)[A0].key != before


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_repeated_commit_restarts_tasks_if_it_fences_the_former_ones(exactly_once: bool) -> None:
    held, again = ConnectorsAndTasks((), (A0,)), replace(SNAPSHOT, generations={"a": 8})
    before, after = (
        wanted_tasks(held, state, NONE, exactly_once=exactly_once)[A0].key
        for state in (replace(SNAPSHOT, generations={"a": 7}), again)
    )
    assert (after != before) is exactly_once


def test_status_after_a_stop_names_the_reason() -> None:
    held = ConnectorsAndTasks((), (A0,))
    want = wanted_tasks(held, SNAPSHOT, NONE)[A0]
    restarted = wanted_tasks(held, SNAPSHOT, NONE.plus(A0))[A0]
    assert status_after_stop(A0, restarted, want.key, SNAPSHOT) is State.RESTARTING
    assert status_after_stop(A0, None, want.key, SNAPSHOT) is State.UNASSIGNED
    assert status_after_stop(ConnectorTaskId("a", 5), None, want.key, SNAPSHOT) is None
    assert status_after_stop("gone", None, None, SNAPSHOT) is None


def test_a_connector_that_stays_here_is_never_unassigned_in_between() -> None:
    held = ConnectorsAndTasks(("a",), (A0,))
    before = wanted_connectors(held, SNAPSHOT, NONE)["a"].key
    stopped = replace(SNAPSHOT, target_states={"a": TargetState.STOPPED})
    assert status_after_stop("a", wanted_connectors(held, stopped, NONE)["a"], before, stopped) is State.STOPPED
    changed = replace(SNAPSHOT, connector_configs={**SNAPSHOT.connector_configs, "a": {"x": "2"}})
    assert status_after_stop("a", wanted_connectors(held, changed, NONE)["a"], before, changed) is State.RESTARTING
    task = wanted_tasks(held, SNAPSHOT, NONE)[A0].key
    applied = replace(SNAPSHOT, applied_configs={"a": {"x": "2"}})
    assert status_after_stop(A0, wanted_tasks(held, applied, NONE)[A0], task, applied) is State.UNASSIGNED


def test_unsynced_incremental_worker_returns_sooner_each_time_it_may_wait_longer() -> None:
    waits = [sync_backoff_ms(attempt, True, 300_000, 300_000) for attempt in range(5)]
    assert waits == [6_000, 7_500, 10_000, 15_000, 30_000]
    assert sync_backoff_ms(0, False, 300_000, 120_000) == 120_000
