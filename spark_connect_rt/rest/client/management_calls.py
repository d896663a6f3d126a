"""Requests of the management API below ``/admin``, which only workers of this product serve.

A Java worker's answer to any of them is a NotServedError. Lists that grow take ``limit`` (default 100, at most 2,000).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spark_connect_rt.rest.client.calls import Call, Json, Settings, query_of, segment

if TYPE_CHECKING:
    from spark_connect_rt.rest.client.shapes import (
        ChangeJson,
        CheckLineJson,
        ConnectorPageJson,
        EventJson,
        EventListJson,
        GroupJson,
        LetterPageJson,
        LogLineJson,
        LogListJson,
        OverviewJson,
        PreviewJson,
        ReplayJson,
        SettingChangeJson,
    )


def overview(
    *,
    search: str = "",
    state: Sequence[str] = (),
    type_: str = "",
    abnormal: bool | None = None,
    sort: str = "",
    offset: int = 0,
    limit: int = 100,
) -> Call[OverviewJson]:
    """Ask for a page of rows, one for each connector; abnormal ones first unless ``sort`` says otherwise."""
    query = query_of(
        search=search, state=list(state), type=type_, abnormal=abnormal, sort=sort, offset=offset, limit=limit
    )
    return Call("GET", "/admin/overview", query)


def overview_stream() -> Call[Json]:
    """Follow the changes of the overview: events ``overview``."""
    return Call("GET", "/admin/overview/stream")


def connector_page(name: str) -> Call[ConnectorPageJson]:
    """Ask for everything about one connector."""
    return Call("GET", _of(name))


def group() -> Call[GroupJson]:
    """Ask for the workers of the group, and what runs where."""
    return Call("GET", "/admin/group")


def events(
    *, kind: Sequence[str] = (), connector: str = "", since_ms: int | None = None, limit: int = 100
) -> Call[EventListJson]:
    """Ask for the group's events, newest first."""
    query = query_of(kind=list(kind), connector=connector, since_ms=since_ms, limit=limit)
    return Call("GET", "/admin/events", query)


def events_stream(*, kind: Sequence[str] = (), connector: str = "") -> Call[EventJson]:
    """Follow the group's events, as a stream of JSON objects."""
    return Call("GET", "/admin/events/stream", query_of(kind=list(kind), connector=connector))


def logs(name: str, task: int | None = None, *, tail: int = 1_000, level: str = "") -> Call[LogListJson]:
    """Ask for the last log lines of a connector and its tasks, or of one task."""
    return Call("GET", _logs(name, task), query_of(tail=tail, level=level))


def logs_stream(name: str, task: int | None = None, *, tail: int = 0, level: str = "") -> Call[LogLineJson]:
    """Follow the log lines; ``tail``: so many of those before come first."""
    return Call("GET", f"{_logs(name, task)}/stream", query_of(tail=tail, level=level))


def history(
    connector: str = "", *, kind: Sequence[str] = (), before: int | None = None, limit: int = 100
) -> Call[Json]:
    """Ask for ``{"changes": [Change], "problem": text}``, newest first."""
    return Call("GET", "/admin/history", query_of(connector=connector, kind=list(kind), before=before, limit=limit))


def change(connector: str, number: int) -> Call[ChangeJson]:
    """Ask for one change, with what was before and after."""
    return Call("GET", f"/admin/history/{segment(connector)}/{number}")


def config_diff(connector: str, before: int, after: int) -> Call[list[SettingChangeJson]]:
    """Ask what differs between the configurations after two changes."""
    query = query_of(from_=before, to=after)
    return Call("GET", f"/admin/history/{segment(connector)}/diff", query, field="changes")


def rollback(
    connector: str, number: int, *, dry_run: bool = False, secrets: Mapping[str, str] | None = None
) -> Call[Json]:
    """Make the configuration what it was after a change; ``{"diff": [...], "applied": bool}``.

    ``secrets``: values of settings that the history hides.
    """
    body: Json = {"dry_run": dry_run} | ({"secrets": dict(secrets)} if secrets else {})
    return Call("POST", f"/admin/history/{segment(connector)}/{number}/rollback", body=body)


def undo(connector: str, number: int, *, dry_run: bool = False, force: bool = False) -> Call[Json]:
    """Take back a change of offsets; ``{"offsets": [...], "applied": bool}``; ConflictError: it is not safe."""
    body: Json = {"dry_run": dry_run} | ({"force": True} if force else {})
    return Call("POST", f"/admin/history/{segment(connector)}/{number}/undo", body=body)


