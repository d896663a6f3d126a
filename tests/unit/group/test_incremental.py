"""Traces of the incremental assignor, the same as Java's own tests expect."""

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.group.assignments import NOTHING, ConnectorsAndTasks
from spark_connect_rt.group.assignor import fill, revoking_backoff_ms
from tests.unit.group.simulated_group import SimulatedGroup, configured

DELAY_MS = 300_000


def two_settled_workers(max_delay_ms: int = DELAY_MS) -> SimulatedGroup:
    group = SimulatedGroup(max_delay_ms, c1=4, c2=4)
    group.join("w1")
    group.settle()
    group.join("w2")
    group.settle()
    assert group.loads() == [(1, 4), (1, 4)]
    return group


def test_a_second_worker_gets_its_half_in_two_rounds() -> None:
    group = SimulatedGroup(DELAY_MS, c1=4, c2=4)
    group.join("w1")
    group.round()
    assert (group.loads(), group.delay_ms) == ([(2, 8)], 0)

    group.join("w2")
    first = group.round()
    assert (group.loads(), group.delay_ms) == ([(0, 0), (1, 4)], 0)
    assert len(first.assignments["w1"].revoked_connectors) == 1
    assert len(first.assignments["w1"].revoked_tasks) == 4
    assert not first.assignments["w2"].connectors

    second = group.round()
    assert (group.loads(), group.delay_ms) == ([(1, 4), (1, 4)], 0)
    assert not second.assignments["w1"].revokes
    assert group.problems() == []


def test_assignments_carry_leader_offset_and_owners() -> None:
    group = two_settled_workers()
    group.connectors["c3"] = 1
    told = group.round().assignments
    assert {(a.error, a.leader_id, a.leader_url, a.config_offset, a.delay_ms) for a in told.values()} == {
        (0, "w1", "http://w1/", 7, 0)
    }
    assert sorted(told["w1"].connectors + told["w2"].connectors) == ["c3"]
    assert told["w1"].tasks + told["w2"].tasks == (ConnectorTaskId("c3", 0),)
    assert group.last is not None
    assert group.last.owner_of("c3") in ("w1", "w2")
    assert group.last.owner_of(ConnectorTaskId("c3", 0)) in ("w1", "w2")
    assert group.last.owner_of("nobody") is None


