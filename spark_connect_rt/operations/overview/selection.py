"""Which rows of the overview a page shows, and in which order. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from spark_connect_rt.base.traces import LINE
from spark_connect_rt.errors import BadRequestError
from spark_connect_rt.topics.aggregate_state import aggregate_rank

SORTS = ("abnormal", "name", "rate", "lag")
LIMIT, LIMIT_MOST = 100, 2_000
_TASKS_TOO = frozenset({"FAILED", "UNASSIGNED"})  # one task in it is what is looked for


class Selectable(Protocol):
    """The fields of a row that filters and orders use."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def class_name(self) -> str: ...
    @property
    def aggregate(self) -> str: ...
    @property
    def tasks(self) -> Mapping[str, int]: ...
    @property
    def records_per_second(self) -> float | None: ...
    @property
    def lag(self) -> int | None: ...
    @property
    def abnormal(self) -> bool: ...


Row = TypeVar("Row", bound=Selectable)


@dataclass(frozen=True, slots=True)
class OverviewQuery:
    """A page of the overview; empty filters let everything pass."""

    search: str = ""
    states: frozenset[str] = frozenset()
    type: str = ""
    abnormal: bool = False
    sort: str = "abnormal"
    offset: int = 0
    limit: int = LIMIT

    @staticmethod
    def of(query: Mapping[str, str]) -> OverviewQuery:
        """Return what a query asks for. Raises BadRequestError naming the parameter."""
        sort, type_ = query.get("sort", "") or "abnormal", query.get("type", "")
        if sort not in SORTS:
            raise BadRequestError(f"sort: must be one of {', '.join(SORTS)}, not {sort[:40]!r}")
        if type_ not in ("", "source", "sink", "unknown"):
            raise BadRequestError(f"type: must be source or sink, not {type_[:40]!r}")
        states = (part.strip().upper() for part in query.get("state", "").split(","))
        return OverviewQuery(
            query.get("search", "").strip().lower(),
            frozenset(filter(None, states)),
            type_,
            query.get("abnormal", "").lower() == "true",
            sort,
            _number(query, "offset", 0, 0, 2**31),
            _number(query, "limit", LIMIT, 1, LIMIT_MOST),
        )

    def takes(self, row: Selectable) -> bool:
        """Return whether a row passes the filters; a state is the aggregate, FAILED and UNASSIGNED of one task, too."""
        if self.abnormal and not row.abnormal:
            return False
        if self.type and row.type != self.type:
            return False
        if self.states and row.aggregate not in self.states and not row.tasks.keys() & self.states & _TASKS_TOO:
            return False
        return not self.search or self.search in row.name.lower() or self.search in row.class_name.lower()


def _number(query: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20) or int(text) < least:
        raise BadRequestError(f"{name}: must be a number from {least} on, not {text[:40]!r}")
    return min(int(text), most)


def selected(rows: Collection[Row], wanted: OverviewQuery) -> tuple[Sequence[Row], int]:
    """Return the rows of the page in their order, and how many pass the filters."""
    found = [row for row in rows if wanted.takes(row)]
    found.sort(key=_ORDERS[wanted.sort])
    return found[wanted.offset : wanted.offset + wanted.limit], len(found)


def counted(rows: Collection[Selectable]) -> dict[str, int]:
    """Return how many connectors are in which aggregate state, and how many are ``abnormal``."""
    counts = Counter(row.aggregate for row in rows)
    return {**dict(sorted(counts.items())), "abnormal": sum(row.abnormal for row in rows)}


_ORDERS: dict[str, Any] = {
    "abnormal": lambda row: (not row.abnormal, aggregate_rank(row.aggregate), row.name),
    "name": lambda row: row.name,
    "rate": lambda row: (-(row.records_per_second if row.records_per_second is not None else -1), row.name),
    "lag": lambda row: (-(row.lag if row.lag is not None else -1), row.name),
}


# Abnormal facts about a connector, in one line for those who are woken by it. Pure.
#
# Owns the order: the most urgent fact comes first.


LONG_MS = 60_000  # UNASSIGNED or RESTARTING: for a rebalance it is normal
_PASSING = ("UNASSIGNED", "RESTARTING")


