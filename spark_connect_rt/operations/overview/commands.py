"""``connectrt top``: the connectors on a live screen."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_connect_rt.cli.command import command
from spark_connect_rt.cli.options import Interval
from spark_connect_rt.cli.reading_options import PANEL
from spark_connect_rt.cli.session import Session

Search = Annotated[str, typer.Option("--search", help="Only names that contain this text.")]
Sort = Annotated[str, typer.Option("--sort", help="abnormal, name, rate or lag.")]
Once = Annotated[bool, typer.Option("--once", help="Print the screen once and exit.")]


def add_overview_command(cli: typer.Typer) -> None:
    """Add ``top`` to the command line."""

    @cli.command(rich_help_panel=PANEL)
    @command
    def top(
        session: Session, search: Search = "", sort: Sort = "", interval: Interval = 2.0, once: Once = False
    ) -> int:
        """Show the connectors on a live screen, failing ones first. Ctrl-C ends it."""
        from spark_connect_rt.operations.overview.actions import top as live

        return live(session, search, sort, interval, once)
