"""The memory of replays: their records on the topic of replays, and the state that follows from them. Pure.

Owns: the form of the records, a replay's state, which replay of a queue comes first, who may carry it out.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from spark_connect_rt.errors import BadRequestError, ConnectError, TimedOutError
from spark_connect_rt.topics.compacted_log import CompactedLog, LogRecord, LogSource

# Which letters were replayed: marks in another topic, because records of the queue are never rewritten. Pure.
#
# Owns: the records of marks. One record says which offsets of a thousand one replay delivered; only that replay writes
# it, in the transaction of the letters, so that replays never overwrite each other's marks. A topic is meant by its id:
# marks of a deleted topic do not apply to the next topic of that name.


CHUNK = 1_000  # offsets
MARKS = "marks"
Ranges = list[tuple[int, int]]
"""First offset, and the one behind the last; in order, apart from each other."""


class OffsetChunk(NamedTuple):
    """A thousand offsets of a partition."""

    topic_id: str
    partition: int
    chunk: int


class ReplayMark(NamedTuple):
    """By which replay a letter was delivered, and when, ms."""

    replay: str
    at_ms: int


def mark_key(place: OffsetChunk, replay: str) -> bytes:
    """Return the key of a record of marks."""
    return json.dumps([MARKS, *place, replay], separators=(",", ":")).encode()


def mark_value(at_ms: int, ranges: Ranges) -> bytes:
    """Return the value of a record of marks."""
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


class ReplayedOffsets:
    """Every mark that was read. One thread at a time."""

    def __init__(self) -> None:
        self._found: dict[OffsetChunk, dict[str, tuple[int, Ranges]]] = {}

    def take(self, key: list[Any], value: bytes | None) -> None:
        """Take one record; ``key`` is its key, parsed. Raises ValueError, TypeError, KeyError: it is invalid."""
        _, topic_id, partition, chunk, replay = key
        place = OffsetChunk(str(topic_id), int(partition), int(chunk))
        known = self._found.setdefault(place, {})
        if value is None:
            known.pop(replay, None)
            if not known:
                del self._found[place]
            return
        data = json.loads(value)
        known[str(replay)] = (int(data["at_ms"]), [(int(first), int(end)) for first, end in data["ranges"]])

    def of(self, topic_id: str, partition: int, offset: int) -> ReplayMark | None:
        """Return the mark of a letter, the latest of several; None: it was not replayed."""
        known = self._found.get(OffsetChunk(topic_id, partition, offset // CHUNK))
        marks = [
            ReplayMark(replay, at_ms) for replay, (at_ms, ranges) in (known or {}).items() if _holds(ranges, offset)
        ]
        return max(marks, key=lambda mark: mark.at_ms, default=None)

    def ranges(self, place: OffsetChunk, replay: str) -> Ranges:
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


class NewReplayedOffsets:
    """The marks that one replay makes. One thread."""

    def __init__(self, topic_id: str, replay: str, known: ReplayedOffsets) -> None:
        """``known``: earlier marks of this replay, which its records continue."""
        self._topic_id = topic_id
        self._replay = replay
        self._known = known
        self._made: dict[OffsetChunk, Ranges] = {}  # committed marks; ``known`` may not have them yet

    def records(self, offsets: list[tuple[int, int]], at_ms: int) -> list[tuple[bytes, bytes]]:
        """Return the records that add letters (partition, offset) to what was marked."""
        return [
            (mark_key(place, self._replay), mark_value(at_ms, ranges)) for place, ranges in self._with(offsets).items()
        ]

    def keep(self, offsets: list[tuple[int, int]]) -> None:
        """Remember that the records of these letters were committed."""
        self._made.update(self._with(offsets))

    def _with(self, offsets: list[tuple[int, int]]) -> dict[OffsetChunk, Ranges]:
        changed: dict[OffsetChunk, Ranges] = {}
        for partition, offset in offsets:
            place = OffsetChunk(self._topic_id, partition, offset // CHUNK)
            before = changed[place] if place in changed else self._before(place)
            changed[place] = with_offset(before, offset)
        return changed

    def _before(self, place: OffsetChunk) -> Ranges:
        made = self._made.get(place)
        return made if made is not None else joined(self._known.ranges(place, self._replay))


DEFINED, PROGRESS, WISH = "replay", "progress", "wish"
RUNNING, DONE, STOPPED, FAILED = "running", "done", "stopped", "failed"
ENDED = (DONE, FAILED)
SINK = "sink"
FAILURES_KEPT = 20
REMEMBERED = 100  # ended replays


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """The request that started a replay."""

    id: str
    connector: str | None
    topic: str
    target: str
    filter: Mapping[str, Any]
    letters: tuple[tuple[int, int], ...] | None
    edit: Mapping[str, Any]
    rate: float | None
    again: bool
    who: str
    worker: str  # that took the request
    created_ms: int

    @property
    def is_exact(self) -> bool:
        """Whether each letter is delivered once, whatever dies."""
        return self.target != SINK

    @property
    def numbers(self) -> set[int] | None:
        """Return the partitions that hold wanted letters, None: any."""
        if self.letters is not None:
            return {partition for partition, _ in self.letters}
        return None


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    """How far a replay is. The transaction that delivers letters writes it."""

    worker: str = ""  # that carries it out; empty: none
    state: str = RUNNING
    topic_id: str = ""
    positions: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    matched: int = 0
    done: int = 0
    failed: int = 0
    failures: tuple[tuple[int, int, str], ...] = ()
    error: str | None = None
    at_ms: int = 0
    side: Mapping[str, Any] = field(default_factory=dict)  # of target sink: how far its own topics are

    def failing(self, partition: int, offset: int, why: str) -> ReplayProgress:
        """Return it with one more letter that failed."""
        kept = (*self.failures, (partition, offset, why[:2_000]))[:FAILURES_KEPT]
        return replace(self, failed=self.failed + 1, failures=kept)


@dataclass(frozen=True, slots=True)
class ReplayStatus:
    """One replay with all that is known of it."""

    replay: ReplayRequest
    progress: ReplayProgress
    is_stopped: bool  # by a request
    changes: int  # grows with each record
    forgiven_ms: int = -1  # the failure of that time is to be tried again

    @property
    def state(self) -> str:
        """Return running, done, stopped or failed."""
        if self.progress.state == DONE:
            return DONE
        if self.is_stopped:
            return STOPPED
        is_forgiven = self.progress.state == FAILED and self.progress.at_ms == self.forgiven_ms
        return RUNNING if is_forgiven else self.progress.state

    @property
    def worker(self) -> str:
        """Return who carries it out."""
        return self.progress.worker if self.progress.at_ms else self.replay.worker


def definition_record(replay: ReplayRequest) -> tuple[bytes, bytes]:
    """Return the record of what was asked for."""
    return _key(DEFINED, replay.id), json.dumps(asdict(replay)).encode()


def progress_record(replay_id: str, progress: ReplayProgress) -> tuple[bytes, bytes]:
    """Return the record of how far it is."""
    return _key(PROGRESS, replay_id), json.dumps(asdict(progress)).encode()


def wish_record(entry: ReplayStatus, *, stopped: bool) -> tuple[bytes, bytes]:
    """Return the record of a request to stop or resume, also after the failure that is seen now."""
    forgiven_ms = -1 if stopped or entry.progress.state != FAILED else entry.progress.at_ms
    return _key(WISH, entry.replay.id), json.dumps({"stopped": stopped, "forgiven_ms": forgiven_ms}).encode()


def forgetting(replay_ids: Sequence[str]) -> list[tuple[bytes, None]]:
    """Return the records that remove replays; their marks stay."""
    return [(_key(kind, replay_id), None) for replay_id in replay_ids for kind in (DEFINED, PROGRESS, WISH)]


def _key(kind: str, replay_id: str) -> bytes:
    return json.dumps([kind, replay_id], separators=(",", ":")).encode()


class ReplayRecords:
    """Everything that was read from the topic of replays. One thread at a time."""

    def __init__(self) -> None:
        self.marks = ReplayedOffsets()
        self.refused = 0  # records of other programs
        self._defined: dict[str, ReplayRequest] = {}
        self._progress: dict[str, ReplayProgress] = {}
        self._wishes: dict[str, tuple[bool, int]] = {}  # stopped, forgiven_ms
        self._changes: dict[str, int] = {}

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Take one record. A record of another kind is counted and left out, because the topic may be damaged."""
        try:
            parts = json.loads(key or b"")
            if parts[0] == MARKS:
                self.marks.take(parts, value)
            else:
                self._take(parts[0], str(parts[1]), None if value is None else json.loads(value))
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            self.refused += 1

    def _take(self, kind: str, replay_id: str, data: Any) -> None:
        known: Any = {DEFINED: self._defined, PROGRESS: self._progress, WISH: self._wishes}[kind]
        read: Any = {DEFINED: _replay, PROGRESS: _progress, WISH: _wish}[kind]
        if data is None:
            known.pop(replay_id, None)
        else:
            known[replay_id] = read(data)
        self._changes[replay_id] = self._changes.get(replay_id, 0) + 1

    def standing(self, replay_id: str) -> ReplayStatus | None:
        """Return one replay, None: there is none of that id."""
        replay = self._defined.get(replay_id)
        if replay is None:
            return None
        progress = self._progress.get(replay_id, ReplayProgress())
        stopped, forgiven_ms = self._wishes.get(replay_id, (False, -1))
        return ReplayStatus(replay, progress, stopped, self._changes[replay_id], forgiven_ms)

    def all(self) -> list[ReplayStatus]:
        """Return every replay, oldest first."""
        found = [entry for replay_id in self._defined if (entry := self.standing(replay_id)) is not None]
        return sorted(found, key=lambda entry: (entry.replay.created_ms, entry.replay.id))

    def due(self) -> list[ReplayStatus]:
        """Return the replays that are to be carried out now: of each queue the oldest that is neither over nor stopped.

        One after another: so a letter that two of them want is delivered by the first alone.
        """
        first: dict[str, ReplayStatus] = {}
        for entry in self.all():
            if entry.state == RUNNING:
                first.setdefault(entry.replay.topic, entry)
        return list(first.values())

    def forgettable(self) -> list[str]:
        """Return the ids of ended replays beyond those that are remembered, oldest first."""
        ended = [entry.replay.id for entry in self.all() if entry.state in ENDED]
        return ended[: max(0, len(ended) - REMEMBERED)]


