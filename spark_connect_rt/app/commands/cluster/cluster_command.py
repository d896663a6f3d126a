"""What every word that speaks to a cluster has: ``--context``, ``--url``, one session, exit codes.

``command`` turns ``act(session, ...)`` into a function for typer with those options beside its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from spark_connect_rt.app.cluster.session import Session, Surroundings, run

ContextName = Annotated[
    str | None, typer.Option("--context", help="A context of the file; none: the current one.", show_default=False)
]
Url = Annotated[
    str | None,
    typer.Option(
        "--url", help="Addresses of workers, separated by commas; wins over the context's.", show_default=False
    ),
]


def command(act: Callable[..., int | None]) -> Callable[..., None]:
    """Return a function for ``app.command()``: opens the session, ends with the exit code."""
    signature = inspect.signature(act, eval_str=True)

    def run_it(ctx: typer.Context, context: str | None = None, url: str | None = None, **given: Any) -> None:
        code = run(session_of(ctx, context, url), lambda session: act(session, **given))
        if code:
            raise SystemExit(code)

    own = [one for one in signature.parameters.values() if one.name != "session"]
    more = [
        inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ContextName),
        inspect.Parameter("url", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Url),
    ]
    first = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    ordered = [first, *(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own), *more]
    run_it.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    run_it.__annotations__ = {one.name: one.annotation for one in ordered}
    run_it.__name__, run_it.__doc__ = act.__name__, act.__doc__
    return run_it


def session_of(ctx: typer.Context, context: str | None, url: str | None) -> Session:
    """Return the session of a command; a test puts its Surroundings into ``ctx.obj``."""
    around = ctx.obj if isinstance(ctx.obj, Surroundings) else Surroundings()

    def connection() -> Any:
        from spark_connect_rt.app.cluster.contexts import chosen, contexts_file, load_contexts

        return chosen(load_contexts(contexts_file(around.environment)), around.environment, context, url).connection()

    return Session(around, connection)


def local(act: Callable[..., int | None]) -> Callable[..., None]:
    """Return a function for ``app.command()`` that needs a terminal but no cluster."""
    wrapped = command(act)
    signature = inspect.signature(wrapped)
    kept = [one for one in signature.parameters.values() if one.name not in ("context", "url")]
    wrapped.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {one.name: one.annotation for one in kept}
    return wrapped
