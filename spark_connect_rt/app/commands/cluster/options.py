"""Arguments and options that several words share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spark_connect_rt.app.cluster.tables import Output
from spark_connect_rt.app.commands.cluster.completion import connector_names, kind_names, names_of_kind

if TYPE_CHECKING:
    from spark_connect_rt.app.cluster.steering import Chosen

KindName = Annotated[
    str,
    typer.Argument(
        metavar="KIND",
        help="connectors, tasks, workers, plugins, offsets, topics, loggers, dead-letters, events or history.",
        autocompletion=kind_names,
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Argument(help="Names, or patterns with * and ?; none: all.", autocompletion=connector_names),
]
NamesOfKind = Annotated[
    list[str] | None,
    typer.Argument(help="Names, or patterns with * and ?; none: all.", autocompletion=names_of_kind),
]
SomeNames = Annotated[
    list[str] | None,
    typer.Argument(help="Connectors: names, or patterns with * and ?.", autocompletion=connector_names),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The connector.", autocompletion=connector_names)]
MaybeName = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="Only of this connector.", autocompletion=connector_names)
]
Form = Annotated[Output, typer.Option("--output", "-o", help="How it is written: table, wide, json, yaml or name.")]
Selection = Annotated[
    str | None,
    typer.Option(
        "--selector",
        "-l",
        help="state=FAILED,type=sink,class=*Jdbc*,worker!=a:8083,task=FAILED,name=a|b; all must hold.",
    ),
]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Write each item again when it changes, until Ctrl-C.")]
Interval = Annotated[float, typer.Option("--interval", min=0.1, help="Seconds between two looks of --watch.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=2_000, help="At most so many, of what grows.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, do nothing.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")]
Files = Annotated[
    list[str] | None,
    typer.Option("--filename", "-f", help="A file (JSON, YAML, .properties), a folder, or - ; repeatable."),
]
OneFile = Annotated[Path, typer.Argument(metavar="FILE", help="JSON, YAML or .properties, with one connector.")]


@dataclass(frozen=True, slots=True)
class Many:
    """Which connectors a word is meant for; a name for each of ``steering.Chosen``'s fields."""

    names: SomeNames = None
    selection: Selection = None
    failed: Annotated[bool, typer.Option("--failed", help="Only those that have failed, or a task of which has.")] = (
        False
    )
    all_: Annotated[bool, typer.Option("--all", help="Every connector of the cluster.")] = False

    def chosen(self) -> Chosen:
        """Return them as the words' acts take them."""
        from spark_connect_rt.app.cluster.steering import Chosen

        return Chosen(self.names or [], self.selection, self.failed, self.all_)
