"""What members must stop: deleted work, work held twice, and work in the way of balance.

Owns the arithmetic of balance (Java ``IncrementalCooperativeAssignor.loadBalancingRevocations``) and the
back-off between rounds that revoke. Decides nothing about when; ``incremental`` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TypeVar

from spark_connect_rt.group.assignments import NOTHING, ConnectorsAndTasks

Item = TypeVar("Item")

REVOKING_BACKOFF_FIRST_MS = 1
REVOKING_BACKOFF_FACTOR = 40


def revoking_backoff_ms(successive: int, max_delay_ms: int) -> int:
    """Return how long to wait before revoking again after ``successive`` such rounds: 40, 1600, 64000 ..."""
    if max_delay_ms == 0:
        return 0
    # An exponent that large would be the maximum anyway; it must not grow into a thousand digits.
    return min(REVOKING_BACKOFF_FIRST_MS * int(REVOKING_BACKOFF_FACTOR ** min(successive, 16)), max_delay_ms)


def duplicated(held: Mapping[str, ConnectorsAndTasks]) -> ConnectorsAndTasks:
    """Return what more than one member holds. All holders must stop it; it is assigned in the next round."""
    connectors = Counter(chain.from_iterable(set(part.connectors) for part in held.values()))
    tasks = Counter(chain.from_iterable(set(part.tasks) for part in held.values()))
    return ConnectorsAndTasks(
        tuple(sorted(c for c, count in connectors.items() if count > 1)),
        tuple(sorted(t for t, count in tasks.items() if count > 1)),
    )


def balance(configured: ConnectorsAndTasks, held: Mapping[str, ConnectorsAndTasks]) -> dict[str, ConnectorsAndTasks]:
    """Return what each member must give up so that everything configured can be spread evenly (+-1).

    Only members that give up something are in the answer.
    """
    if configured.is_empty or all(part.is_empty for part in held.values()):
        return {}
    connectors = _surplus(len(configured.connectors), {m: part.connectors for m, part in held.items()})
    tasks = _surplus(len(configured.tasks), {m: part.tasks for m, part in held.items()})
    return {
        member: ConnectorsAndTasks(connectors.get(member, ()), tasks.get(member, ()))
        for member in held
        if member in connectors or member in tasks
    }


def _surplus(total: int, held: Mapping[str, Sequence[Item]]) -> dict[str, tuple[Item, ...]]:
    """Return what is above the level of ``total`` items over all members, first held first revoked."""
    least, extra = divmod(total, len(held))
    sizes = Counter(len(items) for items in held.values())
    if sizes[least + 1] == extra and sizes[least] + sizes[least + 1] == len(held):
        return {}
    surplus: dict[str, tuple[Item, ...]] = {}
    for member in sorted(held):
        items = held[member]
        if len(items) <= least:
            continue
        allowed = least + 1 if extra > 0 else least
        extra -= 1
        if len(items) > allowed:
            surplus[member] = tuple(items[: len(items) - allowed])
    return surplus


def add(
    revoked: Mapping[str, ConnectorsAndTasks], more: Mapping[str, ConnectorsAndTasks]
) -> dict[str, ConnectorsAndTasks]:
    """Return both, member by member."""
    return {m: revoked.get(m, NOTHING) | more.get(m, NOTHING) for m in [*revoked, *more]}
