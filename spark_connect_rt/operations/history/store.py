"""The history topic as a store: changes by number, of each connector, bounded by count and age.

Owns: numbers, which of two records of one change counts, what is forgotten. Any worker writes; two that took the same
number find out by reading back, and the later one takes another. A change of the config topic is known by its position
there: the record that says who made it counts, else the first.
"""

from __future__ import annotations

import logging
import re
import threading
import uuid
import zlib
from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spark_connect_rt.base.json_text import decode_json, encode_json
from spark_connect_rt.errors import DataError
from spark_connect_rt.rest.change_history import Change, ChangeQuery
from spark_connect_rt.topics.compacted_log import LazyLog, LogRecord, LogSource

# Keys and values of the history topics: bytes <-> plain maps. Ours; Java has no such topic.
#
# Changes: key ``change-<number>-<id>``, value the change as JSON. The id is the writer's: two workers that took the
# same number do not overwrite each other. Course: key ``course-<tier>-<slot>-<connector>``; the slots of a tier go
# round, so that compaction keeps its size; value zlib of JSON, because offsets repeat themselves.


_CHANGE = re.compile(r"change-([0-9]{1,18})-([0-9a-f]{1,32})")
_COURSE = re.compile(r"course-(minute|hour)-([0-9]{1,6})-(.*)", re.DOTALL)
UNPACKED_MAX = 64 * 1024 * 1024  # bytes: packed data may be hostile


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
    """Raises DataError: the value is not a JSON object."""
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


RECORD_MAX_BYTES = 900_000  # a broker takes 1 MB unless it is configured otherwise
TRIES_MAX = 5
REFRESH_LIMIT_MS = 5_000  # a topic that was deleted meanwhile is found out by that
TOTAL_MAX = 100_000  # changes of all connectors together

log = logging.getLogger(__name__)

_Place = tuple[str, str, int]  # connector, kind, position


@dataclass(frozen=True, slots=True)
class Draft:
    """A change to be recorded; its number is not known yet. ``position``: of its record in the config topic."""

    change: Change
    position: int | None = None


@dataclass(slots=True)
class _Entry:
    key: ChangeKey
    connector: str
    kind: str
    at_ms: int
    position: int | None
    has_who: bool
    value: bytes


@dataclass(slots=True)
class _Fold:
    """The folded contents of the topic. Under the store's lock."""

    entries: dict[int, _Entry] = field(default_factory=dict)  # by number
    numbers: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))  # connector -> sorted
    places: dict[_Place, ChangeKey] = field(default_factory=dict)
    superseded: set[ChangeKey] = field(default_factory=set)
    highest: int = 0
    damaged: int = 0
    damage: str = ""

    def apply(self, record: LogRecord) -> None:
        key = decode_change_key(record.key)
        self.highest = max(self.highest, key.number)
        if record.value is None:
            self.superseded.discard(key)
            if (entry := self.entries.get(key.number)) is not None and entry.key == key:
                self._drop(entry)
            return
        self._take(_entry(key, record.value))

    def _take(self, entry: _Entry) -> None:
        key = entry.key
        if (other := self.entries.get(key.number)) is not None and other.key != key:
            self.superseded.add(key)  # the number was taken before
            return
        if entry.position is not None:
            place = (entry.connector, entry.kind, entry.position)
            known = self.places.get(place)
            if known is not None and known != key and known.number in self.entries:
                other = self.entries[known.number]
                if other.has_who or not entry.has_who:
                    self.superseded.add(key)
                    return
                self.superseded.add(known)
                self._drop(other)
            self.places[place] = key
        if key.number not in self.entries:
            insort(self.numbers[entry.connector], key.number)
        self.entries[key.number] = entry

    def _drop(self, entry: _Entry) -> None:
        del self.entries[entry.key.number]
        self.numbers[entry.connector].remove(entry.key.number)
        if not self.numbers[entry.connector]:
            del self.numbers[entry.connector]
        if entry.position is not None:
            place = (entry.connector, entry.kind, entry.position)
            if self.places.get(place) == entry.key:
                del self.places[place]


