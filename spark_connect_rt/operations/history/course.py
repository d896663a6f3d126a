"""The course of a connector's offsets, thinned: a point a minute for a day, a point an hour for a month. Pure.

Points are kept in parts: the minutes of one hour, the hours of one day. A part has a slot; slots go round, so that a
part of yesterday (of last month) is written over. Within a part a point holds only what changed since the one before
it. A part that outgrows its share of the bytes keeps every second point, then every fourth ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.errors import DataError
from spark_connect_rt.operations.history.history_records import pack_map, unpack_map
from spark_connect_rt.topics.offset_changes import OffsetPair
from spark_connect_rt.topics.offset_records import canonical

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000

Point = tuple[int, Sequence[OffsetPair]]
"""(ms since 1970, every partition and its offset)."""


@dataclass(frozen=True, slots=True)
class Tier:
    """One way of thinning; ``share``: of the bytes of a connector's course."""

    name: str
    step_ms: int
    part_ms: int
    slots: int
    share: float

    def start_ms(self, at_ms: int) -> int:
        """Return the start of the part that a time is in."""
        return at_ms - at_ms % self.part_ms

    def slot(self, at_ms: int) -> int:
        """Return the slot of that part."""
        return at_ms // self.part_ms % self.slots

    def bytes_max(self, course_bytes_max: int) -> int:
        """Return the most bytes of one part."""
        return int(course_bytes_max * self.share / self.slots)

    def is_over(self, start_ms: int, now_ms: int) -> bool:
        """Return whether a part is too old to be kept."""
        return start_ms < now_ms - self.part_ms * self.slots


MINUTES = Tier("minute", MINUTE_MS, HOUR_MS, 26, 0.7)
HOURS = Tier("hour", HOUR_MS, DAY_MS, 33, 0.3)
TIERS = {tier.name: tier for tier in (MINUTES, HOURS)}


@dataclass(frozen=True, slots=True)
class Part:
    """Some points of one connector, the oldest first; ``stride``: how many steps lie between two of them."""

    start_ms: int
    points: tuple[Point, ...] = ()
    stride: int = 1


def with_point(part: Part, tier: Tier, point: Point) -> Part | None:
    """Return the part with a point more; None: it has one of that step already."""
    step_ms = tier.step_ms * part.stride
    if part.points and part.points[-1][0] // step_ms >= point[0] // step_ms:
        return None
    return Part(part.start_ms, (*part.points, point), part.stride)


def packed(part: Part, tier: Tier, bytes_max: int) -> bytes | None:
    """Return a part's bytes, thinned until they fit; None: not even two points do."""
    while True:
        value = pack_map(_fields(part))
        if len(value) <= bytes_max:
            return value
        if len(part.points) <= 2:
            return None
        part = _thinned(part, tier)


def unpacked(value: bytes) -> Part:
    """Raises DataError: the value is damaged."""
    fields = unpack_map(value)
    try:
        partitions = fields["partitions"]
        points: list[Point] = []
        present: dict[int, Any] = {}
        for since_ms, changed in fields["points"]:
            present = {**present, **{int(index): offset for index, offset in changed.items()}}
            present = {index: offset for index, offset in present.items() if offset is not None}
            pairs = [(partitions[index], offset) for index, offset in sorted(present.items())]
            points.append((int(fields["start_ms"]) + int(since_ms), pairs))
        return Part(int(fields["start_ms"]), tuple(points), int(fields["stride"]))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise DataError(f"a part of a course is damaged: {error!r}") from error


def merged(parts: Sequence[Part], from_ms: int, to_ms: int) -> list[Point]:
    """Return the points within these times, the oldest first, and the last one before them; the same twice is once."""
    points = sorted({point[0]: point for part in parts for point in part.points}.values(), key=lambda it: it[0])
    earlier = [point for point in points if point[0] < from_ms][-1:]
    return earlier + [point for point in points if from_ms <= point[0] <= to_ms]


def state_of(pairs: Sequence[OffsetPair]) -> object:
    """Return a value that two equal sets of offsets share."""
    return frozenset((canonical(partition), canonical(offset)) for partition, offset in pairs)


def _thinned(part: Part, tier: Tier) -> Part:
    stride = part.stride * 2
    step_ms = tier.step_ms * stride
    kept: dict[int, Point] = {}
    for point in part.points[:-1]:
        kept.setdefault(point[0] // step_ms, point)
    points = list(kept.values())
    if len(points) + 1 == len(part.points):  # already as far apart: halve them all the same
        points = points[::2]
    return Part(part.start_ms, (*points, part.points[-1]), stride)


def _fields(part: Part) -> Mapping[str, Any]:
    indices: dict[Any, int] = {}
    partitions: list[Any] = []
    points: list[Any] = []
    before: dict[int, Any] = {}
    for at_ms, pairs in part.points:
        present: dict[int, Any] = {}
        for partition, offset in pairs:
            key = canonical(partition)
            if key not in indices:
                indices[key] = len(partitions)
                partitions.append(partition)
            present[indices[key]] = offset
        changed = {str(index): offset for index, offset in present.items() if before.get(index) != offset}
        changed |= {str(index): None for index in before if index not in present}
        points.append([at_ms - part.start_ms, changed])
        before = present
    return {"start_ms": part.start_ms, "stride": part.stride, "partitions": partitions, "points": points}
