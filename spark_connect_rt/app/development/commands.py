"""The words ``connectrt new`` and ``connectrt dev``. Their code is in app/development, imported when it is needed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Act = Callable[[Path | None, Sequence[str] | None, Callable[[Mapping[str, str]], int]], object]


class ConnectorKind(StrEnum):
    """The kinds of project and file that ``connectrt new`` writes."""

    source = "source"
    sink = "sink"
    worker = "worker"


Kind = Annotated[
    ConnectorKind,
    typer.Argument(help="source (from your system to Kafka), sink (from Kafka to it) or worker (its file)."),
]
Name = Annotated[
    str, typer.Argument(help="Name of the project and its module, such as orders, or of the worker's group.")
]
Folder = Annotated[
    Path | None, typer.Option("--folder", help="Where to write it; default: ./NAME, for a worker's file this folder.")
]
ConnectorFile = Annotated[Path, typer.Argument(help="The connector's configuration: JSON, properties or YAML.")]
Sources = Annotated[
    list[Path] | None,
    typer.Option("--source", help="Folder of sources to import and watch; repeatable. Default: the file's project."),
]
Input = Annotated[
    Path | None,
    typer.Option("--input", help="Records for a sink: a JSON value per line. Default: records.jsonl next to FILE."),
]
Bootstrap = Annotated[
    str | None, typer.Option("--bootstrap-servers", help="Send to, or read from, this broker instead of memory.")
]
Once = Annotated[bool, typer.Option("--once", help="End when nothing is left to read. Exit code 1: it failed.")]
Records = Annotated[int | None, typer.Option("--records", min=1, help="End after this many records.")]
KeepOffsets = Annotated[
    bool,
    typer.Option("--keep-offsets", help="After a reload, continue after the last offsets instead of at the start."),
]
Override = Annotated[
    list[str] | None,
    typer.Option("--set", help="name=value of the worker, such as value.converter or security.protocol; repeatable."),
]


def add_development_commands(cli: typer.Typer, act: Act) -> None:
    """Add the words; ``act`` runs them and turns errors into exit codes."""

    @cli.command()
    def new(kind: Kind, name: Name, folder: Folder = None) -> None:
        """Write the project of a connector: code, tests, a configuration, packaging. Or a complete worker's file."""

        def write(_: Mapping[str, str]) -> int:
            from spark_connect_rt.app.development.new_project import create_project, create_worker_file

            is_worker = kind is ConnectorKind.worker
            for line in create_worker_file(name, folder) if is_worker else create_project(kind.value, name, folder):
                sys.stdout.write(f"{line}\n")
            return 0

        act(None, None, write)

    @cli.command()
    def dev(
        file: ConnectorFile,
        source: Sources = None,
        records_file: Input = None,
        bootstrap_servers: Bootstrap = None,
        once: Once = False,
        records: Records = None,
        keep_offsets: KeepOffsets = False,
        override: Override = None,
    ) -> None:
        """Run a connector from its source files, without a broker; reload it when a file changes. Ctrl-C ends it."""

        def run(settings: Mapping[str, str]) -> int:
            from spark_connect_rt.app.development.dev_loop import BOOTSTRAP, DevLoop, DevOptions
            from spark_connect_rt.app.development.project import Project
            from spark_connect_rt.cli.terminal import Terminal
            from spark_connect_rt.errors import BadConfigError

            if not file.is_file():
                raise BadConfigError({str(file): ["is not a file. Create one with connectrt new, or use another"]})
            worker = {**settings, BOOTSTRAP: bootstrap_servers} if bootstrap_servers else settings
            options = DevOptions(worker, records_file, once, records, keep_offsets)
            return DevLoop(Project(file, source or (), worker), options, Terminal(os.environ)).run()

        act(None, override, run)