class HistoryStore:
    """Any thread; ``append`` by one at a time. Methods that block raise ConnectError."""

    def __init__(self, source: LogSource, changes_max: int, age_max_ms: int, now_ms: Callable[[], int]) -> None:
        self._lock = threading.Lock()
        self._fold = _Fold()
        self._log = LazyLog("the history of changes", source, self._on_records, self._on_new)
        self._changes_max = changes_max
        self._age_max_ms = age_max_ms
        self._now_ms = now_ms

    @property
    def problem(self) -> str:
        """Return why changes may be missing; empty: nothing is wrong."""
        with self._lock:
            damaged, damage = self._fold.damaged, self._fold.damage
        unread = f"{damaged} records of the history cannot be read: {damage}" if damaged else ""
        return "; ".join(filter(None, (self._log.problem, unread)))

    def refresh(self, timeout_ms: int) -> bool:
        """Read to the end; return whether there is a history at all. Raises ConnectError."""
        return self._log.refresh(timeout_ms)

    def append(self, drafts: Sequence[Draft]) -> list[int]:
        """Record changes, forget what is too much of their connectors; return the numbers. Raises ConnectError.

        All of them in one write: of thousands of connectors created in a row, each costs its record only.
        """
        numbers = self._append(drafts)
        with self._lock:
            fold = self._fold
            crowded = self._beyond(
                connector for connector in {draft.change.connector for draft in drafts} if connector in fold.numbers
            )
            keys = [*fold.superseded, *crowded]
            is_full = len(fold.entries) > TOTAL_MAX
        if is_full:
            self.forget_excess()
        else:
            self._forget(keys)
        return numbers

    def forget_excess(self) -> int:
        """Forget what is too old or too much, and what does not count; return how many. Raises ConnectError."""
        with self._lock:
            keys = [*self._fold.superseded, *self._excess()]
        self._forget(keys)
        return len(keys)

    def changes(self, query: ChangeQuery) -> list[Change]:
        """Return what fits of what was read, the newest first."""
        with self._lock:
            fold = self._fold
            numbers = sorted(fold.entries) if query.connector is None else list(fold.numbers.get(query.connector, ()))
            found: list[_Entry] = []
            for number in reversed(numbers):
                entry = fold.entries[number]
                if (query.before is not None and number >= query.before) or self._is_old(entry):
                    continue
                if query.kinds and entry.kind not in query.kinds:
                    continue
                found.append(entry)
                if len(found) >= query.limit:
                    break
        return [_change(entry) for entry in found]

    def change(self, number: int) -> Change | None:
        """Return one change as far as was read."""
        with self._lock:
            entry = self._fold.entries.get(number)
        return None if entry is None else _change(entry)

    def last(self, connector: str, kind: str) -> tuple[Change, int | None] | None:
        """Return the newest change of a kind, and its position."""
        with self._lock:
            fold = self._fold
            entries = (fold.entries[number] for number in reversed(fold.numbers.get(connector, ())))
            entry = next((candidate for candidate in entries if candidate.kind == kind), None)
        return None if entry is None else (_change(entry), entry.position)

    def is_recorded(self, connector: str, kind: str, position: int) -> bool:
        """Return whether a change of the config topic is among those read."""
        with self._lock:
            return (connector, kind, position) in self._fold.places

    def at(self, connector: str, kind: str, position: int) -> Change | None:
        """Return the change that a record of the config topic made."""
        with self._lock:
            key = self._fold.places.get((connector, kind, position))
            entry = None if key is None else self._fold.entries.get(key.number)
        return None if entry is None else _change(entry)

    def first_position(self) -> int | None:
        """Return the lowest position of all changes: earlier records were made before there was a history."""
        with self._lock:
            return min((position for _, _, position in self._fold.places), default=None)

    def close(self) -> None:
        """Close the topic and its clients."""
        self._log.close()

    def _forget(self, keys: Sequence[ChangeKey]) -> None:
        if keys:
            self._log.append([(change_key(key), None) for key in keys])

    def _append(self, drafts: Sequence[Draft]) -> list[int]:
        numbers: dict[int, int] = {}  # by place in ``drafts``
        left = dict(enumerate(drafts))
        tries = 0
        while left:
            if tries == TRIES_MAX:
                change = next(iter(left.values())).change
                raise DataError(f"no number for a change of {change.connector} after {TRIES_MAX} attempts")
            tries += 1
            self._log.refresh(REFRESH_LIMIT_MS)
            with self._lock:
                first = self._fold.highest + 1
            keys = {place: ChangeKey(first + n, uuid.uuid4().hex[:12]) for n, place in enumerate(left)}
            self._log.append([(change_key(keys[place]), _fitted(draft)) for place, draft in left.items()])
            with self._lock:
                counted = [place for place, draft in left.items() if self._counts(keys[place], draft)]
            for place in counted:
                numbers[place] = keys[place].number
                del left[place]
        return [numbers[place] for place in range(len(drafts))]

    def _counts(self, key: ChangeKey, draft: Draft) -> bool:
        """Return whether no other worker took the number before."""
        entry = self._fold.entries.get(key.number)
        return entry is None or entry.key == key or (draft.position is not None and self._is_known(draft))

    def _is_known(self, draft: Draft) -> bool:
        return (draft.change.connector, draft.change.kind, draft.position) in self._fold.places

    def _excess(self) -> list[ChangeKey]:
        fold = self._fold
        keys = self._beyond(fold.numbers)
        if len(fold.entries) - len(keys) > TOTAL_MAX:
            keys += [fold.entries[number].key for number in sorted(fold.entries)[: len(fold.entries) - TOTAL_MAX]]
        return keys

    def _beyond(self, connectors: Iterable[str]) -> list[ChangeKey]:
        """Return what is too old or too much of each of these connectors."""
        fold, keys = self._fold, []
        for numbers in (fold.numbers[connector] for connector in connectors):
            beyond = numbers[: max(0, len(numbers) - self._changes_max)]
            old = [number for number in numbers[len(beyond) :] if self._is_old(fold.entries[number])]
            keys += [fold.entries[number].key for number in [*beyond, *old]]
        return keys

    def _is_old(self, entry: _Entry) -> bool:
        return entry.at_ms < self._now_ms() - self._age_max_ms

    def _on_new(self) -> None:
        with self._lock:
            self._fold = _Fold()

    def _on_records(self, records: Sequence[LogRecord]) -> None:
        with self._lock:
            for record in records:
                try:
                    self._fold.apply(record)
                except Exception as error:  # noqa: BLE001 - one bad record must not block the others
                    self._fold.damaged += 1
                    self._fold.damage = self._fold.damage or f"offset {record.offset}: {error}"
                    log.warning("history offset=%d ignored: %s", record.offset, error)


