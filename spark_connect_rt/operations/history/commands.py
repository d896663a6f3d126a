"""``connectrt history`` and ``rollback``: the changes of the group, and the way back."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_connect_rt.cli.command import changing, command
from spark_connect_rt.cli.options import DryRun, Form, Limit, MaybeName, Name, Yes
from spark_connect_rt.cli.reading_options import PANEL
from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import Output

HistoryKinds = Annotated[list[str] | None, typer.Option("--kind", help="config, state, offsets or logger; repeatable.")]
Number = Annotated[int, typer.Argument(metavar="A", help="Number of the change (connectrt history NAME).")]
Secrets = Annotated[
    list[str] | None,
    typer.Option(
        "--secret", help="setting=value of a secret that the history hides. The value - prompts for it. Repeatable."
    ),
]


def add_history_commands(cli: typer.Typer) -> None:
    """Add ``history`` and ``rollback`` to the command line."""

    @cli.command(rich_help_panel=PANEL)
    @command
    def history(
        session: Session,
        name: MaybeName = None,
        kinds: HistoryKinds = None,
        limit: Limit = 100,
        output: Form = Output.TABLE,
    ) -> int:
        """List the changes of configurations, states, offsets and loggers, with user, time and content."""
        from spark_connect_rt.cli import get as getting
        from spark_connect_rt.cli import kinds as known

        asked = known.GetQuery([name] if name else [], (), output is Output.WIDE, limit, tuple(kinds or ()))
        return getting.get(session, known.kind_of("history"), asked, output)

    @cli.command(rich_help_panel=PANEL)
    @changing
    def rollback(
        session: Session, name: Name, number: Number, secrets: Secrets = None, dry_run: DryRun = False, yes: Yes = False
    ) -> int:
        """Restore a configuration to what it was after change A; the difference is shown first."""
        from spark_connect_rt.operations.history import actions as past

        return past.rollback(session, name, number, secrets or [], past.RollbackOptions(dry_run, yes))
