"""``connectrt loggers``: log levels of a worker, or of the whole group."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_connect_rt.cli.command import changing, command
from spark_connect_rt.cli.options import Form, logger_names
from spark_connect_rt.cli.reading_options import PANEL
from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import Output

Logger = Annotated[str, typer.Argument(metavar="LOGGER", help="Name of the logger.", autocompletion=logger_names)]
MaybeLogger = Annotated[
    str | None,
    typer.Argument(metavar="[LOGGER]", help="Name of the logger. Default: all.", autocompletion=logger_names),
]
LoggerLevel = Annotated[str, typer.Argument(metavar="LEVEL", help="TRACE, DEBUG, INFO, WARN, ERROR or FATAL.")]
OneWorker = Annotated[
    bool, typer.Option("--this-worker", help="Only on the worker that answers, not on the whole group.")
]


def add_logger_commands(cli: typer.Typer) -> None:
    """Add ``loggers get`` and ``loggers set`` to the command line."""

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
