"""Values as people read them: numbers, times, states. Pure; filters of the templates.

Everything here returns plain text: the templates escape it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from spark_connect_rt.base.traces import last_line

NOT_KNOWN = "–"
_STATES = {
    "RUNNING": "ok",
    "FAILED": "bad",
    "DEGRADED": "warn",
    "UNASSIGNED": "warn",
    "RESTARTING": "busy",
    "PAUSED": "idle",
}
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")


def number(value: Any) -> str:
    """Return a count with its thousands apart: ``1,204``."""
    return NOT_KNOWN if value is None else f"{value:,.0f}" if isinstance(value, int | float) else str(value)


def rate(value: Any) -> str:
    """Return records a second, three figures of them: ``0.25``, ``12.4``, ``3,120``."""
    if not isinstance(value, int | float):
        return NOT_KNOWN
    if value == 0:
        return "0"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def size(value: Any) -> str:
    """Return bytes in binary units: ``1.5 GiB``."""
    if not isinstance(value, int | float):
        return NOT_KNOWN
    for unit in _SIZES[:-1]:
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} {_SIZES[-1]}"


def moment(at_ms: Any) -> str:
    """Return a time in UTC: ``2026-11-23 08:10:24``; the browser adds its own zone."""
    if not isinstance(at_ms, int | float) or not 0 <= at_ms < 253_402_300_800_000:
        return NOT_KNOWN
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def iso(at_ms: Any) -> str:
    """Return a time for an attribute ``datetime``; empty where it is not known."""
    text = moment(at_ms)
    return "" if text == NOT_KNOWN else text.replace(" ", "T") + "Z"


def tone(state: Any) -> str:
    """Return how a state is to be seen: ok, bad, warn, busy or idle (which every state of tomorrow is)."""
    return _STATES.get(str(state), "idle")


def shape(state: Any) -> str:
    """Return the icon of a state: that of its tone, but a stopped connector is not a paused one."""
    return "stopped" if state == "STOPPED" else tone(state)


def short_class(name: Any) -> str:
    """Return a class without its package: ``JdbcSinkConnector``."""
    return str(name or "").rpartition(".")[2]


def one_line(text: Any, length: int = 240) -> str:
    """Return the first line of a text, cut to ``length`` characters."""
    line = next((line.strip() for line in str(text or "").splitlines() if line.strip()), "")
    return line if len(line) <= length else line[: length - 1] + "…"


def cut(text: Any, length: int = 30_000) -> str:
    """Return a text as long as a page bears it, and how much more there is."""
    whole = str(text or "")
    return whole if len(whole) <= length else f"{whole[:length]} … ({len(whole) - length:,} more characters)"


def said_in(error: Any, why: Any) -> bool:
    """Return whether a reason says what an error says already, be it of "task 0" or of "task 0 FAILED"."""
    text = str(error or "").strip()
    return text in str(why or "") or (text.partition(": ")[2] or text) in str(why or "")


def json_text(value: Any) -> str:
    """Return a value as JSON to read, keys in their order."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def short_json(value: Any) -> str:
    """Return a value as JSON on one line; a text as itself."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def states_in_order(tasks: Any) -> list[tuple[str, int]]:
    """Return (state, tasks) of a row's counts, what is wrong first."""
    order = {"bad": 0, "warn": 1, "busy": 2, "ok": 3, "idle": 4}
    counts = tasks if isinstance(tasks, Mapping) else {}
    return sorted(((str(s), n) for s, n in counts.items() if n), key=lambda pair: (order[tone(pair[0])], pair[0]))


def task_states(tasks: Any) -> dict[str, int]:
    """Return state -> number of tasks, from a list of tasks or from counts."""
    if isinstance(tasks, Mapping):
        return dict(tasks)
    counts: dict[str, int] = {}
    for task in tasks or ():
        counts[str(task.get("state"))] = counts.get(str(task.get("state")), 0) + 1
    return counts


def wrong_first(tasks: Any) -> list[Any]:
    """Return tasks, those that failed or stand still first, else in their order."""
    return sorted(tasks or (), key=lambda task: tone(task.get("state")) != "bad" and not task.get("stalled"))


FILTERS = {
    "number": number,
    "rate": rate,
    "size": size,
    "moment": moment,
    "iso": iso,
    "tone": tone,
    "shape": shape,
    "short_class": short_class,
    "one_line": one_line,
    "json_text": json_text,
    "short_json": short_json,
    "cut": cut,
    "trace_line": last_line,
    "said_in": said_in,
    "states_in_order": states_in_order,
    "task_states": task_states,
    "wrong_first": wrong_first,
}
"""Name in a template -> function."""
