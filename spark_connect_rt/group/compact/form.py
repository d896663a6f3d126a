"""The group's bytes in short: metadata and assignments as only workers of this product exchange them.

Owns the layouts under the protocol names that end in ``-compact``, which only our own workers offer: the broker chooses
one exactly when every member reads it (docs/decisions/0005), so no other kind of worker ever sees these bytes. Must
not know what an assignment means. A broker keeps a whole group in one record of ``message.max.bytes``
(1 MiB unless set), so every byte here counts once a member:

* metadata: head, URL, config offset, and what is held: as a list, or as its digest when the leader knows the list;
* assignment: head, how long a list the next metadata may hold, the offset as a difference to the member's own, URL
  unless the member knows it, then what is new and what is revoked. The leader's member id is JoinGroup's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b

from spark_connect_rt.errors import DataError
from spark_connect_rt.group.compact.packed_work import ByteReader, Work, pack_work, varint, zigzag, zigzag_read
from spark_connect_rt.group.subprotocol import (
    COMPACT_SUFFIX,
    CONFIG_MISMATCH,
    NO_ERROR,
    OWN_PREFIX,
    Assignment,
    ConnectProtocol,
    WorkerMetadata,
    decode_metadata,
)

DIGEST_BYTES = 8
WHOLE_LIST = 63
"""Limit exponent of a small group: lists of any length are welcome."""

_TEXT, _HTTP_V4, _HTTPS_V4, _KNOWN = range(4)  # how a URL is written
_ADDRESS = re.compile(r"(https?)://(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3}):(\d{1,5})/")
_NOTHING_HELD, _LIST, _DIGEST = range(3)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a member says when it joins: either ``metadata`` with all it holds, or without, and the ``digest`` of it."""

    metadata: WorkerMetadata
    digest: bytes | None = None
    list_bytes: int = 0  # beside a digest: the length of the list it stands for
    knows_leader: int | None = None  # leader_hint of the leader whose URL the member has


@dataclass(frozen=True, slots=True)
class CompactAssignment:
    """An assignment, and what the member must do about its next metadata.

    ``whole_list``: the leader does not know what this member holds and asks for the list.
    ``limit_bytes``: a list up to this length is sent without being asked for.
    """

    assignment: Assignment
    whole_list: bool = False
    limit_exponent: int = WHOLE_LIST
    url_known: bool = False  # the URL is left out, the member has it
    again: bool = False  # another round follows at once; until then the URL may be missing

    @property
    def limit_bytes(self) -> int:
        """Return how long a list may be."""
        return 1 << self.limit_exponent


def compact_name(protocol: ConnectProtocol) -> str:
    """Return the name in JoinGroup under which this form is offered."""
    return f"{OWN_PREFIX}{protocol.protocol_name}{COMPACT_SUFFIX}"


def is_compact(protocol_name: str) -> bool:
    """Return whether the protocol that a group chose has this form."""
    return protocol_name.startswith(OWN_PREFIX) and protocol_name.endswith(COMPACT_SUFFIX)


def digest_of(work: Work) -> bytes:
    """Return 8 bytes that stand for a set of work, whatever its order."""
    return blake2b(pack_work(work, shortest=False), digest_size=DIGEST_BYTES).digest()


def leader_hint(leader_id: str) -> int:
    """Return one byte by which a leader sees that a member has its URL; a member checks the whole id."""
    return blake2b(leader_id.encode(), digest_size=1).digest()[0]


def held_bytes(metadata: WorkerMetadata) -> bytes | None:
    """Return the list of what a member holds, packed; None when it holds no assignment."""
    held = metadata.allocation
    return None if held is None else pack_work((held.connectors, held.tasks))


def encode_claim(protocol: ConnectProtocol, claim: Claim, held: bytes | None = None) -> bytes:
    """Return the metadata blob; ``held`` is ``held_bytes`` of the metadata, for who has it already.

    Raises DataError when a name is longer than the group protocol carries.
    """
    metadata = claim.metadata
    kind = _DIGEST if claim.digest is not None else _NOTHING_HELD if metadata.allocation is None else _LIST
    form, url = _url_bytes(metadata.url)
    hint = b"" if claim.knows_leader is None else bytes([claim.knows_leader])
    head = protocol.version | kind << 2 | form << 4 | bool(hint) << 6
    parts = [bytes([head]), hint, url, varint(metadata.config_offset + 1)]
    if claim.digest is not None:
        parts += [claim.digest, varint(claim.list_bytes >> 3)]
    elif kind == _LIST:
        parts.append((held_bytes(metadata) if held is None else held) or b"")
    return b"".join(parts)


