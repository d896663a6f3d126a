"""What a rebalance was, put together of what several workers saw."""

from __future__ import annotations

import itertools
from typing import Any

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.group.assignments import ConnectorsAndTasks
from spark_connect_rt.group.rebalance_facts import (
    LISTED,
    Members,
    OwnView,
    best_reason,
    details_of,
    members_of,
    merged,
    sentence,
)

A0, A1 = ConnectorTaskId("a", 0), ConnectorTaskId("a", 1)
NOTHING, ALL = ConnectorsAndTasks(), ConnectorsAndTasks(("a",), (A0, A1))


def view(worker: str, before: ConnectorsAndTasks | None, after: ConnectorsAndTasks | None, **more: Any) -> OwnView:
    known: dict[str, Any] = {"reasons": ("the group is rebalancing",), "rounds": 1, "took_ms": 10, "owners": {}}
    return OwnView(worker, 7, "SESSIONED", "w1:1", before=before, after=after, **(known | more))


def test_the_views_make_one_event_log_in_any_order() -> None:
    members = Members(("w1:1", "w2:1"), ("w2:1",), ())
    first = details_of(
        view("w1:1", ALL, ConnectorsAndTasks(("a",), (A0,)), members=members, reasons=("asked to", "why"))
    )
    second = details_of(view("w2:1", None, ConnectorsAndTasks((), (A1,)), took_ms=50, owners={A1: "w1:1"}))
    third = details_of(view("w3:1", NOTHING, NOTHING))
    expected = merged([first, second, third])
    assert all(merged(list(order)) == expected for order in itertools.permutations([first, second, third]))
    assert merged([expected, first, second]) == expected
    assert expected["moved"] == [{"connector": "a", "task": 1, "from": "w1:1", "to": "w2:1"}]
    assert (expected["moved_count"], expected["released_count"], expected["released"]) == (1, 0, [])
    assert expected["took_ms"] == 50
    assert sentence(expected) == "generation 7 in 50 ms: w2:1 joined; 1 assignment moved (reason: why)"


def test_released_work_not_taken_yet_is_reported() -> None:
    details = merged([details_of(view("w1:1", ALL, ConnectorsAndTasks(("a",), (A0,))))])
    assert details["released"] == [{"connector": "a", "task": 1, "from": "w1:1"}]
    assert "1 revoked" in sentence(details)


def test_thousands_of_tasks_are_counted_and_some_are_listed() -> None:
    many = ConnectorsAndTasks((), tuple(ConnectorTaskId("a", n) for n in range(5_000)))
    details = details_of(view("w1:1", None, many))
    assert (len(details["moved"]), details["moved_count"]) == (LISTED, 5_000)
    assert "5000 new assignments" in sentence(details)


def test_a_worker_that_was_out_for_a_while_joined_again() -> None:
    before = {"w1:1": "m1", "w2:1": "m2", "w3:1": "m3"}
    found = members_of({"w1:1": "m1", "w2:1": "m9"}, before, (), None)
    assert (found.joined, found.left) == (("w2:1",), ("w3:1",))


def test_new_leader_learns_leavers_from_their_work_and_joiners_from_their_claims() -> None:
    found = members_of({"w1:1": "m1", "w2:1": "m2"}, None, ["w1:1", "w9:1"], ["w2:1"])
    assert (found.joined, found.left) == (("w2:1",), ("w9:1",))
    assert members_of({"w1:1": "m1"}, None, [], None).joined is None


def test_the_reason_that_says_most_is_taken() -> None:
    assert best_reason(["", "the group is rebalancing", "task configurations changed"]) == "task configurations changed"
    assert best_reason(["the group is rebalancing"]) == "the group is rebalancing"
    assert best_reason([]) == ""
