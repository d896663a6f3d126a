"""The display of ``quickstart --cdc``: source and table next to each other, a report, and how to query the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from spark_connect_rt.app.quickstart.cdc.lake import COMMIT_MS, LAKE_TABLE, Row
from spark_connect_rt.app.quickstart.cdc.order_changes import COLUMNS
from spark_connect_rt.app.quickstart.cdc.progress import Difference, Freshness, last_change, newest

SHOWN_ROWS = 8
SHOWN_DIFFERENCES = 10
_SHOWN_COLUMNS = tuple(COLUMNS.index(name) for name in ("id", "item", "amount", "status", "change"))


@dataclass(frozen=True, slots=True)
class Sight:
    """Both copies at a moment: the rows of PostgreSQL and of the table, and how late the table is in seconds."""

    source: Sequence[Row]
    table: Sequence[Row]
    late_s: float


def side_by_side(title: str, sight: Sight) -> Table:
    """Return the rows that were written last on both sides. A row that the table does not have yet is yellow."""
    both = Table(caption=line_of(title, sight))
    both.add_column(f"PostgreSQL: orders, {len(sight.source):,} rows")
    both.add_column(f"{title}: {LAKE_TABLE}, {len(sight.table):,} rows")
    there = {row[0]: row for row in sight.table}
    left, right = Table.grid(padding=(0, 2)), Table.grid(padding=(0, 2))
    for row in newest(sight.source, SHOWN_ROWS):
        left.add_row(*_cells(row), style="" if there.get(row[0]) == row else "yellow")
    for row in newest(sight.table, SHOWN_ROWS):
        right.add_row(*_cells(row))
    both.add_row(left, right)
    return both


def _cells(row: Row) -> list[str]:
    return [str(row[at]) for at in _SHOWN_COLUMNS]


def line_of(title: str, sight: Sight) -> str:
    """Return both sides in one line."""
    return (
        f"PostgreSQL: {len(sight.source):,} rows, transaction {last_change(sight.source):,}   "
        f"{title}: {len(sight.table):,} rows, transaction {last_change(sight.table):,}   "
        f"{sight.late_s:.1f} s late"
    )


def report_lines(title: str, sight: Sight, wrong: Sequence[Difference], freshness: Freshness) -> list[str]:
    """Return whether both sides are equal, with the first rows that are not, and how late the table was."""
    lines = [f"rows in PostgreSQL: {len(sight.source):,}   rows in {title}: {len(sight.table):,}"]
    if freshness.late_s:
        lines.append(
            f"from commit to visible row: median {freshness.quantile_s(0.5):.1f} s, "
            f"99 of 100 transactions within {freshness.quantile_s(0.99):.1f} s (commit interval {COMMIT_MS / 1000:g} s)"
        )
    if not wrong:
        return [*lines, f"OK: every row of the source is in {LAKE_TABLE}, with the same values, once"]
    lines.append(f"{len(wrong):,} rows differ:")
    for found in wrong[:SHOWN_DIFFERENCES]:
        lines.append(f"  id {found.key}: PostgreSQL {_shown(found.source)}, {title} {_shown(found.table)}")
    if len(wrong) > SHOWN_DIFFERENCES:
        lines.append(f"  and {len(wrong) - SHOWN_DIFFERENCES:,} more")
    return lines


def _shown(row: Row | None) -> str:
    return "has no such row" if row is None else f"({', '.join(map(str, row))})"


def next_steps(queries: Mapping[str, Path], python: str, psql: str, command: str, url: str, again: str) -> list[str]:
    """Return the closing lines.

    Args:
        queries: reader -> program that queries the table.
        python: how Python is called here.
        psql: the command that opens the source.
        command: how the command line is called here.
        url: of the worker.
        again: how this run was started, and started again with `--keep`. Empty: everything stays up.
    """
    width = max(map(len, queries)) + len("query with ")
    lines = [f"  {'query with ' + reader:<{width}}   {python} {file}" for reader, file in queries.items()]
    while_it_runs = [
        f"  {'change rows':<{width}}   {psql}",
        f"  {'open the console':<{width}}   {url}console",
        f"  {'ask for states':<{width}}   {command} get connectors" + _url_option(url),
    ]
    if not again:
        return ["Everything stays up until Ctrl-C. Next, in another terminal:", *lines, *while_it_runs]
    return ["Next: query the table", *lines, "Or keep it running, and change rows yourself", f"  {again} --keep"]


def _url_option(url: str) -> str:
    return "" if url == "http://127.0.0.1:8083/" else f" --url {url.rstrip('/')}"
