"""The commands `connectrt table status|maintain`: stored offsets of a sink's tables, and their upkeep by hand.

Both read a connector's file of properties. The upkeep runs next to a running sink: each step is a commit that loses
against the sink's own commits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

Act = Callable[[Path, Sequence[str] | None, Callable[[Mapping[str, str]], int]], object]
"""(file of properties, overrides, command) -> runs the command and exits with its code."""

ConnectorProperties = Annotated[Path, typer.Argument(help="Properties of a connector, the Iceberg sink's.")]
Override = Annotated[list[str] | None, typer.Option("--set", help="name=value, overrides the file; repeatable.")]
Table = Annotated[list[str] | None, typer.Option("--table", help="Only this table; repeatable.")]
Snapshots = Annotated[int, typer.Option("--keep-snapshots", help="How many snapshots stay. 0: all.")]
Days = Annotated[float, typer.Option("--orphans-days", help="Age of files without a name before they are orphans.")]
Apply = Annotated[bool, typer.Option("--apply", help="Delete orphans. Default: only count them.")]
LEAST_DAYS = 1.0
_MEGABYTE = 1e6


def add_table_commands(cli: typer.Typer, act: Act) -> None:
    """Add the group `table` to the command line."""
    table = typer.Typer(help="Tables of the Iceberg sink: stored offsets, upkeep.", no_args_is_help=True)
    cli.add_typer(table, name="table")

    @table.command()
    def status(file: ConnectorProperties, override: Override = None) -> None:
        """Show the snapshots, files and stored offsets of a sink's tables."""
        act(file, override, show_status)

    @table.command()
    def maintain(
        file: ConnectorProperties,
        only: Table = None,
        keep_snapshots: Snapshots = 100,
        orphans_days: Days = 3.0,
        apply: Apply = False,
        override: Override = None,
    ) -> None:
        """Rewrite small files and deletes, expire snapshots, and find or delete orphans. Safe while the sink runs."""
        act(file, override, lambda config: maintain_tables(config, only or (), keep_snapshots, orphans_days, apply))


def show_status(config: Mapping[str, str]) -> int:
    """Print the state of each table. Returns the exit code."""
    from spark_connect_rt.connectors.lakehouse.iceberg_sink import checked_settings, make_store

    settings = checked_settings(config)
    for name in settings.tables:
        store = make_store(config, settings, name)
        try:
            loaded = store.load()
            if loaded is None:
                _say(f"{name}: does not exist")
                continue
            files, deletes = loaded.live_files(), loaded.delete_files()
            size = sum(file.size for file in files.values()) / _MEGABYTE
            snapshots = len(loaded.table.metadata.snapshots)
            _say(f"{name}: {snapshots} snapshots, {len(files)} data files ({size:.1f} MB), {len(deletes)} delete files")
            for place, stored in sorted(loaded.offsets.items()):
                topic = f", topic id {stored.topic_id}" if stored.topic_id else ""
                _say(f"  {place}: next offset {stored.end}{topic}")
        finally:
            store.close()
    return 0


def maintain_tables(
    config: Mapping[str, str], only: Sequence[str], keep_snapshots: int, orphans_days: float, apply: bool
) -> int:
    """Do the upkeep of a sink's tables and print what was done. Returns the exit code.

    Raises BadConfigError for settings that are wrong, and RetriableError or ExternalError of the catalog.
    """
    from spark_connect_rt.connectors.lakehouse.iceberg_sink import checked_settings, make_store
    from spark_connect_rt.connectors.lakehouse.iceberg_upkeep import (
        compact,
        expire_snapshots,
        find_orphans,
        remove_orphans,
    )
    from spark_connect_rt.errors import BadConfigError

    settings = checked_settings(config)
    if orphans_days < LEAST_DAYS:
        raise BadConfigError({"--orphans-days": [f"must be at least {LEAST_DAYS:g}: a running commit has such files"]})
    if unknown := set(only) - set(settings.tables) if not settings.dynamic else set():
        raise BadConfigError({"--table": [f"{', '.join(sorted(unknown))} is not in iceberg.tables"]})
    for name in only or settings.tables:
        store = make_store(config, settings, name)
        try:
            if store.load() is None:
                _say(f"{name}: does not exist")
                continue
            report = compact(store, max(1, min(2, settings.compact_files)))
            _say(
                f"{name}: {report.rewritten} files rewritten to {report.written}, {report.removed_deletes} delete "
                f"files removed, {report.lost_races} times another writer was faster"
            )
            _say(f"{name}: {expire_snapshots(store, keep_snapshots)} snapshots expired")
            orphans = find_orphans(store, timedelta(days=orphans_days))
            if apply:
                remove_orphans(store, orphans)
            done = "deleted" if apply else "found (--apply deletes them)"
            _say(f"{name}: {len(orphans.paths)} orphans of {orphans.size / _MEGABYTE:.1f} MB {done}")
        finally:
            store.close()
    return 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
