"""How ``connectrt dev`` shows records and offsets: one line each. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from spark_connect_rt.base.ids import TopicPartition

Headers = Iterable[tuple[str, bytes | None]]
_BREAKS = {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}
_SHOWN = 300  # characters of a key, a value or a header


def record_line(
    place: TopicPartition,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers = (),
    source: tuple[Any, Any] | None = None,
) -> str:
    """Return a record in one line; ``source``: its source partition and the offset behind it."""
    parts = [f"{place.topic}-{place.partition}@{offset}", f"key {content(key)}", f"value {content(value)}"]
    named = ", ".join(f"{name}={content(text)}" for name, text in headers)
    if named:
        parts.append(f"headers {named}")
    if source is not None:
        parts.append(f"offset {as_json(source[1])}")
    return "  ".join(parts)


def content(data: bytes | None) -> str:
    """Return bytes as text where they are text, else in hexadecimal; cut after 300 characters."""
    if data is None:
        return "null"
    try:
        text = data.decode("utf-8").translate(_BREAKS)
    except UnicodeDecodeError:
        text = "\0"
    if not text.isprintable():
        return _cut(f"0x{data.hex()}", f" ({len(data)} byte{'' if len(data) == 1 else 's'})")
    return _cut(text or '""')


def source_offset_lines(before: Mapping[str, Any], after: Iterable[tuple[Any, Any]]) -> list[str]:
    """Return a line for each source partition whose offset differs from ``before`` (partition as JSON -> offset)."""
    return [
        f"would commit {as_json(partition)} -> {as_json(offset)}"
        for partition, offset in after
        if before.get(as_json(partition)) != offset
    ]


def sink_offset_line(before: Mapping[TopicPartition, int], after: Mapping[TopicPartition, int]) -> str | None:
    """Return the offsets that a sink's group would have, None: no other ones than before."""
    moved = {place: offset for place, offset in sorted(after.items()) if before.get(place) != offset}
    if not moved:
        return None
    return "would commit " + ", ".join(f"{place.topic}-{place.partition}: {offset}" for place, offset in moved.items())


def as_json(tree: Any) -> str:
    """Return JSON in one line, keys sorted."""
    return json.dumps(tree, sort_keys=True, ensure_ascii=False)


def _cut(text: str, end: str = "") -> str:
    return text + end if len(text) <= _SHOWN else f"{text[:_SHOWN]}…{end}"
