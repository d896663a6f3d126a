"""``connectrt apply``, ``diff -f``, ``create``, ``patch``: files and words become configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from spark_connect_rt.base.exit_codes import EXIT_DIFFERENT, EXIT_PROBLEM
from spark_connect_rt.cli.differences import SettingDifference, config_differences
from spark_connect_rt.cli.files import Document, read_documents, read_one
from spark_connect_rt.cli.kinds import connector_rows
from spark_connect_rt.cli.output import show_differences, sure
from spark_connect_rt.cli.selecting import is_pattern
from spark_connect_rt.cli.session import Session, exit_code_of, lines_of
from spark_connect_rt.cli.tables import counted
from spark_connect_rt.errors import BadRequestError, ConnectError
from spark_connect_rt.rest.client import calls


class ApplyAction(Enum):
    """The change that ``apply`` makes to a connector."""

    CREATE = "created"
    CONFIGURE = "configured"
    KEEP = "unchanged"
    DELETE = "deleted"


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One connector's part of an apply."""

    name: str
    action: ApplyAction
    differences: Sequence[SettingDifference] = ()
    document: Document | None = None
    state: str | None = None  # to ask for, after the configuration


def plan(documents: Sequence[Document], there: Sequence[Mapping[str, Any]], prune: str | None) -> list[PlannedChange]:
    """Return what to do, deletions last. ``there``: rows; ``prune``: a pattern of names that no document keeps."""
    from fnmatch import fnmatchcase

    by_name = {row["name"]: row for row in there}
    planned = [_planned(document, by_name.get(document.name)) for document in documents]
    kept = {document.name for document in documents}
    if prune is None:
        return planned
    return planned + [
        PlannedChange(name, ApplyAction.DELETE, config_differences(row["config"], {}))
        for name, row in by_name.items()
        if name not in kept and fnmatchcase(name, prune)
    ]


def _planned(document: Document, row: Mapping[str, Any] | None) -> PlannedChange:
    if row is None:
        return PlannedChange(document.name, ApplyAction.CREATE, config_differences({}, document.config), document)
    differences = config_differences({**row["config"], "name": document.name}, document.config)
    state = document.state if document.state and document.state != row["state"] else None
    return PlannedChange(
        document.name, ApplyAction.CONFIGURE if differences else ApplyAction.KEEP, differences, document, state
    )


def apply(session: Session, files: Sequence[str], prune: str | None, dry_run: bool, yes: bool) -> int:
    """Create and configure what the files ask for. One that is refused does not keep the others back."""
    planned = plan(read_documents(files), connector_rows(session.ask(calls.connectors())), prune)
    doomed = [connector.name for connector in planned if connector.action is ApplyAction.DELETE]
    if doomed and not dry_run and not yes:
        session.terminal.note(f"no file contains these connectors: {', '.join(doomed)}")
        if not sure(session, yes, f"delete {counted(len(doomed), 'connector')}?"):
            return EXIT_PROBLEM
    worst = 0
    for connector in planned:
        try:
            _show(session, connector)
            if dry_run:
                _check(session, connector)
            else:
                _carry_out(session, connector)
            tail = " (dry run)" if dry_run else ""
            session.terminal.line(f"connector {connector.name} {connector.action.value}{_state(connector)}{tail}")
        except ConnectError as error:
            worst = worst or exit_code_of(error)
            for line in lines_of(error):
                session.terminal.note(f"connector {connector.name}: {line}")
    return worst


def diff(session: Session, files: Sequence[str], prune: str | None) -> int:
    """Show what apply would change. Exit code 6: something."""
    planned = plan(read_documents(files), connector_rows(session.ask(calls.connectors())), prune)
    changing = [connector for connector in planned if connector.action is not ApplyAction.KEEP or connector.state]
    for connector in changing:
        _show(session, connector)
        if connector.action is ApplyAction.KEEP:
            session.terminal.line(f"connector {connector.name}{_state(connector)}")
    return EXIT_DIFFERENT if changing else 0


