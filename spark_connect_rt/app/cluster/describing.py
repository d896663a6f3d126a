"""``connectrt describe connector|task|worker|plugin``: everything about one thing, by whatever the worker serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.app.cluster.differences import shown_config
from spark_connect_rt.app.cluster.kinds import Asked, find_kind, kind_of
from spark_connect_rt.app.cluster.rows import connector_row
from spark_connect_rt.app.cluster.session import Session
from spark_connect_rt.app.cluster.showing import show_data
from spark_connect_rt.app.cluster.tables import Output, compact, count_text, rate_text, time_text
from spark_connect_rt.app.cluster.terminal import one_line, state_style
from spark_connect_rt.client import calls, management_calls
from spark_connect_rt.client.refusals import RefusedError
from spark_connect_rt.errors import BadRequestError, NotFoundError


def describe(session: Session, kind: str, name: str, output: Output) -> int:
    """Write one thing."""
    acts = {"connectors": _connector, "tasks": _task, "workers": _worker, "plugins": _plugin}
    found = find_kind(kind.replace("-", ""))
    if found is None or found.name not in acts:
        raise BadRequestError(f"describe what? {kind} is none of {', '.join(one.removesuffix('s') for one in acts)}")
    acts[found.name](session, name, output)
    return 0


def _connector(session: Session, name: str, output: Output) -> None:
    info, status = session.ask(calls.connector(name)), session.ask(calls.status(name))
    page = session.ask_if_served(management_calls.connector_page(name))
    topics = page.get("topics") if page else _topics(session, name)
    offsets = _offsets(session, name)
    found: dict[str, Any] = {
        **connector_row(name, info, status),
        **{key: (page or {}).get(key) for key in ("records_per_second", "lag", "errors", "last_error", "why")},
        "config": shown_config(info["config"]),
        "topics": topics,
        "offsets": offsets,
    }
    if page:
        more = {one["id"]: one for one in page["tasks"]}
        found["tasks"] = [{**more.get(one["id"], {}), **one} for one in found["tasks"]]
    if show_data(session, found, output):
        return
    line = session.terminal.line
    line(f"Connector:  {name}", "bold")
    line(f"Type:       {found['type']}")
    line(f"Class:      {found['class']}")
    line(f"State:      {found['state']}", state_style(found["state"]))
    line(f"Worker:     {found['worker_id'] or '-'}")
    for label, text in _figures(found):
        line(f"{label + ':':<11} {text}")
    _trace(session, found.get("trace"), "  ")
    _section(session, "Configuration", [f"{key} = {value}" for key, value in sorted(found["config"].items())])
    line(f"Tasks:      {len(found['tasks'])}")
    for task in found["tasks"]:
        _show_task(session, task)
    _section(session, "Topics", sorted(topics or ()))
    _section(session, "Offsets", [f"{compact(one['partition'])} -> {compact(one['offset'])}" for one in offsets or ()])


def _task(session: Session, word: str, output: Output) -> None:
    name, slash, number = word.rpartition("/")
    if not slash or not number.isdigit():
        raise BadRequestError(f"{word}: expected NAME/TASK, such as orders/0")
    status = session.ask(calls.status(name))
    found: list[dict[str, Any]] = [dict(one) for one in status["tasks"] if one["id"] == int(number)]
    if not found:
        raise NotFoundError(f"no task {word}")
    page = session.ask_if_served(management_calls.connector_page(name))
    for one in (page or {}).get("tasks", ()):
        if one["id"] == int(number):
            found[0] = {**one, **found[0]}
    configs = {one["id"]["task"]: one["config"] for one in session.ask(calls.tasks(name))}
    found[0]["config"] = shown_config(configs.get(int(number), {}))
    if show_data(session, found[0], output):
        return
    session.terminal.line(f"Task:       {word}", "bold")
    _show_task(session, found[0])
    _section(session, "Configuration", [f"{key} = {value}" for key, value in sorted(found[0]["config"].items())])


def _worker(session: Session, name: str, output: Output) -> None:
    (found,) = kind_of("workers").fetch(session, Asked([name]))[:1]
    if show_data(session, dict(found), output):
        return
    line = session.terminal.line
    line(f"Worker:     {found['worker_id']}", "bold")
    for label, key in (("URL", "url"), ("Runtime", "runtime"), ("Version", "version"), ("Health", "health")):
        if found.get(key):
            line(f"{label + ':':<11} {found[key]}")
    if found.get("reachable") is False:
        line(f"Reachable:  no{': ' + one_line(found['why']) if found.get('why') else ''}", "red")
    if found.get("leader"):
        line("Leader:     yes")
    for label, text in _figures(found):
        line(f"{label + ':':<11} {text}")
    if found.get("started_ms"):
        line(f"Started:    {time_text(found['started_ms'])}")
    _section(session, "Connectors", sorted(found.get("connectors") or ()))
    _section(session, "Tasks", sorted(found.get("tasks") or ()))


def _plugin(session: Session, name: str, output: Output) -> None:
    settings = session.ask(calls.plugin_settings(name))
    if show_data(session, settings, output):
        return
    session.terminal.line(f"Plug-in:    {name}", "bold")
    group: Any = ""
    for one in settings:
        if one.get("group") != group:
            group = one.get("group")
            session.terminal.line(f"{group or 'Settings'}:")
        default = "required" if one["required"] else f"default {compact(one['default_value'])}"
        session.terminal.line(f"  {one['name']} ({one['type'].lower()}, {one['importance'].lower()}, {default})")
        if one.get("documentation"):
            session.terminal.line(f"      {one_line(one['documentation'])}")


def _show_task(session: Session, task: Mapping[str, Any]) -> None:
    line = session.terminal.line
    where = f"{task['worker_id'] or '-'}{', ' + str(task['executor']) if task.get('executor') else ''}"
    line(f"  {task['id']}  {task['state']}  {where}", state_style(task["state"]))
    for label, text in _figures(task):
        line(f"     {label}: {text}")
    _trace(session, task.get("trace"), "     ")


def _figures(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs = (
        ("Why", one_line(found["why"]) if found.get("why") else None),
        ("Records/s", rate_text(found.get("records_per_second"))),
        ("Lag", count_text(found.get("lag"))),
        ("Errors", count_text(found.get("errors"))),
        ("Last error", one_line(found["last_error"]) if found.get("last_error") else None),
        ("Restart", compact(found["restart"]) if found.get("restart") else None),
        ("Stalled", one_line(found["stalled"]) if found.get("stalled") else None),
        ("Memory", f"{found['memory_bytes'] / 2**20:,.0f} MiB" if found.get("memory_bytes") else None),
        ("Open files", f"{found['open_files']} of {found['open_files_max']}" if found.get("open_files") else None),
    )
    return [(label, text) for label, text in pairs if text is not None]


def _trace(session: Session, trace: str | None, indent: str) -> None:
    for part in (trace or "").splitlines():
        session.terminal.line(f"{indent}{part}", "red")


def _section(session: Session, title: str, lines: Sequence[str]) -> None:
    if lines:
        session.terminal.line(f"{title}:")
    for line in lines:
        session.terminal.line(f"  {one_line(line)}")


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
