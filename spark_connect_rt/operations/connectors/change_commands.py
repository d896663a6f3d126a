"""``connectrt apply``, ``pause`` and its neighbours that change something."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_connect_rt.cli.command import changing, command
from spark_connect_rt.cli.options import DryRun, File, Files, Many, Name, SomeNames, Yes
from spark_connect_rt.cli.reading_options import PANEL
from spark_connect_rt.cli.session import Session

Prune = Annotated[bool, typer.Option("--prune", help="Delete connectors that are in no file, after confirmation.")]
Pruned = Annotated[str, typer.Option("--prune-matching", metavar="PATTERN", help="Limit --prune to names that match.")]
ConnectorOnly = Annotated[bool, typer.Option("--connector-only", help="Restart the connector without its tasks.")]
Words = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME setting=value...]", help="Settings instead of a file.")
]
DiffWords = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME A B]", help="A connector and the numbers of two changes in its history."),
]
Changes = Annotated[list[str], typer.Argument(metavar="setting=value...", help="setting=value sets, setting- removes.")]
State = Annotated[str | None, typer.Option("--state", help="Initial state: RUNNING, PAUSED or STOPPED.")]
Condition = Annotated[
    str, typer.Option("--for", help="state=STATE (connector and tasks), connector=STATE, create or delete.")
]
Timeout = Annotated[float, typer.Option("--timeout", min=0, help="Seconds to wait.")]


def add_changing_words(cli: typer.Typer) -> None:
    """Add the commands that change connectors."""
    _add_configuring(cli)
    _add_steering(cli)


def _add_configuring(cli: typer.Typer) -> None:
    @cli.command(rich_help_panel=PANEL)
    @changing
    def apply(
        session: Session,
        files: Files = None,
        prune: Prune = False,
        prune_matching: Pruned = "*",
        dry_run: DryRun = False,
        yes: Yes = False,
    ) -> int:
        """Create and configure connectors from files, and show what changes."""
        from spark_connect_rt.operations.connectors import apply as applying

        return applying.apply(session, files or [], prune_matching if prune else None, dry_run, yes)

    @cli.command(rich_help_panel=PANEL)
    @command
    def diff(
        session: Session,
        words: DiffWords = None,
        files: Files = None,
        prune: Prune = False,
        prune_matching: Pruned = "*",
    ) -> int:
        """Show what apply -f would change, or compare changes A and B. Exit code 6: differences."""
        from spark_connect_rt.errors import BadRequestError
        from spark_connect_rt.operations.connectors import apply as applying

        if not words:
            return applying.diff(session, files or [], prune_matching if prune else None)
        if files or len(words) != 3 or not (words[1].isdigit() and words[2].isdigit()):
            raise BadRequestError("diff -f FILE, or diff NAME A B with the numbers of changes (connectrt history NAME)")
        from spark_connect_rt.operations.history import actions as past

        return past.config_diff(session, words[0], int(words[1]), int(words[2]))

    @cli.command(rich_help_panel=PANEL)
    @changing
    def create(
        session: Session, words: Words = None, file: File = None, state: State = None, dry_run: DryRun = False
    ) -> int:
        """Create one connector. Exit code 9: it exists already."""
        from spark_connect_rt.operations.connectors import apply as applying

        return applying.create(session, words or [], file, state, dry_run)

    @cli.command(rich_help_panel=PANEL)
    @changing
    def patch(session: Session, name: Name, changes: Changes, dry_run: DryRun = False) -> int:
        """Change some settings of a connector."""
        from spark_connect_rt.operations.connectors import apply as applying

        return applying.patch(session, name, changes, dry_run)

    @cli.command(rich_help_panel=PANEL)
    @changing
    def edit(session: Session, name: Name) -> int:
        """Open a connector's configuration in $VISUAL or $EDITOR. Exit code 9: another client changed it."""
        from spark_connect_rt.operations.connectors import edit as editing

        return editing.edit(session, name)


def _add_steering(cli: typer.Typer) -> None:
    @cli.command(rich_help_panel=PANEL)
    @changing
    def pause(session: Session, many: Many, dry_run: DryRun = False) -> int:
        """Pause connectors: their tasks stay where they are."""
        return _steer(session, "pause", many, dry_run)

    @cli.command(rich_help_panel=PANEL)
    @changing
    def resume(session: Session, many: Many, dry_run: DryRun = False) -> int:
        """Resume paused or stopped connectors."""
        return _steer(session, "resume", many, dry_run)

    @cli.command(rich_help_panel=PANEL)
    @changing
    def stop(session: Session, many: Many, dry_run: DryRun = False) -> int:
        """Stop connectors: their tasks end, and their offsets can be changed."""
        return _steer(session, "stop", many, dry_run)

    @cli.command(rich_help_panel=PANEL)
    @changing
    def restart(session: Session, many: Many, connector_only: ConnectorOnly = False, dry_run: DryRun = False) -> int:
        """Restart connectors with their tasks (--failed: only what failed), or single tasks: NAME/0."""
        from spark_connect_rt.operations.connectors import lifecycle as steering

        return steering.restart(session, many.chosen(), connector_only, dry_run)

    @cli.command(rich_help_panel=PANEL)
    @changing
    def delete(session: Session, many: Many, dry_run: DryRun = False, yes: Yes = False) -> int:
        """Delete connectors, after a question that names them. Offsets are kept."""
        from spark_connect_rt.operations.connectors import lifecycle as steering

        return steering.delete(session, many.chosen(), yes, dry_run)

    @cli.command(rich_help_panel=PANEL)
    @command
    def wait(
        session: Session, names: SomeNames = None, condition: Condition = "state=RUNNING", timeout: Timeout = 60.0
    ) -> int:
        """Wait until connectors are in a state. Exit code 5: the time is up; 4: there is no such connector."""
        from spark_connect_rt.errors import BadRequestError
        from spark_connect_rt.operations.connectors import lifecycle as steering

        if not names:
            raise BadRequestError("no connectors given to wait for")
        return steering.wait(session, names, condition, timeout)


def _steer(session: Session, verb: str, many: Many, dry_run: bool) -> int:
    from spark_connect_rt.operations.connectors import lifecycle as steering

    return steering.steer(session, steering.VERBS[verb], many.chosen(), dry_run)
