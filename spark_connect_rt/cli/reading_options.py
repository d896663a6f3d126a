"""``connectrt get`` and its neighbours that only read."""

from __future__ import annotations

import typer

from spark_connect_rt.cli.command import command
from spark_connect_rt.cli.options import Form, Interval, KindName, Limit, NamesOfKind, Selection, Watch
from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import Output

PANEL = "See and change a cluster, over REST"


def add_reading_words(cli: typer.Typer) -> None:
    """Add the commands that only read."""

    @cli.command(rich_help_panel=PANEL)
    @command
    def get(
        session: Session,
        kind: KindName,
        names: NamesOfKind = None,
        output: Form = Output.TABLE,
        selection: Selection = None,
        watch: Watch = False,
        interval: Interval = 2.0,
        limit: Limit = 100,
    ) -> int:
        """List connectors, tasks, workers, plug-ins, offsets, topics, loggers, dead letters, events or changes."""
        from spark_connect_rt.cli.get import get_or_watch

        return get_or_watch(
            session,
            kind,
            names or [],
            output=output,
            selection=selection,
            watch=watch,
            interval=interval,
            limit=limit,
        )
