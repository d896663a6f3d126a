"""``connectrt preview`` and ``check``: try a connector before it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_connect_rt.cli.command import command
from spark_connect_rt.cli.options import File, Files, Form, connector_names
from spark_connect_rt.cli.reading_options import PANEL
from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import Output

FileOrName = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="A connector, or a file with one.", autocompletion=connector_names),
]
Records = Annotated[int, typer.Option("--records", min=1, help="Stop after this many records.")]
Seconds = Annotated[float, typer.Option("--seconds", min=1, help="Stop after this many seconds.")]
From = Annotated[str, typer.Option("--from", help="stored: after the stored offsets; start: from the beginning.")]
Offsets = Annotated[str | None, typer.Option("--offsets", help="Start at the offsets of this JSON file.")]
Put = Annotated[bool, typer.Option("--put", help="Also write to the sink, then roll back.")]
CheckWord = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]", help="A connector of the group, or a file or folder.", autocompletion=connector_names
    ),
]


def add_preview_commands(cli: typer.Typer) -> None:
    """Add ``preview`` and ``check`` to the command line."""

    @cli.command(rich_help_panel=PANEL)
    @command
    def preview(
        session: Session,
        word: FileOrName = None,
        file: File = None,
        records: Records = 20,
        seconds: Seconds = 30.0,
        begin: From = "stored",
        offsets: Offsets = None,
        put: Put = False,
        output: Form = Output.TABLE,
    ) -> int:
        """Show a connector's records as read, after each transformation, and as bytes. Changes nothing."""
        from spark_connect_rt.errors import BadRequestError
        from spark_connect_rt.operations.preview import actions as previewing

        if (word is None) == (file is None):
            raise BadRequestError("preview NAME, or preview -f FILE")
        options = {"records": records, "seconds": seconds, "from": begin, "put": put}
        return previewing.preview(session, word, file, options, offsets, output)

    @cli.command(rich_help_panel=PANEL)
    @command
    def check(session: Session, word: CheckWord = None, files: Files = None, output: Form = Output.TABLE) -> int:
        """Check hosts, credentials and topics of connectors of files, or of the group. Exit code 1: a problem."""
        from spark_connect_rt.errors import BadRequestError
        from spark_connect_rt.operations.preview import actions as previewing

        if (word is None) == (not files):
            raise BadRequestError("check NAME, check -f FILE or check -f FOLDER")
        if word is None or previewing.names_files(word):
            return previewing.check(session, files or [word or "-"], None, output)
        return previewing.check(session, [], word, output)
