"""The assignor of ``compatible`` and ``sessioned``: keep what runs, move only what must, in two rounds.

Owns one round of KIP-415 (Java ``IncrementalCooperativeAssignor.performTaskAssignment``). The leader passes
the memory of its previous round in and keeps the one that comes out; a new leader begins with
``AssignorMemory()`` and therefore places a dead leader's work at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from spark_connect_rt.group import revocations
from spark_connect_rt.group.assignments import (
    NOTHING,
    AssignmentResult,
    AssignmentRound,
    ConnectorsAndTasks,
    held_by,
    split,
    union,
)
from spark_connect_rt.group.lost_assignments import AssignorMemory, handle_lost
from spark_connect_rt.group.subprotocol import Assignment

__all__ = ["AssignorMemory", "assign", "fill"]

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class _Facts:
    """How what is configured, what was handed out and what is held differ."""

    memory: AssignorMemory
    deleted: ConnectorsAndTasks
    duplicated: ConnectorsAndTasks
    lost: ConnectorsAndTasks
    created: ConnectorsAndTasks


def assign(memory: AssignorMemory, this_round: AssignmentRound) -> tuple[AssignorMemory, AssignmentResult]:
    """Run one round; return the memory for the next one and what each member is assigned.

    Work that moves is only revoked here; its owner stops it, rejoins, and the next round places it.
    """
    held = {member: held_by(this_round.members[member]) for member in sorted(this_round.members)}
    facts = _compare(memory, this_round, held)
    revoked, kept = split(held, facts.deleted | facts.duplicated)

    lost = handle_lost(facts.memory, facts.lost, kept, this_round.now_ms, this_round.lost_work_waits_ms)
    memory, surplus = _load_balancing(lost.memory, this_round, lost.held)
    surplus = surplus or _moving(memory, this_round, lost.held)
    revoked = revocations.add(revoked, surplus)
    after = {member: part - surplus.get(member, NOTHING) for member, part in lost.held.items()}
    free = facts.created | lost.to_reassign
    if this_round.bound_for:
        after, free = _place_bound(after, free, this_round)
    after = _place_in_runs(after, free) if this_round.in_runs else _place(after, free)

    memory = _remember(memory, this_round, after, revoked, facts.lost)
    _, current = split(held, facts.deleted)
    started = {member: after[member] - current[member] for member in after}
    return memory, _tell(this_round, started, revoked, after, memory.delay_ms)


def fill(load: Mapping[str, Sequence[Item]], items: Sequence[Item]) -> dict[str, tuple[Item, ...]]:
    """Give items, in order, always to a worker that has the fewest (ties: by worker id)."""
    filled = {worker: list(held) for worker, held in load.items()}
    ranked = sorted(filled, key=lambda worker: (len(filled[worker]), worker))
    waiting = iter(items)
    left = len(items)
    while left:
        level = len(filled[ranked[0]])
        for worker in ranked:
            if left == 0 or len(filled[worker]) > level:
                break
            filled[worker].append(next(waiting))
            left -= 1
    return {worker: tuple(held) for worker, held in filled.items()}


def fill_in_runs(load: Mapping[str, Sequence[Item]], items: Sequence[Item]) -> dict[str, tuple[Item, ...]]:
    """Give as many items to each worker as ``fill`` does, but neighbours to the same one."""
    room = fill({worker: (None,) * len(held) for worker, held in load.items()}, (None,) * len(items))
    filled, at = {}, 0
    for worker, held in load.items():
        end = at + len(room[worker]) - len(held)
        filled[worker] = (*held, *items[at:end])
        at = end
    return filled


def _compare(memory: AssignorMemory, this_round: AssignmentRound, held: Mapping[str, ConnectorsAndTasks]) -> _Facts:
    if memory.previous_generation != this_round.last_completed_generation:
        # The previous round was never adopted here, or another worker led since: what was handed out is
        # not known, so nothing can be lost.
        memory = replace(memory, previous_assignment=NOTHING)
    active = union(held.values())
    if not (memory.previous_revocation & active).is_empty:
        memory = replace(memory, previous_assignment=active)  # the revocation did not reach its owner
    memory = replace(memory, previous_revocation=NOTHING)
    configured, previous = this_round.configured, memory.previous_assignment
    deleted = (previous - configured).in_order()
    return _Facts(
        memory=memory,
        deleted=deleted,
        duplicated=revocations.duplicated(held),
        lost=(previous - active - deleted).in_order(),
        created=(configured - previous - active).in_order(),
    )


def _load_balancing(
    memory: AssignorMemory, this_round: AssignmentRound, held: Mapping[str, ConnectorsAndTasks]
) -> tuple[AssignorMemory, dict[str, ConnectorsAndTasks]]:
    """Return the memory and what is revoked for balance: nothing while a delay runs, never twice in a row."""
    if memory.delay_ms != 0:
        return replace(memory, revoked_in_previous=False), {}
    surplus = revocations.balance(this_round.configured, held)
    if not surplus:
        if memory.revoked_in_previous:
            memory = replace(memory, revoked_in_previous=False, successive_revoking=0)
        return memory, {}
    if not memory.revoked_in_previous:
        return replace(memory, revoked_in_previous=True), surplus
    successive = memory.successive_revoking + 1
    delay_ms = revocations.revoking_backoff_ms(successive, this_round.max_delay_ms)
    memory = replace(memory, successive_revoking=successive, delay_ms=delay_ms)
    if delay_ms == 0:
        return memory, surplus
    return replace(memory, scheduled_rebalance_ms=this_round.now_ms + delay_ms), {}


def _moving(
    memory: AssignorMemory, this_round: AssignmentRound, held: Mapping[str, ConnectorsAndTasks]
) -> dict[str, ConnectorsAndTasks]:
    """Return what members give up for load: what they still hold, and nothing while a delay runs."""
    if memory.delay_ms != 0 or not this_round.moves:
        return {}
    found: dict[str, ConnectorsAndTasks] = {}
    for member, part in held.items():
        tasks = tuple(task for task in part.tasks if this_round.moves.get(task) == member)
        if tasks:
            found[member] = ConnectorsAndTasks((), tasks)
    return found


def _place_bound(
    held: Mapping[str, ConnectorsAndTasks], free: ConnectorsAndTasks, this_round: AssignmentRound
) -> tuple[dict[str, ConnectorsAndTasks], ConnectorsAndTasks]:
    """Give tasks to the members they are bound for, as far as these do not get more than their share."""
    share = -(-len(this_round.configured.tasks) // len(held))
    after = {member: list(part.tasks) for member, part in held.items()}
    left = []
    for task in free.tasks:
        member = this_round.bound_for.get(task, "")
        if member in after and len(after[member]) < share:
            after[member].append(task)
        else:
            left.append(task)
    placed = {member: ConnectorsAndTasks(held[member].connectors, tuple(tasks)) for member, tasks in after.items()}
    return placed, ConnectorsAndTasks(free.connectors, tuple(left))


def _place(held: Mapping[str, ConnectorsAndTasks], items: ConnectorsAndTasks) -> dict[str, ConnectorsAndTasks]:
    connectors = fill({m: part.connectors for m, part in held.items()}, items.connectors)
    tasks = fill({m: part.tasks for m, part in held.items()}, items.tasks)
    return {member: ConnectorsAndTasks(connectors[member], tasks[member]) for member in held}


def _place_in_runs(held: Mapping[str, ConnectorsAndTasks], items: ConnectorsAndTasks) -> dict[str, ConnectorsAndTasks]:
    connectors = fill_in_runs({m: part.connectors for m, part in held.items()}, items.connectors)
    tasks = fill_in_runs({m: part.tasks for m, part in held.items()}, items.tasks)
    return {member: ConnectorsAndTasks(connectors[member], tasks[member]) for member in held}


def _remember(
    memory: AssignorMemory,
    this_round: AssignmentRound,
    after: Mapping[str, ConnectorsAndTasks],
    revoked: Mapping[str, ConnectorsAndTasks],
    lost: ConnectorsAndTasks,
) -> AssignorMemory:
    all_revoked = union(revoked.values())
    return replace(
        memory,
        # Lost work stays remembered while it waits, else the next round would take it for new.
        previous_assignment=(union(after.values()) - all_revoked) | lost,
        previous_revocation=all_revoked,
        previous_generation=this_round.generation,
        previous_members=frozenset(this_round.members),
    )


def _tell(
    this_round: AssignmentRound,
    started: Mapping[str, ConnectorsAndTasks],
    revoked: Mapping[str, ConnectorsAndTasks],
    after: Mapping[str, ConnectorsAndTasks],
    delay_ms: int,
) -> AssignmentResult:
    def assignment_of(member: str) -> Assignment:
        return Assignment(
            leader_id=this_round.leader_id,
            leader_url=this_round.leader_url,
            config_offset=this_round.config_offset,
            connectors=started[member].connectors,
            tasks=started[member].tasks,
            revoked_connectors=revoked[member].connectors,
            revoked_tasks=revoked[member].tasks,
            delay_ms=delay_ms,
        )

    return AssignmentResult(
        assignments={member: assignment_of(member) for member in after},
        owners={member: after[member] - revoked[member] for member in after},
        delay_ms=delay_ms,
    )
