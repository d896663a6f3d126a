"""Keys and values of the offset topic: bytes <-> connector, partition, offset (``OffsetStorageWriter``).

Owns: ``["connector",{partition}]`` keys, ``{offset}`` values, and their allowed types (``OffsetUtils``). Bytes matter:
Java finds and compacts offsets by the exact bytes of the key, whose field order is a HashMap's.
"""

from __future__ import annotations

import base64
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_connect_rt.base.java_hash_order import in_java_hash_order
from spark_connect_rt.base.json_text import canonical, decode_json, encode_json
from spark_connect_rt.errors import DataError

OffsetMap = Mapping[str, Any]


def encode_key(connector: str, partition: OffsetMap | None) -> bytes:
    """Return the key Java would write for a HashMap partition. Raises DataError (type not allowed)."""
    return encode_json([connector, checked(partition)])


def encode_value(offset: OffsetMap | None) -> bytes | None:
    """Return the value; None (the tombstone that forgets the partition) stays None. Raises DataError."""
    return None if offset is None else encode_json(checked_offset(offset))


def decode_key(key: bytes | None) -> tuple[str, OffsetMap | None]:
    """Return connector and partition. Raises DataError unless it is ``["name", map or null]``."""
    if key is None:
        raise DataError("an offset record has no key")
    fields = decode_json(key)
    if not isinstance(fields, list) or len(fields) != 2:
        raise DataError(f"offset key {key!r} is not an array of two")
    connector, partition = fields
    if not isinstance(connector, str) or not isinstance(partition, dict | None):
        raise DataError(f"offset key {key!r} is not [name, map or null]")
    return connector, partition


def decode_value(value: bytes | None) -> OffsetMap | None:
    """Return the offset, None for a tombstone or JSON null. Raises DataError unless it is a map."""
    offset = None if value is None else decode_json(value)
    if offset is not None and not isinstance(offset, dict):
        raise DataError(f"offset value {value!r} is not a map")
    return offset


def checked(fields: OffsetMap | None) -> dict[str, Any] | None:
    """Return the map as it reads back from the topic: HashMap order, bytes as base64 text.

    Raises DataError for a key that is not a string, or a value other than null, text, number, boolean, bytes.
    """
    if fields is None:
        return None
    if not isinstance(fields, Mapping):
        raise DataError(f"a partition or offset must be a map, not {type(fields).__name__}")
    for key, value in fields.items():
        if not isinstance(key, str):
            raise DataError(f"a partition's or offset's keys must be strings, found {key!r}")
        if not isinstance(value, str | int | float | bool | bytes | None):
            raise DataError(f"field {key!r} of a partition or offset holds a {type(value).__name__}")
    plain = {k: base64.b64encode(v).decode() if isinstance(v, bytes) else v for k, v in fields.items()}
    return in_java_hash_order(plain)


def checked_offset(fields: OffsetMap | None) -> dict[str, Any] | None:
    """Return ``checked`` of an offset. Raises DataError also for integers that Java and the executors cannot read."""
    for key, value in (fields or {}).items():
        if isinstance(value, int) and not is_java_long(value):
            raise DataError(f"field {key!r} of an offset holds {value}, more than 64 bits")
    return checked(fields)


def is_java_long(number: int) -> bool:
    """Return whether a number fits into 64 bits."""
    return -(2**63) <= number < 2**63


# Folds the offset topic into connector -> partition -> offset, remembering the key bytes of each.
#
# Owns: lookup by VALUE of the partition. Java finds offsets by the exact bytes of the key, so a later write must use
# the bytes that are already in the topic. The next write repairs two spellings of one partition. Holds no lock (its
# store does).


PartitionKey = tuple[str, Hashable]
"""Connector and the canonical partition."""


@dataclass(slots=True)
class _Entry:
    partition: OffsetMap | None
    live: dict[bytes, OffsetMap] = field(default_factory=dict)  # spelling of the key -> offset, newest last
    last_spelling: bytes | None = None  # also of a forgotten partition: written again under the same bytes

    @property
    def offset(self) -> OffsetMap | None:
        return next(reversed(self.live.values()), None)


class OffsetFold:
    """The last offset of every source partition. Not thread-safe."""

    def __init__(self) -> None:
        self._connectors: dict[str, dict[Hashable, _Entry]] = {}

    def apply(self, key: bytes | None, value: bytes | None) -> PartitionKey:
        """Fold one record; return its connector and partition. Raises DataError for a record that is ignored."""
        connector, partition = decode_key(key)
        offset = decode_value(value)
        assert key is not None  # decode_key raised otherwise
        index = canonical(partition)
        entry = self._connectors.setdefault(connector, {}).setdefault(index, _Entry(partition))
        entry.live.pop(key, None)
        entry.last_spelling = key
        if offset is not None:
            entry.live[key] = offset
        return connector, index

    def offset(self, key: PartitionKey) -> OffsetMap | None:
        """Return the last offset, None when there is none."""
        entry = self._connectors.get(key[0], {}).get(key[1])
        return None if entry is None else entry.offset

    def connector_offsets(self, connector: str) -> list[tuple[OffsetMap | None, OffsetMap]]:
        """Return (partition, offset) of all partitions that have one, in the order they were first seen."""
        entries = self._connectors.get(connector, {}).values()
        found = ((entry.partition, entry.offset) for entry in entries)
        return [(partition, offset) for partition, offset in found if offset is not None]

    def spelling(self, connector: str, partition: OffsetMap | None) -> bytes | None:
        """Return the key of a partition's last record, None when there is none. Raises DataError (bad types)."""
        entry = self._connectors.get(connector, {}).get(canonical(checked(partition)))
        return None if entry is None else entry.last_spelling

    def writes(
        self, connector: str, partition: OffsetMap | None, offset: OffsetMap | None
    ) -> Sequence[tuple[bytes, bytes | None]]:
        """Return the records that make ``offset`` the partition's only one. Raises DataError (bad types)."""
        key, value = encode_key(connector, partition), encode_value(offset)
        entry = self._connectors.get(connector, {}).get(canonical(checked(partition)))
        if entry is None:
            return [(key, value)]
        spellings = [*entry.live] or [entry.last_spelling or key]
        chosen = spellings.pop()
        return [(chosen, value), *((other, None) for other in spellings)]


def partition_key(connector: str, partition: OffsetMap | None) -> PartitionKey:
    """Return the lookup key of a partition as a connector gave it. Raises DataError (bad types)."""
    return connector, canonical(checked(partition))


def same_offset(offset: Any, other: Any) -> bool:
    """Return whether two offsets are the same JSON value."""
    return canonical(offset) == canonical(other)