def create(session: Session, words: Sequence[str], file: str | None, state: str | None, dry_run: bool) -> int:
    """Create one connector: from a file, or NAME setting=value ... Refused when it is there."""
    if (file is None) == (not words):
        raise BadRequestError("create -f FILE, or create NAME setting=value ...")
    document = read_one(file) if file else Document(words[0], _settings(words[1:]) | {"name": words[0]}, "")
    wanted = state or document.initial_state or document.state
    if dry_run:
        _check(session, PlannedChange(document.name, ApplyAction.CREATE, (), document))
        session.terminal.line(f"connector {document.name} created (dry run)")
        return 0
    answer = session.ask(calls.create(document.name, document.config, wanted, document.initial_offsets))
    session.terminal.line(f"connector {document.name} created")
    if answer.get("offsets_status"):
        session.terminal.line(f"offsets: {answer['offsets_status']}")
    return 0


def patch(session: Session, name: str, words: Sequence[str], dry_run: bool) -> int:
    """Change some settings: setting=value; setting- removes one."""
    changes: dict[str, str | None] = {}
    for word in words:
        if word.endswith("-") and "=" not in word:
            changes[word[:-1]] = None
        else:
            changes |= _settings([word])
    if not changes:
        raise BadRequestError("patch NAME setting=value ... or setting-")
    before = session.ask(calls.config(name))
    after = {key: value for key, value in {**before, **changes}.items() if value is not None}
    planned = PlannedChange(name, ApplyAction.CONFIGURE, config_differences(before, after), Document(name, after, ""))
    if not planned.differences:
        session.terminal.line(f"connector {name} unchanged")
        return 0
    _show(session, planned)
    if dry_run:
        _check(session, planned)
    else:
        session.ask(calls.patch_config(name, changes))
    session.terminal.line(f"connector {name} configured{' (dry run)' if dry_run else ''}")
    return 0


def refuse_invalid(session: Session, config: Mapping[str, str]) -> None:
    """Have a configuration validated, and note each setting that nothing reads.

    Raises BadConfigError with every problem.
    """
    # Imported when needed: other commands start faster without them.
    from spark_connect_rt.config.unread_settings import unread_settings
    from spark_connect_rt.errors import BadConfigError
    from spark_connect_rt.plugins.bundled_plugins import BUNDLED

    plugin = config.get("connector.class")
    if not plugin:
        raise BadConfigError({"connector.class": ["is missing"]})
    answer = session.ask(calls.validate(plugin, config))
    problems = {
        setting["value"]["name"]: setting["value"]["errors"]
        for setting in answer["configs"]
        if setting.get("value", {}).get("errors")
    }
    declared = {setting["definition"]["name"] for setting in answer["configs"] if setting.get("definition")}
    in_python = config.get("connectrt.runtime") != "java" and any(plugin in desc.names() for desc in BUNDLED)
    for unread in unread_settings(config, declared, declares_all=in_python):
        session.terminal.note(f"warning: {unread.sentence()}")
    if problems:
        raise BadConfigError(problems)


def _show(session: Session, planned: PlannedChange) -> None:
    show_differences(session, f"connector {planned.name}", planned.differences)


def _check(session: Session, planned: PlannedChange) -> None:
    if planned.document is not None and planned.action is not ApplyAction.KEEP:
        refuse_invalid(session, planned.document.config)


def _carry_out(session: Session, planned: PlannedChange) -> None:
    document = planned.document
    if planned.action is ApplyAction.DELETE:
        session.ask(calls.delete(planned.name))
    elif document is not None and planned.action is ApplyAction.CREATE:
        state = document.initial_state or document.state
        session.ask(calls.create(planned.name, document.config, state, document.initial_offsets))
    elif document is not None and planned.action is ApplyAction.CONFIGURE:
        session.ask(calls.put_config(planned.name, document.config))
    if planned.state:
        session.ask(state_call(planned.name, planned.state))


def state_call(name: str, state: str) -> calls.Call[None]:
    """Return the request for a target state. Raises BadRequestError: there is no such state."""
    acts = {"PAUSED": calls.pause, "RUNNING": calls.resume, "STOPPED": calls.stop}
    if state not in acts:
        raise BadRequestError(f"connector {name}: state {state} is not valid. Use one of {', '.join(acts)}")
    return acts[state](name)


def _state(planned: PlannedChange) -> str:
    return f", {planned.state.lower()}" if planned.state else ""


def _settings(words: Sequence[str]) -> dict[str, str]:
    settings = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key or is_pattern(key):
            raise BadRequestError(f"{word}: expected setting=value")
        settings[key.strip()] = value
    return settings
