"""The tabs History and Offsets: changes with what they changed, moves of offsets, the course. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from spark_connect_rt.console.values import mapping, objects, text, texts, whole
from spark_connect_rt.operations.dead_letters.page import differences

HOUR_MS = 3_600_000
KINDS = ("config", "state", "offsets", "logger")


@dataclass(frozen=True, slots=True)
class BeforeAndAfter:
    """A setting (or state, or partition) before and after; empty: there was none."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ChangeView:
    """One change of the history."""

    number: int
    at_ms: int
    connector: str
    kind: str
    action: str
    who: str
    worker_id: str
    note: str
    differences: tuple[BeforeAndAfter, ...]
    changed_unseen: tuple[str, ...] = ()  # hidden settings that have another value since

    @property
    def can_roll_back(self) -> bool:
        """Whether the configuration can be made what it was after it."""
        return self.kind == "config" and self.action != "delete"

    @property
    def can_undo(self) -> bool:
        """Whether it is a change of offsets, which may be taken back."""
        return self.kind == "offsets"


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Changes, newest first; ``before``: the number that the next page is asked with, None at the end."""

    changes: tuple[ChangeView, ...]
    problem: str
    before: int | None

    @property
    def compared(self) -> tuple[int | None, int | None]:
        """Which two configurations are compared first: the newest with the one before it."""
        numbers = [change.number for change in self.changes if change.kind == "config"]
        return (numbers[1] if len(numbers) > 1 else None), (numbers[0] if numbers else None)


def history_page(answer: Mapping[str, Any], limit: int) -> HistoryPage:
    """Return what ``GET /admin/history`` says to a question for ``limit`` changes."""
    changes = tuple(change_of(item) for item in objects(answer.get("changes")))
    more = changes[-1].number if changes and len(changes) >= limit else None
    return HistoryPage(changes, text(answer.get("problem")), more)


def change_of(change: Mapping[str, Any]) -> ChangeView:
    """Return one change with what it changed."""
    kind = text(change.get("kind"))
    before, after = change.get("before"), change.get("after")
    if kind == "offsets":
        found = _offset_differences(mapping(before), mapping(after))
    else:
        found = tuple(BeforeAndAfter(path[1:].replace("~1", "/").replace("~0", "~"), old, new)
                      for path, old, new in differences(dict(mapping(before)), dict(mapping(after))))  # fmt: skip
    return ChangeView(
        number=whole(change.get("number")) or 0,
        at_ms=whole(change.get("at_ms")) or 0,
        connector=text(change.get("connector")),
        kind=kind,
        action=text(change.get("action")),
        who=text(change.get("who")),
        worker_id=text(change.get("worker_id")),
        note=text(change.get("note")),
        differences=found,
        changed_unseen=texts(change.get("changed_unseen")),
    )


def _offset_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[BeforeAndAfter, ...]:
    old = {text(item.get("partition")): text(item.get("offset")) for item in objects(before.get("offsets"))}
    new = {text(item.get("partition")): text(item.get("offset")) for item in objects(after.get("offsets"))}
    places = dict.fromkeys((*old, *new))
    return tuple(
        BeforeAndAfter(place, old.get(place, ""), new.get(place, ""))
        for place in places
        if old.get(place, "") != new.get(place, "")
    )


def diff_lines(answer: Mapping[str, Any], field: str = "changes") -> tuple[BeforeAndAfter, ...]:
    """Return the settings of ``.../diff`` (``changes``) or of a rollback's answer (``diff``)."""
    return tuple(
        BeforeAndAfter(text(item.get("setting")), text(item.get("before")), text(item.get("after")))
        for item in objects(answer.get(field))
    )


@dataclass(frozen=True, slots=True)
class Move:
    """Where a partition's offset goes; empty: none."""

    partition: str
    before: str
    after: str

    @property
    def moves(self) -> bool:
        """Whether it changes at all."""
        return self.before != self.after


def moves(answer: Mapping[str, Any]) -> tuple[Move, ...]:
    """Return the offsets of an undo's or a goto's answer."""
    return tuple(
        Move(text(item.get("partition")), text(item.get("from")), text(item.get("to")))
        for item in objects(answer.get("offsets"))
    )


@dataclass(frozen=True, slots=True)
class OffsetPoint:
    """The committed offsets at a time: (partition, offset)."""

    at_ms: int
    offsets: tuple[tuple[str, str], ...]


def course(answer: Mapping[str, Any], most: int = 200) -> tuple[OffsetPoint, ...]:
    """Return points of ``.../offsets/course``, newest first; of many, ``most`` evenly spread and the newest."""
    points = [
        OffsetPoint(
            whole(item.get("at_ms")) or 0,
            tuple((text(it.get("partition")), text(it.get("offset"))) for it in objects(item.get("offsets"))),
        )
        for item in objects(answer.get("points"))
    ]
    points.sort(key=lambda point: -point.at_ms)
    step = max(1, -(-len(points) // most))
    return tuple(points[::step])


def suggested_ms(now_ms: int, answer: Mapping[str, Any]) -> int:
    """Return the time that a form suggests to go back to: an hour ago, later where the history begins later."""
    first_ms = min((whole(point.get("at_ms")) or now_ms for point in objects(answer.get("points"))), default=0)
    return min(max(now_ms - HOUR_MS, -(-first_ms // 1000) * 1000), now_ms)


def time_ms(written: str) -> int | None:
    """Return a time that a form sends, ms since 1970: ``2026-11-21T10:00`` in UTC, or with its own offset."""
    try:
        found = datetime.fromisoformat(written.strip())
    except ValueError:
        return None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    try:
        return int(found.timestamp() * 1000)
    except (OverflowError, OSError):
        return None
