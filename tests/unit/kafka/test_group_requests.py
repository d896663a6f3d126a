"""Group requests as bytes of the agreed versions; answers as events."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from spark_connect_rt.group import membership as ev
from spark_connect_rt.group.membership import Member, Timing
from spark_connect_rt.kafka.membership import group_link as requests
from spark_connect_rt.kafka.membership.group_wire import JoinGroupResponse_v9, LeaveGroupResponse_v5

MEMBER = Member(member_id="m", generation=4, offer=(("sessioned", b"meta"),), plan={"m": b"work"})
VERSIONS = {10: (0, 6), 11: (0, 9), 12: (0, 4), 13: (0, 5), 14: (0, 5)}  # what a 4.1 broker offers


FIRST = Member(offer=MEMBER.offer, reason="why not")
TIMES = Timing(6_000, 1_000, 9_000)


def test_a_first_join_on_the_wire() -> None:
    struct = requests.join_request("g", FIRST, TIMES).prepare(VERSIONS)
    assert struct.API_VERSION == 9
    assert struct.encode().hex(" ", -4) == bytes.fromhex(
        "0267"  # group: length + 1, then its bytes
        "00001770 00002328"  # session, rebalance
        "01 00"  # no member id yet, never a static one
        "08 636f6e6e656374"  # connect
        "02 0a 73657373696f6e6564 05 6d657461 00"  # one protocol: sessioned, meta, no tags
        "08 776879206e6f74 00".replace(" ", "")  # why not; no tags
    ).hex(" ", -4)


def test_a_first_join_to_a_broker_that_takes_no_reason() -> None:
    struct = requests.join_request("g", FIRST, TIMES).prepare(VERSIONS | {11: (0, 7)})
    assert struct.API_VERSION == 5
    assert struct.encode().hex(" ", -4) == bytes.fromhex(
        "000167"  # group
        "00001770 00002328"  # session, rebalance
        "0000 ffff"  # no member id yet, never a static one
        "0007 636f6e6e656374"  # connect
        "00000001 0009 73657373696f6e6564 00000004 6d657461".replace(" ", "")
    ).hex(" ", -4)


def test_the_other_requests_in_their_newest_known_versions() -> None:
    structs = [
        request.prepare(VERSIONS)
        for request in (
            requests.sync_request("g", MEMBER),
            requests.heartbeat_request("g", MEMBER),
            requests.leave_request("g", "m", "bye"),
            requests.find_request("g"),
        )
    ]
    assert [struct.API_VERSION for struct in structs] == [3, 1, 5, 1]
    assert structs[1].encode() == bytes.fromhex("00016700000004" + "00016d")
    assert structs[2].encode() == bytes.fromhex("0267" + "02" + "026d" + "00" + "04627965" + "00" + "00")


def test_an_old_broker_is_left_without_a_reason() -> None:
    struct = requests.leave_request("g", "m", "bye").prepare(VERSIONS | {13: (0, 4)})
    assert (struct.API_VERSION, struct.encode()) == (1, bytes.fromhex("000167" + "00016d"))


def test_a_reason_is_no_longer_than_brokers_take() -> None:
    member = Member(offer=MEMBER.offer, reason="x" * 1_000)
    assert requests.join_request("g", member, TIMES).prepare(VERSIONS).reason == "x" * 255
    ((_, _, told, _),) = requests.leave_request("g", "m", "y" * 1_000).prepare(VERSIONS).members
    assert told == "y" * 255


def test_a_join_answer_off_the_wire() -> None:
    answered = JoinGroupResponse_v9.decode(
        bytes.fromhex(
            "00000000 0000 00000005 08636f6e6e656374 0a73657373696f6e6564 026d 00 026d"  # we lead
            "02 026d 00 056d657461 00 00".replace(" ", "")
        )
    )
    assert requests.join_answered(answered, MEMBER, 9) == ev.JoinedAsLeader(5, "sessioned", "m", "m", {"m": b"meta"}, 9)


def test_a_leave_answer_off_the_wire() -> None:
    answered = LeaveGroupResponse_v5.decode(bytes.fromhex("00000000 0000 02 026d 00 0019 00 00".replace(" ", "")))
    assert (answered.error_code, [entry[2] for entry in answered.members]) == (0, [25])


def answer(code: int = 0, **more: object) -> SimpleNamespace:
    return SimpleNamespace(error_code=code, **more)


def test_join_answers() -> None:
    agreed = {"generation_id": 5, "group_protocol": "sessioned", "leader_id": "l", "member_id": "m"}
    joined = requests.join_answered(answer(**agreed, members=[]), MEMBER, 9)
    assert joined == ev.JoinedAsFollower(5, "sessioned", "m", "l", 9)
    for members in ([("m", None, b"a", {})], [("m", None, b"a")], [("m", b"a")]):  # versions 9, 5 and 2
        led = requests.join_answered(answer(**agreed | {"leader_id": "m"}, members=members), MEMBER, 9)
        assert led == ev.JoinedAsLeader(5, "sessioned", "m", "m", {"m": b"a"}, 9)
    assert requests.join_answered(answer(79, member_id="new"), MEMBER, 9) == ev.MemberIdGiven("new")


LOADING, NOT_AVAILABLE, NOT_COORDINATOR, OTHER = (
    ev.CoordinatorLost(why)
    for why in (
        "the group coordinator is loading the group",
        "the group coordinator is not available",
        "this broker is no longer the group's coordinator",
        "the group coordinator answered error 999",
    )
)
FINAL = {
    23: "connect.protocol: no protocol of this worker is supported by every member of the group",
    24: "group.id: the broker rejects this group id as invalid",
    26: "session.timeout.ms: outside group.min.session.timeout.ms .. group.max.session.timeout.ms of the broker",
    30: "group.id: this worker is not authorized to use the group",
    35: "bootstrap.servers: the broker does not support this version of the group protocol",
    81: "group.id: the group has reached the broker's group.max.size",
    82: "group.id: a static member of the same instance id took this place (workers are never static)",
}
SHARED: dict[int, object] = {
    14: LOADING,
    15: NOT_AVAILABLE,
    16: NOT_COORDINATOR,
    22: ev.GenerationLost(4, 9),
    25: ev.MemberUnknown(4),
    999: OTHER,
    **{code: ev.RequestRefused(why) for code, why in FINAL.items()},
}


@pytest.mark.parametrize("answered", [requests.join_answered, requests.sync_answered, requests.heartbeat_answered])
@pytest.mark.parametrize(("code", "event"), SHARED.items())
def test_errors_all_requests_share(answered, code: int, event: object) -> None:  # type: ignore[no-untyped-def]
    assert answered(answer(code), MEMBER, 9) == event


@pytest.mark.parametrize("code", [14, 15, 16, 999])
def test_find_coordinator_is_retried_where_that_may_help(code: int) -> None:
    assert requests.refusal_of(code) is None
    assert requests.lost_reason(code) == SHARED[code].reason  # type: ignore[attr-defined]


@pytest.mark.parametrize(("code", "why"), FINAL.items())
def test_find_coordinator_ends_where_none_can(code: int, why: str) -> None:
    refusal = requests.refusal_of(code)
    assert refusal is not None
    assert f"{refusal.setting}: {refusal.reason}" == why


def test_a_rebalance_means_something_else_to_each_request() -> None:
    assert requests.heartbeat_answered(answer(27), MEMBER, 9) == ev.RebalanceSignalled(4, 9)
    assert requests.sync_answered(answer(27), MEMBER, 9) == ev.RoundAborted()
    assert isinstance(requests.join_answered(answer(27), MEMBER, 9), ev.CoordinatorLost)


def test_good_answers() -> None:
    assert requests.heartbeat_answered(answer(), MEMBER, 9) == ev.HeartbeatOk(4, 9)
    assert requests.sync_answered(answer(member_assignment=b"w"), MEMBER, 9) == ev.SyncAnswered(b"w", 9)
