"""The group's record: its size in bytes, and which part of an assignment fits into it. Pure.

A broker keeps a group (member ids, addresses, metadata, assignments) as one record of ``__consumer_offsets``, no larger
than its ``message.max.bytes``. A larger SyncGroup fails for every member. So the part that does not fit waits for the
next round, which the leader asks for at once. Source: Kafka's ``GroupMetadataValue.json``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from spark_connect_rt.group.assignments import NOTHING, AssignmentResult, ConnectorsAndTasks
from spark_connect_rt.group.assignor import AssignorMemory
from spark_connect_rt.group.compact.form import WHOLE_LIST
from spark_connect_rt.group.subprotocol import Assignment

_UUID_BYTES = 37  # after the client id in a member id: a hyphen and a UUID
_HOST_BYTES = 16  # "/255.255.255.255", as the broker writes a member's address
_MEMBER_BYTES = 26  # lengths of five texts and two byte arrays, two times
_HEAD_BYTES = 512  # batch, key, protocol, leader, times
_BARE_BYTES = 4  # of an assignment of nothing, without the leader's URL
_SMALL_BYTES = 48  # of metadata and assignment, without lists
_TASK_BYTES = 4  # about the bytes of one task in a list

_IPV4 = re.compile(r"https?://((?:\d{1,3}\.){3}\d{1,3})[:/]")

Encode = Callable[[str, Assignment, bool], bytes]
"""A member, its assignment, and whether another round follows at once, to the bytes for it."""


@dataclass(frozen=True, slots=True)
class GroupRecordBudget:
    """The maximum size of the record, and its content before any assignment."""

    limit_bytes: int
    taken_bytes: int
    members: int
    ids_bytes: int  # of the fields that the broker itself keeps of members

    @property
    def left_bytes(self) -> int:
        """Return how many bytes all assignments may have together; below 0 when even the members are too many."""
        return self.limit_bytes - self.taken_bytes

    @property
    def list_exponent(self) -> int:
        """Return the power of 2 that limits, in bytes, each member's list, so that half of the room stays free."""
        free = self.limit_bytes - _HEAD_BYTES - self.ids_bytes - self.members * _SMALL_BYTES
        each = free // 2 // max(1, self.members)
        return max(3, min(WHOLE_LIST, each.bit_length() - 1))

    def asked(self, lists: Mapping[str, int]) -> list[str]:
        """Return the members that may list all their work in one round; ``lists``: member -> length.

        At least one may.
        """
        left = self.left_bytes - self.members * _BARE_BYTES
        chosen: list[str] = []
        for member, length in sorted(lists.items(), key=lambda entry: entry[1]):
            left -= length
            if left < 0 and chosen:
                break
            chosen.append(member)
        return chosen

    def is_narrow(self, tasks: int) -> bool:
        """Return whether two lists of all tasks, in any order, might not fit into the record."""
        return tasks * _TASK_BYTES * 2 > self.limit_bytes - _HEAD_BYTES - self.ids_bytes


def room_for(members: Mapping[str, bytes], urls: Mapping[str, str], limit_bytes: int) -> GroupRecordBudget:
    """Return the room of a record; member id -> its metadata, and the URL in it."""
    ids = sum(_MEMBER_BYTES + 2 * len(member) - _UUID_BYTES + _host_bytes(urls.get(member, "")) for member in members)
    return GroupRecordBudget(limit_bytes, _HEAD_BYTES + ids + sum(map(len, members.values())), len(members), ids)


def _host_bytes(url: str) -> int:
    """Return how long the address is that the broker notes of a member; where its URL does not show it, the longest."""
    found = _IPV4.match(url)
    return _HOST_BYTES if found is None else 1 + len(found[1])


@dataclass(frozen=True, slots=True)
class FittedAssignment:
    """The part of an assignment that this round sends, and how much waits for the next."""

    blobs: Mapping[str, bytes]
    result: AssignmentResult
    memory: AssignorMemory
    waiting: int = 0  # connectors and tasks that are neither given nor revoked yet
    whole: bool = True  # everything went out, the leader's URL too
    progress: bool = True  # something is given or revoked

    @property
    def again(self) -> bool:
        """Return whether the next round may follow at once."""
        return not self.whole and self.progress

    @property
    def cramped(self) -> bool:
        """Return whether the group has too many members for its record: nothing more fits, ever."""
        return not self.whole and not self.progress


@dataclass(slots=True)
class _Fitting:
    result: AssignmentResult
    encode: Encode
    left_bytes: int
    blobs: dict[str, bytes] = field(default_factory=dict)
    sent: dict[str, Assignment] = field(default_factory=dict)

    def put(self, member: str, assignment: Assignment) -> bool:
        """Send this assignment instead of the member's present one, if it fits."""
        blob = self.encode(member, assignment, True)
        more = len(blob) - len(self.blobs.get(member, b""))
        if more > self.left_bytes and member in self.blobs:
            return False
        self.left_bytes -= more
        self.blobs[member], self.sent[member] = blob, assignment
        return True


