"""``connectrt logs`` and ``events``: log lines of tasks, and events of the group."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_connect_rt.cli.command import command
from spark_connect_rt.cli.options import Follow, Form, Limit, MaybeName, task_names
from spark_connect_rt.cli.reading_options import PANEL
from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import Output

Logged = Annotated[
    str, typer.Argument(metavar="NAME[/TASK]", help="A connector, or a task NAME/0.", autocompletion=task_names)
]
Tail = Annotated[int, typer.Option("--tail", min=1, max=2_000, help="Maximum number of earlier lines.")]
Level = Annotated[str, typer.Option("--level", help="Only lines of this level or above: WARN, ERROR ...")]
Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", help="rebalance, failure, restart, config, state, offsets, logger, worker; repeatable."),
]
Since = Annotated[str | None, typer.Option("--since", help="2026-11-21T10:00, or 2h ago.")]


def add_event_commands(cli: typer.Typer) -> None:
    """Add ``logs`` and ``events`` to the command line."""

    @cli.command(rich_help_panel=PANEL)
    @command
    def logs(
        session: Session,
        name: Logged,
        tail: Tail = 1_000,
        level: Level = "",
        follow: Follow = False,
        output: Form = Output.TABLE,
    ) -> int:
        """Print the last log lines of a connector's tasks, from driver and executors."""
        from spark_connect_rt.operations.events import actions as following

        return following.logs(session, name, tail, level, follow, output)

    @cli.command(rich_help_panel=PANEL)
    @command
    def events(
        session: Session,
        name: MaybeName = None,
        kinds: Kinds = None,
        since: Since = None,
        limit: Limit = 100,
        follow: Follow = False,
        output: Form = Output.TABLE,
    ) -> int:
        """Print the events of the group: rebalances, failures, restarts, changes."""
        from spark_connect_rt.cli.tables import since_ms
        from spark_connect_rt.operations.events import actions as following

        begin = since_ms(since, session.around.now_ms())
        return following.events(session, name, kinds or [], begin, limit, follow, output)
