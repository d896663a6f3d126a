"""A connector on one screen: its state and the reason first, then where it runs, then how it is configured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.cli.differences import shown_config
from spark_connect_rt.cli.output import show_data
from spark_connect_rt.cli.rows import connector_row, error_line, what_changed, why
from spark_connect_rt.cli.selecting import chosen_names
from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import Output, compact, time_text
from spark_connect_rt.cli.terminal import state_style
from spark_connect_rt.operations.connectors.advice import next_steps, step_lines
from spark_connect_rt.operations.connectors.parts import MOST_LINES, field, figures, heading, section, trace_lines
from spark_connect_rt.rest.client import calls, management_calls
from spark_connect_rt.rest.client.refusals import RefusedError, UnknownNameError
from spark_connect_rt.topics.aggregate_state import aggregate_rank

_OF_PAGE = ("records_per_second", "lag", "errors", "last_error", "last_error_at_ms", "stalled", "why")


def describe_connector(session: Session, name: str, output: Output) -> None:
    """Write everything about a connector. Raises NotFoundError: there is none of that name."""
    found = _found(session, name)
    if show_data(session, found, output):
        return
    heading(session, "Connector", name)
    _show_state(session, found)
    _show_tasks(session, found)
    for label, text in figures(found):
        field(session, label, text)
    field(session, "Type", found["type"])
    field(session, "Class", found["class"])
    field(session, "Worker", found["worker_id"])
    section(session, "Topics", sorted(found["topics"] or ()), f"connectrt get topics {name}")
    offsets = [f"{compact(place['partition'])} -> {compact(place['offset'])}" for place in found["offsets"] or ()]
    section(session, "Offsets", offsets, f"connectrt offsets get {name}")
    section(session, "Configuration", [f"{key} = {value}" for key, value in sorted(found["config"].items())])
    if found.get("trace"):
        section(session, "Trace", [])
        trace_lines(session, found["trace"], "  ")


def state_text(found: Mapping[str, Any]) -> str:
    """Return the aggregate state, and what it is made of where that is not the same word."""
    counts = Counter(task["state"] for task in found["tasks"])
    alike = set(counts) <= {found["state"]} and found["aggregate"] == found["state"]
    if alike:
        return str(found["aggregate"])
    of_tasks = ", ".join(f"{count} {state}" for state, count in sorted(counts.items(), key=_most_urgent))
    return f"{found['aggregate']} (connector {found['state']}; tasks: {of_tasks or 'none'})"


def _most_urgent(counted: tuple[str, int]) -> tuple[int, str]:
    return aggregate_rank(counted[0]), counted[0]


def _found(session: Session, name: str) -> dict[str, Any]:
    try:
        info, status = session.ask(calls.connector(name)), session.ask(calls.status(name))
    except UnknownNameError:
        chosen_names([name], session.ask(calls.connector_names()))  # raises with the names that are near
        raise
    page = session.ask_if_served(management_calls.connector_page(name))
    known: Mapping[str, Any] = page or {}
    found: dict[str, Any] = {
        **connector_row(name, info, status),
        **{key: known.get(key) for key in _OF_PAGE},
        "config": shown_config(info["config"]),
        "topics": known.get("topics") if page else _topics(session, name),
        "offsets": _offsets(session, name),
        "last_change": _last_change(session, name) if page else None,
        "managed": page is not None,
    }
    more = {task["id"]: task for task in known.get("tasks", ())}
    found["tasks"] = [{**more.get(task["id"], {}), **task} for task in found["tasks"]]
    return found


def _show_state(session: Session, found: Mapping[str, Any]) -> None:
    field(session, "State", state_text(found), state_style(found["aggregate"]))
    reason = why(found)
    if reason:
        field(session, "Reason", reason, "red" if found["aggregate"] in ("FAILED", "DEGRADED") else "yellow")
    if reason and found.get("last_error_at_ms"):
        field(session, "Since", time_text(found["last_error_at_ms"]))
    steps = step_lines(next_steps(found, found["managed"]))
    for number, line in enumerate(steps):
        field(session, "" if number else "To do", line)
    if found["last_change"]:
        field(session, "Changed", _change_text(found["last_change"]))


def _show_tasks(session: Session, found: Mapping[str, Any]) -> None:
    tasks = sorted(found["tasks"], key=lambda task: (aggregate_rank(task["state"]), task["id"]))
    session.terminal.line(f"Tasks:      {len(tasks)}")
    for task in tasks[:MOST_LINES]:
        show_task(session, task)
        reason = error_line(task.get("trace"))
        if reason:
            field(session, "", reason, "red", indent=5)
    if len(tasks) > MOST_LINES:
        session.terminal.line(f"  {len(tasks) - MOST_LINES} more: connectrt get tasks {found['name']}")


def show_task(session: Session, task: Mapping[str, Any]) -> None:
    """Write where a task runs, and what is measured of it."""
    where = f"{task['worker_id'] or '-'}{', ' + str(task['executor']) if task.get('executor') else ''}"
    session.terminal.line(f"  {task['id']}  {task['state']}  {where}", state_style(task["state"]))
    measured = ", ".join(f"{label.lower()} {text}" for label, text in figures(task))
    if measured:
        field(session, "", measured, indent=5)


def _change_text(change: Mapping[str, Any]) -> str:
    what = what_changed(change)
    who = f" by {change['who']}" if change.get("who") else ""
    return f"{time_text(change['at_ms'])}  {change['kind']} {change['action']}{who}{f': {what}' if what else ''}"


def _last_change(session: Session, name: str) -> Mapping[str, Any] | None:
    try:
        answer = session.ask_if_served(management_calls.history(name, limit=1))
    except RefusedError:
        return None  # this worker keeps no history
    changes: Sequence[Mapping[str, Any]] = (answer or {}).get("changes") or ()
    return changes[0] if changes else None


def _topics(session: Session, name: str) -> list[str] | None:
    try:
        return session.ask(calls.topics(name)).get(name, {}).get("topics")
    except RefusedError:
        return None  # tracking is switched off


def _offsets(session: Session, name: str) -> Any:
    try:
        return session.ask(calls.offsets(name))
    except RefusedError:
        return None  # not now, or a connector that cannot
