"""The bytes before a payload: magic byte 0 and the schema's id, 4 bytes, big-endian (Confluent's wire format)."""

from __future__ import annotations

from spark_connect_rt.errors import DataError

MAGIC = 0
LENGTH = 5


def framed(schema_id: int) -> bytes:
    """Return what stands before a payload."""
    return bytes([MAGIC]) + schema_id.to_bytes(4, "big")


def schema_id_of(data: bytes) -> int:
    """Return the id of framed bytes. Raises DataError: too short, or another format."""
    if not data or data[0] != MAGIC:
        first = data[:1].hex() or "none"
        raise DataError(f"Unknown magic byte! The first byte is {first}, not 00: not written with a Schema Registry")
    if len(data) < LENGTH:
        raise DataError(f"{len(data)} bytes are too few for a schema's id")
    return int.from_bytes(data[1:LENGTH], "big")
