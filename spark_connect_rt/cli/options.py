"""Arguments and options that several words share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from spark_connect_rt.cli.completion import connector_names, kind_names, names_of_kind
from spark_connect_rt.cli.tables import Output

if TYPE_CHECKING:
    from spark_connect_rt.operations.connectors.lifecycle import Chosen

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
    typer.Argument(help="Names, or patterns with * and ?; default: all.", autocompletion=connector_names),
]
NamesOfKind = Annotated[
    list[str] | None,
    typer.Argument(help="Names, or patterns with * and ?; default: all.", autocompletion=names_of_kind),
]
SomeNames = Annotated[
    list[str] | None,
    typer.Argument(help="Connectors: names, or patterns with * and ?.", autocompletion=connector_names),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The connector.", autocompletion=connector_names)]
MaybeName = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="Only this connector.", autocompletion=connector_names)
]
Form = Annotated[Output, typer.Option("--output", "-o", help="Output format: table, wide, json, yaml or name.")]
Selection = Annotated[
    str | None,
    typer.Option(
        "--selector",
        "-l",
        help="state=DEGRADED|FAILED,type=sink,class=*Jdbc*,worker!=a:8083,task=FAILED; all must match.",
    ),
]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Print each item again when it changes, until Ctrl-C.")]
Interval = Annotated[float, typer.Option("--interval", min=0.1, help="Seconds between two requests.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=2_000, help="Maximum number of letters, events or changes.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Print new lines as they arrive, until Ctrl-C.")]
File = Annotated[
    str | None,
    typer.Option("--filename", "-f", help="A file with one connector (JSON, YAML, .properties); - for standard input."),
]
Files = Annotated[
    list[str] | None,
    typer.Option("--filename", "-f", help="A file (JSON, YAML, .properties), a folder, or - ; repeatable."),
]


@dataclass(frozen=True, slots=True)
class Many:
    """Which connectors a word is meant for; a name for each of ``steering.Chosen``'s fields."""

    names: SomeNames = None
    selection: Selection = None
    failed: Annotated[bool, typer.Option("--failed", help="Only connectors that failed, or whose tasks failed.")] = (
        False
    )
    all_: Annotated[bool, typer.Option("--all", help="Every connector of the cluster.")] = False

    def chosen(self) -> Chosen:
        """Return them as the words' acts take them."""
        from spark_connect_rt.operations.connectors.lifecycle import Chosen

        return Chosen(self.names or [], self.selection, self.failed, self.all_)
