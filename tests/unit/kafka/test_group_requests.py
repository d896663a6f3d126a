"""Group requests as bytes of the agreed versions; answers as events."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from spark_connect_rt.kafka import group_requests as requests
from spark_connect_rt.state import membership_events as ev
from spark_connect_rt.state.membership import Member, Timing

MEMBER = Member(member_id="m", generation=4, offer=(("sessioned", b"meta"),), plan={"m": b"work"})
VERSIONS = {10: (0, 6), 11: (0, 9), 12: (0, 4), 13: (0, 5), 14: (0, 5)}  # what a 4.1 broker offers


def test_a_first_join_on_the_wire() -> None:
    struct = requests.join_request("g", Member(offer=MEMBER.offer), Timing(6_000, 1_000, 9_000)).prepare(VERSIONS)
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
            requests.leave_request("g", "m"),
            requests.find_request("g"),
        )
    ]
    assert [struct.API_VERSION for struct in structs] == [3, 1, 1, 1]
    assert structs[1].encode() == bytes.fromhex("00016700000004" + "00016d")


def answer(code: int = 0, **more: object) -> SimpleNamespace:
    return SimpleNamespace(error_code=code, **more)


def test_join_answers() -> None:
    agreed = {"generation_id": 5, "group_protocol": "sessioned", "leader_id": "l", "member_id": "m"}
    joined = requests.join_answered(answer(**agreed, members=[]), MEMBER, 9)
    assert joined == ev.JoinedAsFollower(5, "sessioned", "m", "l", 9)
    for members in ([("m", None, b"a")], [("m", b"a")]):  # versions 5 and 2
        led = requests.join_answered(answer(**agreed | {"leader_id": "m"}, members=members), MEMBER, 9)
        assert led == ev.JoinedAsLeader(5, "sessioned", "m", "m", {"m": b"a"}, 9)
    assert requests.join_answered(answer(79, member_id="new"), MEMBER, 9) == ev.MemberIdGiven("new")


@pytest.mark.parametrize("answered", [requests.join_answered, requests.sync_answered, requests.heartbeat_answered])
@pytest.mark.parametrize(
    ("code", "event"),
    [
        (25, ev.MemberUnknown(4)),
        (22, ev.GenerationLost(4, 9)),
        (14, ev.CoordinatorLost("the group coordinator is loading the group")),
        (16, ev.CoordinatorLost("this broker is not the group's coordinator any more")),
        (999, ev.CoordinatorLost("the group coordinator answered error 999")),
        (30, ev.Refused("group.id: this worker is not authorised to use the group")),
    ],
)
def test_errors_all_requests_share(answered, code: int, event: object) -> None:  # type: ignore[no-untyped-def]
    assert answered(answer(code), MEMBER, 9) == event


def test_a_rebalance_means_something_else_to_each_request() -> None:
    assert requests.heartbeat_answered(answer(27), MEMBER, 9) == ev.RebalanceSignalled(4, 9)
    assert requests.sync_answered(answer(27), MEMBER, 9) == ev.RoundAborted()
    assert isinstance(requests.join_answered(answer(27), MEMBER, 9), ev.CoordinatorLost)


def test_good_answers() -> None:
    assert requests.heartbeat_answered(answer(), MEMBER, 9) == ev.HeartbeatOk(4, 9)
    assert requests.sync_answered(answer(member_assignment=b"w"), MEMBER, 9) == ev.SyncAnswered(b"w", 9)
