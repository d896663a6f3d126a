"""The lines that every screen of ``describe`` is made of: labels, wrapped text, lists that end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import count_text, rate_text, time_text
from spark_connect_rt.cli.terminal import one_line

LABEL = 12  # characters, with the colon
MOST_LINES = 20  # of a list, so that a screen holds the whole


def heading(session: Session, label: str, name: str) -> None:
    """Write what is described."""
    session.terminal.line(f"{label + ':':{LABEL}}{name}", "bold")


def field(session: Session, label: str, text: Any, style: str | None = None, indent: int = LABEL) -> None:
    """Write a label and its text, wrapped to the width of the terminal."""
    from textwrap import wrap

    head = f"{label}:" if label else ""
    room = max(20, session.terminal.width() - indent)
    lines = wrap(one_line("-" if text in (None, "") else text), room, break_long_words=False, break_on_hyphens=False)
    first = text if isinstance(text, str) and len(text) <= room else lines[0]  # columns within a line stay
    session.terminal.line(f"{head:{indent}}{first}", style)
    for line in lines[1:] if first is lines[0] else ():
        session.terminal.line(f"{'':{indent}}{line}", style)


def section(session: Session, title: str, lines: Sequence[str], more: str = "") -> None:
    """Write a list below its title; ``more``: the command that shows the rest of a long one, empty: nothing is cut."""
    if not lines and more:
        return
    session.terminal.line(f"{title}:")
    shown = lines[:MOST_LINES] if more else lines
    for line in shown:
        session.terminal.line(f"  {one_line(line)}")
    if len(shown) < len(lines):
        session.terminal.line(f"  {len(lines) - len(shown)} more: {more}")


def trace_lines(session: Session, trace: str | None, indent: str) -> None:
    """Write a trace as it is."""
    for part in (trace or "").splitlines():
        session.terminal.line(f"{indent}{part}", "red")


def figures(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (label, text) of what is measured and known of a connector, a task or a worker."""
    pairs = (
        ("Records/s", rate_text(found.get("records_per_second"))),
        ("Lag", count_text(found.get("lag"))),
        ("Errors", count_text(found.get("errors"))),
        ("Restart", restart_text(found["restart"]) if found.get("restart") else None),
        ("Stalled", one_line(found["stalled"]) if found.get("stalled") else None),
        ("Memory", f"{found['memory_bytes'] / 2**20:,.0f} MiB" if found.get("memory_bytes") else None),
        ("Open files", f"{found['open_files']} of {found['open_files_max']}" if found.get("open_files") else None),
    )
    return [(label, text) for label, text in pairs if text is not None]


def restart_text(note: Mapping[str, Any]) -> str:
    """Return what the restart policy does about a failure."""
    if note.get("stopped"):
        return f"no further restart: {note['stopped']}"
    if note.get("next_attempt_ms"):
        return f"attempt {note.get('attempts', 1)} at {time_text(note['next_attempt_ms'])}"
    return f"attempt {note.get('attempts', 1)}"
