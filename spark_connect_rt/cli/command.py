"""Common parts of every command on a cluster: ``--context``, ``--url``, one session, exit codes.

``command`` turns ``act(session, ...)`` into a function for typer with those options and its own. A parameter that is
a dataclass stands for its fields: options that several subcommands share.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

from spark_connect_rt.cli.options import context_names
from spark_connect_rt.cli.session import Session, opened, run, surroundings_in

ContextName = Annotated[
    str | None,
    typer.Option(
        "--context",
        help="A context of the configuration file; default: the current context.",
        show_default=False,
        autocompletion=context_names,
    ),
]
Url = Annotated[
    str | None,
    typer.Option(
        "--url", help="Addresses of workers, separated by commas; overrides the context's.", show_default=False
    ),
]

Note = Annotated[str | None, typer.Option("--note", help="A note for the history of changes.", show_default=False)]


def changing(act: Callable[..., int | None]) -> Callable[..., None]:
    """Return what ``command`` does, with ``--note`` added: for subcommands that change something."""
    return command(act, notes=True)


def command(act: Callable[..., int | None], notes: bool = False) -> Callable[..., None]:
    """Return a function for ``app.command()``: opens the session, ends with the exit code."""
    parameters = [
        parameter
        for parameter in inspect.signature(act, eval_str=True).parameters.values()
        if parameter.name != "session"
    ]
    groups: dict[str, Any] = {
        parameter.name: parameter.annotation for parameter in parameters if is_dataclass(parameter.annotation)
    }

    def run_it(
        ctx: typer.Context, context: str | None = None, url: str | None = None, note: str | None = None, **given: Any
    ) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        code = run(session_of(ctx, context, url, note), lambda session: act(session, **given))
        if code:
            raise SystemExit(code)

    own = [
        part
        for parameter in parameters
        for part in (_fields_of(groups[parameter.name]) if parameter.name in groups else [parameter])
    ]
    more = [
        inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ContextName),
        inspect.Parameter("url", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Url),
    ]
    if notes:
        more.append(inspect.Parameter("note", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Note))
    first = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    ordered = [first, *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own), *more]
    run_it.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    run_it.__annotations__ = {parameter.name: parameter.annotation for parameter in ordered}
    run_it.__name__, run_it.__doc__ = act.__name__, act.__doc__
    return run_it


def _fields_of(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(group)
    ]


def session_of(
    ctx: typer.Context, context: str | None, url: str | None, note: str | None = None, limit_s: float = 0.0
) -> Session:
    """Return the session of a command; ``limit_s``: an answer may take so long, though others take less."""
    return opened(surroundings_in(ctx.obj), context, url, note, limit_s)


def local(act: Callable[..., int | None]) -> Callable[..., None]:
    """Return a function for ``app.command()`` that needs a terminal but no cluster."""
    wrapped = command(act)
    signature = inspect.signature(wrapped)
    kept = [parameter for parameter in signature.parameters.values() if parameter.name not in ("context", "url")]
    wrapped.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in kept}
    return wrapped
