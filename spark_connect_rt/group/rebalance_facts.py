"""Combines the views that the workers have of one rebalance: joined and left members, moved work, reason, time. Pure.

Owns the shape of a rebalance's ``details`` in the group's event log, its sentence, and how the views of several workers
become one. The leader knows the members; each worker knows the work that it received and gave up.

``details``::

    {"generation", "protocol", "leader": worker id, "took_ms",
     "members": [worker ids] | null, "joined": [...] | null, "left": [...] | null,      null: not known
     "moved": [{"connector", "task" (null: the connector itself), "from" (null: no worker), "to"}], "moved_count",
     "released": [{"connector", "task", "from"}], "released_count",                      given up, not assigned yet
     "workers": [{"worker_id", "took_ms", "reason", "rounds"}]}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.group.assignments import ConnectorsAndTasks

LISTED = 60  # of the moved work; the counts are of all
Item = str | ConnectorTaskId
_NOBODY = ConnectorsAndTasks()
_GENERIC = ("the group is rebalancing", "the rebalance was overtaken", "the group coordinator was found", "asked to")


@dataclass(frozen=True, slots=True)
class Members:
    """The leader's view of the group: worker ids now, and the difference to the round before (None: not known)."""

    now: tuple[str, ...]
    joined: tuple[str, ...] | None
    left: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class OwnView:
    """The view of one worker. ``owners``: the previous owner of an item, by worker id; times in ms."""

    worker_id: str
    generation: int
    protocol: str
    leader: str
    reasons: Sequence[str]
    rounds: int
    took_ms: int
    before: ConnectorsAndTasks | None
    after: ConnectorsAndTasks | None
    owners: Mapping[Item, str]
    members: Members | None = None


def members_of(
    now: Mapping[str, str], before: Mapping[str, str] | None, with_work: Iterable[str], fresh: Iterable[str] | None
) -> Members:
    """Return the members that joined and left.

    Args:
        now: worker id -> member id of this round; a worker that was gone for a while has another member id.
        before: the same of the last round that this leader led; None: it led none since it joined.
        with_work: worker ids that work was last seen on, for a leader that led no round before.
        fresh: those that claim no work, not even none; None: the protocol cannot express it.
    """
    if before is not None:
        joined = tuple(sorted(worker for worker, member in now.items() if before.get(worker) != member))
        return Members(tuple(sorted(now)), joined, tuple(sorted(before.keys() - now.keys())))
    left = tuple(sorted(set(with_work) - now.keys()))
    return Members(tuple(sorted(now)), None if fresh is None else tuple(sorted(fresh)), left)


def items_of(work: ConnectorsAndTasks) -> list[Item]:
    """Return the connectors, followed by the tasks."""
    items: list[Item] = list(work.connectors)
    items.extend(work.tasks)
    return items


def worker_of(url: str) -> str:
    """Return the worker id (host:port) of an advertised URL."""
    return url.partition("://")[2].rstrip("/") or url


def details_of(view: OwnView) -> dict[str, Any]:
    """Return one worker's view as details."""
    before, after = view.before or _NOBODY, view.after or _NOBODY
    came, went = after - before, before - after
    moved = [{**_named(item), "from": view.owners.get(item) or None, "to": view.worker_id} for item in items_of(came)]
    released = [{**_named(item), "from": view.worker_id} for item in items_of(went)]
    members = view.members
    return {
        "generation": view.generation,
        "protocol": view.protocol,
        "leader": view.leader,
        "took_ms": view.took_ms,
        "members": None if members is None else list(members.now),
        "joined": None if members is None or members.joined is None else list(members.joined),
        "left": None if members is None or members.left is None else list(members.left),
        "moved": moved[:LISTED],
        "moved_count": len(moved),
        "released": released[:LISTED],
        "released_count": len(released),
        "workers": [
            {
                "worker_id": view.worker_id,
                "took_ms": view.took_ms,
                "reason": best_reason(view.reasons),
                "rounds": view.rounds,
            }
        ],
    }


def merged(views: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the details of one rebalance that several workers saw; in any order, any of them already merged."""
    whole: dict[str, Any] = dict(views[0])
    for other in views[1:]:
        known = {it["worker_id"] for it in whole["workers"]}
        new = [it for it in other["workers"] if it["worker_id"] not in known]
        if not new:
            continue
        whole["workers"] = [*whole["workers"], *new]
        whole["took_ms"] = max(whole["took_ms"], other["took_ms"])
        for field in ("members", "joined", "left"):
            whole[field] = other[field] if whole[field] is None else whole[field]
        for field in ("moved", "released"):
            whole[field] = [*whole[field], *other[field]]
            whole[f"{field}_count"] += other[f"{field}_count"]
    taken = {(it["connector"], it["task"]): it for it in whole["moved"]}
    gone = [it for it in whole["released"] if (it["connector"], it["task"]) not in taken]
    whole["released_count"] -= len(whole["released"]) - len(gone)
    whole["released"] = _sorted(gone)
    whole["moved"] = _sorted(whole["moved"])
    whole["workers"] = sorted(whole["workers"], key=lambda it: str(it["worker_id"]))
    return whole


def sentence(details: Mapping[str, Any]) -> str:
    """Return a rebalance in one line."""
    parts = []
    for field, verb in (("joined", "joined"), ("left", "left")):
        if details.get(field):
            parts.append(f"{', '.join(details[field])} {verb}")
    if details["moved_count"]:
        parts.append(_assignments(details))
    if details["released_count"]:
        parts.append(f"{details['released_count']} revoked")
    if not parts:
        parts.append("nothing moved")
    reason = best_reason([it["reason"] for it in details["workers"]])
    because = f" (reason: {reason})" if reason else ""
    return f"generation {details['generation']} in {details['took_ms']} ms: {'; '.join(parts)}{because}"


def best_reason(reasons: Iterable[str]) -> str:
    """Return the first reason that is more specific than "there is a rebalance", else the first one."""
    given = [reason for reason in reasons if reason]
    telling = [reason for reason in given if not reason.startswith(_GENERIC)]
    return (telling or given or [""])[0]


def _assignments(details: Mapping[str, Any]) -> str:
    """Return how many connectors and tasks have a worker now that had another one, or none, before."""
    count, new = details["moved_count"], all(it["from"] is None for it in details["moved"])
    noun = "assignment" if count == 1 else "assignments"
    return f"{count} new {noun}" if new else f"{count} {noun} moved"


def _named(item: Item) -> dict[str, Any]:
    if isinstance(item, ConnectorTaskId):
        return {"connector": item.connector, "task": item.task}
    return {"connector": item, "task": None}


def _sorted(items: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(items, key=lambda it: (it["connector"], -1 if it["task"] is None else it["task"]))
