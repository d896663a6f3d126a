"""The leader's answer to AssignmentRequired: decode metadata, run the assignor, encode. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_connect_rt.assignors import eager, incremental
from spark_connect_rt.assignors.incremental import AssignorMemory
from spark_connect_rt.assignors.model import (
    AssignmentResult,
    AssignmentRound,
    ConnectorsAndTasks,
    agree_on_offset,
    mismatch,
)
from spark_connect_rt.errors import DataError
from spark_connect_rt.planning.rebalance_plan import configured_work
from spark_connect_rt.ports.group_member import AssignmentRequired
from spark_connect_rt.protocol.ids import ConnectorTaskId
from spark_connect_rt.protocol.subprotocol import (
    Assignment,
    ConnectProtocol,
    WorkerMetadata,
    decode_metadata,
    encode_assignment,
    is_own_group,
)
from spark_connect_rt.state.cluster_config import ClusterConfigState

DEFAULT_RECORD_LIMIT_BYTES = 1_048_588  # message.max.bytes a broker's default


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes out, what is remembered, and one sentence about it."""

    blobs: Mapping[str, bytes]
    memory: AssignorMemory
    owner_urls: Mapping[str | ConnectorTaskId, str]
    sentence: str
    members: Mapping[str, WorkerMetadata] = field(default_factory=dict)  # member id -> what it says of itself

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
) -> Answer:
    """Assign everything configured, or refuse when this leader knows less than a member does.

    ``joined_with`` is the snapshot of this worker's own metadata: if it is as new as every member's, that one is
    dealt, so that no member is sent work it cannot know. ``lost_delay_ms`` counts in a group of our own workers
    only; as soon as a Java worker is in it, lost work waits as Java has it. ``was_incremental``: members may still
    run what they had. Then the first eager round deals nothing (I1), since that protocol does not know what to revoke;
    the leader asks for another round. Java deals at once, and tasks run twice for a moment.
    """
    protocol = ConnectProtocol.of_name(event.protocol)
    members, unreadable = _decoded(event.members)
    offset = agree_on_offset(members, joined_with.offset, fresh.offset)
    if offset is None:
        refusal = mismatch(event.leader_id, members)
        sentence = "refuses to assign: the config topic is not read yet"
        return Answer(_blobs(protocol, refusal), memory, {}, sentence, members)
    leader_url = members[event.leader_id].url
    nothing = dict.fromkeys(unreadable, encode_assignment(protocol, Assignment(event.leader_id, leader_url, offset)))
    snapshot = joined_with if joined_with.offset >= offset else fresh
    falls_back = was_incremental and not protocol.is_incremental
    this_round = AssignmentRound(
        leader_id=event.leader_id,
        members=members,
        configured=ConnectorsAndTasks() if falls_back else configured_work(snapshot),
        config_offset=offset,
        generation=event.generation,
        last_completed_generation=last_completed_generation,
        now_ms=now_ms,
        max_delay_ms=max_delay_ms,
        lost_delay_ms=lost_delay_ms if is_own_group(event.protocol) else None,
    )
    if protocol.is_incremental:
        memory, result = incremental.assign(memory, this_round)
    else:
        result = eager.assign(this_round)
    sentence = f"assigns generation {event.generation} to {len(members)} members, delay {result.delay_ms} ms"
    sentence += (
        "; nothing is assigned before every member has stopped: the group falls back to eager" if falls_back else ""
    )
    excluded = "".join(f"; nothing for {member}: {why}" for member, why in unreadable.items())
    blobs = {**_blobs(protocol, result), **nothing}
    sentence += excluded + _size_warning(event.members, blobs)
    return Answer(blobs, memory, _owner_urls(result, members), sentence, members)


def _decoded(blobs: Mapping[str, bytes]) -> tuple[dict[str, WorkerMetadata], dict[str, str]]:
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
    return members, unreadable


def _blobs(protocol: ConnectProtocol, result: AssignmentResult) -> dict[str, bytes]:
    return {member: encode_assignment(protocol, sent) for member, sent in result.assignments.items()}


def _size_warning(metadata: Mapping[str, bytes], blobs: Mapping[str, bytes]) -> str:
    size = sum(map(len, metadata.values())) + sum(map(len, blobs.values()))
    if size <= DEFAULT_RECORD_LIMIT_BYTES:
        return ""
    return (
        f"; the broker must keep this as one record of {size} bytes: with message.max.bytes (max.message.bytes of "
        "__consumer_offsets) below that, as it is by default, no rebalance of this group ever completes"
    )


def _owner_urls(result: AssignmentResult, members: Mapping[str, WorkerMetadata]) -> dict[str | ConnectorTaskId, str]:
    urls: dict[str | ConnectorTaskId, str] = {}
    for member, owned in result.owners.items():
        urls.update(dict.fromkeys(owned.connectors, members[member].url))
        urls.update(dict.fromkeys(owned.tasks, members[member].url))
    return urls
