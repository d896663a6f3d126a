"""Rules that every round must keep, independent of earlier rounds: the naive twin of the incremental assignor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_connect_rt.group.assignments import AssignmentResult, ConnectorsAndTasks
from spark_connect_rt.group.assignor import AssignorMemory
from spark_connect_rt.group.subprotocol import Assignment

Held = Mapping[str, ConnectorsAndTasks]


@dataclass(frozen=True)
class Round:
    """One round: its input and its result."""

    memory: AssignorMemory
    configured: ConnectorsAndTasks
    held: Held
    result: AssignmentResult
    now_ms: int

    def started(self, member: str) -> set[object]:
        return items(given(self.result.assignments[member]))

    def revoked(self, member: str) -> set[object]:
        return items(taken(self.result.assignments[member]))

    @property
    def active(self) -> Counter[object]:
        return Counter(item for part in self.held.values() for item in items(part))

    @property
    def serves_candidates(self) -> bool:
        """Return whether lost work went back to members that came back empty: some may be revoked at once."""
        return bool(self.memory.candidates) and self.now_ms >= self.memory.scheduled_rebalance_ms > 0


def given(told: Assignment) -> ConnectorsAndTasks:
    return ConnectorsAndTasks(told.connectors, told.tasks)


def taken(told: Assignment) -> ConnectorsAndTasks:
    return ConnectorsAndTasks(told.revoked_connectors, told.revoked_tasks)


def items(part: ConnectorsAndTasks) -> set[object]:
    return {*part.connectors, *part.tasks}


def broken_rules(this: Round) -> list[str]:
    """Return a sentence for each rule that a round broke."""
    return [*_disjoint(this), *_complete(this), *_no_needless_revocation(this)]


def _disjoint(this: Round) -> list[str]:
    active = this.active
    started = Counter(item for member in this.held for item in this.started(member))
    broken = [f"{item} is started {n} times" for item, n in started.items() if n > 1]
    broken += [f"{item} is started while somebody runs it" for item in started if item in active]
    broken += [f"{item} is started and is not configured" for item in started if item not in items(this.configured)]
    for member, part in this.held.items():
        broken += [
            f"{member} keeps {item}, which {active[item]} members hold"
            for item in items(part)
            if active[item] > 1 and item not in this.revoked(member)
        ]
    return broken


def _complete(this: Round) -> list[str]:
    """All configured work runs or is started; only lost work may wait, and only while a delay runs."""
    if this.serves_candidates:
        return []
    placed = {item for member in this.held for item in this.started(member)} | this.active.keys()
    waits = items(this.memory.previous_assignment) if this.result.delay_ms else set()
    return [f"{item} is placed nowhere" for item in items(this.configured) - placed - waits]


def _no_needless_revocation(this: Round) -> list[str]:
    if this.serves_candidates:
        return []
    return [
        *_needless("connectors", this, [(m, part.connectors) for m, part in this.held.items()]),
        *_needless("tasks", this, [(m, part.tasks) for m, part in this.held.items()]),
    ]


def _needless(kind: str, this: Round, held: Sequence[tuple[str, Sequence[object]]]) -> list[str]:
    """Only removed work, work that runs twice, and for balance all work above the level, or nothing yet, is revoked."""
    active, wanted = this.active, set(getattr(this.configured, kind))
    loads, moved = {}, {}
    for member, part in held:
        revoked = this.revoked(member)
        gone = {item for item in part if item in revoked and (item not in wanted or active[item] > 1)}
        loads[member] = len(part) - len(gone)
        moved[member] = len({item for item in part if item in revoked} - gone)
    least, extra = divmod(len(wanted), len(loads))
    above = [load - least for load in loads.values() if load > least]
    surplus = sum(above) - min(extra, len(above))
    total = sum(moved.values())
    if this.result.delay_ms and total:
        return [f"{total} {kind} are revoked while a delay runs"]
    broken = [] if total in (0, surplus) else [f"{total} {kind} are revoked for balance, {surplus} are above level"]
    return broken + [
        f"{member} is left with {loads[member] - count} {kind}, {least} is its share"
        for member, count in moved.items()
        if count and loads[member] - count < least
    ]