def fit(
    result: AssignmentResult,
    memory: AssignorMemory,
    room: GroupRecordBudget,
    encode: Encode,
) -> FittedAssignment:
    """Return the assignments that fit, revocations before new work; the rest waits.

    The revocation of work that runs twice never waits.

    Args:
        result: the assignor's decision.
        memory: the assignor's memory of it.
        room: of the record; its assignments are not taken yet.
        encode: a member's assignment to bytes.
    """
    whole = {member: encode(member, sent, False) for member, sent in result.assignments.items()}
    if sum(map(len, whole.values())) <= room.left_bytes:
        return FittedAssignment(whole, result, memory)
    fitting = _Fitting(result, encode, room.left_bytes)
    stops = Counter(
        item for sent in result.assignments.values() for item in (*sent.revoked_connectors, *sent.revoked_tasks)
    )
    for member, wanted in result.assignments.items():
        urgent = any(stops[item] > 1 for item in (*wanted.revoked_connectors, *wanted.revoked_tasks))
        bare = replace(wanted, connectors=(), tasks=())
        fitting.put(member, bare if urgent else replace(bare, revoked_connectors=(), revoked_tasks=()))
    for member, wanted in result.assignments.items():
        if wanted.revokes:
            _put_most(fitting, member, wanted, _part_revoked)
    for member, wanted in result.assignments.items():
        if wanted.connectors or wanted.tasks:
            _put_most(fitting, member, wanted, _part_given)
    return _fitted(fitting, memory)


def _put_most(
    fitting: _Fitting, member: str, wanted: Assignment, part: Callable[[Assignment, Assignment, int], Assignment]
) -> None:
    """Send as much as fits: all, or the half of it, or the half of that."""
    lists = (wanted.connectors, wanted.tasks, wanted.revoked_connectors, wanted.revoked_tasks)
    count = max(map(len, lists))
    while count:
        if fitting.put(member, part(fitting.sent[member], wanted, count)):
            return
        count //= 2


def _part_given(so_far: Assignment, wanted: Assignment, count: int) -> Assignment:
    return replace(so_far, connectors=wanted.connectors[:count], tasks=wanted.tasks[:count])


def _part_revoked(so_far: Assignment, wanted: Assignment, count: int) -> Assignment:
    if so_far.revokes:  # it already contains the work that must stop
        return so_far
    return replace(
        so_far, revoked_connectors=wanted.revoked_connectors[:count], revoked_tasks=wanted.revoked_tasks[:count]
    )


def _fitted(fitting: _Fitting, memory: AssignorMemory) -> FittedAssignment:
    result, sent = fitting.result, fitting.sent
    not_given, not_revoked, owners = NOTHING, NOTHING, dict(result.owners)
    given_parts, revoked_parts = [], []
    for member, wanted in result.assignments.items():
        kept_back = _given(wanted) - _given(sent[member])
        still_held = _revoked(wanted) - _revoked(sent[member])
        if kept_back.is_empty and still_held.is_empty:
            continue
        given_parts.append(kept_back)
        revoked_parts.append(still_held)
        owners[member] = (owners[member] - kept_back) | still_held
    not_given, not_revoked = _joined(given_parts), _joined(revoked_parts)
    memory = replace(
        memory,
        previous_assignment=(memory.previous_assignment - not_given) | not_revoked,
        previous_revocation=memory.previous_revocation - not_revoked,
    )
    if not not_revoked.is_empty:
        # A revocation that waits for room does not count as a further revocation for balance: no pause may follow from
        # it.
        memory = replace(memory, revoked_in_previous=False, successive_revoking=0)
    waiting = sum(len(part.connectors) + len(part.tasks) for part in (not_given, not_revoked))
    progress = any(each.revokes or each.connectors or each.tasks for each in sent.values())
    return FittedAssignment(
        fitting.blobs, replace(result, assignments=sent, owners=owners), memory, waiting, False, progress
    )


def _given(assignment: Assignment) -> ConnectorsAndTasks:
    return ConnectorsAndTasks(assignment.connectors, assignment.tasks)


def _revoked(assignment: Assignment) -> ConnectorsAndTasks:
    return ConnectorsAndTasks(assignment.revoked_connectors, assignment.revoked_tasks)


def _joined(parts: list[ConnectorsAndTasks]) -> ConnectorsAndTasks:
    """Return all parts in one; nothing is in two of them."""
    return ConnectorsAndTasks(
        tuple(name for part in parts for name in part.connectors), tuple(task for part in parts for task in part.tasks)
    )
