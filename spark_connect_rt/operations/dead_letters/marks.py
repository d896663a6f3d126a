"""Which letters were replayed: marks beside the queue, for its records are never rewritten. Pure.

Owns: the records of marks. One record says which offsets of a thousand one replay delivered; only that replay writes
it, in the transaction of the letters, so that replays never overwrite each other's marks. A topic is meant by its id:
marks of one that was deleted are no marks of the next of that name.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

CHUNK = 1_000  # offsets
MARKS = "marks"
Ranges = list[tuple[int, int]]
"""First offset, and the one behind the last; in order, apart from each other."""


class Place(NamedTuple):
    """A thousand offsets of a partition."""

    topic_id: str
    partition: int
    chunk: int


class Mark(NamedTuple):
    """By which replay a letter was delivered, and when, ms."""

    replay: str
    at_ms: int


def mark_key(place: Place, replay: str) -> bytes:
    """Return the key of a record of marks."""
    return json.dumps([MARKS, *place, replay], separators=(",", ":")).encode()


def mark_value(at_ms: int, ranges: Ranges) -> bytes:
    """Return its value."""
    return json.dumps({"at_ms": at_ms, "ranges": ranges}, separators=(",", ":")).encode()


def with_offset(ranges: Ranges, offset: int) -> Ranges:
    """Return the ranges with an offset more, which mostly lies behind them."""
    if ranges and ranges[-1][1] == offset:
        return [*ranges[:-1], (ranges[-1][0], offset + 1)]
    if not ranges or ranges[-1][1] < offset:
        return [*ranges, (offset, offset + 1)]
    return joined([*ranges, (offset, offset + 1)])


def joined(ranges: Ranges) -> Ranges:
    """Return ranges in order, those that touch as one."""
    made: Ranges = []
    for first, end in sorted(ranges):
        if made and made[-1][1] >= first:
            made[-1] = (made[-1][0], max(end, made[-1][1]))
        else:
            made.append((first, end))
    return made


class Marks:
    """Every mark that was read. One thread at a time."""

    def __init__(self) -> None:
        self._found: dict[Place, dict[str, tuple[int, Ranges]]] = {}

    def take(self, key: list[Any], value: bytes | None) -> None:
        """Take one record; ``key`` is its key, parsed. Raises ValueError, TypeError, KeyError: it is none."""
        _, topic_id, partition, chunk, replay = key
        place = Place(str(topic_id), int(partition), int(chunk))
        known = self._found.setdefault(place, {})
        if value is None:
            known.pop(replay, None)
            if not known:
                del self._found[place]
            return
        data = json.loads(value)
        known[str(replay)] = (int(data["at_ms"]), [(int(first), int(end)) for first, end in data["ranges"]])

    def of(self, topic_id: str, partition: int, offset: int) -> Mark | None:
        """Return the mark of a letter, the latest of several; None: it was not replayed."""
        known = self._found.get(Place(topic_id, partition, offset // CHUNK))
        marks = [Mark(replay, at_ms) for replay, (at_ms, ranges) in (known or {}).items() if _holds(ranges, offset)]
        return max(marks, key=lambda mark: mark.at_ms, default=None)

    def ranges(self, place: Place, replay: str) -> Ranges:
        """Return what one replay delivered there."""
        return list(self._found.get(place, {}).get(replay, (0, []))[1])

    def before(self, topic_id: str, firsts: Mapping[int, int]) -> Iterator[bytes]:
        """Yield the keys of records that speak only of offsets before ``firsts`` (partition -> first offset there)."""
        for place, known in self._found.items():
            end = (place.chunk + 1) * CHUNK
            if place.topic_id == topic_id and end <= firsts.get(place.partition, 0):
                yield from (mark_key(place, replay) for replay in known)


def _holds(ranges: Ranges, offset: int) -> bool:
    index = bisect_right(ranges, (offset, 2**63)) - 1
    return index >= 0 and offset < ranges[index][1]


class NewMarks:
    """The marks that one replay makes. One thread."""

    def __init__(self, topic_id: str, replay: str, known: Marks) -> None:
        """``known``: what this replay marked before goes on in the same records."""
        self._topic_id = topic_id
        self._replay = replay
        self._known = known
        self._made: dict[Place, Ranges] = {}  # what was committed; ``known`` may not have it yet

    def records(self, offsets: list[tuple[int, int]], at_ms: int) -> list[tuple[bytes, bytes]]:
        """Return the records that add letters (partition, offset) to what was marked."""
        return [
            (mark_key(place, self._replay), mark_value(at_ms, ranges)) for place, ranges in self._with(offsets).items()
        ]

    def keep(self, offsets: list[tuple[int, int]]) -> None:
        """Remember that the records of these letters were committed."""
        self._made.update(self._with(offsets))

    def _with(self, offsets: list[tuple[int, int]]) -> dict[Place, Ranges]:
        changed: dict[Place, Ranges] = {}
        for partition, offset in offsets:
            place = Place(self._topic_id, partition, offset // CHUNK)
            before = changed[place] if place in changed else self._before(place)
            changed[place] = with_offset(before, offset)
        return changed

    def _before(self, place: Place) -> Ranges:
        made = self._made.get(place)
        return made if made is not None else joined(self._known.ranges(place, self._replay))