def may_take(entry: ReplayStatus, worker: str, silent_s: float, lease_s: float) -> bool:
    """Return whether a worker may carry out a replay now: it is this worker's or free, or its worker is silent.

    Two may do so at once without harm: the transactional id of the queue lets only the last of them write.
    """
    return entry.worker in ("", worker) or silent_s >= lease_s


def _replay(data: dict[str, Any]) -> ReplayRequest:
    letters = data["letters"]
    pairs = None if letters is None else tuple((int(partition), int(offset)) for partition, offset in letters)
    return ReplayRequest(**{**data, "letters": pairs})


def _wish(data: dict[str, Any]) -> tuple[bool, int]:
    return bool(data["stopped"]), int(data["forgiven_ms"])


def _progress(data: dict[str, Any]) -> ReplayProgress:
    places = {name: {int(number): int(at) for number, at in data[name].items()} for name in ("positions", "ends")}
    failures = tuple((int(number), int(offset), str(why)) for number, offset, why in data["failures"])
    return ReplayProgress(**{**data, **places, "failures": failures})


# The topic of replays as one worker follows it.
#
# Owns: opening it when it is there or must be, opening it again when its reader ended, and when each replay was last
# written: a replay whose worker is silent is taken over.


READ_LIMIT_MS, LOOK_LIMIT_MS = 30_000, 3_000
log = logging.getLogger(__name__)
T = TypeVar("T")


