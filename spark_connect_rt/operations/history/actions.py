"""``connectrt history|diff|rollback`` and ``offsets history|diff|undo|goto``: the time machine."""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.base.exit_codes import EXIT_CHANGED_MEANWHILE, EXIT_DIFFERENT, EXIT_PROBLEM
from spark_connect_rt.cli.differences import SettingDifference, of_answer, offset_differences
from spark_connect_rt.cli.output import show_differences, show_offset_differences, sure
from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import compact, time_ms, time_text
from spark_connect_rt.errors import BadRequestError, NotFoundError
from spark_connect_rt.rest.client import management_calls


def config_diff(session: Session, name: str, before: int, after: int) -> int:
    """Show what differs between the configurations after two changes. Exit code 6: something."""
    differences = of_answer(session.ask(management_calls.config_diff(name, before, after)))
    show_differences(session, f"connector {name}, from change {before} to {after}", differences)
    return EXIT_DIFFERENT if differences else 0


@dataclass(frozen=True, slots=True)
class RollbackOptions:
    """How far a way back is taken; ``force``: though the connector has moved on."""

    dry_run: bool = False
    yes: bool = False
    force: bool = False


def rollback(session: Session, name: str, number: int, words: Sequence[str], how: RollbackOptions) -> int:
    """Make the configuration what it was after a change; shown first, and asked. ``words``: secrets, name=value."""
    secrets = _secrets(words)
    shown = session.ask(management_calls.rollback(name, number, dry_run=True, secrets=secrets))
    differences = of_answer(shown["diff"])
    show_differences(session, f"connector {name}, back to change {number}", differences)
    for setting in shown.get("kept") or ():
        session.terminal.note(f"{setting} is hidden in the history and keeps its current value")
    for setting, reasons in (shown.get("problems") or {}).items():
        session.terminal.note(f"{setting}: {'; '.join(reasons)}")
    if not differences:
        session.terminal.line(f"connector {name} unchanged")
        return 0
    if how.dry_run or not sure(session, how.yes, f"write this configuration of connector {name}?"):
        return 0 if how.dry_run else EXIT_PROBLEM
    session.ask(management_calls.rollback(name, number, secrets=secrets))
    session.terminal.line(f"connector {name} rolled back to change {number}")
    return 0


def offsets_diff(session: Session, name: str, before: int, after: int) -> int:
    """Show what differs between the offsets after two changes of them. Exit code 6: something."""
    sides = [_offsets_after(session, name, number) for number in (before, after)]
    differences = offset_differences(*sides)
    show_offset_differences(session, f"connector {name}, from change {before} to {after}", differences)
    return EXIT_DIFFERENT if differences else 0


def undo_offsets(session: Session, name: str, number: int | None, how: RollbackOptions) -> int:
    """Take back a change of offsets; the last one unless a number is given."""
    if number is None:
        found = session.ask(management_calls.history(name, kind=["offsets"], limit=1))["changes"]
        if not found:
            raise NotFoundError(f"the history has no change of the offsets of connector {name}")
        number = found[0]["number"]
        when = time_text(found[0]["at_ms"])
        session.terminal.line(f"change {number}: {found[0]['action']}, {when}, by {found[0].get('who') or 'unknown'}")
    shown = session.ask(management_calls.undo(name, number, dry_run=True, force=how.force))
    code = _show_moves(session, name, f"undo of change {number}", shown)
    if code is not None or how.dry_run:
        return code or 0
    if not sure(session, how.yes, f"stop connector {name}, write these offsets, and resume it?"):
        return EXIT_PROBLEM
    session.ask(management_calls.undo(name, number, force=how.force))
    session.terminal.line(f"connector {name}: change {number} of its offsets was undone")
    return 0


def goto(session: Session, name: str, when: str, dry_run: bool, yes: bool) -> int:
    """Set the offsets to where the connector was at a time."""
    at_ms = time_ms(when, session.around.now_ms())
    shown = session.ask(management_calls.offsets_goto(name, at_ms, dry_run=True))
    title = f"as of {time_text(shown.get('at_ms') or at_ms)}"
    code = _show_moves(session, name, title, shown)
    if code is not None or dry_run:
        return code or 0
    if not sure(session, yes, f"stop connector {name}, write these offsets, and resume it?"):
        return EXIT_PROBLEM
    session.ask(management_calls.offsets_goto(name, at_ms))
    session.terminal.line(f"connector {name}: offsets {title}")
    return 0


def _show_moves(session: Session, name: str, title: str, shown: Mapping[str, Any]) -> int | None:
    """Show what would be written; an exit code where it ends with that."""
    moves = [
        SettingDifference(compact(offset["partition"]), _offset(offset.get("from")), _offset(offset.get("to")))
        for offset in shown["offsets"]
    ]
    show_offset_differences(session, f"connector {name}, {title}", moves)
    problems: Sequence[str] = shown.get("problems") or ()
    for problem in problems:
        session.terminal.note(f"connectrt: {problem}")
    if problems:
        return EXIT_CHANGED_MEANWHILE
    if not moves:
        session.terminal.line(f"connector {name}: offsets unchanged")
        return 0
    return None


def _secrets(words: Sequence[str]) -> dict[str, str]:
    secrets = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise BadRequestError("--secret: expected setting=value")
        secrets[name] = getpass.getpass(f"{name}: ") if value == "-" else value
    return secrets


def _offset(offset: Any) -> str | None:
    return None if offset is None else compact(offset)


def _offsets_after(session: Session, name: str, number: int) -> Sequence[Mapping[str, Any]]:
    change = session.ask(management_calls.change(name, number))
    if change["kind"] != "offsets":
        raise BadRequestError(f"change {number} changed the {change['kind']}, not offsets")
    after = change.get("after")
    found = after.get("offsets", ()) if isinstance(after, dict) else after
    return found or ()
