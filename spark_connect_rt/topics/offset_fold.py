"""Folds the offset topic into connector -> partition -> offset, remembering the key bytes of each.

Owns: lookup by VALUE of the partition. Java finds offsets by the exact bytes of the key, so what is written again
must go under the bytes already there; two spellings of one partition are healed by the next write.
Holds no lock (its store does).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_connect_rt.topics import offset_records as records
from spark_connect_rt.topics.offset_records import OffsetMap, canonical

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
        """Fold one record, return what it is about. Raises DataError for a record that is ignored."""
        connector, partition = records.decode_key(key)
        offset = records.decode_value(value)
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

    def writes(
        self, connector: str, partition: OffsetMap | None, offset: OffsetMap | None
    ) -> Sequence[tuple[bytes, bytes | None]]:
        """Return the records that make ``offset`` the partition's only one. Raises DataError (bad types)."""
        key, value = records.encode_key(connector, partition), records.encode_value(offset)
        entry = self._connectors.get(connector, {}).get(canonical(records.checked(partition)))
        if entry is None:
            return [(key, value)]
        spellings = [*entry.live] or [entry.last_spelling or key]
        chosen = spellings.pop()
        return [(chosen, value), *((other, None) for other in spellings)]


def partition_key(connector: str, partition: OffsetMap | None) -> PartitionKey:
    """Return the lookup key of a partition as a connector gave it. Raises DataError (bad types)."""
    return connector, canonical(records.checked(partition))


def same_offset(offset: Any, other: Any) -> bool:
    """Return whether two offsets are the same JSON value."""
    return canonical(offset) == canonical(other)