@dataclass(frozen=True, slots=True)
class InstanceFacts:
    """Known facts about a connector (``task`` None) or one of its tasks."""

    task: int | None
    state: str
    worker_id: str = ""
    error: str = ""  # one line
    since_ms: int = 0  # since 1970: when the state was written, or first seen; 0: unknown
    next_attempt_ms: int | None = None  # it is restarted by itself then
    given_up: str = ""  # why it is not restarted by itself any more
    stalled: str = ""  # why it moves nothing

    @property
    def is_quiet(self) -> bool:
        """Return whether time alone makes nothing abnormal of it, as long as its worker is there."""
        return not (self.state == "FAILED" or self.state in _PASSING or self.stalled or self.cannot_make_tasks)

    @property
    def cannot_make_tasks(self) -> bool:
        """Return whether it is a connector that runs and has no configurations for its tasks because of an error."""
        return self.task is None and self.state == "RUNNING" and bool(self.error)


def why_abnormal(
    instances: Sequence[InstanceFacts],
    now_ms: int,
    *,
    members: frozenset[str] | None = None,
    lag: int | None = None,
    lag_grows: bool = False,
) -> str:
    """Return why a connector needs attention, in one line; empty: it is normal.

    Args:
        instances: the connector and its tasks.
        now_ms: since 1970.
        members: ids of the group's workers, and of those that left it just now; None or empty: not known.
        lag: records it is behind.
        lag_grows: over all of the last ten minutes.
    """
    tasks = sum(instance.task is not None for instance in instances)
    failed = [instance for instance in instances if instance.state == "FAILED"]
    passing = [instance for instance in instances if instance.state in _PASSING and _long(instance, now_ms)]
    gone = [instance for instance in instances if _is_gone(instance, members)]
    stalled = [instance for instance in instances if instance.stalled]
    taskless = next((instance.error for instance in instances if instance.cannot_make_tasks), "")
    said = [
        _failed(failed, tasks),
        f"cannot make its tasks, and tries again: {taskless}" if taskless else "",
        f"{_names(gone, tasks)}: worker {gone[0].worker_id} has left the group" if gone else "",
        f"{_names(passing, tasks)} {passing[0].state} for {_time(now_ms - passing[0].since_ms)}" if passing else "",
        f"{_names(stalled, tasks)} moves nothing: {stalled[0].stalled}" if stalled else "",
        f"its lag has grown for ten minutes, to {lag} records" if lag_grows else "",
    ]
    line = "; ".join(filter(None, said))
    return line if len(line) <= 2 * LINE else f"{line[: 2 * LINE - 1]}…"


def _failed(failed: Sequence[InstanceFacts], tasks: int) -> str:
    if not failed:
        return ""
    first = failed[0]
    given_up = next((instance.given_up for instance in failed if instance.given_up), "")
    words = f"{_names(failed, tasks)} FAILED" + (f": {first.error}" if first.error else "")
    if given_up:
        return f"{words} (no further restart: {given_up})"
    return f"{words} (restarts automatically)" if first.next_attempt_ms is not None else words


def _names(instances: Sequence[InstanceFacts], tasks: int) -> str:
    """Return who it is about: the connector, task 3, or 2 of 5 tasks."""
    of_tasks = [instance for instance in instances if instance.task is not None]
    if len(of_tasks) < len(instances):
        return "the connector" + (f" and {len(of_tasks)} of {tasks} tasks" if of_tasks else "")
    return f"task {of_tasks[0].task}" if len(of_tasks) == 1 else f"{len(of_tasks)} of {tasks} tasks"


def _long(instance: InstanceFacts, now_ms: int) -> bool:
    return instance.since_ms > 0 and now_ms - instance.since_ms >= LONG_MS


def _is_gone(instance: InstanceFacts, members: frozenset[str] | None) -> bool:
    return (
        bool(members)
        and bool(instance.worker_id)
        and instance.state not in _PASSING
        and instance.worker_id not in (members or ())
    )


def _time(passed_ms: int) -> str:
    seconds = passed_ms // 1000
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7_200 else f"{seconds // 3600} h"


def any_loud(instances: Iterable[InstanceFacts]) -> bool:
    """Return whether the verdict may change by time alone."""
    return not all(instance.is_quiet for instance in instances)
