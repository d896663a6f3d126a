"""The commands ``connectrt dlq list|show|replay|status|stop|resume|delete`` for dead letters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from spark_connect_rt.cli.command import command
from spark_connect_rt.cli.options import DryRun, Form, Limit, MaybeName, Name, Yes
from spark_connect_rt.cli.reading_options import PANEL
from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import Output
from spark_connect_rt.errors import BadRequestError
from spark_connect_rt.operations.dead_letters.model import LETTERS_DEFAULT

Topic = Annotated[str | None, typer.Option("--topic", help="A dead-letter topic, instead of a connector.")]
Letter = Annotated[str, typer.Argument(metavar="PARTITION/OFFSET", help="PARTITION/OFFSET, as dlq list shows it.")]
Letters = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PARTITION/OFFSET...]",
        help="PARTITION/OFFSET of letters. Default: those that match the filter, or all.",
    ),
]
Target = Annotated[str, typer.Option("--target", help="topic: the original topic; sink: through the connector.")]
PatchFile = Annotated[str | None, typer.Option("--patch", help="A file with a JSON patch of key, value and headers.")]
TransformsFile = Annotated[str | None, typer.Option("--transforms", help="A JSON file with transformations.")]
Rate = Annotated[float | None, typer.Option("--rate", help="Maximum number of letters per second.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until the replay ends. Exit code 1: some letters failed.")]
ReplayId = Annotated[str, typer.Argument(metavar="ID", help="Number of the replay, as dlq status shows it.")]
MaybeReplayId = Annotated[str | None, typer.Argument(metavar="[ID]", help="Number of a replay. Default: all.")]
IsTopic = Annotated[bool, typer.Option("--topic", help="NAME is the topic, not a connector.")]


@dataclass(frozen=True, slots=True)
class Filters:
    """Options that select dead letters."""

    partition: Annotated[int | None, typer.Option("--partition", help="Only this partition of the topic.")] = None
    stage: Annotated[str | None, typer.Option("--stage", help="Only this stage: VALUE_CONVERTER ...")] = None
    class_: Annotated[str | None, typer.Option("--class", help="Only errors in this class.")] = None
    message: Annotated[str | None, typer.Option("--message", help="Only error messages that contain this text.")] = None
    origin: Annotated[str | None, typer.Option("--origin", help="Only letters from this topic.")] = None
    since: Annotated[str | None, typer.Option("--since", help="2026-11-21T10:00, or 2h ago.")] = None
    until: Annotated[str | None, typer.Option("--until", help="2026-11-21T10:00, or 2h ago.")] = None
    replayed: Annotated[
        bool | None, typer.Option("--replayed/--not-replayed", help="Only letters that were replayed, or were not.")
    ] = None

    def query(self, now_ms: int) -> dict[str, Any]:
        """Return what is given of them as the management API takes it. Raises BadRequestError: no time."""
        from spark_connect_rt.cli.tables import since_ms

        found = {
            "partition": self.partition,
            "stage": self.stage,
            "class": self.class_,
            "message": self.message,
            "origin": self.origin,
            "from_ms": since_ms(self.since, now_ms),
            "to_ms": since_ms(self.until, now_ms),
            "replayed": self.replayed,
        }
        return {key: value for key, value in found.items() if value is not None}


def add_letter_words(cli: typer.Typer) -> None:
    """Add the commands for dead letters."""
    dlq = typer.Typer(help="List, show, replay and delete dead letters.", no_args_is_help=True)
    cli.add_typer(dlq, name="dlq", rich_help_panel=PANEL)
    _add_reading(dlq)
    _add_replaying(dlq)


def _add_reading(dlq: typer.Typer) -> None:
    @dlq.command("list")
    @command
    def list_letters(
        session: Session,
        name: MaybeName = None,
        topic: Topic = None,
        *,
        only: Filters,
        limit: Limit = LETTERS_DEFAULT,
        output: Form = Output.TABLE,
    ) -> int:
        """List the dead letters of a connector, or of a topic."""
        from spark_connect_rt.operations.dead_letters import actions as letters

        if (name is None) == (topic is None):
            raise BadRequestError("dlq list NAME, or dlq list --topic TOPIC")
        place = {"connector": name, "topic": topic}
        return letters.listed(session, {**place, **only.query(session.around.now_ms())}, limit, output)

    @dlq.command()
    @command
    def show(session: Session, name: Name, letter: Letter, output: Form = Output.TABLE) -> int:
        """Show one letter in full: headers, stack trace, key and value."""
        from spark_connect_rt.operations.dead_letters import actions as letters

        return letters.shown(session, name, letter, output)

    @dlq.command()
    @command
    def status(session: Session, number: MaybeReplayId = None, output: Form = Output.TABLE) -> int:
        """Show the progress of replays."""
        from spark_connect_rt.operations.dead_letters import actions as letters

        return letters.status(session, number, output)


def _add_replaying(dlq: typer.Typer) -> None:
    @dlq.command()
    @command
    def replay(
        session: Session,
        name: Name,
        words: Letters = None,
        target: Target = "topic",
        patch: PatchFile = None,
        transforms: TransformsFile = None,
        rate: Rate = None,
        *,
        only: Filters,
        dry_run: DryRun = False,
        yes: Yes = False,
        wait: Wait = False,
    ) -> int:
        """Replay one dead letter, those of a filter, or all; a sample is shown first."""
        from spark_connect_rt.operations.dead_letters import actions as letters

        wanted: dict[str, Any] = {"target": target}
        if chosen := only.query(session.around.now_ms()):
            wanted["filter"] = chosen
        if rate is not None:
            wanted["rate"] = rate
        edit = letters.edit_of(patch, transforms)
        return letters.replay(session, name, words or [], wanted | edit, letters.ReplayOptions(dry_run, yes, wait))

    @dlq.command()
    @command
    def stop(session: Session, number: ReplayId) -> int:
        """Stop a replay; it can be resumed."""
        from spark_connect_rt.operations.dead_letters import actions as letters

        return letters.stop(session, number)

    @dlq.command()
    @command
    def resume(session: Session, number: ReplayId, wait: Wait = False) -> int:
        """Resume a stopped or failed replay where it ended."""
        from spark_connect_rt.operations.dead_letters import actions as letters

        return letters.resume(session, number, wait)

    @dlq.command()
    @command
    def delete(session: Session, name: Name, topic: IsTopic = False, yes: Yes = False) -> int:
        """Delete the letters before the first that is not replayed."""
        from spark_connect_rt.operations.dead_letters import actions as letters

        return letters.delete(session, name, topic, yes)
