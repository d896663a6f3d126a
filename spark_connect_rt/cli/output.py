"""How results, differences and questions get to the terminal: the one way for every command on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import Column, Item, Output, Table, json_text, yaml_text
from spark_connect_rt.cli.terminal import one_line

if TYPE_CHECKING:
    from spark_connect_rt.cli.differences import SettingDifference


def show_data(session: Session, value: Any, output: Output) -> bool:
    """Write a value as JSON or YAML, if that is wanted; return whether it was."""
    if output not in (Output.JSON, Output.YAML):
        return False
    session.terminal.write(json_text(value) if output is Output.JSON else yaml_text(value))
    return True


def show_items(
    session: Session,
    items: Sequence[Item],
    columns: Sequence[Column],
    output: Output,
    *,
    key: Callable[[Item], str],
    nothing: str = "",
) -> None:
    """Write a list in any form; ``key``: returns an item's name, ``nothing``: printed in place of an empty table."""
    if output is Output.NAME:
        session.terminal.write("".join(f"{one_line(key(item))}\n" for item in items))
    elif show_data(session, list(items), output):
        return
    elif items or not nothing:
        session.terminal.write(Table(columns, output is Output.WIDE, session.terminal.styled).text(items))
    else:
        session.terminal.note(nothing)


def show_differences(session: Session, title: str, differences: Sequence[SettingDifference]) -> None:
    """Write a title and what differs between two configurations; secrets are hidden."""
    from spark_connect_rt.cli.differences import difference_lines

    _show(session, title, difference_lines(differences))


def show_offset_differences(session: Session, title: str, differences: Sequence[SettingDifference]) -> None:
    """Write a title and what differs between two sets of offsets: none of it is secret, whatever it is named."""
    from spark_connect_rt.cli.differences import difference_lines

    _show(session, title, difference_lines(differences, hide=False))


def sure(session: Session, yes: bool, question: str, done: str = "changed") -> bool:
    """Return whether the action may run: ``yes``, or the answer of the user; ``done``: the verb for the refusal."""
    if yes or session.terminal.confirmed(question):
        return True
    why = "" if session.terminal.is_interactive() else ": needs --yes when not interactive"
    session.terminal.note(f"nothing was {done}{why}")
    return False


def _show(session: Session, title: str, lines: Iterable[tuple[str, str]]) -> None:
    written = list(lines)
    if written:
        session.terminal.line(title, "bold")
    for line, style in written:
        session.terminal.line(f"  {line}", style)
