"""Connect's own bytes inside JoinGroup and SyncGroup: worker metadata and assignments, V0 to V2.

Owns the layouts (Java ``ConnectProtocol``, ``IncrementalCooperativeConnectProtocol``); must not know what an
assignment means. Writers are exact to the byte, readers as tolerant as Java's: every version is read with the
V1 reader, whose trailing fields may be missing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import DataError

CONNECTOR_TASK = -1
"""Stands for the connector itself in a list of task numbers."""

OWN_PREFIX = "connectrt-"
"""The prefix of a protocol's name with the same bytes, which workers of this product offer first.

The broker chooses among the protocols that every member offers, and takes the one that members name first. So it
chooses this one exactly when no other kind of worker is in the group (docs/decisions/0005).
"""

COMPACT_SUFFIX = "-compact"
"""After a protocol's own name: the bytes are those of ``compact_form``, which only our own workers read."""

NO_ERROR = 0
CONFIG_MISMATCH = 1


class ConnectProtocol(Enum):
    """A version of the subprotocol; the value is the setting ``connect.protocol``."""

    EAGER = "eager"
    COMPATIBLE = "compatible"
    SESSIONED = "sessioned"

    @property
    def version(self) -> int:
        """Return the number at the front of every blob: 0, 1 or 2."""
        return _VERSIONS[self]

    @property
    def protocol_name(self) -> str:
        """Return the name in JoinGroup; eager's is ``default``."""
        return "default" if self is ConnectProtocol.EAGER else self.value

    @property
    def is_incremental(self) -> bool:
        """Return whether assignments are incremental (V1 and V2)."""
        return self is not ConnectProtocol.EAGER

    def offered(self) -> tuple[ConnectProtocol, ...]:
        """Return the protocols that a worker with this setting offers, in order of preference."""
        return tuple(p for p in reversed(ConnectProtocol) if p.version <= self.version)

    @staticmethod
    def of_setting(value: str) -> ConnectProtocol:
        """Return the protocol of a ``connect.protocol`` value, any case. Raises ValueError."""
        return ConnectProtocol(value.lower())

    @staticmethod
    def of_name(name: str) -> ConnectProtocol:
        """Return the protocol a JoinGroup answer names, by either of its names. Raises DataError."""
        for protocol in ConnectProtocol:
            if protocol.protocol_name == name.removeprefix(OWN_PREFIX).removesuffix(COMPACT_SUFFIX):
                return protocol
        raise DataError(f"the group chose protocol {name!r}, which Connect does not have")


_VERSIONS = {ConnectProtocol.EAGER: 0, ConnectProtocol.COMPATIBLE: 1, ConnectProtocol.SESSIONED: 2}


@dataclass(frozen=True, slots=True)
class Assignment:
    """The work that a member must start (``connectors``, ``tasks``) and stop (``revoked_*``).

    V0: start is everything the member shall run. V1, V2: only new work. ``config_offset`` is the snapshot it was made
    from; ``delay_ms`` the scheduled rebalance, 0 if none.
    """

    leader_id: str
    leader_url: str
    config_offset: int
    connectors: tuple[str, ...] = ()
    tasks: tuple[ConnectorTaskId, ...] = ()
    revoked_connectors: tuple[str, ...] = ()
    revoked_tasks: tuple[ConnectorTaskId, ...] = ()
    delay_ms: int = 0
    error: int = NO_ERROR

    @property
    def failed(self) -> bool:
        """Return whether the leader refused to assign: the member must rejoin."""
        return self.error != NO_ERROR

    @property
    def revokes(self) -> bool:
        """Return whether anything must be stopped."""
        return bool(self.revoked_connectors or self.revoked_tasks)


@dataclass(frozen=True, slots=True)
class WorkerMetadata:
    """A member's metadata in JoinGroup.

    ``url`` is the advertised REST URL with its trailing slash. ``config_offset`` is the last decodable record of the
    config topic plus one (-1 when empty). ``allocation`` is the work that it runs now, None for nothing.
    """

    url: str
    config_offset: int
    allocation: Assignment | None = None


def encode_metadata(protocol: ConnectProtocol, metadata: WorkerMetadata, work: _Work | None = None) -> bytes:
    """Return the metadata blob of one protocol. V0 has no room for the allocation.

    ``work`` is the encoded allocation, if the caller encodes it more than once.
    """
    head = _int16(protocol.version) + _string(metadata.url) + _int64(metadata.config_offset)
    if not protocol.is_incremental:
        return head
    if metadata.allocation is None:
        return head + _int32(-1)
    allocation = encode_assignment(protocol, metadata.allocation, work)
    return head + _int32(len(allocation)) + allocation


def decode_metadata(blob: bytes) -> WorkerMetadata:
    """Read a metadata blob of any version. Raises DataError."""
    reader = _Reader(blob)
    reader.version()
    url, config_offset = reader.string(), reader.int64()
    allocation = None if reader.at_end() else reader.nullable_bytes()
    return WorkerMetadata(url, config_offset, None if allocation is None else decode_assignment(allocation))


def join_protocols(protocol: ConnectProtocol, metadata: WorkerMetadata) -> list[tuple[str, bytes]]:
    """Return JoinGroup's (protocol name, metadata) list for a worker with this ``connect.protocol``.

    Java's names with Java's bytes, and before them the incremental ones under our own names.
    """
    work = None if metadata.allocation is None else _work_of(metadata.allocation)
    javas = [(offered.protocol_name, encode_metadata(offered, metadata, work)) for offered in protocol.offered()]
    own = [(OWN_PREFIX + name, blob) for name, blob in javas if ConnectProtocol.of_name(name).is_incremental]
    return own + javas