def _entry(key: ChangeKey, value: bytes) -> _Entry:
    fields = decode_map(value)
    change = _made(key.number, fields)
    position = fields.get("position")
    return _Entry(
        key,
        change.connector,
        change.kind,
        change.at_ms,
        position if isinstance(position, int) else None,
        change.who is not None,
        value,
    )


def _change(entry: _Entry) -> Change:
    return _made(entry.key.number, decode_map(entry.value))


def _made(number: int, fields: Mapping[str, Any]) -> Change:
    """Raises DataError: the record was not written by this product, or is damaged."""
    try:
        return Change(
            number,
            int(fields["at_ms"]),
            str(fields["connector"]),
            str(fields["kind"]),
            str(fields["action"]),
            fields.get("who"),
            fields.get("worker_id"),
            _map_or_none(fields.get("before")),
            _map_or_none(fields.get("after")),
            str(fields.get("note") or ""),
            fields.get("state"),
            tuple(fields.get("changed_unseen") or ()),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"change {number} has a missing or invalid field: {error}") from error


def _map_or_none(value: Any) -> Mapping[str, Any] | None:
    if value is not None and not isinstance(value, dict):
        raise TypeError("before and after must be objects")
    return value


def _fitted(draft: Draft) -> bytes:
    """Return the record's value. A part that is too large for a broker is left out, and the note reports it."""
    value = _encoded(draft)
    for left_out in ("before", "after"):
        if len(value) <= RECORD_MAX_BYTES:
            break
        note = "; ".join(
            filter(None, (draft.change.note, f"{left_out} is left out, because it is too large for one record"))
        )
        lighter = replace(draft.change, note=note[:500], before=None)
        draft = replace(draft, change=lighter if left_out == "before" else replace(lighter, after=None))
        value = _encoded(draft)
    return value


def _encoded(draft: Draft) -> bytes:
    change = draft.change
    return encode_map(
        {
            "at_ms": change.at_ms,
            "connector": change.connector,
            "kind": change.kind,
            "action": change.action,
            "who": change.who,
            "worker_id": change.worker_id,
            "before": change.before,
            "after": change.after,
            "note": change.note,
            "state": change.state,
            "changed_unseen": list(change.changed_unseen),
            "position": draft.position,
        }
    )
