"""Round-robin over everything, and the offset every assignor agrees on first."""

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.group import assignments as eager
from spark_connect_rt.group.assignments import AssignmentRound, agree_on_offset, mismatch
from spark_connect_rt.group.subprotocol import CONFIG_MISMATCH, WorkerMetadata
from tests.unit.group.simulated_group import configured

MEMBERS = {"m2": WorkerMetadata("http://two/", 4), "m1": WorkerMetadata("http://one/", 9)}


def test_the_deal_continues_from_connectors_to_tasks() -> None:
    result = eager.assign(AssignmentRound("m1", MEMBERS, configured({"b": 1, "a": 2, "c": 0}), config_offset=9))
    assignment, two = result.assignments["m1"], result.assignments["m2"]
    assert (assignment.connectors, two.connectors) == (("a", "c"), ("b",))
    assert two.tasks == (ConnectorTaskId("a", 0), ConnectorTaskId("b", 0))
    assert assignment.tasks == (ConnectorTaskId("a", 1),)
    assert (assignment.leader_id, assignment.leader_url, assignment.config_offset, assignment.delay_ms) == (
        "m1",
        "http://one/",
        9,
        0,
    )
    assert result.owner_of("b") == "m2"


def test_a_member_without_work_gets_an_empty_assignment() -> None:
    result = eager.assign(AssignmentRound("m1", MEMBERS, configured({"a": 0}), config_offset=9))
    assert result.assignments["m2"].connectors == ()


def test_the_members_maximum_is_announced_when_the_leader_is_not_behind() -> None:
    assert agree_on_offset(MEMBERS, held_offset=9, fresh_offset=9) == 9
    assert agree_on_offset(MEMBERS, held_offset=12, fresh_offset=15) == 9


def test_a_fresh_snapshot_announces_its_own_offset() -> None:
    assert agree_on_offset(MEMBERS, held_offset=3, fresh_offset=11) == 11


def test_a_leader_that_is_behind_refuses_everybody() -> None:
    assert agree_on_offset(MEMBERS, held_offset=3, fresh_offset=8) is None
    refused = mismatch("m2", MEMBERS).assignments
    assert set(refused) == {"m1", "m2"}
    assert {(r.error, r.config_offset, r.leader_url, r.connectors) for r in refused.values()} == {
        (CONFIG_MISMATCH, 9, "http://two/", ())
    }
