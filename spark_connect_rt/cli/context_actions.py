"""``connectrt config``: reads and writes the file of contexts."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from spark_connect_rt.cli.contexts import (
    Context,
    Contexts,
    contexts_file,
    load_contexts,
    readable_by_others,
    save_contexts,
)
from spark_connect_rt.cli.output import show_items
from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import Column, Output
from spark_connect_rt.errors import BadConfigError, NotFoundError
from spark_connect_rt.rest.client.connection import connection_to

_COLUMNS = (
    Column("CURRENT", lambda context: "*" if context["current"] else " "),
    Column("NAME", lambda context: context["name"]),
    Column("URLS", lambda context: ",".join(context["urls"])),
    Column("AUTH", lambda context: _credentials(context)),
)
_PROMPTED = ("password", "token", "key_password")


def listed(session: Session, output: Output) -> int:
    """Write every context, without its secrets."""
    _, contexts = _loaded(session)
    items = [
        {"name": name, "current": name == contexts.current, **context.shown(), "urls": _addresses(context)}
        for name, context in sorted(contexts.by_name.items())
    ]
    show_items(session, items, _COLUMNS, output, key=lambda context: str(context["name"]))
    return 0


def current(session: Session) -> int:
    """Write the current context's name. Raises NotFoundError: there is none."""
    _, contexts = _loaded(session)
    if contexts.current is None:
        raise NotFoundError("no current context is set. Use connectrt config use-context NAME")
    session.terminal.line(contexts.current)
    return 0


def use(session: Session, name: str) -> int:
    """Make it the current one."""
    path, contexts = _loaded(session)
    save_contexts(path, contexts.using(name))
    session.terminal.line(f"current context: {name}")
    return 0


def removed(session: Session, name: str) -> int:
    """Remove a context; return the exit code."""
    path, contexts = _loaded(session)
    save_contexts(path, contexts.without(name))
    session.terminal.line(f"context {name} deleted")
    return 0


def changed(session: Session, name: str, given: Mapping[str, Any]) -> int:
    """Add it, or change what is given. Raises BadConfigError: it could not be used."""
    path, contexts = _loaded(session)
    fields = {key: value for key, value in given.items() if value is not None}
    for key in _PROMPTED:
        if fields.get(key) == "-":
            fields[key] = getpass.getpass(f"{key.replace('_', ' ')}: ")
    before = contexts.by_name.get(name)
    if before is None and "urls" not in fields:
        raise BadConfigError(
            {"url": [f"a new context needs an address: connectrt config set-context {name} --url URL"]}
        )
    context = replace(before or Context(()), **fields)
    context.connection()
    save_contexts(path, contexts.having(name, context))
    session.terminal.line(f"context {name} {'changed' if before else 'created'} in {path}")
    return 0


def _loaded(session: Session) -> tuple[Path, Contexts]:
    path = contexts_file(session.around.environment)
    contexts = load_contexts(path)
    if readable_by_others(path):
        session.terminal.note(f"connectrt: other users can read {path}. The next change sets its mode to 600")
    return path, contexts


def _addresses(context: Context) -> list[str]:
    return list(connection_to(",".join(context.urls)).bases())


def _credentials(shown: Mapping[str, Any]) -> str | None:
    if shown.get("token") or shown.get("token_file"):
        return "token"
    if shown.get("username"):
        return f"user {shown['username']}"
    return "certificate" if shown.get("cert") else None
