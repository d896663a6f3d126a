"""Whether two copies of the orders are equal, and how late the second is. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spark_connect_rt.app.quickstart.cdc.lake import Row
from spark_connect_rt.app.quickstart.cdc.order_changes import COLUMNS

_CHANGE = COLUMNS.index("change")


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that is not the same in both: its key, the row of PostgreSQL and that of the table. None: it has none."""

    key: int
    source: Row | None
    table: Row | None


def differences(source: Sequence[Row], table: Sequence[Row]) -> list[Difference]:
    """Return the rows that are missing, superfluous or different in the table. A key that is there twice is wrong."""
    wanted = {int(row[0]): row for row in source}
    found: dict[int, list[Row]] = {}
    for row in table:
        found.setdefault(int(row[0]), []).append(row)
    wrong = []
    for key in sorted(wanted.keys() | found.keys()):
        rows = found.get(key, [])
        if rows != [wanted.get(key)]:
            surplus = [row for row in rows if row != wanted.get(key)] or rows[1:]
            wrong.append(Difference(key, wanted.get(key), surplus[0] if surplus else None))
    return wrong


def last_change(rows: Sequence[Row]) -> int:
    """Return the number of the last transaction that reached these rows. 0: only the first rows did."""
    return max((int(row[_CHANGE]) for row in rows), default=0)


def newest(rows: Sequence[Row], count: int) -> list[Row]:
    """Return the rows that were written last, the newest first."""
    return sorted(rows, key=lambda row: (row[_CHANGE], row[0]), reverse=True)[:count]


@dataclass(slots=True)
class Freshness:
    """How long each transaction took from its commit until its rows were visible in the table, in seconds."""

    late_s: list[float] = field(default_factory=list)
    _seen: int = 0

    def see(self, change: int, visible_s: float, committed_s: Mapping[int, float]) -> None:
        """Note that the table showed the transactions up to `change` at `visible_s`.

        Args:
            change: number of the last visible transaction.
            visible_s: when the state of the table was read, after which its rows were visible.
            committed_s: number -> when PostgreSQL had committed it, of the same clock.
        """
        for number in range(self._seen + 1, change + 1):
            if number in committed_s:
                self.late_s.append(visible_s - committed_s[number])
        self._seen = max(self._seen, change)

    def quantile_s(self, part: float) -> float:
        """Return the nearest-rank quantile, for example 0.99. 0 if no transaction was seen."""
        ordered = sorted(self.late_s)
        return ordered[math.ceil(part * len(ordered)) - 1] if ordered else 0.0


def behind_s(now_s: float, change: int, committed_s: Mapping[int, float]) -> float:
    """Return how late the table is: the age of the oldest committed transaction that it does not show, in seconds."""
    waiting = [time_s for number, time_s in committed_s.items() if number > change]
    return now_s - min(waiting) if waiting else 0.0
