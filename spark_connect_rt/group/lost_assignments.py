"""Work whose worker vanished: wait for it (scheduled rebalance), then place it elsewhere.

Owns the delay (KIP-415; Java ``IncrementalCooperativeAssignor.handleLostAssignments``): lost work stays where
it was for up to ``scheduled.rebalance.max.delay.ms``, so that a worker that restarts gets it back. Time is an
argument; the memory is replaced, never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import cycle

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.group.assignments import NOTHING, ConnectorsAndTasks


@dataclass(frozen=True, slots=True)
class AssignorMemory:
    """What the leader remembers between rounds; a new leader starts with an empty one.

    ``candidates`` are workers that were empty while a delay ran, in order of discovery.
    ``scheduled_rebalance_ms`` is absolute, 0 for none; ``delay_ms`` is what members were sent.
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
    """What becomes of lost work in one round."""

    memory: AssignorMemory
    to_reassign: ConnectorsAndTasks  # place it like new work, now
    held: Mapping[str, ConnectorsAndTasks]  # next load per member, with what candidates got back


def handle_lost(
    memory: AssignorMemory,
    lost: ConnectorsAndTasks,
    held: Mapping[str, ConnectorsAndTasks],
    now_ms: int,
    max_delay_ms: int,
) -> LostWork:
    """Decide whether lost work waits, goes to who came back empty, or is placed like new.

    Args:
        memory: of the previous round.
        lost: in order; configured, handed out earlier, held by no one.
        held: member -> what it keeps this round.
        now_ms: on any clock, the same in every round.
        max_delay_ms: ``scheduled.rebalance.max.delay.ms``; in a group of our own workers the own setting.
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
