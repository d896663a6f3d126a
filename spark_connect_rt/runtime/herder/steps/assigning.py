"""The leader's answer to AssignmentRequired: decode metadata, run the assignor, encode. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import DataError
from spark_connect_rt.group import assignments as eager
from spark_connect_rt.group import assignor as incremental
from spark_connect_rt.group.assignments import (
    AssignmentResult,
    AssignmentRound,
    ConnectorsAndTasks,
    agree_on_offset,
    mismatch,
    union,
)
from spark_connect_rt.group.assignor import AssignorMemory
from spark_connect_rt.group.compact.form import CompactAssignment, encode_compact, is_compact, leader_hint
from spark_connect_rt.group.compact.group_record_budget import FittedAssignment, GroupRecordBudget, fit, room_for
from spark_connect_rt.group.compact.reported_work import Claims, Known, known_after, read_claims, sampled
from spark_connect_rt.group.load import Swap
from spark_connect_rt.group.member import AssignmentRequired
from spark_connect_rt.group.rebalance_plan import configured_work
from spark_connect_rt.group.subprotocol import (
    Assignment,
    ConnectProtocol,
    WorkerMetadata,
    decode_metadata,
    encode_assignment,
    is_own_group,
)
from spark_connect_rt.topics.config_state import ClusterConfigState

DEFAULT_RECORD_LIMIT_BYTES = 1_048_588  # message.max.bytes a broker's default
CRAMPED = (
    "; the group has so many members that its record has no room left. Shorten client.id, or raise "
    "max.message.bytes of __consumer_offsets and set connectrt.group.record.max.bytes to it"
)
NO_ROOM = "the group's record had no room for all work"
DIGESTS_BELOW_EXPONENT = 20  # where lists of 1 MiB are welcome, members send no digest


@dataclass(frozen=True, slots=True)
class LeaderAssignment:
    """The assignments to send, the state to remember, and one sentence about them."""

    blobs: Mapping[str, bytes]
    memory: AssignorMemory
    owner_urls: Mapping[str | ConnectorTaskId, str]
    sentence: str
    members: Mapping[str, WorkerMetadata] = field(default_factory=dict)  # member id -> what it says of itself
    known: Known = field(default_factory=dict)  # for the next round in the compact form
    again: str | None = None  # why another round must follow at once

    @property
    def member_urls(self) -> tuple[str, ...]:
        """Return where the members are, each once, sorted."""
        return tuple(sorted({member.url for member in self.members.values()}))


def assign_work(
    event: AssignmentRequired,
    *,
    joined_with: ClusterConfigState,
    fresh: ClusterConfigState,
    memory: AssignorMemory,
    last_completed_generation: int,
    now_ms: int,
    max_delay_ms: int,
    lost_delay_ms: int,
    was_incremental: bool = False,
    known: Known = MappingProxyType({}),
    record_limit_bytes: int = DEFAULT_RECORD_LIMIT_BYTES,
    swaps: tuple[Swap, ...] = (),
    bound_for: Mapping[ConnectorTaskId, str] = MappingProxyType({}),
) -> LeaderAssignment:
    """Assign everything configured, or refuse when this leader knows less than a member does.

    ``joined_with`` is the snapshot of this worker's own metadata: if it is as new as every member's, that one is
    dealt, so that no member is sent work it cannot know. ``lost_delay_ms`` counts in a group without Java workers
    only; as soon as a Java worker is in it, lost work waits as Java has it. ``was_incremental``: members may still
    run what they had. Then the first eager round deals nothing (I1), since that protocol does not know what to revoke;
    the leader asks for another round. Java deals at once, and tasks run twice for a moment. ``known`` is that of the
    answer before; ``record_limit_bytes`` how large the group's record may be, in the compact form only.
    ``swaps`` are revoked in this round, for load; free tasks go to the workers (URLs) they are ``bound_for``.
    """
    claims = read_claims(event.members, known) if is_compact(event.protocol) else _read_javas(event.members)
    writer = _Writer(event, claims, _room(event, claims, record_limit_bytes))
    offset = agree_on_offset(claims.members, joined_with.offset, fresh.offset)
    if offset is None:
        refusal = mismatch(event.leader_id, claims.members)
        sentence = "refuses to assign: the config topic is not read yet"
        return LeaderAssignment(writer.blobs(refusal), memory, {}, sentence, claims.members, known)
    snapshot = joined_with if joined_with.offset >= offset else fresh
    falls_back = was_incremental and not writer.protocol.is_incremental
    in_runs = writer.is_compact and writer.room.is_narrow(sum(snapshot.task_counts.values()))
    this_round = AssignmentRound(
        leader_id=event.leader_id,
        members=sampled(claims.members) if writer.is_compact and not in_runs else claims.members,
        configured=ConnectorsAndTasks() if falls_back else configured_work(snapshot),
        config_offset=offset,
        generation=event.generation,
        last_completed_generation=last_completed_generation,
        now_ms=now_ms,
        max_delay_ms=max_delay_ms,
        lost_delay_ms=lost_delay_ms if is_own_group(event.protocol) else None,
        moves=_movers(swaps, claims.members),
        bound_for=_members_at(bound_for, claims.members),
        in_runs=in_runs,
    )
    if claims.unknown:
        return _asking(writer, this_round, memory, known)
    if writer.protocol.is_incremental:
        memory, result = incremental.assign(memory, this_round)
    else:
        result = eager.assign(this_round)
    fitted = writer.fitted(result, memory)
    result, members = fitted.result, claims.members
    sentence = f"assigns generation {event.generation} to {len(members)} members, delay {result.delay_ms} ms"
    sentence += (
        "; nothing is assigned before every member has stopped: the group falls back to eager" if falls_back else ""
    )
    sentence += f"; {fitted.waiting} connectors and tasks wait for the next round" if fitted.waiting else ""
    sentence += CRAMPED if fitted.cramped else ""
    sentence += "".join(f"; nothing for {member}: {why}" for member, why in claims.unreadable.items())
    blobs = {**fitted.blobs, **writer.nothing(offset)}
    return LeaderAssignment(
        blobs,
        fitted.memory,
        _owner_urls(result, members),
        sentence + writer.size_warning(blobs),
        members,
        known_after(claims, result.owners, 1 << writer.room.list_exponent) if writer.uses_digests else {},
        NO_ROOM if fitted.again else _still_held(result, this_round.configured) if not falls_back else None,
    )


def _still_held(result: AssignmentResult, configured: ConnectorsAndTasks) -> str | None:
    """Return why another round must follow: a leader that remembers nothing does not see what was deleted.

    What the round before handed out and is configured no more is revoked; a new leader knows that only in its second
    round. Java's asks for no other round.
    """
    held = union(result.owners.values()) - configured
    return None if held.is_empty else "work that is configured no more is still held"


def _movers(swaps: tuple[Swap, ...], members: Mapping[str, WorkerMetadata]) -> dict[ConnectorTaskId, str]:
    """Return task -> member that gives it up; nothing of a swap whose workers are not both here."""
    at = {metadata.url: member for member, metadata in members.items()}
    both = [swap for swap in swaps if swap.giver in at and swap.taker in at]
    return {swap.hot: at[swap.giver] for swap in both} | {swap.cold: at[swap.taker] for swap in both}


def _members_at(
    bound_for: Mapping[ConnectorTaskId, str], members: Mapping[str, WorkerMetadata]
) -> dict[ConnectorTaskId, str]:
    at = {metadata.url: member for member, metadata in members.items()} if bound_for else {}
    return {task: at[url] for task, url in bound_for.items() if url in at}


def _room(event: AssignmentRequired, claims: Claims, limit_bytes: int) -> GroupRecordBudget:
    return room_for(event.members, {member: said.url for member, said in claims.members.items()}, limit_bytes)


def _asking(writer: _Writer, this_round: AssignmentRound, memory: AssignorMemory, known: Known) -> LeaderAssignment:
    """Assign nothing, and ask members for lists of what they hold, as many as the record has room for."""
    claims, event = writer.claims, writer.event
    asked = writer.room.asked({member: claims.said[member].list_bytes for member in claims.unknown})
    sent = Assignment(event.leader_id, this_round.leader_url, this_round.config_offset)
    blobs = writer.blobs(AssignmentResult(dict.fromkeys(claims.members, sent)), frozenset(asked))
    if memory.previous_generation == this_round.last_completed_generation:
        memory = replace(memory, previous_generation=event.generation)
    sentence = (
        f"generation {event.generation}: asks {len(asked)} of {len(claims.members)} members what they run, "
        f"{len(claims.unknown) - len(asked)} more in the next rounds"
    )
    return LeaderAssignment(
        {**blobs, **writer.nothing(this_round.config_offset)},
        memory,
        {},
        sentence,
        claims.members,
        {**known, **known_after(claims, {})},
        "the leader asked what members run",
    )


@dataclass(slots=True)
class _Writer:
    """Writes one round's assignments in the form that the group's protocol has."""

    event: AssignmentRequired
    claims: Claims
    room: GroupRecordBudget
    protocol: ConnectProtocol = field(init=False)
    is_compact: bool = field(init=False)

    def __post_init__(self) -> None:
        self.protocol = ConnectProtocol.of_name(self.event.protocol)
        self.is_compact = is_compact(self.event.protocol)

    @property
    def uses_digests(self) -> bool:
        """Return whether a member of this group may send a digest in place of a list."""
        return self.is_compact and self.room.list_exponent < DIGESTS_BELOW_EXPONENT

    def blobs(self, result: AssignmentResult, asked: frozenset[str] = frozenset()) -> dict[str, bytes]:
        """Return every assignment's bytes; ``asked`` are asked for lists."""
        return {member: self._encode(member, sent, bool(asked), asked) for member, sent in result.assignments.items()}

    def fitted(self, result: AssignmentResult, memory: AssignorMemory) -> FittedAssignment:
        """Return what fits; in Java's form everything goes out, whether it fits or not."""
        if not self.is_compact:
            return FittedAssignment(self.blobs(result), result, memory)
        return fit(result, memory, self.room, self._encode)

    def nothing(self, offset: int) -> dict[str, bytes]:
        """Return assignments of nothing for the members that could not be read."""
        if not self.claims.unreadable:
            return {}
        sent = Assignment(self.event.leader_id, self.claims.members[self.event.leader_id].url, offset)
        return {member: self._encode(member, sent) for member in self.claims.unreadable}

    def size_warning(self, blobs: Mapping[str, bytes]) -> str:
        """Return what to say of a record that no broker takes by default; empty when there is nothing to say."""
        sent = sum(map(len, blobs.values()))
        if self.is_compact:
            size, limit_bytes = self.room.taken_bytes + sent, self.room.limit_bytes
        else:
            size, limit_bytes = sum(map(len, self.event.members.values())) + sent, DEFAULT_RECORD_LIMIT_BYTES
        if size <= limit_bytes:
            return ""
        return (
            f"; the broker must keep this as one record of {size} bytes. If message.max.bytes (max.message.bytes "
            "of __consumer_offsets) is lower, as it is by default, no rebalance of this group ever completes"
        )

    def _encode(self, member: str, sent: Assignment, again: bool = False, asked: frozenset[str] = frozenset()) -> bytes:
        if not self.is_compact:
            return encode_assignment(self.protocol, sent)
        said = self.claims.said.get(member)
        compact = CompactAssignment(
            sent,
            whole_list=member in asked,
            limit_exponent=self.room.list_exponent,
            url_known=said is not None and said.knows_leader == leader_hint(self.event.leader_id),
            again=again,
        )
        return encode_compact(compact, said.metadata.config_offset if said else sent.config_offset)


def _read_javas(blobs: Mapping[str, bytes]) -> Claims:
    """Return the metadata by member, and why it cannot be read for the others.

    One member that sends nonsense must not keep all the others from work; Java's leader process ends by it.
    """
    members: dict[str, WorkerMetadata] = {}
    unreadable: dict[str, str] = {}
    for member, blob in blobs.items():
        try:
            members[member] = decode_metadata(blob)
        except DataError as error:
            unreadable[member] = str(error)
    return Claims(members, unreadable=unreadable)


def _owner_urls(result: AssignmentResult, members: Mapping[str, WorkerMetadata]) -> dict[str | ConnectorTaskId, str]:
    urls: dict[str | ConnectorTaskId, str] = {}
    for member, owned in result.owners.items():
        urls.update(dict.fromkeys(owned.connectors, members[member].url))
        urls.update(dict.fromkeys(owned.tasks, members[member].url))
    return urls
