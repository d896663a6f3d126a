"""The work that members report, as lists or as digests of lists that the leader knows. Pure.

Owns both ends of ``group.compact.form``'s metadata: when a member may send a digest, and how the leader finds the list
of a digest. The leader asks for the list of an unknown digest. It assigns nothing until it knows every member's work,
because unknown work may be running (I1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from spark_connect_rt.errors import DataError
from spark_connect_rt.group.assignments import ConnectorsAndTasks, held_by
from spark_connect_rt.group.compact.form import (
    WHOLE_LIST,
    CompactAssignment,
    ReportedWork,
    compact_name,
    decode_claim,
    digest_of,
    encode_claim,
    held_bytes,
    leader_hint,
)
from spark_connect_rt.group.subprotocol import Assignment, ConnectProtocol, WorkerMetadata

Item = TypeVar("Item")
_GOLDEN = 0x9E3779B1  # 2^32 divided by the golden ratio: multiples of it, cut to 32 bits, are evenly spread

_ITEM_BYTES = 32  # at most, of one connector or task without its name
_ALIKE_FROM, _ALIKE_MARGIN = 1_000, 4  # items of a list from which another one's length may be estimated; times as long

Known = Mapping[bytes, ConnectorsAndTasks]
"""Digest -> the list that it replaces, as a leader remembers it between rounds. May be forgotten at any time."""


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """A member's memory of the last assignment in the compact form.

    A new one is empty, so that the member sends lists.
    """

    agreed: ConnectorsAndTasks | None = None  # the work that this member holds as far as the leader knows
    whole_list: bool = False
    limit_exponent: int = WHOLE_LIST
    leader_id: str = ""
    leader_url: str = ""

    def after(self, received: CompactAssignment | None, held: ConnectorsAndTasks | None) -> ClaimRules:
        """Return the rules after an assignment was carried out; ``held`` is the work that this worker holds now.

        ``received`` None: it came in Java's form, and the next leader in the compact one knows nothing.
        """
        if received is None:
            return ClaimRules()
        return ClaimRules(
            # A leader that refused to assign has learnt nothing either.
            agreed=self.agreed if received.assignment.failed else held,
            whole_list=received.whole_list,
            limit_exponent=received.limit_exponent,
            leader_id=received.assignment.leader_id,
            leader_url=received.assignment.leader_url,
        )

    def url_of(self, leader_id: str) -> str | None:
        """Return the URL of a leader, None when this worker does not have it."""
        return self.leader_url if leader_id == self.leader_id and self.leader_url else None

    def claim(self, metadata: WorkerMetadata, packed: bytes | None) -> ReportedWork:
        """Return the report for the next JoinGroup; ``packed`` is ``held_bytes`` of the metadata."""
        hint = leader_hint(self.leader_id) if self.leader_url else None
        held = held_by(metadata)
        if packed is None or self.whole_list or len(packed) <= 1 << self.limit_exponent:
            return ReportedWork(metadata, knows_leader=hint)
        if self.agreed is None or not _same(held, self.agreed):
            return ReportedWork(metadata, knows_leader=hint)
        digest = digest_of((held.connectors, held.tasks))
        return ReportedWork(replace(metadata, allocation=None), digest, len(packed), hint)


def compact_offers(protocol: ConnectProtocol, metadata: WorkerMetadata, rules: ClaimRules) -> list[tuple[str, bytes]]:
    """Return JoinGroup's (protocol name, metadata) of the compact form, for before those of every other."""
    offered = [offer for offer in protocol.offered() if offer.is_incremental]
    if not offered:
        return []
    packed = held_bytes(metadata)
    claim = rules.claim(metadata, packed)
    return [(compact_name(offer), encode_claim(offer, claim, packed)) for offer in offered]


@dataclass(frozen=True, slots=True)
class Claims:
    """The decoded reports of all members."""

    members: Mapping[str, WorkerMetadata]  # with the work they hold, where it is known
    said: Mapping[str, ReportedWork] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()  # members whose digests this leader does not know
    unreadable: Mapping[str, str] = field(default_factory=dict)  # member -> why
    # of members that sent lists: an upper limit of their length
    list_bytes: Mapping[str, int] = field(default_factory=dict)


