"""The words ``connectrt mirror FILE``, ``connectrt mirror client`` and ``connectrt mirror verify``.

Their code is in app/mirror/mirror_maker.py, client.py and verify.py, imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

Act = Callable[[Path | None, Sequence[str] | None, Callable[[Mapping[str, str]], int]], object]
"""(properties file, overrides, command) -> exits the process."""

File = Annotated[Path, typer.Argument(help="connect-mirror-maker.sh's file.")]
Clusters = Annotated[list[str] | None, typer.Option("--clusters", help="Only flows to these clusters.")]
More = Annotated[list[str] | None, typer.Argument(help="More aliases of --clusters.", hidden=True)]
Override = Annotated[list[str] | None, typer.Option("--set", help="name=value, overrides the file; repeatable.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of tables.")]

OptionalFile = Annotated[Path | None, typer.Argument(help="connect-mirror-maker.sh's file; needs --cluster.")]
Cluster = Annotated[str | None, typer.Option("--cluster", help="Alias of the cluster to read.")]
Bootstrap = Annotated[str | None, typer.Option("--bootstrap", help="host:port of the cluster to read, without a file.")]
Source = Annotated[str | None, typer.Option("--source", help="Alias of the source cluster.")]
Target = Annotated[str | None, typer.Option("--target", help="Alias of the cluster with the copies.")]
Group = Annotated[
    str | None, typer.Option("--group", help="A consumer group of --source whose offsets are translated.")
]
Full = Annotated[bool, typer.Option("--full", help="Compare every record.")]
Sample = Annotated[int, typer.Option("--sample", min=1, help="Compare about this many records of each partition.")]


class _RunsByDefault(TyperGroup):
    """A group in which ``mirror FILE`` means ``mirror run FILE``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["run", *args]
        return super().parse_args(ctx, args)


def add_mirror_commands(cli: typer.Typer, act: Act) -> None:
    """Add the group of words; ``act`` reads the file, runs, turns errors into exit codes."""
    mirror = typer.Typer(help="MirrorMaker: replicate, inspect and compare clusters.", cls=_RunsByDefault)
    cli.add_typer(mirror, name="mirror")

    @mirror.command()
    def run(file: File, more: More = None, clusters: Clusters = None, override: Override = None) -> None:
        """Replicate between clusters until SIGTERM or Ctrl-C."""
        from spark_connect_rt.app.mirror.mirror_maker import run_mirror_maker

        if more and not clusters:
            raise typer.BadParameter(f"expected one file, not {' '.join([str(file), *more])}")
        targets = [*(clusters or []), *(more or [])]
        act(file, override, lambda settings: run_mirror_maker(settings, targets))

    @mirror.command()
    def client(
        file: OptionalFile = None,
        cluster: Cluster = None,
        bootstrap: Bootstrap = None,
        source: Source = None,
        group: Group = None,
        as_json: AsJson = False,
        override: Override = None,
    ) -> None:
        """Show what a cluster's topics contain: upstream clusters, hops, copied topics, and where groups are."""
        from spark_connect_rt.app.mirror.client import cluster_settings, show_cluster

        act(
            file,
            override,
            lambda raw: show_cluster(cluster_settings(raw, cluster, bootstrap), source, group, as_json),
        )

    @mirror.command()
    def verify(
        file: File,
        source: Source = None,
        target: Target = None,
        full: Full = False,
        sample: Sample = 1_000,
        as_json: AsJson = False,
        override: Override = None,
    ) -> None:
        """Compare the clusters of each flow, and say what failing over now would mean (exit code 1: a loss)."""
        from spark_connect_rt.app.mirror.verify import WHOLE
        from spark_connect_rt.app.mirror.verify import verify as compare

        act(file, override, lambda raw: compare(raw, source, target, WHOLE if full else sample, as_json))
