"""The group's bytes in short: metadata and assignments as only workers of this product exchange them.

Owns the layouts under the protocol names that end in ``-compact``, which only our own workers offer. The broker chooses
such a protocol only if every member offers it (docs/decisions/0005), so no other kind of worker ever sees these bytes.
Must not know what an assignment means. A broker keeps a whole group in one record of ``message.max.bytes`` (1 MiB
unless set), so every byte here counts once a member:

* metadata: head, URL, config offset, and the held work: as a list, or as its digest when the leader knows the list
* assignment: head, how long a list the next metadata may hold, the offset as a difference to the member's own, and the
  URL unless the member knows it. Then new and revoked work. The leader's member id is JoinGroup's.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import DataError
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

# A set of connectors and tasks in few bytes, and back.
#
# Owns the layout: connectors by name, each without the prefix it shares with the name before it, and its task numbers
# as runs. The whole is deflated where that is shorter. The same set always packs to the same bytes. Readers are
# bounded: no blob, however hostile, unpacks to more than ``LARGEST_TASKS``.


Work = tuple[tuple[str, ...], tuple[ConnectorTaskId, ...]]
"""Names of connectors, and ids of tasks."""

LARGEST_TASKS = 4_000_000
LARGEST_NUMBER = 2**31 - 1  # of a task, as in Java's form
LARGEST_NAME_BYTES = 0x7FFF
_LARGEST_PLAIN_BYTES = 64 * 2**20
_WORTH_DEFLATING = 40  # bytes
_REMEMBERED_ITEMS = 20_000


def pack_work(work: Work, shortest: bool = True) -> bytes:
    """Return the bytes of a set, in any order; ``shortest`` False: never deflated.

    Raises DataError when a connector's name is longer than the group protocol carries.
    """
    few = len(work[0]) + len(work[1]) <= _REMEMBERED_ITEMS
    plain = (_remembered if few else _plain)(work)
    if shortest and len(plain) > _WORTH_DEFLATING:
        deflater = zlib.compressobj(6, zlib.DEFLATED, -15)
        short = deflater.compress(plain) + deflater.flush()
        if len(short) < len(plain):
            return varint(len(short) << 1 | 1) + short
    return varint(len(plain) << 1) + plain


def varint(number: int) -> bytes:
    """Return an unsigned number in as many times 7 bits as it needs, lowest first."""
    if number < 0x80:
        return bytes((number,))
    parts = bytearray()
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def zigzag(number: int) -> int:
    """Return a signed number as an unsigned one, small where it is near 0."""
    return number << 1 if number >= 0 else (-number << 1) - 1


def zigzag_read(number: int) -> int:
    """Return the number that ``zigzag`` made unsigned."""
    return number >> 1 if number & 1 == 0 else -(number + 1 >> 1)


class ByteReader:
    """Reads one blob; every short or senseless field is a DataError that names the place."""

    def __init__(self, blob: bytes) -> None:
        self._blob = blob
        self._at = 0

    @property
    def at_end(self) -> bool:
        """Return whether nothing is left."""
        return self._at >= len(self._blob)

    def byte(self) -> int:
        """Consume one byte and return it."""
        return self.take(1)[0]

    def varint(self) -> int:
        """Return the next unsigned number, at most 63 bits."""
        number = shift = 0
        blob, at = self._blob, self._at
        try:
            while blob[at] >= 0x80 and shift < 56:
                number |= (blob[at] & 0x7F) << shift
                shift += 7
                at += 1
            number |= blob[at] << shift
        except IndexError:
            raise self._broken(1) from None
        if blob[at] >= 0x80:
            raise DataError(f"group protocol number before byte {at} has more than 63 bits")
        self._at = at + 1
        return number

    def take(self, size: int) -> bytes:
        """Return the next ``size`` bytes."""
        end = self._at + size
        if end > len(self._blob):
            raise self._broken(size)
        part = self._blob[self._at : end]
        self._at = end
        return part

    def text(self) -> str:
        """Return the next text: its length, then UTF-8."""
        raw = self.take(self.varint())
        return self._decoded(raw)

    def work(self) -> Work:
        """Return the next packed set, connectors and tasks in order."""
        length = self.varint()
        packed = self.take(length >> 1)
        return _unpacked(_inflated(packed) if length & 1 else packed)

    def name_after(self, before: bytes) -> tuple[bytes, str]:
        """Return the next name, of which so many bytes are those of the name before."""
        blob, at = self._blob, self._at
        head = blob[at : at + 2]
        if len(head) == 2 and (shared := head[0]) < 0x80 and (size := head[1]) < 0x80 and shared <= len(before):
            raw = before[:shared] + blob[at + 2 : at + 2 + size]  # nearly every name
            if len(raw) == shared + size:
                self._at = at + 2 + size
                return raw, self._decoded(raw)
        shared = self.varint()
        raw = before[:shared] + self.take(self.varint())
        if shared > len(before) or len(raw) > LARGEST_NAME_BYTES:
            raise DataError(f"group protocol name before byte {self._at} cannot be read")
        return raw, self._decoded(raw)

    def _decoded(self, raw: bytes) -> str:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"group protocol text before byte {self._at} is not UTF-8") from error

    def _broken(self, wanted: int) -> DataError:
        return DataError(f"group protocol blob of {len(self._blob)} bytes breaks at byte {self._at} ({wanted} wanted)")


def _plain(work: Work) -> bytes:
    connectors, tasks = work
    numbers: dict[str, list[int]] = {name: [] for name in connectors}
    for task in tasks:
        numbers.setdefault(task[0], []).append(task[1])
    alone, parts, before = set(connectors), [], ""
    entry = _entry if len(numbers) <= _REMEMBERED_ITEMS else _entry.__wrapped__
    for name in sorted(numbers):
        held = numbers[name]
        parts.append(entry(name, before, tuple(sorted(set(held))) if len(held) > 1 else tuple(held), name in alone))
        before = name
    return b"".join(parts)


@lru_cache(maxsize=_REMEMBERED_ITEMS)  # a rebalance changes little of a worker's held work
def _entry(name: str, before: str, numbers: tuple[int, ...], alone: bool) -> bytes:
    """Return the bytes of one connector after another one."""
    raw = name.encode("utf-8")
    if len(raw) > LARGEST_NAME_BYTES:
        raise DataError(f"{name[:40]!r}... is {len(raw)} bytes; the group protocol carries at most 32767")
    shared = _shared(raw, before.encode("utf-8"))
    runs = list(_runs(numbers))
    parts = [varint(shared), varint(len(raw) - shared), raw[shared:], varint(len(runs) << 1 | alone)]
    after = 0
    for first, count in runs:
        parts += [varint(first - after), varint(count - 1)]
        after = first + count
    return b"".join(parts)


_remembered = lru_cache(maxsize=4)(_plain)  # a rebalance packs the work of one worker several times


def _shared(name: bytes, before: bytes) -> int:
    """Return how many bytes two names begin with in common, at most 255."""
    shared = min(len(name), len(before), 255)
    while name[:shared] != before[:shared]:
        shared -= 1
    return shared


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield (first, count) of the runs in ascending numbers."""
    first = last = -2
    for number in numbers:
        if number != last + 1:
            if first >= 0:
                yield first, last - first + 1
            first = number
        last = number
    if first >= 0:
        yield first, last - first + 1


