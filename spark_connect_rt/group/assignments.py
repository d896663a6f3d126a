"""Values the assignors share: sets of work, the input of a round, its result.

Owns the first step of every assignor, agreeing on a config offset (Java ``WorkerCoordinator``, ``ConnectAssignor``,
``ConnectorsAndTasks``). The leader's herder builds an AssignmentRound from the decoded metadata of the members, calls
``eager.assign`` or ``incremental.assign`` and encodes the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import cycle

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.group_config import GROUP
from spark_connect_rt.group.subprotocol import CONFIG_MISMATCH, Assignment, WorkerMetadata


@dataclass(frozen=True, slots=True)
class ConnectorsAndTasks:
    """Some connectors and some tasks, in order, each once."""

    connectors: tuple[str, ...] = ()
    tasks: tuple[ConnectorTaskId, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether there is neither connector nor task."""
        return not self.connectors and not self.tasks

    def __or__(self, other: ConnectorsAndTasks) -> ConnectorsAndTasks:
        return ConnectorsAndTasks(
            tuple(dict.fromkeys(self.connectors + other.connectors)),
            tuple(dict.fromkeys(self.tasks + other.tasks)),
        )

    def __sub__(self, other: ConnectorsAndTasks) -> ConnectorsAndTasks:
        connectors, tasks = set(other.connectors), set(other.tasks)
        return ConnectorsAndTasks(
            tuple(c for c in self.connectors if c not in connectors),
            tuple(t for t in self.tasks if t not in tasks),
        )

    def __and__(self, other: ConnectorsAndTasks) -> ConnectorsAndTasks:
        return self - (self - other)

    def in_order(self) -> ConnectorsAndTasks:
        """Return the same, connectors by name, tasks by connector and number."""
        return ConnectorsAndTasks(tuple(sorted(self.connectors)), tuple(sorted(self.tasks)))


NOTHING = ConnectorsAndTasks()


def union(parts: Iterable[ConnectorsAndTasks]) -> ConnectorsAndTasks:
    """Return everything in any of the parts, once, in order of first appearance."""
    connectors: dict[str, None] = {}
    tasks: dict[ConnectorTaskId, None] = {}
    for part in parts:
        connectors.update(dict.fromkeys(part.connectors))
        tasks.update(dict.fromkeys(part.tasks))
    return ConnectorsAndTasks(tuple(connectors), tuple(tasks))


def split(
    held: Mapping[str, ConnectorsAndTasks], wanted: ConnectorsAndTasks
) -> tuple[dict[str, ConnectorsAndTasks], dict[str, ConnectorsAndTasks]]:
    """Return what each member holds of ``wanted``, and what it holds of other work. Both keep the member's order."""
    if wanted.is_empty:
        return dict.fromkeys(held, NOTHING), dict(held)
    connectors, tasks = set(wanted.connectors), set(wanted.tasks)  # once, not once a member
    inside, outside = {}, {}
    for member, part in held.items():
        inside[member] = ConnectorsAndTasks(
            tuple(c for c in part.connectors if c in connectors), tuple(t for t in part.tasks if t in tasks)
        )
        outside[member] = ConnectorsAndTasks(
            tuple(c for c in part.connectors if c not in connectors), tuple(t for t in part.tasks if t not in tasks)
        )
    return inside, outside


