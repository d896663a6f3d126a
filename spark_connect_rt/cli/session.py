"""One command's view of a cluster: the client, the terminal, the clock; errors become lines and exit codes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from spark_connect_rt.base.exit_codes import (
    EXIT_CHANGED_MEANWHILE,
    EXIT_NOT_FOUND,
    EXIT_NOT_SERVED,
    EXIT_PROBLEM,
    EXIT_TIMED_OUT,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
)
from spark_connect_rt.cli.terminal import Terminal
from spark_connect_rt.errors import (
    BadConfigError,
    BadRequestError,
    ConnectError,
    NotFoundError,
    TimedOutError,
    UnreachableError,
    explain_hint,
)
from spark_connect_rt.rest.client.refusals import ConflictError, NotServedError, RefusedError, UnknownNameError

if TYPE_CHECKING:
    from spark_connect_rt.rest.client.calls import Call
    from spark_connect_rt.rest.client.connection import ClusterConnection
    from spark_connect_rt.rest.client.sync_client import Client

T = TypeVar("T")


class ChangedMeanwhileError(ConnectError):
    """Another client changed it since it was read: look again."""

    code = "CRT-1193"


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The surroundings of a command; a test passes its own. ``transport``: an httpx one, None: the network."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    transport: Any = None
    interactive: bool | None = None
    now_ms: Callable[[], int] = lambda: int(time.time() * 1000)
    sleep: Callable[[float], None] = time.sleep
    ask: Callable[[str], str] = input


def surroundings_in(given: object) -> CommandContext:
    """Return the surroundings of a command: this machine, or those that a test gives it."""
    return given if isinstance(given, CommandContext) else CommandContext()


NOTE = "X-Connectrt-Note"


class Session:
    """Made for each command; the client with the first request."""

    def __init__(self, around: CommandContext, connection: Callable[[], ClusterConnection]) -> None:
        self.around = around
        self.terminal = Terminal(around.environment, interactive=around.interactive, ask=around.ask)
        self._connection = connection
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """Return the client; httpx is imported with it."""
        if self._client is None:
            from spark_connect_rt.rest.client.sync_client import Client

            self._client = Client(self._connection(), self.around.transport, self.around.sleep)
        return self._client

    def ask(self, call: Call[T]) -> T:
        """Send a call and return its answer."""
        return self.client.send(call)

    def ask_if_served(self, call: Call[T]) -> T | None:
        """Send a call of the management API; None from a worker that does not have it (Java's)."""
        try:
            return self.client.send(call)
        except NotServedError:
            return None

    def note_unanswered(self, answer: Mapping[str, Any]) -> None:
        """Say which workers' part is missing in an answer."""
        for worker in answer.get("unanswered") or ():
            self.terminal.note(f"worker {worker['worker_id']} does not answer, so its part is missing: {worker['why']}")

    def close(self) -> None:
        """Close the client, if it was opened."""
        if self._client is not None:
            self._client.close()


def opened(
    around: CommandContext, context: str | None, url: str | None, note: str | None = None, limit_s: float = 0.0
) -> Session:
    """Return the session of a command on the cluster that ``--context`` and ``--url`` mean.

    ``note``: the comment that the history of changes keeps; ``limit_s``: the seconds that an answer may take, where
    that is more than usual.
    """

    def connection() -> ClusterConnection:
        from spark_connect_rt.cli.contexts import connection_for

        found = connection_for(around.environment, context, url)
        headers = {NOTE: _header_text(note)} if note else {}
        return replace(found, headers=headers, request_limit_s=max(found.request_limit_s, limit_s))

    return Session(around, connection)


def _header_text(text: str) -> str:
    """Return a text as a header may hold it: one line, with replacements for characters outside ASCII."""
    return " ".join(text.split()).encode("ascii", "replace").decode()


def exit_code_of(error: ConnectError) -> int:
    """Return what a script reads of an error."""
    codes: tuple[tuple[type[ConnectError], int], ...] = (
        (NotServedError, EXIT_NOT_SERVED),
        (UnknownNameError, EXIT_NOT_FOUND),
        (ConflictError, EXIT_CHANGED_MEANWHILE),
        (ChangedMeanwhileError, EXIT_CHANGED_MEANWHILE),
        (NotFoundError, EXIT_NOT_FOUND),
        (UnreachableError, EXIT_UNREACHABLE),
        (TimedOutError, EXIT_TIMED_OUT),
        (BadRequestError, EXIT_USAGE),
    )
    return next((code for kind, code in codes if isinstance(error, kind)), EXIT_PROBLEM)


def lines_of(error: ConnectError) -> list[str]:
    """Return what an error is to people: code and message, each problem, what to do."""
    from spark_connect_rt.cli.refusals import refusal_lines

    if isinstance(error, BadConfigError):
        lines = [f"{error.code}: refused:"]
        return lines + [f"  {key}: {why}" for key, reasons in error.problems.items() for why in reasons]
    if not isinstance(error, RefusedError):
        return [f"{error.code}: {error}"]
    return refusal_lines(error)


def run(session: Session, act: Callable[[Session], int | None]) -> int:
    """Return the exit code of a command; a refusal is written to standard error."""
    try:
        code = act(session) or 0
        session.terminal.out.flush()  # a pipe without a reader is noticed here, not at the end of Python
        return code
    except ConnectError as error:
        session.terminal.out.flush()
        first, *more = lines_of(error)
        session.terminal.note(f"connectrt: {first}")
        for line in more:
            session.terminal.note(line)
        if hint := explain_hint(error.code):
            session.terminal.note(hint)
        return exit_code_of(error)
    except (KeyError, TypeError, AttributeError) as error:
        if session.around.environment.get("CONNECTRT_TRACE"):
            raise
        session.terminal.note(
            f"connectrt: CRT-1192: the worker's answer has an unexpected form: {type(error).__name__}: "
            f"{error}\nCONNECTRT_TRACE=1 shows the traceback. Try another version of connectrt."
        )
        return EXIT_PROBLEM
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `connectrt get connectors | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    finally:
        session.close()