def _inflated(packed: bytes) -> bytes:
    inflater = zlib.decompressobj(-15)
    try:
        plain = inflater.decompress(packed, _LARGEST_PLAIN_BYTES)
    except zlib.error as error:
        raise DataError(f"group protocol list cannot be inflated: {error}") from error
    if not inflater.eof:
        raise DataError(f"group protocol list of {len(packed)} bytes is cut short, or has no end")
    return plain


def _unpacked(plain: bytes) -> Work:
    reader = ByteReader(plain)
    connectors: list[str] = []
    tasks: list[ConnectorTaskId] = []
    before = b""
    while not reader.at_end:
        before, name = reader.name_after(before)
        runs = reader.varint()
        if runs & 1:
            connectors.append(name)
        after = 0
        for _ in range(runs >> 1):
            first = after + reader.varint()
            after = first + reader.varint() + 1
            if after > LARGEST_NUMBER + 1 or after - first + len(tasks) > LARGEST_TASKS:
                raise DataError(f"group protocol list names tasks {name[:40]}-{first} to {after - 1}: too many")
            tasks += [ConnectorTaskId(name, number) for number in range(first, after)]
    return tuple(connectors), tuple(tasks)


DIGEST_BYTES = 8
WHOLE_LIST = 63
"""Limit exponent of a small group: lists of any length are welcome."""

_TEXT, _HTTP_V4, _HTTPS_V4, _KNOWN = range(4)  # how a URL is written
_ADDRESS = re.compile(r"(https?)://(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3}):(\d{1,5})/")
_NOTHING_HELD, _LIST, _DIGEST = range(3)


@dataclass(frozen=True, slots=True)
class ReportedWork:
    """The work that a member reports when it joins: ``metadata`` with all of it, or without it and its ``digest``."""

    metadata: WorkerMetadata
    digest: bytes | None = None
    list_bytes: int = 0  # with a digest: the length of the list that it replaces
    knows_leader: int | None = None  # leader_hint of the leader whose URL the member has


@dataclass(frozen=True, slots=True)
class CompactAssignment:
    """An assignment, and instructions for the member's next metadata.

    ``whole_list``: the leader does not know the work of this member and asks for the list.
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
    """Return the packed list of a member's held work; None when it holds no assignment."""
    held = metadata.allocation
    return None if held is None else pack_work((held.connectors, held.tasks))


def encode_claim(protocol: ConnectProtocol, claim: ReportedWork, held: bytes | None = None) -> bytes:
    """Return the metadata blob. ``held`` is ``held_bytes`` of the metadata, if the caller already has it.

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


def decode_claim(blob: bytes) -> ReportedWork:
    """Read a metadata blob. Raises DataError."""
    reader = ByteReader(blob)
    head = reader.byte()
    kind, form = head >> 2 & 3, head >> 4 & 3
    hint = reader.byte() if head >> 6 & 1 else None
    url = _read_url(reader, form)
    config_offset = reader.varint() - 1
    if kind == _DIGEST:
        digest = reader.take(DIGEST_BYTES)
        return ReportedWork(WorkerMetadata(url, config_offset), digest, reader.varint() + 1 << 3, hint)
    if kind == _NOTHING_HELD:
        return ReportedWork(WorkerMetadata(url, config_offset), knows_leader=hint)
    if kind != _LIST:
        raise DataError(f"group metadata says in {kind} what is held, which this version does not read")
    connectors, tasks = reader.work()
    return ReportedWork(
        WorkerMetadata(url, config_offset, Assignment("", "", config_offset, connectors, tasks)), knows_leader=hint
    )


def metadata_of(protocol_name: str, blob: bytes) -> WorkerMetadata:
    """Decode a worker's metadata in JoinGroup, by the protocol that its group chose. Raises DataError.

    The work it holds is missing if it sent only a digest.
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
