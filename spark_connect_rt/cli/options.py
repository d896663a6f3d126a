"""Arguments and options that several words share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from spark_connect_rt.cli.session import Session, surroundings_in
from spark_connect_rt.cli.tables import Output
from spark_connect_rt.rest.client.calls import Call

# Completion of names by the shell: from the cluster, within a moment, or none at all.


LIMIT_S = 1.0


def connector_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the connectors that begin so."""
    from spark_connect_rt.rest.client.calls import connector_names as asked

    return _quickly(ctx, incomplete, lambda ask: ask(asked()))


def plugin_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the plug-ins that begin so, by class."""
    from spark_connect_rt.rest.client.calls import plugins

    return _quickly(ctx, incomplete, lambda ask: [plugin["class"] for plugin in ask(plugins())])


def logger_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the loggers that begin so."""
    from spark_connect_rt.rest.client.calls import loggers

    return _quickly(ctx, incomplete, lambda ask: list(ask(loggers())))


def context_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the contexts that begin so."""
    from spark_connect_rt.cli.contexts import contexts_file, load_contexts
    from spark_connect_rt.errors import ConnectError

    try:
        names = load_contexts(contexts_file(surroundings_in(ctx.obj).environment)).by_name
    except ConnectError:
        return []
    return sorted(name for name in names if name.startswith(incomplete))


def worker_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the workers that begin so; none of Java's."""
    from spark_connect_rt.rest.client.management_calls import group

    return _quickly(ctx, incomplete, lambda ask: [worker["worker_id"] for worker in ask(group())["workers"]])


def task_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the connectors that begin so; behind a connector's name and a stroke its tasks."""
    name, stroke, _ = incomplete.rpartition("/")
    if not stroke:
        return connector_names(ctx, incomplete)
    from spark_connect_rt.rest.client.calls import status

    return _quickly(ctx, incomplete, lambda ask: [f"{name}/{task['id']}" for task in ask(status(name))["tasks"]])


def names_of_kind(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names that begin so, of the kind that the argument before names."""
    from spark_connect_rt.cli.kinds import kind_of
    from spark_connect_rt.errors import ConnectError

    try:
        kind = kind_of(str(ctx.params.get("kind"))).name
    except ConnectError:
        return []
    found = {"plugins": plugin_names, "loggers": logger_names, "workers": worker_names, "tasks": task_names}
    return found.get(kind, connector_names)(ctx, incomplete)


def described(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the kinds of ``describe`` that begin so, and the connectors: their kind may be left out."""
    kinds = [kind for kind in ("connector", "task", "worker", "plugin") if kind.startswith(incomplete)]
    return [*kinds, *connector_names(ctx, incomplete)]


def kind_names(incomplete: str) -> list[str]:
    """Return the kinds of ``get`` that begin so."""
    from spark_connect_rt.cli.kinds import KINDS

    return [kind.name for kind in KINDS if kind.name.startswith(incomplete)]


def _quickly(
    ctx: typer.Context, incomplete: str, names: Callable[[Callable[[Call[Any]], Any]], list[str]]
) -> list[str]:
    from spark_connect_rt.cli.contexts import connection_for
    from spark_connect_rt.errors import ConnectError

    around = surroundings_in(ctx.obj)
    try:
        found = connection_for(around.environment, ctx.params.get("context"), ctx.params.get("url"))
        quick = replace(found, request_limit_s=LIMIT_S, connect_limit_s=LIMIT_S, rebalance_limit_s=0)
        session = Session(around, lambda: quick)
        try:
            there = names(session.ask)
        finally:
            session.close()
    except (ConnectError, TypeError, KeyError):
        return []  # a shell's line must never be spoilt
    return sorted(name for name in there if name.startswith(incomplete))


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

        return Chosen(self.names or [], self.selection, self.failed, self.all_)


# ``connectrt pause|resume|stop|restart|delete``: many connectors at once; and ``wait``.


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which connectors a verb is meant for."""

    words: Sequence[str] = ()
    selection: str | None = None
    failed: bool = False
    all: bool = False
