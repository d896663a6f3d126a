"""``connectrt offsets get|set|reset|history|diff|undo|goto``: over REST, and the subcommands that read a worker's file.

``offsets reset`` is both: with one argument a connector of the cluster, with two a worker's file and a connector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from spark_connect_rt.cli.command import ContextName, Note, Url, changing, command, session_of
from spark_connect_rt.cli.options import DryRun, Form, Limit, Name, Names, Yes
from spark_connect_rt.cli.session import Session, run
from spark_connect_rt.cli.tables import Output
from spark_connect_rt.errors import BadRequestError

Act = Callable[[Path, Sequence[str] | None, Callable[[Mapping[str, str]], int]], object]
FileReset = Callable[[Path, str, Path | None, str | None, bool, list[str] | None], None]
"""(worker's file, connector, backup, url, apply, overrides): the reset that reads a worker's file."""

OffsetsFile = Annotated[str | None, typer.Argument(metavar="[FILE]", help="The same as --filename.")]
OffsetsFileOption = Annotated[
    str | None,
    typer.Option(
        "--filename", "-f", help='JSON: {"offsets": [{"partition": ..., "offset": ...}]}; - for standard input.'
    ),
]
Partition = Annotated[str | None, typer.Option("--partition", help="One source partition, JSON.")]
Offset = Annotated[str | None, typer.Option("--offset", help="Its offset, JSON; null deletes it.")]
Stop = Annotated[bool, typer.Option("--stop", help="Stop the connector for the change, and resume it afterwards.")]
First = Annotated[int, typer.Argument(metavar="A", help="Number of a change (connectrt offsets history NAME).")]
Second = Annotated[int, typer.Argument(metavar="B", help="Number of another change.")]
MaybeNumber = Annotated[int | None, typer.Argument(metavar="[A]", help="Number of the change. Default: the last one.")]
Force = Annotated[bool, typer.Option("--force", help="Even if the connector has moved on since the change.")]
Time = Annotated[
    str, typer.Option("--time", help="2026-11-21T10:00 (time zone of this machine), ms since 1970, or 2h ago.")
]
FileAndName = Annotated[
    list[str], typer.Argument(metavar="[FILE] NAME", help="The connector, optionally after a worker's properties file.")
]
NewFile = Annotated[Path | None, typer.Option("--backup", help="With a worker's file: a new file for the backup.")]
Apply = Annotated[bool, typer.Option("--apply", help="With a worker's file: apply the change.")]
Override = Annotated[list[str] | None, typer.Option("--set", help="With a worker's file: name=value; repeatable.")]


def add_offset_words(offsets: typer.Typer, file_reset: FileReset) -> None:
    """Add them to the subcommands of ``offsets``."""
    _add_present(offsets, file_reset)
    _add_past(offsets)


def _add_present(offsets: typer.Typer, file_reset: FileReset) -> None:
    @offsets.command("get")
    @command
    def get_offsets(session: Session, names: Names = None, output: Form = Output.TABLE) -> int:
        """List committed offsets, over REST."""
        from spark_connect_rt.cli import get as getting
        from spark_connect_rt.cli import kinds

        return getting.get(session, kinds.kind_of("offsets"), kinds.GetQuery(names or []), output)

    @offsets.command("set")
    @changing
    def set_offsets(
        session: Session,
        name: Name,
        word: OffsetsFile = None,
        file: OffsetsFileOption = None,
        partition: Partition = None,
        offset: Offset = None,
        stop: Stop = False,
        dry_run: DryRun = False,
        yes: Yes = False,
    ) -> int:
        """Set offsets of a stopped connector, over REST; the difference is shown first."""
        from spark_connect_rt.operations.connectors import offset_changes

        if word is not None and file is not None:
            raise BadRequestError("offsets set NAME -f FILE: one file")
        return offset_changes.set_offsets(session, name, file or word, (partition, offset), (stop, dry_run, yes))

    @offsets.command()
    def reset(
        ctx: typer.Context,
        words: FileAndName,
        stop: Stop = False,
        dry_run: DryRun = False,
        yes: Yes = False,
        context: ContextName = None,
        url: Url = None,
        note: Note = None,
        safety: NewFile = None,
        apply: Apply = False,
        override: Override = None,
    ) -> None:
        """Reset all offsets of a connector, over REST.

        With a worker's file before the name: a running worker is asked, without one this command does it.
        """
        if len(words) == 2:
            file_reset(Path(words[0]), words[1], safety, url, apply, override)
            return

        def act(session: Session) -> int:
            from spark_connect_rt.operations.connectors import offset_changes

            if len(words) != 1 or safety or apply or override:
                raise BadRequestError("offsets reset NAME, or offsets reset FILE NAME [--backup, --apply, --set]")
            return offset_changes.reset_offsets(session, words[0], (stop, dry_run, yes))

        code = run(session_of(ctx, context, url, note), act)
        if code:
            raise SystemExit(code)


def _add_past(offsets: typer.Typer) -> None:
    @offsets.command()
    @command
    def history(session: Session, name: Name, limit: Limit = 100, output: Form = Output.TABLE) -> int:
        """List the changes of a connector's offsets."""
        from spark_connect_rt.cli import get as getting
        from spark_connect_rt.cli import kinds

        asked = kinds.GetQuery([name], (), output is Output.WIDE, limit, ("offsets",))
        return getting.get(session, kinds.kind_of("history"), asked, output)

    @offsets.command()
    @command
    def diff(session: Session, name: Name, before: First, after: Second) -> int:
        """Compare the offsets after two changes. Exit code 6: differences."""
        from spark_connect_rt.operations.history import actions as past

        return past.offsets_diff(session, name, before, after)

    @offsets.command()
    @changing
    def undo(
        session: Session,
        name: Name,
        number: MaybeNumber = None,
        force: Force = False,
        dry_run: DryRun = False,
        yes: Yes = False,
    ) -> int:
        """Undo a change of offsets: stop the connector, write, start it again. Exit code 9: not safe."""
        from spark_connect_rt.operations.history import actions as past

        return past.undo_offsets(session, name, number, past.RollbackOptions(dry_run, yes, force))

    @offsets.command()
    @changing
    def goto(session: Session, name: Name, time: Time, dry_run: DryRun = False, yes: Yes = False) -> int:
        """Set the offsets to where the connector was at a time."""
        from spark_connect_rt.operations.history import actions as past

        return past.goto(session, name, time, dry_run, yes)