def offsets_course(name: str, *, from_ms: int | None = None, to_ms: int | None = None) -> Call[list[Json]]:
    """Ask where the connector was: ``[{"at_ms", "offsets": [...]}]``."""
    return Call("GET", f"{_of(name)}/offsets/course", query_of(from_ms=from_ms, to_ms=to_ms), field="points")


def offsets_goto(name: str, time_ms: int, *, dry_run: bool = False) -> Call[Json]:
    """Set the offsets to where the connector was at a time."""
    return Call("POST", f"{_of(name)}/offsets/goto", body={"time_ms": time_ms, "dry_run": dry_run})


def letters(*, filters: Mapping[str, Any], after: str = "", limit: int = 100) -> Call[LetterPageJson]:
    """Ask for a page of dead letters.

    ``filters``: connector or topic; partition, stage, class, message, origin, from_ms, to_ms, replayed.
    """
    return Call("GET", "/admin/dead-letters", query_of(**filters, after=after, limit=limit))


def replay(wanted: Mapping[str, Any]) -> Call[ReplayJson]:
    """Start a replay (or, with ``dry_run``, have a sample made)."""
    return Call("POST", "/admin/dead-letters/replays", body=dict(wanted))


def replays() -> Call[list[ReplayJson]]:
    """Ask for all replays of dead letters."""
    return Call("GET", "/admin/dead-letters/replays", field="replays")


def replay_of(number: str) -> Call[ReplayJson]:
    """Ask for one replay of dead letters."""
    return Call("GET", f"/admin/dead-letters/replays/{segment(number)}")


def stop_replay(number: str) -> Call[ReplayJson]:
    """Stop a replay; it can be resumed where it was."""
    return Call("POST", f"/admin/dead-letters/replays/{segment(number)}/stop", body={})


def resume_replay(number: str) -> Call[ReplayJson]:
    """Resume a stopped or failed replay."""
    return Call("POST", f"/admin/dead-letters/replays/{segment(number)}/resume", body={})


def delete_letters(*, connector: str = "", topic: str = "") -> Call[Json]:
    """Delete the letters up to the first that is not replayed."""
    return Call("POST", "/admin/dead-letters/delete", body=dict(query_of(connector=connector, topic=topic)))


def preview(wanted: Mapping[str, Any]) -> Call[PreviewJson]:
    """Have a connector started without a trace, and its records shown."""
    return Call("POST", "/admin/preview", body=dict(wanted))


def check(settings: Settings, name: str | None = None) -> Call[dict[str, Any]]:
    """Have a configuration checked against what it reaches: ``{"ok": bool, "lines": [CheckLineJson]}``."""
    return Call("POST", "/admin/check", body={"config": dict(settings)} | ({"name": name} if name else {}))


def check_lines(answer: Mapping[str, Any]) -> list[CheckLineJson]:
    """Return the lines of a check."""
    lines: list[CheckLineJson] = answer["lines"]
    return lines


def plugins_report() -> Call[Json]:
    """Ask for all plug-ins, the broken ones, and those that were installed, with their state on each worker.

    A plug-in's ``description`` is one sentence, empty where nothing is known.
    """
    return Call("GET", "/admin/plugins")


def install_plugin(wanted: Mapping[str, Any], token: str = "") -> Call[Json]:
    """Install a plug-in on every worker of the group; ``wanted``: source, sha512, name, version. Takes minutes.

    ``token``: of the worker's machine, where it asks for one.
    """
    return Call("POST", "/admin/plugins", body=dict(wanted), headers=_install_token(token))


def remove_plugin(name: str, version: str, token: str = "") -> Call[None]:
    """Remove an installed plug-in from every worker of the group; ``token`` as of ``install_plugin``."""
    path = f"/admin/plugins/{segment(name)}/{segment(version)}"
    return Call("DELETE", path, headers=_install_token(token))


def _install_token(token: str) -> tuple[tuple[str, str], ...]:
    return (("X-Connectrt-Install-Token", token),) if token else ()


def progress() -> Call[Json]:
    """Ask for the counters of the tasks of the worker that answers."""
    return Call("GET", "/admin/progress")


def _of(name: str) -> str:
    return f"/admin/connectors/{segment(name)}"


def _logs(name: str, task: int | None) -> str:
    return f"{_of(name)}/logs" if task is None else f"{_of(name)}/tasks/{task}/logs"
