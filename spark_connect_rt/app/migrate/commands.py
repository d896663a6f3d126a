"""The words ``connectrt migrate check``. Its code is in app/migrate/check.py, imported when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

Act = Callable[[Path, Sequence[str] | None, Callable[[Mapping[str, str]], int]], object]
"""(properties file, overrides, command) -> exits the process."""


class ReportFormat(Enum):
    """How the report is printed."""

    TEXT = "text"
    JSON = "json"


JavaFile = Annotated[Path, typer.Argument(help="A Java worker's properties file.")]
Form = Annotated[ReportFormat, typer.Option("--output", "-o", help="text, or json for scripts.")]
Override = Annotated[list[str] | None, typer.Option("--set", help="name=value, overrides the file; repeatable.")]


def add_migrate_commands(cli: typer.Typer, act: Act) -> None:
    """Add the group of words; ``act`` reads the file, runs, turns errors into exit codes."""
    migrate = typer.Typer(help="From Java workers to Spark workers, and back.", no_args_is_help=True)
    cli.add_typer(migrate, name="migrate")

    @migrate.callback()
    def words() -> None:
        """From Java workers to Spark workers, and back."""

    @migrate.command()
    def check(file: JavaFile, output: Form = ReportFormat.TEXT, override: Override = None) -> None:
        """Say what a Java worker's file, plug-ins and connectors become here. Exit code 26: change something first.

        Reads plugin.path and the three internal topics; writes nothing, joins no group.
        """

        def run(settings: Mapping[str, str]) -> int:
            from spark_connect_rt.app.migrate.check import migrate_check

            return migrate_check(settings, str(file), output is ReportFormat.JSON)

        act(file, override, run)
