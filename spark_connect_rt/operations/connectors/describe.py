"""``connectrt describe``: everything about one connector, task, worker or plug-in, by whatever the worker serves."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.cli.differences import shown_config
from spark_connect_rt.cli.kinds import (
    GetQuery,
    connector_row,
    error_line,
    find_kind,
    kind_of,
    plugin_sentences,
    what_changed,
    why,
)
from spark_connect_rt.cli.output import show_data
from spark_connect_rt.cli.selecting import chosen_names
from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import Output, compact, count_text, rate_text, time_text
from spark_connect_rt.cli.terminal import one_line, state_style
from spark_connect_rt.errors import BadRequestError, NotFoundError
from spark_connect_rt.rest.client import calls, management_calls
from spark_connect_rt.rest.client.refusals import RefusedError, UnknownNameError
from spark_connect_rt.topics.aggregate_state import aggregate_rank

# The lines that every screen of ``describe`` is made of: labels, wrapped text, lists that end.


LABEL = 12  # characters, with the colon
MOST_LINES = 20  # of a list, so that a screen holds the whole


def heading(session: Session, label: str, name: str) -> None:
    """Write the label and the name of the described thing."""
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


# Commands that help in a state of a connector, ready to be copied. Pure.


Step = tuple[str, str]
"""(a command, what it is good for)."""


def next_steps(found: Mapping[str, Any], ours: bool) -> list[Step]:
    """Return the commands to type next; none for a connector that runs as it should.

    Args:
        found: a connector's row with name, state, aggregate and tasks; ``why`` and ``stalled`` where they are known.
        ours: the worker serves the management API, so it has logs and events.
    """
    name, aggregate = shlex.quote(found["name"]), found["aggregate"]
    failed = [task["id"] for task in found["tasks"] if task["state"] == "FAILED"]
    steps: list[Step] = []
    if failed or found["state"] == "FAILED":
        who = f"{name}/{failed[0]}" if failed else name
        if failed:
            steps.append((f"connectrt describe task {who}", "shows the whole trace"))
        if ours:
            steps.append((f"connectrt logs {who}", "shows what happened before"))
        steps.append((f"connectrt restart {name} --failed", "restarts it, once the cause is fixed"))
    elif aggregate in ("UNASSIGNED", "DEGRADED"):
        steps.append(("connectrt get workers", "shows which workers run"))
        if ours:
            steps.append((f"connectrt events {name}", "shows the last rebalances"))
    elif aggregate in ("PAUSED", "STOPPED"):
        steps.append((f"connectrt resume {name}", "resumes it"))
    elif aggregate == "RESTARTING":
        steps.append((f"connectrt wait {name}", "returns when it runs"))
    elif ours and (found.get("why") or found.get("stalled") or not found["tasks"]):
        steps.append((f"connectrt logs {name}", "shows its last log lines"))
        steps.append((f"connectrt events {name}", "shows failures, restarts and changes"))
    return steps


def step_lines(steps: Sequence[Step]) -> list[str]:
    """Return a line for each step, what it is good for in a column."""
    width = max((len(command) for command, _ in steps), default=0)
    return [f"{command:{width}}   {purpose}" for command, purpose in steps]


# A connector on one screen: its state and the reason first, then where it runs, then how it is configured.


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


def describe(session: Session, words: Sequence[str], output: Output) -> int:
    """Write one thing. ``words``: the name of a connector, or a kind and a name.

    Raises BadRequestError: there is no such kind, or its name is missing; NotFoundError.
    """
    acts = {"connectors": describe_connector, "tasks": _task, "workers": _worker, "plugins": _plugin}
    found = find_kind(words[0])
    if len(words) == 1:
        _describe_named(session, words[0], output)
        return 0
    if found is None or found.name not in acts:
        kinds = ", ".join(kind.removesuffix("s") for kind in acts)
        raise BadRequestError(f"describe what? {words[0]} is not one of {kinds}")
    acts[found.name](session, words[1], output)
    return 0


def _describe_named(session: Session, name: str, output: Output) -> None:
    try:
        describe_connector(session, name, output)
    except NotFoundError:
        if (kind := find_kind(name)) is None:
            raise
        raise BadRequestError(f"describe {name} NAME: which of the {kind.name}?") from None


def _task(session: Session, word: str, output: Output) -> None:
    name, slash, number = word.rpartition("/")
    if not slash or not number.isdigit():
        raise BadRequestError(f"{word}: expected NAME/TASK, such as orders/0")
    status = session.ask(calls.status(name))
    found: list[dict[str, Any]] = [dict(task) for task in status["tasks"] if task["id"] == int(number)]
    if not found:
        raise NotFoundError(f"no task {word}")
    page = session.ask_if_served(management_calls.connector_page(name))
    for task in (page or {}).get("tasks", ()):
        if task["id"] == int(number):
            found[0] = {**task, **found[0]}
    configs = {task["id"]["task"]: task["config"] for task in session.ask(calls.tasks(name))}
    found[0]["config"] = shown_config(configs.get(int(number), {}))
    if show_data(session, found[0], output):
        return
    heading(session, "Task", word)
    show_task(session, found[0])
    trace_lines(session, found[0].get("trace"), "     ")
    lines = [f"{key} = {value}" for key, value in sorted(found[0]["config"].items())]
    section(session, "Configuration", lines)


def _worker(session: Session, name: str, output: Output) -> None:
    (found,) = kind_of("workers").fetch(session, GetQuery([name]))[:1]
    if show_data(session, dict(found), output):
        return
    heading(session, "Worker", found["worker_id"])
    for label, key in (("URL", "url"), ("Runtime", "runtime"), ("Version", "version"), ("Health", "health")):
        if found.get(key):
            field(session, label, found[key])
    if found.get("reachable") is False:
        field(session, "Reachable", f"no{': ' + one_line(found['why']) if found.get('why') else ''}", "red")
    if found.get("leader"):
        field(session, "Leader", "yes")
    for label, text in figures(found):
        field(session, label, text)
    if found.get("started_ms"):
        field(session, "Started", time_text(found["started_ms"]))
    section(session, "Connectors", sorted(found.get("connectors") or ()), "connectrt get connectors -o wide")
    section(session, "Tasks", sorted(found.get("tasks") or ()), "connectrt get tasks")


def _plugin(session: Session, name: str, output: Output) -> None:
    settings = session.ask(calls.plugin_settings(name))
    if show_data(session, settings, output):
        return
    heading(session, "Plug-in", name)
    if about := _sentence(name, plugin_sentences(session)):
        field(session, "About", about)
    group: Any = ""
    for setting in settings:
        if setting.get("group") != group:
            group = setting.get("group")
            session.terminal.line(f"{group or 'Settings'}:")
        default = "required" if setting["required"] else f"default {compact(setting['default_value'])}"
        about = f"{setting['type'].lower()}, {setting['importance'].lower()}, {default}"
        session.terminal.line(f"  {setting['name']} ({about})")
        if setting.get("documentation"):
            field(session, "", setting["documentation"], indent=6)


def _sentence(name: str, sentences: Mapping[str, str]) -> str:
    """Return the sentence of a plug-in that is named by its class, its short name, or that without its kind."""
    for java_class, sentence in sentences.items():
        short = java_class.rpartition(".")[2]
        if name in (java_class, short, short.removesuffix("Connector"), short.removesuffix("Converter")):
            return sentence
    return ""
