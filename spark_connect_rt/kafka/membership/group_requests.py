"""Group requests on aiokafka's protocol classes, and their answers as events of the membership machine.

Owns the wire's error codes (Java ``Errors``) for JoinGroup, SyncGroup, Heartbeat, LeaveGroup, FindCoordinator.
Versions used against a 4.x broker: Join 9 and Leave 5 (``group_wire``), Sync 3, Heartbeat 1, FindCoordinator 1; no
static members.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connect_rt.group.membership import Member, Timing
from spark_connect_rt.group.membership_events import (
    CoordinatorLost,
    GenerationLost,
    HeartbeatOk,
    JoinedAsFollower,
    JoinedAsLeader,
    MemberIdGiven,
    MemberUnknown,
    RebalanceSignalled,
    Refused,
    RoundAborted,
    SyncAnswered,
)
from spark_connect_rt.kafka.aiokafka_parts import FindCoordinatorRequest, HeartbeatRequest, SyncGroupRequest
from spark_connect_rt.kafka.membership.group_wire import JoinRequest, LeaveRequest
from spark_connect_rt.kafka.refusal import Refusal

PROTOCOL_TYPE = "connect"
REASON_LIMIT = 255  # characters; brokers refuse longer ones (Java JoinGroupRequest.maybeTruncateReason)

NONE = 0
ILLEGAL_GENERATION = 22
UNKNOWN_MEMBER_ID = 25
REBALANCE_IN_PROGRESS = 27
MEMBER_ID_REQUIRED = 79

_LOST = {
    14: "the group coordinator is loading the group",
    15: "the group coordinator is not available",
    16: "this broker is no longer the group's coordinator",
}
_REFUSED = {
    23: ("connect.protocol", "no protocol of this worker is supported by every member of the group"),
    24: ("group.id", "the broker rejects this group id as invalid"),
    26: ("session.timeout.ms", "outside group.min.session.timeout.ms .. group.max.session.timeout.ms of the broker"),
    30: ("group.id", "this worker is not authorized to use the group"),
    35: ("bootstrap.servers", "the broker does not support this version of the group protocol"),
    81: ("group.id", "the group has reached the broker's group.max.size"),
    82: ("group.id", "a static member of the same instance id took this place (workers are never static)"),
}


def find_request(group_id: str) -> FindCoordinatorRequest:
    """Ask which broker coordinates the group."""
    return FindCoordinatorRequest(group_id, 0)


def join_request(group_id: str, member: Member, timing: Timing) -> JoinRequest:
    """Join with the member's offer, under the id it has (empty: the broker will give one); say why."""
    return JoinRequest(
        group_id,
        timing.session_ms,
        timing.rebalance_ms,
        member.member_id,
        None,
        PROTOCOL_TYPE,
        protocols=list(member.offer),
        reason=member.reason[:REASON_LIMIT],
    )


def sync_request(group_id: str, member: Member) -> SyncGroupRequest:
    """Hand the leader's plan in, or ask for one's own part of it."""
    return SyncGroupRequest(group_id, member.generation, member.member_id, None, list(member.plan.items()))


def heartbeat_request(group_id: str, member: Member) -> HeartbeatRequest:
    """Say that this member lives."""
    return HeartbeatRequest(group_id, member.generation, member.member_id)


def leave_request(group_id: str, member_id: str, reason: str) -> LeaveRequest:
    """Give the place in the group up; say why."""
    return LeaveRequest(group_id, member_id, reason[:REASON_LIMIT])


def refusal_of(error_code: int) -> Refusal | None:
    """Return what to correct when this error is final, else None."""
    return Refusal(*_REFUSED[error_code]) if error_code in _REFUSED else None


def lost_reason(error_code: int) -> str:
    """Return why the coordinator must be looked for again."""
    return _LOST.get(error_code, f"the group coordinator answered error {error_code}")


def join_answered(answer: Any, member: Member, at_ms: int) -> object:
    """Turn a JoinGroup answer into an event. REBALANCE_IN_PROGRESS here only means: try again."""
    code = answer.error_code
    if code == MEMBER_ID_REQUIRED:
        return MemberIdGiven(answer.member_id)
    if code != NONE:
        return _failed(code, member, at_ms)
    agreed = (answer.generation_id, answer.group_protocol, answer.member_id, answer.leader_id)
    if answer.leader_id == answer.member_id:
        return JoinedAsLeader(*agreed, members=_metadata(answer.members), at_ms=at_ms)
    return JoinedAsFollower(*agreed, at_ms=at_ms)


def sync_answered(answer: Any, member: Member, sent_ms: int) -> object:
    """Turn a SyncGroup answer into an event."""
    if answer.error_code == NONE:
        return SyncAnswered(bytes(answer.member_assignment), sent_ms)
    if answer.error_code == REBALANCE_IN_PROGRESS:
        return RoundAborted()
    return _failed(answer.error_code, member, sent_ms)


def heartbeat_answered(answer: Any, member: Member, sent_ms: int) -> object:
    """Turn a Heartbeat answer into an event."""
    if answer.error_code == NONE:
        return HeartbeatOk(member.generation, sent_ms)
    if answer.error_code == REBALANCE_IN_PROGRESS:
        return RebalanceSignalled(member.generation, sent_ms)
    return _failed(answer.error_code, member, sent_ms)


def _failed(code: int, member: Member, sent_ms: int) -> object:
    if code == UNKNOWN_MEMBER_ID:
        return MemberUnknown(member.generation)
    if code == ILLEGAL_GENERATION:
        return GenerationLost(member.generation, sent_ms)
    refusal = refusal_of(code)
    return CoordinatorLost(lost_reason(code)) if refusal is None else Refused(f"{refusal.setting}: {refusal.reason}")


def _metadata(members: Any) -> Mapping[str, bytes]:
    # From JoinGroup 5 on the static instance id stands between id and metadata.
    return {entry[0]: bytes(entry[1] if len(entry) == 2 else entry[2]) for entry in members}