def read_claims(blobs: Mapping[str, bytes], known: Known) -> Claims:
    """Decode the members' metadata; digests become the lists that they replace."""
    members: dict[str, WorkerMetadata] = {}
    said: dict[str, ReportedWork] = {}
    unknown: list[str] = []
    unreadable: dict[str, str] = {}
    list_bytes: dict[str, int] = {}
    for member, blob in blobs.items():
        try:
            claim = decode_claim(blob)
        except DataError as error:
            unreadable[member] = str(error)
            continue
        said[member], members[member] = claim, claim.metadata
        if claim.digest is None:
            list_bytes[member] = len(blob)
            continue
        work = known.get(claim.digest)
        if work is None:
            unknown.append(member)
        else:
            held = Assignment("", "", claim.metadata.config_offset, work.connectors, work.tasks)
            members[member] = replace(claim.metadata, allocation=held)
    return Claims(members, said, tuple(unknown), unreadable, list_bytes)


def sampled(members: Mapping[str, WorkerMetadata]) -> dict[str, WorkerMetadata]:
    """Return the members with their held work reordered so that every beginning of it is an even sample.

    The compact form names a connector's tasks one after the other, and assignors revoke from the beginning of the list.
    Without this order a new worker would get whole connectors, and the others would keep whole ones.
    """
    found = {}
    for member, metadata in members.items():
        held = metadata.allocation
        if held is not None:
            held = replace(held, connectors=_sampled(held.connectors), tasks=_sampled(held.tasks))
        found[member] = replace(metadata, allocation=held)
    return found


def _sampled(items: tuple[Item, ...]) -> tuple[Item, ...]:
    return tuple(items[place] for place in sorted(range(len(items)), key=lambda place: place * _GOLDEN & 0xFFFFFFFF))


def known_after(
    claims: Claims, owners: Mapping[str, ConnectorsAndTasks], limit_bytes: int = 0
) -> dict[bytes, ConnectorsAndTasks]:
    """Return the lists that a leader remembers, by digest: the work of every member now and after its assignment.

    Lists much shorter than ``limit_bytes`` are left out, because members send those themselves. If the digest of such a
    list arrives nevertheless, the leader asks for the list.
    """
    known: dict[bytes, ConnectorsAndTasks] = {}
    for member, metadata in claims.members.items():
        if member in claims.unknown:
            continue
        now, then = held_by(metadata), owners.get(member)
        said, length = claims.said[member].digest, claims.list_bytes.get(member)
        if said is not None or _may_be_longer(now, limit_bytes, now, length):
            known[said or digest_of((now.connectors, now.tasks))] = now
        if then is not None and then != now and _may_be_longer(then, limit_bytes, now, length):
            known[digest_of((then.connectors, then.tasks))] = then
    return known


def _may_be_longer(
    held: ConnectorsAndTasks, limit_bytes: int, like: ConnectorsAndTasks, like_bytes: int | None = None
) -> bool:
    """Return whether the packed list may take more bytes than that; a task of a connector held elsewhere names it.

    ``like_bytes``: how long the list of ``like`` is at most, where that is known. Names of the same users are alike, so
    one of as many items is not several times as long.
    """
    count = len(held.connectors) + len(held.tasks)
    if like_bytes is not None and (many := len(like.connectors) + len(like.tasks)) >= _ALIKE_FROM:
        return _ALIKE_MARGIN * like_bytes * count > limit_bytes * many
    names = sum(map(len, held.connectors)) + sum(len(task.connector) for task in held.tasks)
    return 4 * names + _ITEM_BYTES * count > limit_bytes


def _same(work: ConnectorsAndTasks, other: ConnectorsAndTasks) -> bool:
    return work is other or (set(work.connectors) == set(other.connectors) and set(work.tasks) == set(other.tasks))
