"""The topic of the offset history as a store: packed parts by connector, tier and slot. The leader writes.

Owns the kept parts of each connector, and when they are too old. The thinned
offset history below owns the meaning of a part.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.base.json_text import canonical
from spark_connect_rt.errors import DataError
from spark_connect_rt.operations.history.store import CourseKey, course_key, decode_course_key, pack_map, unpack_map
from spark_connect_rt.topics.compacted_log import LazyLog, LogRecord, LogSource
from spark_connect_rt.topics.offset_changes import OffsetPair

# The course of a connector's offsets, thinned: a point a minute for a day, a point an hour for a month. Pure.
#
# Points are kept in parts: the minutes of one hour, the hours of one day. A part has a slot; slots go round, so that a
# part of yesterday (of last month) is written over. Within a part a point holds only what changed since the one before
# it. A part that outgrows its share of the bytes keeps every second point, then every fourth ...


MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000

Point = tuple[int, Sequence[OffsetPair]]
"""(ms since 1970, every partition and its offset)."""


@dataclass(frozen=True, slots=True)
class Resolution:
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


MINUTES = Resolution("minute", MINUTE_MS, HOUR_MS, 26, 0.7)
HOURS = Resolution("hour", HOUR_MS, DAY_MS, 33, 0.3)
TIERS = {tier.name: tier for tier in (MINUTES, HOURS)}


@dataclass(frozen=True, slots=True)
class TimelineChunk:
    """Some points of one connector, the oldest first; ``stride``: how many steps lie between two of them."""

    start_ms: int
    points: tuple[Point, ...] = ()
    stride: int = 1


def with_point(part: TimelineChunk, tier: Resolution, point: Point) -> TimelineChunk | None:
    """Return the part with a point more; None: it has one of that step already."""
    step_ms = tier.step_ms * part.stride
    if part.points and part.points[-1][0] // step_ms >= point[0] // step_ms:
        return None
    return TimelineChunk(part.start_ms, (*part.points, point), part.stride)


def packed(part: TimelineChunk, tier: Resolution, bytes_max: int) -> bytes | None:
    """Return a part's bytes, thinned until they fit; None: not even two points do."""
    while True:
        value = pack_map(_fields(part))
        if len(value) <= bytes_max:
            return value
        if len(part.points) <= 2:
            return None
        part = _thinned(part, tier)


def unpacked(value: bytes) -> TimelineChunk:
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
        return TimelineChunk(int(fields["start_ms"]), tuple(points), int(fields["stride"]))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise DataError(f"a part of a course is damaged: {error!r}") from error


def merged(parts: Sequence[TimelineChunk], from_ms: int, to_ms: int) -> list[Point]:
    """Return the points within these times, the oldest first, and the last one before them; the same twice is once."""
    points = sorted({point[0]: point for part in parts for point in part.points}.values(), key=lambda it: it[0])
    earlier = [point for point in points if point[0] < from_ms][-1:]
    return earlier + [point for point in points if from_ms <= point[0] <= to_ms]


def state_of(pairs: Sequence[OffsetPair]) -> object:
    """Return a value that two equal sets of offsets share."""
    return frozenset((canonical(partition), canonical(offset)) for partition, offset in pairs)


def _thinned(part: TimelineChunk, tier: Resolution) -> TimelineChunk:
    stride = part.stride * 2
    step_ms = tier.step_ms * stride
    kept: dict[int, Point] = {}
    for point in part.points[:-1]:
        kept.setdefault(point[0] // step_ms, point)
    points = list(kept.values())
    if len(points) + 1 == len(part.points):  # already as far apart: halve them all the same
        points = points[::2]
    return TimelineChunk(part.start_ms, (*points, part.points[-1]), stride)


def _fields(part: TimelineChunk) -> Mapping[str, Any]:
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


BATCH = 500  # records of one append

log = logging.getLogger(__name__)


class OffsetTimelineStore:
    """Any thread. Methods that block raise ConnectError."""

    def __init__(self, source: LogSource) -> None:
        self._lock = threading.Lock()
        self._parts: dict[str, dict[CourseKey, bytes]] = defaultdict(dict)
        self._damaged, self._damage = 0, ""
        self._log = LazyLog("the offset history", source, self._on_records, self._on_new)

    @property
    def problem(self) -> str:
        """Return why points may be missing; empty: nothing is wrong."""
        damage = f"{self._damaged} parts of the offset history cannot be read: {self._damage}" if self._damaged else ""
        return "; ".join(filter(None, (self._log.problem, damage)))

    def refresh(self, timeout_ms: int) -> bool:
        """Read to the end; return whether there is a course at all. Raises ConnectError."""
        return self._log.refresh(timeout_ms)

    def part(self, connector: str, tier: Resolution, at_ms: int) -> TimelineChunk:
        """Return the part that a time is in, as far as was read; an empty one where there is none."""
        key = CourseKey(tier.name, tier.slot(at_ms), connector)
        with self._lock:
            value = self._parts.get(connector, {}).get(key)
        found = None if value is None else self._unpacked(value)
        start_ms = tier.start_ms(at_ms)
        return found if found is not None and found.start_ms == start_ms else TimelineChunk(start_ms)

    def parts(self, connector: str) -> list[TimelineChunk]:
        """Return every part of a connector's course."""
        with self._lock:
            values = list(self._parts.get(connector, {}).values())
        return [part for part in map(self._unpacked, values) if part is not None]

    def write(self, parts: Mapping[CourseKey, bytes]) -> None:
        """Write parts and wait for them. Raises ConnectError."""
        records: list[tuple[bytes, bytes | None]] = [(course_key(key), value) for key, value in parts.items()]
        self._append(records)

    def forget_old(self, now_ms: int) -> int:
        """Forget parts that no slot of a living connector will replace; return how many. Raises ConnectError."""
        with self._lock:
            held = [(key, value) for parts in self._parts.values() for key, value in parts.items()]
        old = [key for key, value in held if self._is_over(key, value, now_ms)]
        self._append([(course_key(key), None) for key in old])
        return len(old)

    def close(self) -> None:
        """Close the topic and its clients."""
        self._log.close()

    def _append(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        for start in range(0, len(records), BATCH):
            self._log.append(records[start : start + BATCH])

    def _is_over(self, key: CourseKey, value: bytes, now_ms: int) -> bool:
        part = self._unpacked(value)
        return part is None or TIERS[key.tier].is_over(part.start_ms, now_ms)

    def _unpacked(self, value: bytes) -> TimelineChunk | None:
        try:
            return unpacked(value)
        except DataError as error:
            self._note_damage(error)
            return None

    def _on_new(self) -> None:
        with self._lock:
            self._parts = defaultdict(dict)
            self._damaged, self._damage = 0, ""

    def _on_records(self, records: Sequence[LogRecord]) -> None:
        for record in records:
            try:
                key = decode_course_key(record.key)
            except DataError as error:
                self._note_damage(error)
                continue
            with self._lock:
                if record.value is not None:
                    self._parts[key.connector][key] = record.value
                elif self._parts.get(key.connector, {}).pop(key, None) and not self._parts[key.connector]:
                    del self._parts[key.connector]

    def _note_damage(self, error: Exception) -> None:
        self._damaged += 1
        self._damage = self._damage or str(error)
        log.warning("the offset history: %s", error)