@dataclass(frozen=True, slots=True)
class AssignmentRound:
    """The input of the leader when it must assign.

    ``configured``: every connector of the snapshot and its tasks (none for an inconsistent connector).
    ``config_offset``: the result of ``agree_on_offset``. ``generation`` is the round's own number,
    ``last_completed_generation`` the last one this same worker adopted (-1: none). ``max_delay_ms`` limits the pause
    between revocations. It also limits how long lost work waits for its worker, unless ``lost_delay_ms`` is set.
    """

    leader_id: str
    members: Mapping[str, WorkerMetadata]
    configured: ConnectorsAndTasks
    config_offset: int
    generation: int = -1
    last_completed_generation: int = -1
    now_ms: int = 0
    max_delay_ms: int = GROUP["scheduled.rebalance.max.delay.ms"].default
    lost_delay_ms: int | None = None  # None: as Java, max_delay_ms
    moves: Mapping[ConnectorTaskId, str] = field(default_factory=dict)  # task -> member that shall give it up, for load
    bound_for: Mapping[ConnectorTaskId, str] = field(default_factory=dict)  # free task -> member it should go to
    in_runs: bool = False  # new tasks are placed neighbour by neighbour, which takes fewer bytes

    @property
    def lost_work_waits_ms(self) -> int:
        """Return how long lost work waits for its worker at most."""
        return self.max_delay_ms if self.lost_delay_ms is None else self.lost_delay_ms

    @property
    def leader_url(self) -> str:
        """Return the leader's advertised REST URL."""
        return self.members[self.leader_id].url


@dataclass(frozen=True, slots=True)
class AssignmentResult:
    """The assignment of each member, and the owners of all work once every member has carried it out."""

    assignments: Mapping[str, Assignment]
    owners: Mapping[str, ConnectorsAndTasks] = field(default_factory=dict)
    delay_ms: int = 0

    def owner_of(self, item: str | ConnectorTaskId) -> str | None:
        """Return the member that owns a connector (by name) or a task. None: it is not assigned to any member."""
        for member, owned in self.owners.items():
            if item in (owned.connectors if isinstance(item, str) else owned.tasks):
                return member
        return None


def held_by(metadata: WorkerMetadata) -> ConnectorsAndTasks:
    """Return the work that a member reports to run now."""
    held = metadata.allocation
    return NOTHING if held is None else ConnectorsAndTasks(held.connectors, held.tasks)


def max_offset(members: Mapping[str, WorkerMetadata]) -> int:
    """Return the freshest config offset among the members."""
    return max(metadata.config_offset for metadata in members.values())


def agree_on_offset(members: Mapping[str, WorkerMetadata], held_offset: int, fresh_offset: int) -> int | None:
    """Return the config offset to assign with, None when the leader is behind (then ``mismatch``).

    Args:
        members: the metadata of every member.
        held_offset: of the snapshot the leader works with. Not behind: the members' maximum is announced.
        fresh_offset: of what its store has now. Freshly taken: that offset itself is announced.
    """
    wanted = max_offset(members)
    if held_offset >= wanted:
        return wanted
    return fresh_offset if fresh_offset >= wanted else None


def mismatch(leader_id: str, members: Mapping[str, WorkerMetadata]) -> AssignmentResult:
    """Return the refusal that makes every member read the config topic and rejoin."""
    refusal = Assignment(
        leader_id=leader_id,
        leader_url=members[leader_id].url,
        config_offset=max_offset(members),
        error=CONFIG_MISMATCH,
    )
    return AssignmentResult(dict.fromkeys(members, refusal))


# The assignor of ``connect.protocol=eager``: all work is assigned from scratch, round-robin, each time.
#
# Stateless (Java ``EagerAssignor``). Members stop all work before they join, so nothing is ever revoked.


def assign(this_round: AssignmentRound) -> AssignmentResult:
    """Assign connectors, then tasks, to the members in order of their ids, without starting over in between."""
    members = sorted(this_round.members)
    connectors: dict[str, list[str]] = {member: [] for member in members}
    tasks: dict[str, list[ConnectorTaskId]] = {member: [] for member in members}
    turn = cycle(members)
    configured = this_round.configured.in_order()
    for connector in configured.connectors:
        connectors[next(turn)].append(connector)
    for task in configured.tasks:
        tasks[next(turn)].append(task)
    owners = {m: ConnectorsAndTasks(tuple(connectors[m]), tuple(tasks[m])) for m in members}
    return AssignmentResult(
        assignments={
            member: Assignment(
                leader_id=this_round.leader_id,
                leader_url=this_round.leader_url,
                config_offset=this_round.config_offset,
                connectors=owned.connectors,
                tasks=owned.tasks,
            )
            for member, owned in owners.items()
        },
        owners=owners,
    )