def decode_claim(blob: bytes) -> Claim:
    """Read a metadata blob. Raises DataError."""
    reader = ByteReader(blob)
    head = reader.byte()
    kind, form = head >> 2 & 3, head >> 4 & 3
    hint = reader.byte() if head >> 6 & 1 else None
    url = _read_url(reader, form)
    config_offset = reader.varint() - 1
    if kind == _DIGEST:
        digest = reader.take(DIGEST_BYTES)
        return Claim(WorkerMetadata(url, config_offset), digest, reader.varint() + 1 << 3, hint)
    if kind == _NOTHING_HELD:
        return Claim(WorkerMetadata(url, config_offset), knows_leader=hint)
    if kind != _LIST:
        raise DataError(f"group metadata says in {kind} what is held, which this version does not read")
    connectors, tasks = reader.work()
    return Claim(
        WorkerMetadata(url, config_offset, Assignment("", "", config_offset, connectors, tasks)), knows_leader=hint
    )


def metadata_of(protocol_name: str, blob: bytes) -> WorkerMetadata:
    """Read what a worker joined with, by the protocol that its group chose. Raises DataError.

    What it holds is missing where it sent a digest of it.
    """
    return decode_claim(blob).metadata if is_compact(protocol_name) else decode_metadata(blob)


def encode_compact(sent: CompactAssignment, member_offset: int) -> bytes:
    """Return the assignment blob for a member whose metadata named ``member_offset``."""
    assignment = sent.assignment
    form, url = (_KNOWN, b"") if sent.url_known or sent.again else _url_bytes(assignment.leader_url)
    given = bool(assignment.connectors or assignment.tasks)
    head = (
        assignment.failed
        | form << 1
        | sent.whole_list << 3
        | given << 4
        | assignment.revokes << 5
        | bool(assignment.delay_ms) << 6
        | sent.again << 7
    )
    parts = [
        bytes([head, sent.limit_exponent]),
        varint(zigzag(assignment.config_offset - member_offset)),
        url,
        varint(assignment.delay_ms) if assignment.delay_ms else b"",
    ]
    if given:
        parts.append(pack_work((assignment.connectors, assignment.tasks)))
    if assignment.revokes:
        parts.append(pack_work((assignment.revoked_connectors, assignment.revoked_tasks)))
    return b"".join(parts)


def decode_compact(blob: bytes, member_offset: int, leader_id: str, known_url: str | None) -> CompactAssignment:
    """Read an assignment blob. Raises DataError.

    The leader's URL is empty in an assignment that another round follows at once, if no earlier one named it.

    Args:
        blob: as SyncGroup brought it.
        member_offset: the config offset of this member's own metadata in the same round.
        leader_id: as JoinGroup's answer names the leader.
        known_url: the leader's, if an earlier assignment of this very leader named it.
    """
    reader = ByteReader(blob)
    head, limit_exponent = reader.byte(), reader.byte()
    form = head >> 1 & 3
    if limit_exponent > WHOLE_LIST:
        raise DataError(f"group assignment allows lists of 2^{limit_exponent} bytes, which cannot be meant")
    config_offset = member_offset + zigzag_read(reader.varint())
    if form == _KNOWN and known_url is None and not head >> 7:
        raise DataError("group assignment leaves out the leader's URL, which this worker does not have")
    url = known_url or "" if form == _KNOWN else _read_url(reader, form)
    delay_ms = reader.varint() if head >> 6 & 1 else 0
    connectors, tasks = reader.work() if head >> 4 & 1 else ((), ())
    revoked_connectors, revoked_tasks = reader.work() if head >> 5 & 1 else ((), ())
    assignment = Assignment(
        leader_id=leader_id,
        leader_url=url,
        config_offset=config_offset,
        connectors=connectors,
        tasks=tasks,
        revoked_connectors=revoked_connectors,
        revoked_tasks=revoked_tasks,
        delay_ms=delay_ms,
        error=CONFIG_MISMATCH if head & 1 else NO_ERROR,
    )
    return CompactAssignment(assignment, bool(head >> 3 & 1), limit_exponent, form == _KNOWN, bool(head >> 7))


def _url_bytes(url: str) -> tuple[int, bytes]:
    """Return a URL's form and bytes: 6 bytes for an IPv4 address and port, else its text."""
    found = _ADDRESS.fullmatch(url)
    if found and url == _url_of(found[1], *map(int, found.groups()[1:])):
        numbers = [int(part) for part in found.groups()[1:]]
        if max(numbers[:4]) < 256 and numbers[4] < 65_536:
            form = _HTTPS_V4 if found[1] == "https" else _HTTP_V4
            return form, bytes(numbers[:4]) + numbers[4].to_bytes(2, "big")
    raw = url.encode("utf-8")
    if len(raw) > 0x7FFF:
        raise DataError(f"{url[:40]!r}... is {len(raw)} bytes; the group protocol carries at most 32767")
    return _TEXT, varint(len(raw)) + raw


def _url_of(scheme: str, *numbers: int) -> str:
    return f"{scheme}://{'.'.join(map(str, numbers[:4]))}:{numbers[4]}/"


def _read_url(reader: ByteReader, form: int) -> str:
    if form == _TEXT:
        return reader.text()
    if form == _KNOWN:
        raise DataError("group metadata leaves out the worker's URL")
    raw = reader.take(6)
    return _url_of("https" if form == _HTTPS_V4 else "http", *raw[:4], int.from_bytes(raw[4:], "big"))
