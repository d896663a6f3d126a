"""A group that lives as hypothesis pleases: each round keeps every rule, and in the end all is even.

The last test shows that the checks work: they notice one wrong line of the assignor.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from spark_connect_rt.group import assignor as incremental
from spark_connect_rt.group import assignor as revocations
from spark_connect_rt.group.assignments import NOTHING, ConnectorsAndTasks
from spark_connect_rt.group.assignor import LostWork
from tests.unit.group.assignment_rules import items
from tests.unit.group.simulated_group import SimulatedGroup, configured

WORKERS = [f"w{n}" for n in range(7)]
CONNECTORS = st.sampled_from([f"c{n}" for n in range(5)])
CHANCE = st.integers(0, 10**6)


class LivingGroup(RuleBasedStateMachine):
    """Joins, leaves, crashes, returns, lost messages, changes of the configuration, at any time."""

    @initialize(max_delay_ms=st.sampled_from([0, 1_000, 300_000]), lost_delay_ms=st.sampled_from([None, 0, 700]))
    def begin(self, max_delay_ms: int, lost_delay_ms: int | None) -> None:
        self.group = SimulatedGroup(max_delay_ms, c0=3)
        self.group.lost_delay_ms = lost_delay_ms
        self.group.join("w0")
        self.away: dict[str, ConnectorsAndTasks] = {}

    @rule(worker=st.sampled_from(WORKERS))
    def join(self, worker: str) -> None:
        if worker not in self.group.held:
            self.group.join(worker)

    @precondition(lambda self: len(self.group.held) > 1)
    @rule(chance=CHANCE)
    def leave(self, chance: int) -> None:
        worker = sorted(self.group.held)[chance % len(self.group.held)]
        self.away[worker] = self.group.held[worker]
        self.group.leave(worker)

    @precondition(lambda self: self.away)
    @rule(chance=CHANCE)
    def come_back_still_running(self, chance: int) -> None:
        worker = sorted(self.away)[chance % len(self.away)]
        ran = self.away.pop(worker)
        if worker not in self.group.held:
            self.group.held[worker] = ran

    @rule(connector=CONNECTORS, tasks=st.integers(0, 9))
    def configure(self, connector: str, tasks: int) -> None:
        self.group.connectors[connector] = tasks

    @rule(connector=CONNECTORS)
    def delete(self, connector: str) -> None:
        self.group.connectors.pop(connector, None)

    @rule()
    def the_leader_crashes(self) -> None:
        self.group.leader_crashes()

    @rule(ms=st.sampled_from([1, 40, 699, 1_000, 150_000, 300_000]))
    def wait(self, ms: int) -> None:
        self.group.now_ms += ms

    @rule(deaf=st.sets(st.sampled_from(WORKERS), max_size=2), leader_syncs=st.sampled_from([True, True, True, False]))
    def rebalance(self, deaf: set[str], leader_syncs: bool) -> None:
        self.group.round(unreached=deaf, leader_syncs=leader_syncs)

    @invariant()
    def no_round_broke_a_rule(self) -> None:
        assert self.group.broken == []

    def teardown(self) -> None:
        if hasattr(self, "group"):
            self.group.settle(limit=60)
            self.group.settle(limit=60)  # work that was deleted while no member remembered it goes in the next round
            assert self.group.problems() == []


LivingGroup.TestCase.settings = settings(max_examples=120, stateful_step_count=30, deadline=None)
TestLivingGroup = LivingGroup.TestCase


def least_moves(before: dict[str, ConnectorsAndTasks], group: SimulatedGroup) -> int:
    """Return how many items must leave a worker that is still here, so that all can be even."""
    wanted, moves = configured(group.connectors), 0
    for kind in ("connectors", "tasks"):
        everything = set(getattr(wanted, kind))
        held = before.get
        loads = [len(everything & set(getattr(held(worker, NOTHING), kind))) for worker in group.held]
        least, extra = divmod(len(everything), len(loads))
        above = [load - least for load in loads if load > least]
        moves += sum(above) - min(extra, len(above))
    return moves


def moves(before: dict[str, ConnectorsAndTasks], group: SimulatedGroup) -> int:
    """Return how many items a worker that is still here ran and runs no more, though they are configured."""
    wanted = items(configured(group.connectors))
    here = group.held.keys() & before.keys()
    return sum(len((items(before[worker]) - items(group.held[worker])) & wanted) for worker in here)


@settings(max_examples=200, deadline=None)
@given(
    tasks=st.lists(st.integers(0, 12), min_size=1, max_size=6),
    workers=st.integers(1, 7),
    change=st.sampled_from(["join", "leave", "add", "delete", "grow", "shrink", "join and add", "leave and join"]),
    much=st.integers(1, 3),
    lost_delay_ms=st.sampled_from([None, 0]),
)
def test_one_change_moves_no_more_than_it_must(
    tasks: list[int], workers: int, change: str, much: int, lost_delay_ms: int | None
) -> None:
    group = SimulatedGroup(300_000, **{f"c{n}": count for n, count in enumerate(tasks)})
    group.lost_delay_ms = lost_delay_ms
    group.join(*[f"w{n}" for n in range(workers)])
    group.settle()
    before = dict(group.held)
    _change(group, change, much)
    group.settle()
    assert group.problems() == []
    assert moves(before, group) == least_moves(before, group)


def _change(group: SimulatedGroup, change: str, much: int) -> None:
    if "leave" in change:
        group.leave(*sorted(group.held)[: min(much, len(group.held) - 1)])
    if "join" in change:
        group.join(*[f"x{n}" for n in range(much)])
    if "add" in change:
        group.connectors.update({f"new{n}": 2 * much for n in range(much)})
    if change == "delete":
        del group.connectors["c0"]
    if change in ("grow", "shrink"):
        group.connectors["c0"] = max(0, group.connectors["c0"] + (much if change == "grow" else -much))


def problems_of_a_seeded_life(seed: int) -> list[str]:
    """Return the complaints about one life without hypothesis; the assertions of the group count too."""
    chance = random.Random(seed)
    group = SimulatedGroup(chance.choice([0, 300_000]), c0=3, c1=8)
    group.join("w0", "w1")
    try:
        for _ in range(12):
            _live(group, chance)
            group.round(unreached=[chance.choice(WORKERS)] if chance.random() < 0.2 else ())
        group.settle(limit=60)
        group.settle(limit=60)
        before = dict(group.held)
        group.join("x0")
        group.settle(limit=60)
    except AssertionError as failure:
        return [str(failure)]
    too_many = moves(before, group) - least_moves(before, group)
    return group.problems() + ([f"{too_many} moves too many"] if too_many else [])


def _live(group: SimulatedGroup, chance: random.Random) -> None:
    worker, connector = chance.choice(WORKERS), f"c{chance.randrange(4)}"
    match chance.randrange(6):
        case 0:
            group.join(*[newcomer for newcomer in (worker, f"y{chance.randrange(9)}") if newcomer not in group.held])
        case 1 if worker in group.held and len(group.held) > 1:
            group.leave(worker)
        case 2:
            group.connectors[connector] = chance.randrange(10)
        case 3:
            group.connectors.pop(connector, None)
        case 4:
            group.now_ms += 150_000
        case 5 if len(group.held) > 1:
            other = chance.choice(sorted(group.held))
            group.held[min(group.held)] |= group.held[other]


def test_the_seeded_lives_themselves_are_in_order() -> None:
    assert [problem for seed in range(40) for problem in problems_of_a_seeded_life(seed)] == []


def _all_on_one(real: Any) -> Any:
    def place(held: dict[str, ConnectorsAndTasks], new: ConnectorsAndTasks) -> dict[str, ConnectorsAndTasks]:
        return {**held, **real({min(held): held[min(held)]}, new)}

    return place


def _stop_all_to_balance(real: Any) -> Any:
    return lambda wanted, held: dict(held) if real(wanted, held) else {}


def _drop_what_is_lost(real: Any) -> Any:
    return lambda memory, lost, held, *times: LostWork(memory.without_delay(), NOTHING, held)


def _balance_at_any_time(real: Any) -> Any:
    return lambda memory, this, held: (memory, revocations.balance(this.configured, held))


WRONG_LINES: dict[str, tuple[Any, str, Callable[[Any], Any], str]] = {
    "nothing new is placed": (incremental, "_place", lambda _: lambda held, new: dict(held), "is placed nowhere"),
    "all that is new goes to one worker": (incremental, "_place", _all_on_one, "unbalanced"),
    "nobody is seen running anything": (
        incremental,
        "union",
        lambda _: lambda parts: NOTHING,
        "while somebody runs it",
    ),
    "what runs twice stays": (revocations, "duplicated", lambda _: lambda held: NOTHING, "members hold"),
    "what is lost is forgotten": (incremental, "handle_lost", _drop_what_is_lost, "is placed nowhere"),
    "nothing is revoked for balance": (revocations, "balance", lambda _: lambda wanted, held: {}, "unbalanced"),
    "all is revoked for balance": (revocations, "balance", _stop_all_to_balance, "are above level"),
    "the level is one too low": (
        revocations,
        "_surplus",
        lambda real: lambda total, held: real(max(0, total - len(held)), held),
        "are above level",
    ),
    "balance does not wait for a delay": (incremental, "_load_balancing", _balance_at_any_time, "while a delay runs"),
}


@pytest.mark.parametrize("wrong_line", WRONG_LINES)
def test_the_checks_notice_one_wrong_line(monkeypatch: pytest.MonkeyPatch, wrong_line: str) -> None:
    module, name, wrong, noticed = WRONG_LINES[wrong_line]
    monkeypatch.setattr(module, name, wrong(getattr(module, name)))
    assert any(noticed in problem for seed in range(40) for problem in problems_of_a_seeded_life(seed))
