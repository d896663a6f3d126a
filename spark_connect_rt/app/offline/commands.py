"""The words ``connectrt store check|backup|restore|repair`` and ``offsets list|prune|alter|reset|reconcile``.

What they do is app/offline/store_actions.py, offset_actions.py and stream_offsets.py, imported when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

Act = Callable[[Path, Sequence[str] | None, Callable[[Mapping[str, str]], int]], object]
"""(properties file, overrides, command) -> exits the process."""
Reset = Callable[[Path, str, Path | None, str | None, bool, list[str] | None], None]

PropertiesFile = Annotated[Path, typer.Argument(help="The worker's properties file, which names the topics.")]
BackupFile = Annotated[Path, typer.Argument(help="The backup file.")]
SafetyFile = Annotated[Path, typer.Option("--backup", help="A new file for a backup of the current content.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of a table.")]
Apply = Annotated[bool, typer.Option("--apply", help="Apply the change. Default: only show it.")]
Running = Annotated[bool, typer.Option("--while-running", help="Even if workers of the group are running.")]
Used = Annotated[bool, typer.Option("--into-used-topics", help="Even if the topics contain records.")]
Override = Annotated[list[str] | None, typer.Option("--set", help="name=value, overrides the file; repeatable.")]
Name = Annotated[str, typer.Argument(help="Name of the connector.")]
OffsetsFile = Annotated[
    Path, typer.Argument(help='JSON: {"offsets": [...]}, as returned by GET /connectors/NAME/offsets.')
]
NewFile = Annotated[
    Path | None, typer.Option("--backup", help="A new file for a backup; required while no worker runs.")
]
Url = Annotated[str | None, typer.Option("--url", help="Address of a worker, instead of one from the group.")]
Checkpoint = Annotated[Path, typer.Argument(help="The query's checkpoint folder.")]
Source = Annotated[int, typer.Option("--source", help="Number of the source in the query, from 0.")]
Connector = Annotated[str | None, typer.Option("--connector", help="Only this connector.")]


def add_store_commands(cli: typer.Typer, act: Act) -> tuple[typer.Typer, Reset]:
    """Add the two groups of subcommands; ``act`` reads the file, runs, turns errors into exit codes.

    Returns the group ``offsets``, and what ``offsets reset FILE NAME`` does: the cluster's command has the same name.
    """
    store = typer.Typer(help="The three internal topics: check, back up, restore, repair.", no_args_is_help=True)
    offsets = typer.Typer(help="Offsets of connectors: list, alter, reset, prune.", no_args_is_help=True)
    cli.add_typer(store, name="store")
    cli.add_typer(offsets, name="offsets")
    _add_store(store, act)
    _add_offsets(offsets, act)

    def reset(
        file: Path, name: str, safety: Path | None, url: str | None, apply: bool, override: list[str] | None
    ) -> None:
        act(file, override, lambda settings: changes().reset(settings, name, _options(apply, safety, url)))

    return offsets, reset


def _add_store(store: typer.Typer, act: Act) -> None:
    @store.command()
    def check(file: PropertiesFile, as_json: AsJson = False, override: Override = None) -> None:
        """Find and explain damage. Exit code 22: there is some."""
        act(file, override, lambda settings: actions().check(settings, as_json))

    @store.command()
    def backup(file: PropertiesFile, target: BackupFile, override: Override = None) -> None:
        """Keep every live record of the three topics in one checked file, which must not exist yet."""
        act(file, override, lambda settings: actions().backup(settings, target))

    @store.command()
    def restore(
        file: PropertiesFile,
        source: BackupFile,
        apply: Apply = False,
        into_used_topics: Used = False,
        while_running: Running = False,
        override: Override = None,
    ) -> None:
        """Write a backup's records, byte for byte, into the topics that the properties file names."""
        act(
            file,
            override,
            lambda settings: actions().restore(settings, source, apply, into_used_topics, while_running),
        )

    @store.command()
    def repair(
        file: PropertiesFile,
        safety: SafetyFile,
        apply: Apply = False,
        while_running: Running = False,
        override: Override = None,
    ) -> None:
        """Repair what ``check`` finds and writing can repair; leftovers are removed too. Never without a backup."""
        act(file, override, lambda settings: actions().repair(settings, safety, apply, while_running))


def _add_offsets(offsets: typer.Typer, act: Act) -> None:
    @offsets.command("list")
    def list_offsets(
        file: PropertiesFile, connector: Connector = None, as_json: AsJson = False, override: Override = None
    ) -> None:
        """Show every source partition and its offset, and which connectors are deleted."""
        act(file, override, lambda settings: actions().list_offsets(settings, connector, as_json))

    @offsets.command()
    def prune(
        file: PropertiesFile,
        safety: SafetyFile,
        connector: Connector = None,
        apply: Apply = False,
        override: Override = None,
    ) -> None:
        """Forget the offsets of deleted connectors. May be done while workers run. Never without a backup."""
        act(file, override, lambda settings: actions().prune_offsets(settings, safety, connector, apply))

    @offsets.command()
    def alter(
        file: PropertiesFile,
        name: Name,
        wanted: OffsetsFile,
        safety: NewFile = None,
        url: Url = None,
        apply: Apply = False,
        override: Override = None,
    ) -> None:
        """Write offsets of a connector: a running worker is asked, without one this command does it."""
        act(file, override, lambda settings: changes().alter(settings, name, wanted, _options(apply, safety, url)))

    @offsets.command()
    def reconcile(
        file: PropertiesFile,
        name: Name,
        checkpoint: Checkpoint,
        source: Source = 0,
        safety: NewFile = None,
        apply: Apply = False,
        override: Override = None,
    ) -> None:
        """Compare where a stream of format("connectrt") is with its offsets in the topic; write those as it is."""

        def run(settings: Mapping[str, str]) -> int:
            from spark_connect_rt.app.offline.stream_offsets import ReconcileOptions, reconcile

            return reconcile(settings, name, checkpoint, ReconcileOptions(source, apply, safety))

        act(file, override, run)


def actions() -> ModuleType:
    """Return the module that acts, imported when it is needed: Kafka clients take their time."""
    from spark_connect_rt.app.offline import store_actions

    return store_actions


def changes() -> ModuleType:
    """Return the module that alters and resets offsets, imported when it is needed."""
    from spark_connect_rt.app.offline import offset_actions

    return offset_actions


def _options(apply: bool, safety: Path | None, url: str | None) -> object:
    return changes().ChangeOptions(apply, safety, url)
