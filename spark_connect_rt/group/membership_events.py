"""What can happen to a member of the group: the events of ``group.membership``.

Owns their shapes only. The herder's wishes come first, then what time does, then what the coordinator says.
Events that answer a request carry the generation or round they belong to, so that late ones change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Started:
    """The herder wants in for the first time."""


@dataclass(frozen=True, slots=True)
class RejoinRequested:
    """The herder wants a rebalance, or back in after it left."""

    reason: str


@dataclass(frozen=True, slots=True)
class JoinOffered:
    """The herder answered JoinRequired number ``round``."""

    round: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class SyncOffered:
    """The herder answered AssignmentRequired of ``generation``."""

    generation: int
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class LeaveRequested:
    """The herder asks to leave the group."""

    reason: str


@dataclass(frozen=True, slots=True)
class Polled:
    """The herder polls again."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """The herder ended everything that ran under the contact that was lost."""


@dataclass(frozen=True, slots=True)
class PollExpired:
    """The herder has not polled for rebalance.timeout.ms."""

    reason: str = "worker poll timeout has expired."


@dataclass(frozen=True, slots=True)
class ContactExpired:
    """No heartbeat sent within the last session.timeout.ms was answered."""

    reason: str = "no contact with the group coordinator for session.timeout.ms"


@dataclass(frozen=True, slots=True)
class CoordinatorFound:
    """There are connections to the coordinator."""

    reason: str = "the group coordinator was found"


@dataclass(frozen=True, slots=True)
class CoordinatorLost:
    """The connection broke, an answer is overdue, or the broker coordinates this group no more."""

    reason: str


@dataclass(frozen=True, slots=True)
class MemberIdGiven:
    """JoinGroup was answered MEMBER_ID_REQUIRED: join again under this id."""

    member_id: str


@dataclass(frozen=True, slots=True)
class JoinedAsLeader:
    """JoinGroup succeeded and this member must assign; ``members`` maps ids to metadata."""

    generation: int
    protocol: str
    member_id: str
    leader_id: str
    members: Mapping[str, bytes]
    at_ms: int


@dataclass(frozen=True, slots=True)
class JoinedAsFollower:
    """JoinGroup succeeded; another member leads and assigns."""

    generation: int
    protocol: str
    member_id: str
    leader_id: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class SyncAnswered:
    """SyncGroup succeeded; ``sent_ms`` is when the request was sent."""

    assignment: bytes
    sent_ms: int


@dataclass(frozen=True, slots=True)
class RoundAborted:
    """SyncGroup was answered REBALANCE_IN_PROGRESS: a newer round began."""

    reason: str = "the rebalance was overtaken by another one"


@dataclass(frozen=True, slots=True)
class HeartbeatOk:
    """A heartbeat of ``generation`` was answered without error."""

    generation: int
    sent_ms: int


@dataclass(frozen=True, slots=True)
class RebalanceSignalled:
    """A heartbeat was answered REBALANCE_IN_PROGRESS."""

    generation: int
    sent_ms: int
    reason: str = "the group is rebalancing"


@dataclass(frozen=True, slots=True)
class GenerationLost:
    """ILLEGAL_GENERATION: the member id is good, the generation is over."""

    generation: int
    sent_ms: int
    reason: str = "the group has moved on to another generation"


@dataclass(frozen=True, slots=True)
class MemberUnknown:
    """UNKNOWN_MEMBER_ID: the group went on without this member; others may have its work by now."""

    generation: int
    reason: str = "the group coordinator no longer knows this member"


@dataclass(frozen=True, slots=True)
class Refused:
    """An answer that repeating cannot change."""

    reason: str
