"""Keys and values of the offset topic: bytes <-> connector, partition, offset (``OffsetStorageWriter``).

Owns: ``["connector",{partition}]`` keys, ``{offset}`` values, the types they may hold (``OffsetUtils``).
Bytes matter: Java finds and compacts offsets by the exact bytes of the key, whose field order is a HashMap's.
"""

from __future__ import annotations

import base64
from collections.abc import Hashable, Mapping
from typing import Any

from spark_connect_rt.base.java_hash_order import in_java_hash_order
from spark_connect_rt.base.json_text import decode_json, encode_json
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

    Raises DataError for a key that is no string, or a value but null, text, number, boolean, bytes.
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
    """Tell whether a number fits into 64 bits."""
    return -(2**63) <= number < 2**63


def canonical(value: Any) -> Hashable:
    """Return a hashable equal for equal JSON values whatever their field order; 1, 1.0 and true differ."""
    if isinstance(value, Mapping):
        return ("map", frozenset((key, canonical(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return ("list", *(canonical(item) for item in value))
    return (type(value).__name__, value)
