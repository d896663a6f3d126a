"""The assignor of ``compatible`` and ``sessioned``: keep running work in place and move only the rest.

Owns one round of KIP-415 (Java ``IncrementalCooperativeAssignor.performTaskAssignment``). The leader passes in the
memory of its previous round and keeps the returned one. A new leader begins with ``AssignorMemory()`` and therefore
places a dead leader's work at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle
from typing import TypeVar

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.group.assignments import (
    NOTHING,
    AssignmentResult,
    AssignmentRound,
    ConnectorsAndTasks,
    held_by,
    split,
    union,
)
from spark_connect_rt.group.subprotocol import Assignment

# Work that members must stop: deleted work, work held twice, and work in the way of balance.
#
# Owns the arithmetic of balance (Java ``IncrementalCooperativeAssignor.loadBalancingRevocations``) and the back-off
# between rounds that revoke. ``incremental`` decides when to revoke.


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
    """Return work that several members hold. All holders must stop it; it is assigned in the next round."""
    connectors = Counter(chain.from_iterable(set(part.connectors) for part in held.values()))
    tasks = Counter(chain.from_iterable(set(part.tasks) for part in held.values()))
    return ConnectorsAndTasks(
        tuple(sorted(c for c, count in connectors.items() if count > 1)),
        tuple(sorted(t for t, count in tasks.items() if count > 1)),
    )


def balance(configured: ConnectorsAndTasks, held: Mapping[str, ConnectorsAndTasks]) -> dict[str, ConnectorsAndTasks]:
    """Return the work that each member must give up so that all configured work can be spread evenly (+-1).

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
    """Return the work above the level of ``total`` items over all members, first held first revoked."""
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


# Work whose worker vanished: wait for it (scheduled rebalance), then place it elsewhere.
#
# Owns the delay (KIP-415; Java ``IncrementalCooperativeAssignor.handleLostAssignments``): lost work stays unassigned
# for up to ``scheduled.rebalance.max.delay.ms``, so that a worker that restarts gets it back. Time is an argument; the
# memory is replaced, never changed.


@dataclass(frozen=True, slots=True)
class AssignorMemory:
    """The leader's memory between rounds. A new leader starts with an empty one.

    ``candidates`` are workers that were empty while a delay ran, in order of discovery.
    ``scheduled_rebalance_ms`` is absolute, 0 for none; ``delay_ms`` is the delay that was sent to the members.
    """

    previous_assignment: ConnectorsAndTasks = NOTHING
    previous_revocation: ConnectorsAndTasks = NOTHING
    previous_generation: int = -1
    previous_members: frozenset[str] = frozenset()
    revoked_in_previous: bool = False
    successive_revoking: int = 0
    candidates: tuple[str, ...] = ()
    scheduled_rebalance_ms: int = 0
    delay_ms: int = 0

    def without_delay(self) -> AssignorMemory:
        """Return the memory with no delay running."""
        return replace(self, candidates=(), scheduled_rebalance_ms=0, delay_ms=0)


@dataclass(frozen=True, slots=True)
class LostWork:
    """How one round treats lost work."""

    memory: AssignorMemory
    to_reassign: ConnectorsAndTasks  # place it like new work, now
    held: Mapping[str, ConnectorsAndTasks]  # next load per member, including the work that candidates got back


def handle_lost(
    memory: AssignorMemory,
    lost: ConnectorsAndTasks,
    held: Mapping[str, ConnectorsAndTasks],
    now_ms: int,
    max_delay_ms: int,
) -> LostWork:
    """Decide whether lost work waits, goes to workers that came back empty, or is placed like new work.

    Args:
        memory: of the previous round.
        lost: in order; configured, assigned earlier, held by no member.
        held: member -> the work it keeps this round.
        now_ms: on any clock, the same in every round.
        max_delay_ms: ``scheduled.rebalance.max.delay.ms``; in a group without Java workers our own setting.
    """
    if lost.is_empty and not memory.revoked_in_previous:
        return LostWork(memory.without_delay(), NOTHING, held)
    if max_delay_ms == 0:
        return LostWork(_pause_goes_on(memory, now_ms), lost, held)
    if memory.scheduled_rebalance_ms <= 0 and memory.previous_members <= held.keys():
        # With all members here one of them never received its assignment: nothing to wait for.
        return LostWork(memory, lost, held)
    if memory.scheduled_rebalance_ms > 0 and now_ms >= memory.scheduled_rebalance_ms:
        return _after_the_delay(memory, lost, held)
    return LostWork(_waiting(memory, held, now_ms, max_delay_ms), NOTHING, held)


