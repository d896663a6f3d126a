"""``connectrt describe|logs|events|top|preview|check|history|rollback|loggers``: what is, was, and would be."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_connect_rt.cli.command import changing, command
from spark_connect_rt.cli.options import (
    DryRun,
    File,
    Follow,
    Form,
    Interval,
    Limit,
    MaybeName,
    Name,
    Yes,
    connector_names,
    described,
    logger_names,
    names_of_kind,
    task_names,
)
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
Logged = Annotated[
    str, typer.Argument(metavar="NAME[/TASK]", help="A connector, or a task NAME/0.", autocompletion=task_names)
]
Tail = Annotated[int, typer.Option("--tail", min=1, max=2_000, help="Maximum number of earlier lines.")]
Level = Annotated[str, typer.Option("--level", help="Only lines of this level or above: WARN, ERROR ...")]
Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", help="rebalance, failure, restart, config, state, offsets, logger, worker; repeatable."),
]
HistoryKinds = Annotated[list[str] | None, typer.Option("--kind", help="config, state, offsets or logger; repeatable.")]
Since = Annotated[str | None, typer.Option("--since", help="2026-11-21T10:00, or 2h ago.")]
Search = Annotated[str, typer.Option("--search", help="Only names that contain this text.")]
Sort = Annotated[str, typer.Option("--sort", help="abnormal, name, rate or lag.")]
Once = Annotated[bool, typer.Option("--once", help="Print the screen once and exit.")]
FileOrName = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="A connector, or a file with one.", autocompletion=connector_names),
]
Records = Annotated[int, typer.Option("--records", min=1, help="Stop after this many records.")]
Seconds = Annotated[float, typer.Option("--seconds", min=1, help="Stop after this many seconds.")]
From = Annotated[str, typer.Option("--from", help="stored: after the stored offsets; start: from the beginning.")]
Offsets = Annotated[str | None, typer.Option("--offsets", help="Start at the offsets of this JSON file.")]
Put = Annotated[bool, typer.Option("--put", help="Also write to the sink, then roll back.")]
CheckFile = Annotated[str | None, typer.Argument(metavar="[FILE]", help="The same as --filename.")]
Number = Annotated[int, typer.Argument(metavar="A", help="Number of the change (connectrt history NAME).")]
Secrets = Annotated[
    list[str] | None,
    typer.Option(
        "--secret", help="setting=value of a secret that the history hides; value - prompts for it; repeatable."
    ),
]
Logger = Annotated[str, typer.Argument(metavar="LOGGER", help="Name of the logger.", autocompletion=logger_names)]
MaybeLogger = Annotated[
    str | None,
    typer.Argument(metavar="[LOGGER]", help="Name of the logger. Default: all.", autocompletion=logger_names),
]
LoggerLevel = Annotated[str, typer.Argument(metavar="LEVEL", help="TRACE, DEBUG, INFO, WARN, ERROR or FATAL.")]
OneWorker = Annotated[
    bool, typer.Option("--this-worker", help="Only on the worker that answers, not on the whole group.")
]


def add_seeing_words(cli: typer.Typer) -> None:
    """Add them."""
    _add_looking(cli)
    _add_trying(cli)
    _add_past(cli)
    _add_loggers(cli)


def _add_looking(cli: typer.Typer) -> None:
    @cli.command(rich_help_panel=PANEL)
    @command
    def describe(session: Session, kind: What, name: Thing = None, output: Form = Output.TABLE) -> int:
        """Show everything about a connector, a task, a worker or a plug-in: its state, the reason, what to do."""
        from spark_connect_rt.operations.connectors.describe import describe as show

        return show(session, [kind] if name is None else [kind, name], output)

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

    @cli.command(rich_help_panel=PANEL)
    @command
    def top(
        session: Session, search: Search = "", sort: Sort = "", interval: Interval = 2.0, once: Once = False
    ) -> int:
        """Show the connectors on a live screen, failing ones first. Ctrl-C ends it."""
        from spark_connect_rt.operations.overview.actions import top as live

        return live(session, search, sort, interval, once)


def _add_trying(cli: typer.Typer) -> None:
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
    def check(session: Session, word: CheckFile = None, file: File = None, output: Form = Output.TABLE) -> int:
        """Check a connector's hosts, credentials and topics before it is created. Exit code 1: a problem."""
        from spark_connect_rt.errors import BadRequestError
        from spark_connect_rt.operations.preview import actions as previewing

        if (word is None) == (file is None):
            raise BadRequestError("check -f FILE")
        return previewing.check(session, word or file or "-", output)


def _add_past(cli: typer.Typer) -> None:
    @cli.command(rich_help_panel=PANEL)
    @command
    def history(
        session: Session,
        name: MaybeName = None,
        kinds: HistoryKinds = None,
        limit: Limit = 100,
        output: Form = Output.TABLE,
    ) -> int:
        """List the changes of configurations, states, offsets and loggers: who, when, what."""
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


def _add_loggers(cli: typer.Typer) -> None:
    loggers = typer.Typer(help="Log levels of a worker, or of the whole group.", no_args_is_help=True)
    cli.add_typer(loggers, name="loggers", rich_help_panel=PANEL)

    @loggers.command("get")
    @command
    def get_loggers(session: Session, name: MaybeLogger = None, output: Form = Output.TABLE) -> int:
        """List the loggers of the worker that answers."""
        from spark_connect_rt.cli import get as getting
        from spark_connect_rt.cli import kinds

        return getting.get(session, kinds.kind_of("loggers"), kinds.GetQuery([name] if name else []), output)

    @loggers.command("set")
    @changing
    def set_logger(session: Session, name: Logger, level: LoggerLevel, one_worker: OneWorker = False) -> int:
        """Set a logger and all below it on every worker of the group."""
        from spark_connect_rt.base.loggers import LEVELS
        from spark_connect_rt.errors import BadRequestError
        from spark_connect_rt.rest.client import calls

        if level.upper() not in LEVELS:
            raise BadRequestError(f"{level} is not a valid level. Use one of {', '.join(LEVELS)}")
        session.ask(calls.set_logger(name, level.upper(), cluster=not one_worker))
        where = "on the worker that answered" if one_worker else "on every worker"
        session.terminal.line(f"logger {name} is {level.upper()} {where}")
        return 0
