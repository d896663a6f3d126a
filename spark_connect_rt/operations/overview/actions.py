"""``connectrt top``: the cluster on a live screen, with failures at the top."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spark_connect_rt.cli.kinds import rows_of, running_tasks, why
from spark_connect_rt.cli.selecting import failed
from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import Column, Table, count_text, counted, plain, rate_text, time_text
from spark_connect_rt.cli.terminal import harmless
from spark_connect_rt.errors import RetriableError
from spark_connect_rt.rest.client import management_calls
from spark_connect_rt.topics.aggregate_state import AGGREGATES, aggregate_rank

if TYPE_CHECKING:
    from rich.text import Text

MOST_ROWS = 200
_COLUMNS = (
    Column("NAME", lambda row: row["name"], limit=40),
    Column("TYPE", lambda row: row.get("type")),
    Column("STATE", lambda row: row.get("aggregate") or row["state"]),
    Column("TASKS", lambda row: row["running"]),
    Column("RECORDS/S", lambda row: rate_text(row.get("records_per_second"))),
    Column("LAG", lambda row: count_text(row.get("lag"))),
    Column("ERRORS", lambda row: count_text(row.get("errors"))),
    Column("WHY", why, limit=120),
)
_NAMES = {"abnormal": "failing"}
Screen = tuple[str, list[Mapping[str, Any]]]


def top(session: Session, search: str, sort: str, every_s: float, once: bool) -> int:
    """Draw until Ctrl-C. Without a terminal, or with ``once``, print the screen once and end."""
    if once or not session.terminal.is_interactive():
        head, rows = _looked(session, search, sort, MOST_ROWS)
        table, styled = Table(_COLUMNS, False), session.terminal.styled
        lines = table.rows(rows)
        session.terminal.write(f"{styled(harmless(head), 'bold')}\n{table.header()}\n")
        for row, line in zip(rows, lines, strict=True):
            session.terminal.write(styled(line, "red" if row.get("abnormal") else None) + "\n")
        return 0
    from rich.console import Console
    from rich.live import Live

    console = Console(file=session.terminal.out, no_color=not session.terminal.coloured())
    shown: Screen = ("", [])
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            size = console.size
            try:
                shown = _looked(session, search, sort, size.height)
                head = shown[0]
            except RetriableError as error:
                if not shown[0]:
                    raise
                head = f"{error}; showing the previous state: {shown[0]}"
            live.update(drawn(head, shown[1], size.width, size.height), refresh=True)
            session.around.sleep(every_s)


def drawn(head: str, rows: Sequence[Mapping[str, Any]], width: int, height: int) -> Text:
    """Return the screen, no line longer than it is wide."""
    from rich.text import Text

    table = Table(_COLUMNS, False, plain)
    lines = table.rows(rows[: max(0, height - 3)])
    screen = Text(no_wrap=True)
    screen.append(f"{head[:width]}\n", style="bold")
    screen.append(f"{table.header()[:width]}\n", style="reverse")
    for row, line in zip(rows, lines, strict=False):
        screen.append(f"{line[:width]}\n", style="red" if row.get("abnormal") else "")
    return screen


def _looked(session: Session, search: str, sort: str, limit: int) -> Screen:
    limit = max(1, min(limit, MOST_ROWS))
    page = session.ask_if_served(management_calls.overview(search=search, sort=sort, limit=limit))
    if page is None:
        return _of_states(session, search)
    rows: list[Mapping[str, Any]] = [
        {**row, "running": _running(row["tasks"]), "tasks": ()} for row in page["connectors"]
    ]
    silent = f"; no answer from {counted(len(page['unanswered']), 'worker')}" if page.get("unanswered") else ""
    counts = {key: value for key, value in page["counts"].items() if value and key in (*AGGREGATES, "abnormal")}
    return _head(session, page["total"], counts, page.get("records_per_second")) + silent, rows


def _of_states(session: Session, search: str) -> Screen:
    rows: list[Mapping[str, Any]] = [
        {**row, "running": running_tasks(row), "abnormal": failed(row)}
        for row in rows_of(session)
        if search.lower() in row["name"].lower()
    ]
    rows.sort(key=lambda row: (not row["abnormal"], aggregate_rank(row["aggregate"]), row["name"]))
    counts = Counter(row["aggregate"] for row in rows) + Counter(abnormal=sum(row["abnormal"] for row in rows))
    return _head(session, len(rows), counts, None), rows


def _head(session: Session, total: int, counts: Mapping[str, int], rate: float | None) -> str:
    ordered = sorted(counts.items(), key=lambda counted: aggregate_rank(counted[0]))
    parts = [counted(total, "connector"), *(f"{value} {_NAMES.get(key, key)}" for key, value in ordered)]
    if rate is not None:
        parts.append(f"{rate_text(rate)} records/s")
    return f"{time_text(session.around.now_ms())}   " + ", ".join(parts)


def _running(tasks: Mapping[str, int]) -> str:
    bad = f" ({tasks['FAILED']} failed)" if tasks.get("FAILED") else ""
    return f"{tasks.get('RUNNING', 0)}/{sum(tasks.values())}{bad}"
