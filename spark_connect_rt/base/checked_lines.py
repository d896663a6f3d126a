"""A file of JSON lines that proves its integrity: header, rows, and a last line with their count and SHA-256.

Owns: the envelope of topic backups and of log snapshots. Does not know the meaning of a row. Truncated, changed or
joined files are rejected. Nothing here is trusted to be harmless beyond that (no pickle, no code).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from spark_connect_rt.errors import DataError

RawRecord = tuple[int, int, bytes | None, bytes | None, int]
"""Partition, offset, key, value (None: a tombstone), timestamp in ms since the epoch."""
Row = Mapping[str, Any]


def encode_lines(header: Row, rows: Iterable[Row]) -> Iterator[bytes]:
    """Yield the file's lines, each with its line end."""
    digest, count = hashlib.sha256(), -1  # the header does not count as a row
    for row in (header, *rows):
        line = json.dumps(row, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        digest.update(line)
        count += 1
        yield line
    yield json.dumps({"rows": count, "sha256": digest.hexdigest()}, separators=(",", ":")).encode() + b"\n"


def decode_lines(data: bytes, kind: str, version: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return header and rows. Raises DataError: not this ``kind`` and ``version``, or not whole and unchanged."""
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        raise DataError("the file is incomplete: its last line is missing")
    seal = _object(lines[-1], len(lines))
    if seal.get("sha256") != hashlib.sha256(b"".join(lines[:-1])).hexdigest() or seal.get("rows") != len(lines) - 2:
        raise DataError("the file is incomplete or was changed: its checksum does not match")
    header = _object(lines[0], 1)
    if (header.get("kind"), header.get("version")) != (kind, version):
        raise DataError(f"the file has an unexpected kind or version. Expected: {kind}, version {version}")
    return header, [_object(line, number) for number, line in enumerate(lines[1:-1], 2)]


def encode_record(record: RawRecord) -> dict[str, Any]:
    """Return a record as a row."""
    partition, offset, key, value, timestamp_ms = record
    return {
        "partition": partition,
        "offset": offset,
        "timestamp": timestamp_ms,
        "key": _text(key),
        "value": _text(value),
        "crc32": checksum(record),
    }


def decode_record(row: Row) -> RawRecord:
    """Return a row's record. Raises DataError."""
    try:
        record = (
            int(row["partition"]),
            int(row["offset"]),
            _bytes(row["key"]),
            _bytes(row["value"]),
            int(row["timestamp"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"a row is not a valid record: {error!r}") from error
    if checksum(record) != row.get("crc32"):
        raise DataError(f"partition {record[0]} offset {record[1]}: the checksum does not match")
    return record


def checksum(record: RawRecord) -> int:
    """Return the CRC-32 of a record's fields at the broker: partition, offset, time, key and value."""
    partition, offset, key, value, timestamp_ms = record
    place = f"{partition},{offset},{timestamp_ms},{_length(key)},{_length(value)};".encode()
    return binascii.crc32(place + (key or b"") + (value or b""))


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)


def _object(line: bytes, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise DataError(f"line {number} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise DataError(f"line {number} is not a JSON object")
    return found
