"""``connectrt offsets set|reset``: offsets of a connector written or forgotten (KIP-875), by any worker."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from spark_connect_rt.base.exit_codes import EXIT_PROBLEM
from spark_connect_rt.cli.differences import offset_differences
from spark_connect_rt.cli.files import read_offsets
from spark_connect_rt.cli.output import show_offset_differences, sure
from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import counted
from spark_connect_rt.errors import BadRequestError, TimedOutError
from spark_connect_rt.operations.connectors.apply import state_call
from spark_connect_rt.operations.connectors.lifecycle import wait
from spark_connect_rt.rest.client import calls
from spark_connect_rt.rest.client.calls import Call
from spark_connect_rt.rest.client.refusals import RefusedError

STOP_LIMIT_S = 60.0
How = tuple[bool, bool, bool]
"""(stop and start it for that, only say what would change, do not ask)."""


def set_offsets(session: Session, name: str, file: str | None, pair: tuple[str | None, str | None], how: How) -> int:
    """Write offsets from a file, or of one partition; those of other partitions stay."""
    wanted = _wanted(file, pair)
    before = session.ask(calls.offsets(name))
    kept = [offset for offset in before if not any(offset["partition"] == other.get("partition") for other in wanted)]
    return _change(session, name, (before, [*kept, *wanted]), calls.alter_offsets(name, wanted), how)


def reset_offsets(session: Session, name: str, how: How) -> int:
    """Forget every offset of a connector."""
    before = session.ask(calls.offsets(name))
    return _change(session, name, (before, []), calls.reset_offsets(name), how)


def _change(
    session: Session,
    name: str,
    sides: tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]],
    call: Call[dict[str, Any]],
    how: How,
) -> int:
    stop, dry_run, yes = how
    differences = offset_differences(*sides)
    show_offset_differences(session, f"connector {name}", differences)
    if not differences:
        session.terminal.line(f"connector {name}: offsets unchanged")
        return 0
    if dry_run:
        return 0
    if not sure(session, yes, f"write {counted(len(differences), 'offset')} of connector {name}?"):
        return EXIT_PROBLEM
    with _stopped(session, name, stop):
        try:
            answer = session.ask(call)
        except RefusedError as error:
            if not stop and "STOPPED" in str(error):
                error.hint = "--stop stops it for the change and resumes it afterwards"
            raise
    session.terminal.line(f"connector {name}: {answer.get('message', 'offsets changed')}")
    return 0


@contextmanager
def _stopped(session: Session, name: str, wanted: bool) -> Iterator[None]:
    """Have the connector stopped meanwhile if ``wanted``, and in its state of before afterwards, come what may."""
    state = session.ask(calls.status(name))["connector"]["state"] if wanted else "STOPPED"
    if state == "STOPPED":
        yield
        return
    session.ask(calls.stop(name))
    try:
        if wait(session, [name], "state=STOPPED", STOP_LIMIT_S, quiet=True):
            raise TimedOutError(f"connector {name} did not stop. Its offsets were not changed")
        yield
    finally:
        session.ask(state_call(name, "PAUSED" if state == "PAUSED" else "RUNNING"))


def _wanted(file: str | None, pair: tuple[str | None, str | None]) -> list[dict[str, Any]]:
    if (file is None) == (pair == (None, None)):
        raise BadRequestError("offsets set NAME -f FILE, or --partition JSON --offset JSON")
    if file is None:
        partition, offset = (
            _object(text, option) for text, option in zip(pair, ("--partition", "--offset"), strict=True)
        )
        return [{"partition": partition, "offset": offset}]
    return read_offsets(file)


def _object(text: str | None, option: str) -> Any:
    if text is None:
        raise BadRequestError(f"{option} is missing")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"{option}: not valid JSON: {error}") from error
    if value is not None and not isinstance(value, dict):
        raise BadRequestError(f"{option}: expected a JSON object")
    return value
