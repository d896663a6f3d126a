"""Keys and values of the history topics: bytes <-> plain maps. Ours; Java has no such topic.

Changes: key ``change-<number>-<id>``, value the change as JSON. The id is the writer's: two workers that took the same
number do not overwrite each other. Course: key ``course-<tier>-<slot>-<connector>``; the slots of a tier go round, so
that compaction keeps its size; value zlib of JSON, because offsets repeat themselves.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.base.json_text import decode_json, encode_json
from spark_connect_rt.errors import DataError

_CHANGE = re.compile(r"change-([0-9]{1,18})-([0-9a-f]{1,32})")
_COURSE = re.compile(r"course-(minute|hour)-([0-9]{1,6})-(.*)", re.DOTALL)
UNPACKED_MAX = 64 * 1024 * 1024  # bytes: what is packed may be hostile


@dataclass(frozen=True, slots=True, order=True)
class ChangeKey:
    """Which change a record holds."""

    number: int
    id: str


@dataclass(frozen=True, slots=True)
class CourseKey:
    """Which part of which connector's course a record holds."""

    tier: str
    slot: int
    connector: str


def change_key(key: ChangeKey) -> bytes:
    """Return the key of one change."""
    return f"change-{key.number}-{key.id}".encode("ascii")


def decode_change_key(key: bytes | None) -> ChangeKey:
    """Raises DataError: the key is of no change."""
    found = _CHANGE.fullmatch((key or b"").decode("utf-8", errors="replace"))
    if found is None:
        raise DataError(f"key {key!r} is of no change")
    return ChangeKey(int(found[1]), found[2])


def course_key(key: CourseKey) -> bytes:
    """Return the key of a part of a course."""
    return f"course-{key.tier}-{key.slot}-{key.connector}".encode()


def decode_course_key(key: bytes | None) -> CourseKey:
    """Raises DataError: the key is of no course."""
    try:
        found = _COURSE.fullmatch((key or b"").decode("utf-8"))
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise DataError(f"key {key!r} is of no course")
    return CourseKey(found[1], int(found[2]), found[3])


def encode_map(value: Mapping[str, Any]) -> bytes:
    """Return the JSON of a change."""
    return encode_json(value)


def decode_map(value: bytes) -> dict[str, Any]:
    """Raises DataError: the value is no JSON object."""
    found = decode_json(value)
    if not isinstance(found, dict):
        raise DataError("a change must be a JSON object")
    return found


def pack_map(value: Mapping[str, Any]) -> bytes:
    """Return the packed JSON of a part of a course."""
    return zlib.compress(encode_json(value), 6)


def unpack_map(value: bytes) -> dict[str, Any]:
    """Raises DataError: the value is damaged, or larger than 64 MB unpacked."""
    reader = zlib.decompressobj()
    try:
        text = reader.decompress(value, UNPACKED_MAX)
    except zlib.error as error:
        raise DataError(f"a part of a course cannot be unpacked: {error}") from error
    if reader.unconsumed_tail:
        raise DataError(f"a part of a course is larger than {UNPACKED_MAX} bytes")
    return decode_map(text)
