"""What is remembered of replays: their records on the topic of replays, and what follows from them. Pure.

Owns: the form of the records, a replay's state, which replay of a queue comes first, who may carry it out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from spark_connect_rt.operations.dead_letters.marks import MARKS, Marks

DEFINED, PROGRESS, WISH = "replay", "progress", "wish"
RUNNING, DONE, STOPPED, FAILED = "running", "done", "stopped", "failed"
ENDED = (DONE, FAILED)
SINK = "sink"
FAILURES_KEPT = 20
REMEMBERED = 100  # ended replays


@dataclass(frozen=True, slots=True)
class Replay:
    """What was asked for."""

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
class Progress:
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

    def failing(self, partition: int, offset: int, why: str) -> Progress:
        """Return it with one more letter that failed."""
        kept = (*self.failures, (partition, offset, why[:2_000]))[:FAILURES_KEPT]
        return replace(self, failed=self.failed + 1, failures=kept)


@dataclass(frozen=True, slots=True)
class Standing:
    """One replay with all that is known of it."""

    replay: Replay
    progress: Progress
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


def definition_record(replay: Replay) -> tuple[bytes, bytes]:
    """Return the record of what was asked for."""
    return _key(DEFINED, replay.id), json.dumps(asdict(replay)).encode()


def progress_record(replay_id: str, progress: Progress) -> tuple[bytes, bytes]:
    """Return the record of how far it is."""
    return _key(PROGRESS, replay_id), json.dumps(asdict(progress)).encode()


def wish_record(entry: Standing, *, stopped: bool) -> tuple[bytes, bytes]:
    """Return the record of a request to stop or go on, also after the failure that is seen now."""
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
        self.marks = Marks()
        self.refused = 0  # records that are none of ours
        self._defined: dict[str, Replay] = {}
        self._progress: dict[str, Progress] = {}
        self._wishes: dict[str, tuple[bool, int]] = {}  # stopped, forgiven_ms
        self._changes: dict[str, int] = {}

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Take one record. What is none of ours is counted and left out: the topic may be damaged."""
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

    def standing(self, replay_id: str) -> Standing | None:
        """Return one replay, None: there is none of that id."""
        replay = self._defined.get(replay_id)
        if replay is None:
            return None
        progress = self._progress.get(replay_id, Progress())
        stopped, forgiven_ms = self._wishes.get(replay_id, (False, -1))
        return Standing(replay, progress, stopped, self._changes[replay_id], forgiven_ms)

    def all(self) -> list[Standing]:
        """Return every replay, oldest first."""
        found = [entry for replay_id in self._defined if (entry := self.standing(replay_id)) is not None]
        return sorted(found, key=lambda entry: (entry.replay.created_ms, entry.replay.id))

    def due(self) -> list[Standing]:
        """Return the replays that are to be carried out now: of each queue the oldest that is neither over nor stopped.

        One after another: so a letter that two of them want is delivered by the first alone.
        """
        first: dict[str, Standing] = {}
        for entry in self.all():
            if entry.state == RUNNING:
                first.setdefault(entry.replay.topic, entry)
        return list(first.values())

    def forgettable(self) -> list[str]:
        """Return the ids of ended replays beyond those that are remembered, oldest first."""
        ended = [entry.replay.id for entry in self.all() if entry.state in ENDED]
        return ended[: max(0, len(ended) - REMEMBERED)]


def may_take(entry: Standing, worker: str, silent_s: float, lease_s: float) -> bool:
    """Return whether a worker may carry out a replay now: it is its own, nobody's, or its worker is silent.

    That two do at once is no harm: the transactional id of the queue lets only the last of them write.
    """
    return entry.worker in ("", worker) or silent_s >= lease_s


def _replay(data: dict[str, Any]) -> Replay:
    letters = data["letters"]
    pairs = None if letters is None else tuple((int(partition), int(offset)) for partition, offset in letters)
    return Replay(**{**data, "letters": pairs})


def _wish(data: dict[str, Any]) -> tuple[bool, int]:
    return bool(data["stopped"]), int(data["forgiven_ms"])


def _progress(data: dict[str, Any]) -> Progress:
    places = {name: {int(number): int(at) for number, at in data[name].items()} for name in ("positions", "ends")}
    failures = tuple((int(number), int(offset), str(why)) for number, offset, why in data["failures"])
    return Progress(**{**data, **places, "failures": failures})