def _pause_goes_on(memory: AssignorMemory, now_ms: int) -> AssignorMemory:
    """Return the memory when lost work never waits: only the pause between two revocations for balance may run."""
    if memory.scheduled_rebalance_ms <= 0:
        return memory
    if now_ms >= memory.scheduled_rebalance_ms:
        return replace(memory.without_delay(), revoked_in_previous=False)
    return replace(memory, delay_ms=memory.scheduled_rebalance_ms - now_ms)


def _after_the_delay(
    memory: AssignorMemory, lost: ConnectorsAndTasks, held: Mapping[str, ConnectorsAndTasks]
) -> LostWork:
    candidates = [member for member in memory.candidates if member in held]
    memory = replace(memory.without_delay(), revoked_in_previous=False)
    if not candidates:
        return LostWork(memory, lost, held)
    connectors: dict[str, list[str]] = {candidate: [] for candidate in candidates}
    tasks: dict[str, list[ConnectorTaskId]] = {candidate: [] for candidate in candidates}
    for candidate, connector in zip(cycle(candidates), lost.connectors, strict=False):
        connectors[candidate].append(connector)
    for candidate, task in zip(cycle(candidates), lost.tasks, strict=False):
        tasks[candidate].append(task)
    given_back = {
        candidate: held[candidate] | ConnectorsAndTasks(tuple(connectors[candidate]), tuple(tasks[candidate]))
        for candidate in candidates
    }
    return LostWork(memory, NOTHING, {**held, **given_back})


def _waiting(
    memory: AssignorMemory, held: Mapping[str, ConnectorsAndTasks], now_ms: int, max_delay_ms: int
) -> AssignorMemory:
    empty = [member for member in sorted(held) if held[member].is_empty]
    remaining_ms = memory.scheduled_rebalance_ms - now_ms
    delay_ms = min(remaining_ms, max_delay_ms) if remaining_ms > 0 else max_delay_ms
    return replace(
        memory,
        candidates=tuple(dict.fromkeys([*memory.candidates, *empty])),
        delay_ms=delay_ms,
        scheduled_rebalance_ms=now_ms + delay_ms,
    )


__all__ = ["AssignorMemory", "assign", "fill"]


@dataclass(frozen=True, slots=True)
class _Facts:
    """The differences between the configured, the assigned and the held work."""

    memory: AssignorMemory
    deleted: ConnectorsAndTasks
    duplicated: ConnectorsAndTasks
    lost: ConnectorsAndTasks
    created: ConnectorsAndTasks


def assign(memory: AssignorMemory, this_round: AssignmentRound) -> tuple[AssignorMemory, AssignmentResult]:
    """Run one round; return the memory for the next one and the assignment of each member.

    Work that moves is only revoked here; its owner stops it, rejoins, and the next round places it.
    """
    held = {member: held_by(this_round.members[member]) for member in sorted(this_round.members)}
    facts = _compare(memory, this_round, held)
    revoked, kept = split(held, facts.deleted | facts.duplicated)

    lost = handle_lost(facts.memory, facts.lost, kept, this_round.now_ms, this_round.lost_work_waits_ms)
    memory, surplus = _load_balancing(lost.memory, this_round, lost.held)
    surplus = surplus or _moving(memory, this_round, lost.held)
    revoked = add(revoked, surplus)
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
        # The previous round was never adopted here, or another worker led since. The leader does not know what was
        # assigned, so nothing can be lost.
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
        duplicated=duplicated(held),
        lost=(previous - active - deleted).in_order(),
        created=(configured - previous - active).in_order(),
    )


def _load_balancing(
    memory: AssignorMemory, this_round: AssignmentRound, held: Mapping[str, ConnectorsAndTasks]
) -> tuple[AssignorMemory, dict[str, ConnectorsAndTasks]]:
    """Return the memory and the work revoked for balance: nothing while a delay runs, never twice in a row."""
    if memory.delay_ms != 0:
        return replace(memory, revoked_in_previous=False), {}
    surplus = balance(this_round.configured, held)
    if not surplus:
        if memory.revoked_in_previous:
            memory = replace(memory, revoked_in_previous=False, successive_revoking=0)
        return memory, {}
    if not memory.revoked_in_previous:
        return replace(memory, revoked_in_previous=True), surplus
    successive = memory.successive_revoking + 1
    delay_ms = revoking_backoff_ms(successive, this_round.max_delay_ms)
    memory = replace(memory, successive_revoking=successive, delay_ms=delay_ms)
    if delay_ms == 0:
        return memory, surplus
    return replace(memory, scheduled_rebalance_ms=this_round.now_ms + delay_ms), {}


def _moving(
    memory: AssignorMemory, this_round: AssignmentRound, held: Mapping[str, ConnectorsAndTasks]
) -> dict[str, ConnectorsAndTasks]:
    """Return the tasks that members must give up for load, if they still hold them. Empty while a delay runs."""
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
