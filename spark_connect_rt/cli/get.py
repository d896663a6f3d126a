"""``connectrt get``: a kind's items written once, or again whenever one changes."""

from __future__ import annotations

from collections.abc import Sequence

from spark_connect_rt.cli.kinds import GetQuery, Kind, kind_of
from spark_connect_rt.cli.output import show_data, show_items
from spark_connect_rt.cli.selecting import selector
from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import Item, Output, Table, compact
from spark_connect_rt.cli.terminal import one_line
from spark_connect_rt.errors import RetriableError


def get_or_watch(
    session: Session,
    word: str,
    names: Sequence[str],
    *,
    output: Output,
    selection: str | None,
    watch: bool,
    interval: float,
    limit: int,
) -> int:
    """Write the items of the kind that ``word`` means. Raises BadRequestError: there is no such kind or selector."""
    kind, asked = kind_of(word), GetQuery(names, selector(selection), output is Output.WIDE, limit)
    return follow_changes(session, kind, asked, output, interval) if watch else get(session, kind, asked, output)


def get(session: Session, kind: Kind, asked: GetQuery, output: Output) -> int:
    """Write the items once; return the exit code."""
    items = _ordered(kind, kind.fetch(session, asked), output)
    single = kind.single and len(asked.words) == 1 and len(items) == 1
    if not (single and show_data(session, items[0], output)):
        show_items(session, items, kind.columns, output, key=kind.key, nothing=f"no {kind.name}")
    return 0


def follow_changes(session: Session, kind: Kind, asked: GetQuery, output: Output, every_s: float) -> int:
    """Write the items, then each that changes, until Ctrl-C. An unreachable worker is reported once."""
    before: dict[str, Item] = {}
    table = Table(kind.columns, output is Output.WIDE, session.terminal.styled)
    away, first = "", True
    while True:
        try:
            items = _ordered(kind, kind.fetch(session, asked), output)
        except RetriableError as error:
            if first:
                raise
            if not away:
                away = str(error)
                session.terminal.note(f"connectrt: {error}; retrying")
            session.around.sleep(every_s)
            continue
        away = ""
        now = {kind.key(item): item for item in items}
        changed = [item for key, item in now.items() if before.get(key) != item]
        gone = [key for key in before if key not in now]
        _changes(session, kind, output, table, changed, gone, first)
        before, first = now, False
        session.terminal.out.flush()
        session.around.sleep(every_s)


def _ordered(kind: Kind, items: Sequence[Item], output: Output) -> Sequence[Item]:
    """Return the items in a table, those that need attention first."""
    if kind.rank is None or output not in (Output.TABLE, Output.WIDE):
        return items
    return sorted(items, key=kind.rank)


def _changes(
    session: Session,
    kind: Kind,
    output: Output,
    table: Table,
    changed: Sequence[Item],
    gone: Sequence[str],
    first: bool,
) -> None:
    terminal = session.terminal
    if output in (Output.TABLE, Output.WIDE):
        if first:
            terminal.write(table.text(changed))
            return
        lines = [*table.rows(changed), *(f"{one_line(key)}   (gone)" for key in gone)]
        terminal.write("".join(f"{line}\n" for line in lines))
    elif output is Output.NAME:
        terminal.write("".join(f"{one_line(kind.key(item))}\n" for item in changed))
    else:
        terminal.write("".join(f"{compact(item)}\n" for item in changed))