class ReplayLog:
    """The replays that the topic remembers. Any thread."""

    def __init__(self, topic: str | None, source: LogSource | None) -> None:
        """``topic`` and where its log comes from; None: this worker has none, nothing can be replayed."""
        self._topic, self._source = topic, source
        self._opening = threading.Lock()
        self._changed = threading.Condition()
        self._records = ReplayRecords()
        self._seen_s: dict[str, tuple[int, float]] = {}  # replay -> records of it, monotonic time of the last
        self._log: CompactedLog | None = None
        self._ended = ""

    @property
    def topic(self) -> str:
        """Return the topic's name. Raises BadRequestError: there is none."""
        if self._topic is None:
            raise BadRequestError(
                "this worker has no topic for the state of replays. Set connectrt.replays.storage.topic in its file"
            )
        return self._topic

    def follow(self) -> bool:
        """Follow the topic if it is there; return whether it is followed. Raises ConnectError."""
        if self._source is None:
            return False
        with self._opening:
            if self._log is not None and not self._ended:
                return True
            if not self._source.exists():
                return False
        self._opened()
        return True

    def append(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Append records, and read them if that is possible now; the topic is made when it is not there.

        Raises ConnectError: they may not be there.
        """
        opened = self._opened()
        opened.append(records)
        opened.flush(READ_LIMIT_MS)
        self.look()

    def catch_up(self, limit_ms: int = READ_LIMIT_MS) -> None:
        """Read what is there by now. Raises ConnectError."""
        if self.follow() and self._log is not None:
            self._log.read_to_end(limit_ms)

    def look(self) -> None:
        """Read what is there by now, or can be soon: a transaction that a dead worker left open ends later."""
        try:
            self.catch_up(LOOK_LIMIT_MS)
        except TimedOutError as error:
            log.warning("replays are shown in their last known state: %s", error)

    def read(self, work: Callable[[ReplayRecords], T]) -> T:
        """Return what ``work`` finds, at once."""
        with self._changed:
            return work(self._records)

    def silent_s(self, replay_id: str, now_s: float) -> float:
        """Return for how long nothing of a replay came, seconds."""
        with self._changed:
            return now_s - self._seen_s.get(replay_id, (0, now_s))[1]

    def wait(self, limit_s: float) -> None:
        """Return when something changed, or after the limit."""
        with self._changed:
            self._changed.wait(limit_s)

    def wake(self) -> None:
        """Have every thread in ``wait`` return."""
        with self._changed:
            self._changed.notify_all()

    def stop(self) -> None:
        """Close the topic's clients, if they are open."""
        with self._opening:
            opened, self._log = self._log, None
        if opened is not None:
            opened.stop()

    def _opened(self) -> CompactedLog:
        if self._source is None:
            raise BadRequestError(self.topic)  # raises by itself
        with self._opening:
            if self._log is not None and self._ended:
                ended, self._log = self._log, None
                ended.stop()
            if self._log is None:
                opened = self._source.open(self._on_end)
                with self._changed:
                    self._records, self._ended = ReplayRecords(), ""
                opened.start(self._on_records)
                self._log = opened
            return self._log

    def _on_records(self, records: Sequence[LogRecord]) -> None:
        now_s = time.monotonic()
        with self._changed:
            for record in records:
                self._records.take(record.key, record.value)
            for standing in self._records.all():
                if self._seen_s.get(standing.replay.id, (0, 0.0))[0] != standing.changes:
                    self._seen_s[standing.replay.id] = (standing.changes, now_s)
            self._changed.notify_all()

    def _on_end(self, why: str) -> None:
        with self._changed:
            self._ended = why
            self._changed.notify_all()


def no_topic(name: str) -> ConnectError:
    """Return the error of a queue that is not there."""
    return BadRequestError(f"topic {name} does not exist, so there are no dead letters to replay")
