"""``connectrt describe``: everything about one connector, task, worker or plug-in, by whatever the worker serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.cli.differences import shown_config
from spark_connect_rt.cli.kinds import Asked, find_kind, kind_of, plugin_sentences
from spark_connect_rt.cli.output import show_data
from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import Output, compact, time_text
from spark_connect_rt.cli.terminal import one_line
from spark_connect_rt.errors import BadRequestError, NotFoundError
from spark_connect_rt.operations.connectors.connector_screen import describe_connector, show_task
from spark_connect_rt.operations.connectors.parts import field, figures, heading, section, trace_lines
from spark_connect_rt.rest.client import calls, management_calls


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
    (found,) = kind_of("workers").fetch(session, Asked([name]))[:1]
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
