"""Who must serve a request: any worker, the leader, or the owner (Java ``DistributedHerder``)."""

from __future__ import annotations

from dataclasses import dataclass

from spark_connect_rt.errors import NotAssignedError, NotLeaderError


@dataclass(frozen=True, slots=True)
class GroupStanding:
    """Where this worker stands in the group when the request is served."""

    is_leader: bool
    leader_url: str | None


def require_leader(standing: GroupStanding, what: str) -> None:
    """Raise NotLeaderError unless this worker leads. ``what``: ``create connector a``, for the message."""
    if not standing.is_leader:
        raise NotLeaderError(f"Only the leader can {what}.", standing.leader_url)


def require_owner(standing: GroupStanding, owned: bool, owner_url: str | None, what: str) -> None:
    """Raise unless this worker owns what the request is about.

    A follower sends it to the leader, which alone knows the owners (owner map of the last assignment).
    """
    if owned:
        return
    if not standing.is_leader:
        raise NotLeaderError(f"Cannot {what}: it does not run on this worker.", standing.leader_url)
    raise NotAssignedError(f"Cannot {what}: it does not run on this worker.", owner_url)
