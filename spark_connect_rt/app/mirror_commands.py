"""The words ``connectrt mirror FILE``, ``connectrt mirror client`` and ``connectrt mirror verify``.

What they do is app/mirror_{maker,client,verify}.py, imported when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

Act = Callable[[Path | None, Sequence[str] | None, Callable[[Mapping[str, str]], int]], object]
"""(properties file, overrides, command) -> exits the process."""

File = Annotated[Path, typer.Argument(help="As connect-mirror-maker.sh has it.")]
Clusters = Annotated[list[str] | None, typer.Option("--clusters", help="Only flows to these clusters.")]
More = Annotated[list[str] | None, typer.Argument(help="More of --clusters.", hidden=True)]
Override = Annotated[list[str] | None, typer.Option("--set", help="name=value, wins over the file; repeatable.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of tables.")]


class _RunsByDefault(TyperGroup):
    """``mirror FILE`` means ``mirror run FILE``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["run", *args]
        return super().parse_args(ctx, args)


def add_mirror_commands(cli: typer.Typer, act: Act) -> None:
    """Add the group of words; ``act`` reads the file, runs, turns errors into exit codes."""
    mirror = typer.Typer(help="MirrorMaker: clusters replicated, asked, compared.", cls=_RunsByDefault)
    cli.add_typer(mirror, name="mirror")

    @mirror.command()
    def run(file: File, more: More = None, clusters: Clusters = None, override: Override = None) -> None:
        """Replicate between clusters until SIGTERM or Ctrl-C."""
        from spark_connect_rt.app.mirror_maker import run_mirror_maker

        if more and not clusters:
            raise typer.BadParameter(f"one file, not {' '.join([str(file), *more])}")
        targets = [*(clusters or []), *(more or [])]
        act(file, override, lambda settings: run_mirror_maker(settings, targets))
