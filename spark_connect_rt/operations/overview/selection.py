"""Which rows of the overview a page shows, and in which order. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from spark_connect_rt.errors import BadRequestError
from spark_connect_rt.topics.aggregate_state import aggregate_rank

SORTS = ("abnormal", "name", "rate", "lag")
LIMIT, LIMIT_MOST = 100, 2_000
_TASKS_TOO = frozenset({"FAILED", "UNASSIGNED"})  # one task in it is what is looked for


class Selectable(Protocol):
    """What is asked of a row."""

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
class Wanted:
    """A page of the overview; empty filters let everything pass."""

    search: str = ""
    states: frozenset[str] = frozenset()
    type: str = ""
    abnormal: bool = False
    sort: str = "abnormal"
    offset: int = 0
    limit: int = LIMIT

    @staticmethod
    def of(query: Mapping[str, str]) -> Wanted:
        """Return what a query asks for. Raises BadRequestError naming the parameter."""
        sort, type_ = query.get("sort", "") or "abnormal", query.get("type", "")
        if sort not in SORTS:
            raise BadRequestError(f"sort: must be one of {', '.join(SORTS)}, not {sort[:40]!r}")
        if type_ not in ("", "source", "sink", "unknown"):
            raise BadRequestError(f"type: must be source or sink, not {type_[:40]!r}")
        states = (part.strip().upper() for part in query.get("state", "").split(","))
        return Wanted(
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


def selected(rows: Collection[Row], wanted: Wanted) -> tuple[Sequence[Row], int]:
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