def test_a_worker_that_leaves_for_good_is_replaced_after_the_delay() -> None:
    group = two_settled_workers()
    group.leave("w2")
    group.round()
    assert (group.loads(), group.delay_ms) == ([(1, 4)], DELAY_MS)
    group.now_ms += DELAY_MS // 2
    group.round()
    assert (group.loads(), group.delay_ms) == ([(1, 4)], DELAY_MS // 2)
    group.now_ms += DELAY_MS // 2
    group.round()
    assert (group.loads(), group.delay_ms) == ([(2, 8)], 0)
    assert group.problems() == []


def test_a_worker_that_bounces_within_the_delay_gets_its_work_back() -> None:
    group = two_settled_workers()
    before = group.held["w1"]
    group.leave("w2")
    group.round()
    group.now_ms += DELAY_MS // 2
    group.join("w2-again")
    group.round()
    assert (group.loads(), group.delay_ms) == ([(0, 0), (1, 4)], DELAY_MS // 2)
    group.now_ms += DELAY_MS // 2 + 1
    result = group.round()
    assert (group.loads(), group.delay_ms) == ([(1, 4), (1, 4)], 0)
    assert not any(told.revokes for told in result.assignments.values())
    assert group.held["w1"] == before
    assert group.problems() == []


def test_two_candidates_share_lost_work_round_robin() -> None:
    group = two_settled_workers()
    group.leave("w2")
    group.round()
    group.join("w3", "w4")
    group.round()
    group.now_ms += DELAY_MS
    group.round()
    # The delay is over, so the same round also balances: w1 gives up one of its four tasks.
    assert group.loads() == [(0, 2), (1, 2), (1, 3)]
    group.settle()
    assert group.problems() == []


def test_a_worker_that_comes_back_still_running_keeps_its_work() -> None:
    group = two_settled_workers()
    was_running = group.held["w2"]
    group.leave("w2")
    group.round()
    group.held["w2"] = was_running
    group.round()
    assert (group.loads(), group.delay_ms) == ([(1, 4), (1, 4)], 0)
    assert group.problems() == []


def test_new_work_is_placed_during_a_delay_but_nothing_is_balanced() -> None:
    group = two_settled_workers()
    group.leave("w2")
    group.round()
    group.join("w3")
    group.connectors["c3"] = 2
    result = group.round()
    assert group.delay_ms == DELAY_MS
    assert not any(told.revokes for told in result.assignments.values())
    assert group.held["w3"] == configured({"c3": 2})


def test_without_a_delay_lost_work_moves_at_once() -> None:
    group = two_settled_workers(max_delay_ms=0)
    group.leave("w2")
    group.round()
    assert (group.loads(), group.delay_ms) == ([(2, 8)], 0)


def test_a_new_leader_places_the_dead_leaders_work_at_once() -> None:
    group = two_settled_workers()
    group.leave("w1")
    group.leader_crashes()
    group.round()
    assert (group.loads(), group.delay_ms) == ([(2, 8)], 0)


def test_a_round_the_leader_never_adopted_forgets_what_was_handed_out() -> None:
    group = SimulatedGroup(DELAY_MS, c1=4, c2=4)
    group.join("w1", "w2")
    group.round(leader_syncs=False)
    assert group.loads() == [(0, 0), (0, 0)]
    group.round()
    assert (group.loads(), group.delay_ms) == ([(1, 4), (1, 4)], 0)


def test_a_later_round_the_leader_never_adopted_moves_lost_work_without_delay() -> None:
    group = two_settled_workers()
    group.leave("w2")
    group.round(leader_syncs=False)
    assert group.delay_ms == DELAY_MS
    group.round()
    assert group.loads() == [(2, 8)]


def test_work_that_a_member_never_received_is_reassigned_at_once() -> None:
    group = SimulatedGroup(DELAY_MS, c1=4, c2=4)
    group.join("w1", "w2")
    group.round(unreached=["w2"])
    assert group.loads() == [(0, 0), (1, 4)]
    group.round()
    assert (group.loads(), group.delay_ms) == ([(1, 4), (1, 4)], 0)


def test_a_revocation_that_no_member_received_is_repeated() -> None:
    group = SimulatedGroup(0, c1=4, c2=4)
    group.join("w1")
    group.settle()
    group.join("w2")
    group.round(unreached=["w1"])
    assert group.loads() == [(0, 0), (2, 8)]
    group.settle()
    assert group.problems() == []


def test_work_held_twice_is_revoked_from_both_and_placed_next_round() -> None:
    group = two_settled_workers()
    both = group.held["w1"] | group.held["w2"]
    group.held = {"w1": both, "w2": both}
    result = group.round()
    assert set(result.assignments["w1"].revoked_tasks) == set(both.tasks)
    assert set(result.assignments["w2"].revoked_tasks) == set(both.tasks)
    assert group.loads() == [(0, 0), (0, 0)]
    group.round()
    assert group.loads() == [(1, 4), (1, 4)]


def test_a_deleted_connector_is_revoked_where_it_runs() -> None:
    group = two_settled_workers()
    del group.connectors["c1"]
    result = group.round()
    revoked = [c for told in result.assignments.values() for c in told.revoked_connectors]
    assert revoked == ["c1"]
    assert sum(len(told.revoked_tasks) for told in result.assignments.values()) >= 4
    group.settle()
    assert group.problems() == []


def test_an_emptied_cluster_ends_empty() -> None:
    group = two_settled_workers()
    group.connectors.clear()
    group.settle()
    assert group.loads() == [(0, 0), (0, 0)]


def test_successive_revoking_rounds_wait_longer_each_time() -> None:
    group = SimulatedGroup(DELAY_MS, c1=60)
    group.join("w1")
    group.settle()
    delays = []
    for newcomer in ("w2", "w3", "w4", "w5"):
        group.join(newcomer)
        delays.append(group.round().delay_ms)
    # w2: revoked. w3: its round would revoke again, so 40 ms; w4, w5 find that delay running.
    assert delays[:2] == [0, 40]
    group.settle()
    assert group.problems() == []
    assert group.memory.successive_revoking == 0


@pytest.mark.parametrize(
    ("successive", "expected_ms"), [(1, 40), (2, 1_600), (3, 64_000), (4, 300_000), (400, 300_000)]
)
def test_back_off_of_successive_revocations(successive: int, expected_ms: int) -> None:
    assert revoking_backoff_ms(successive, DELAY_MS) == expected_ms
    assert revoking_backoff_ms(successive, 0) == 0


def test_with_no_delay_allowed_revocations_follow_each_other_at_once() -> None:
    group = SimulatedGroup(0, c1=12)
    group.join("w1")
    group.settle()
    for newcomer in ("w2", "w3"):
        group.join(newcomer)
        result = group.round()
        assert result.delay_ms == 0
        assert any(told.revokes for told in result.assignments.values())
    group.settle()
    assert group.problems() == []


def test_fill_levels_the_smallest_first() -> None:
    load = {"a": [1, 2, 3], "b": [4], "c": []}
    assert fill(load, [10, 11, 12, 13]) == {"a": (1, 2, 3), "b": (4, 12), "c": (10, 11, 13)}
    assert fill(load, []) == {"a": (1, 2, 3), "b": (4,), "c": ()}


def test_a_group_without_connectors_gets_empty_assignments() -> None:
    group = SimulatedGroup()
    group.join("w1")
    assert group.round().owners == {"w1": NOTHING}


def test_set_arithmetic_keeps_order() -> None:
    left, right = ConnectorsAndTasks(("b", "a"), ()), ConnectorsAndTasks(("a", "c"), ())
    assert (left | right).connectors == ("b", "a", "c")
    assert (left - right).connectors == ("b",)
    assert (left & right).connectors == ("a",)
    assert (left | right).in_order().connectors == ("a", "b", "c")
