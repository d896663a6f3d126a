"""``connectrt describe``: everything about a connector, a task, a worker or a plug-in."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_connect_rt.cli.command import command
from spark_connect_rt.cli.options import Form, described, names_of_kind
from spark_connect_rt.cli.reading_options import PANEL
from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import Output

What = Annotated[
    str,
    typer.Argument(
        metavar="[KIND]",
        help="connector (the default), task, worker or plugin.",
        autocompletion=described,
    ),
]
Thing = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="Its name. For a task: NAME/0.", autocompletion=names_of_kind),
]


def add_describe_command(cli: typer.Typer) -> None:
    """Add ``describe`` to the command line."""

    @cli.command(rich_help_panel=PANEL)
    @command
    def describe(session: Session, kind: What, name: Thing = None, output: Form = Output.TABLE) -> int:
        """Show everything about a connector, a task, a worker or a plug-in: its state, the reason, what to do."""
        from spark_connect_rt.operations.connectors.describe import describe as show

        return show(session, [kind] if name is None else [kind, name], output)