def is_own_group(protocol_name: str) -> bool:
    """Return whether the protocol a group chose shows that every member is a worker of this product."""
    return protocol_name.startswith(OWN_PREFIX)


def encode_assignment(protocol: ConnectProtocol, assignment: Assignment, work: _Work | None = None) -> bytes:
    """Return the assignment blob. V0 has no revocations and no delay; ``work`` as of ``encode_metadata``."""
    given, revoked = work or _work_of(assignment)
    head = (
        _int16(protocol.version)
        + _int16(assignment.error)
        + _string(assignment.leader_id)
        + _string(assignment.leader_url)
        + _int64(assignment.config_offset)
        + given
    )
    if not protocol.is_incremental:
        return head
    return head + revoked + _int32(assignment.delay_ms)


_Work = tuple[bytes, bytes]
"""The assigned and the revoked work of an assignment, encoded: the same bytes in every protocol."""


def _work_of(assignment: Assignment) -> _Work:
    given = _by_connector(assignment.connectors, assignment.tasks)
    return given, _by_connector(assignment.revoked_connectors, assignment.revoked_tasks)


def decode_assignment(blob: bytes) -> Assignment:
    """Read an assignment blob of any version; null lists become empty. Raises DataError."""
    reader = _Reader(blob)
    reader.version()
    error = reader.int16()
    leader_id, leader_url, config_offset = reader.string(), reader.string(), reader.int64()
    connectors, tasks = reader.connectors_and_tasks()
    revoked_connectors, revoked_tasks = reader.connectors_and_tasks()
    return Assignment(
        leader_id=leader_id,
        leader_url=leader_url,
        config_offset=config_offset,
        connectors=connectors,
        tasks=tasks,
        revoked_connectors=revoked_connectors,
        revoked_tasks=revoked_tasks,
        delay_ms=0 if reader.at_end() else reader.int32(),
        error=error,
    )


def _int16(value: int) -> bytes:
    return struct.pack(">h", value)


def _int32(value: int) -> bytes:
    return struct.pack(">i", value)


def _int64(value: int) -> bytes:
    return struct.pack(">q", value)


def _string(text: str) -> bytes:
    raw = text.encode("utf-8")
    if len(raw) > 0x7FFF:
        raise DataError(f"{text[:40]!r}... is {len(raw)} bytes; the group protocol carries at most 32767")
    return _int16(len(raw)) + raw


def _by_connector(connectors: Iterable[str], tasks: Iterable[ConnectorTaskId]) -> bytes:
    """Return the array of (connector, task numbers): connectors first, as Java writes it."""
    numbers: dict[str, list[int]] = {connector: [CONNECTOR_TASK] for connector in connectors}
    for task in tasks:
        numbers.setdefault(task.connector, []).append(task.task)
    parts = [_int32(len(numbers))]
    for connector, ids in numbers.items():
        parts.append(_string(connector))
        parts.append(_CONNECTOR_ALONE if len(ids) == 1 and ids[0] == CONNECTOR_TASK else _numbers(ids))
    return b"".join(parts)


def _numbers(ids: Sequence[int]) -> bytes:
    return struct.pack(f">i{len(ids)}i", len(ids), *ids)


_CONNECTOR_ALONE = struct.pack(">ii", 1, CONNECTOR_TASK)
_INT16, _INT32, _INT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")


class _Reader:
    """Reads one blob; every short or senseless field is a DataError that names the place."""

    def __init__(self, blob: bytes) -> None:
        self._blob = blob
        self._at = 0

    def at_end(self) -> bool:
        return self._at >= len(self._blob)

    def version(self) -> int:
        version = self.int16()
        if version < 0:
            raise DataError(f"group protocol version {version} cannot be read; at least 0 was expected")
        return version

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int32s(self, count: int) -> tuple[int, ...]:
        return struct.unpack(f">{count}i", self._take(4 * count)) if count > 0 else ()

    def int64(self) -> int:
        return self._number(_INT64)

    def string(self) -> str:
        raw = self._take(self.int16())
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"group protocol text before byte {self._at} is not UTF-8") from error

    def nullable_bytes(self) -> bytes | None:
        length = self.int32()
        return None if length == -1 else self._take(length)

    def connectors_and_tasks(self) -> tuple[tuple[str, ...], tuple[ConnectorTaskId, ...]]:
        connectors: dict[str, None] = {}  # Java keeps connectors once each, tasks as they come
        tasks: list[ConnectorTaskId] = []
        for _ in range(0 if self.at_end() else max(0, self.int32())):
            connector = self.string()
            if self._blob.startswith(_CONNECTOR_ALONE, self._at):  # without a task on this worker
                self._at += len(_CONNECTOR_ALONE)
                connectors[connector] = None
                continue
            numbers = self.int32s(self.int32())
            if CONNECTOR_TASK in numbers:
                connectors[connector] = None
            tasks += [ConnectorTaskId(connector, number) for number in numbers if number != CONNECTOR_TASK]
        return tuple(connectors), tuple(tasks)

    def _number(self, layout: struct.Struct) -> int:
        # A leader reads 300,000 of these for 100,000 tasks: no slice, no check before the one that struct makes.
        try:
            number: int = layout.unpack_from(self._blob, self._at)[0]
        except struct.error:
            raise self._broken(layout.size) from None
        self._at += layout.size
        return number

    def _broken(self, wanted: int) -> DataError:
        return DataError(f"group protocol blob of {len(self._blob)} bytes breaks at byte {self._at} ({wanted} wanted)")

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._blob):
            raise self._broken(size)
        part = self._blob[self._at : end]
        self._at = end
        return part
