"""One conversation with a Connect worker's REST API, held word for word with Java's and with ours.

Steps are values; ``converse`` plays them and returns every answer with what differs between two runs (its
address) replaced by a placeholder. A step that changes something is followed by one that awaits its effect,
so that two runs of one implementation give the same answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from spark_connect_rt.errors import ConnectError
from tests.support.connect_rest import ConnectRest, RestAnswer

LIMIT_S = 180.0


@dataclass(frozen=True, slots=True)
class Ask:
    """Send a request; its answer is compared."""

    name: str
    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AwaitStates:
    """Wait until connector and tasks are in these states."""

    connector: str
    state: str
    tasks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AwaitBody:
    """Wait until ``GET path`` answers this JSON."""

    path: str
    body: Any


@dataclass(frozen=True, slots=True)
class AwaitStatus:
    """Wait until ``GET path`` answers this HTTP status."""

    path: str
    status: int


@dataclass(frozen=True, slots=True)
class Append:
    """Append text to a file of the worker's directory."""

    file: str
    text: str


@dataclass(frozen=True, slots=True)
class AwaitText:
    """Wait until a file of the worker's directory holds this text."""

    file: str
    text: str


Step = Ask | AwaitStates | AwaitBody | AwaitStatus | Append | AwaitText


@dataclass(frozen=True, slots=True)
class Said:
    """One answer, comparable."""

    name: str
    method: str
    path: str
    status: int
    content_type: str
    location: str
    body: str


@dataclass(frozen=True, slots=True)
class Heard:
    """All answers by the name of their step; ``broke`` says at which step the conversation ended early."""

    answers: dict[str, Said]
    broke: str = ""


def converse(rest: ConnectRest, directory: Path, steps: Sequence[Step]) -> list[Said]:
    """Play the steps against one worker whose working directory is ``directory``; return the answers."""
    return list(_play(rest, directory, steps))


def listen(rest: ConnectRest, directory: Path, steps: Sequence[Step]) -> Heard:
    """Play the steps; an effect that never comes ends the conversation and is told, not raised."""
    answers: dict[str, Said] = {}
    try:
        for said in _play(rest, directory, steps):
            answers[said.name] = said
    except (ConnectError, AssertionError, httpx.HTTPError) as error:
        return Heard(answers, str(error))
    return Heard(answers)


def _play(rest: ConnectRest, directory: Path, steps: Sequence[Step]) -> Iterator[Said]:
    for step in steps:
        if isinstance(step, Ask):
            yield _said(step, _answer(step, rest), rest)
        else:
            _act(step, rest, directory)


def _answer(step: Ask, rest: ConnectRest) -> RestAnswer:
    """Ask; a status is asked for until no restart is on its way, as either worker tells of one for a moment."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        answer = rest.settled(step.method, step.path, step.body, headers=step.headers)
        passing = step.method == "GET" and b'"UNASSIGNED"' in answer.body
        if not passing or time.monotonic() > deadline:
            return answer
        time.sleep(0.05)


def _said(step: Ask, answer: RestAnswer, rest: ConnectRest) -> Said:
    authority = rest.url.removeprefix("http://")
    headers = {key.lower(): value for key, value in answer.headers.items()}
    return Said(
        step.name,
        step.method,
        step.path,
        answer.status,
        headers.get("content-type", ""),
        headers.get("location", "").replace(authority, "{worker}"),
        answer.body.decode().replace(authority, "{worker}"),
    )


def _act(step: Step, rest: ConnectRest, directory: Path) -> None:
    match step:
        case AwaitStates(connector, state, tasks):
            rest.await_states(connector, state, list(tasks), LIMIT_S)
        case AwaitBody(path, body):
            rest.until(lambda: rest.request("GET", path).json(), body, LIMIT_S, f"GET {path}")
        case AwaitStatus(path, status):
            rest.until(lambda: rest.request("GET", path).status, status, LIMIT_S, f"status of GET {path}")
        case Append(file, text):
            with (directory / file).open("a", encoding="utf-8") as handle:
                handle.write(text)
        case AwaitText(file, text):
            _until_equal(lambda: _text(directory / file), text, file)
        case _:
            raise TypeError(step)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _until_equal(read: Callable[[], str], wanted: str, what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while (seen := read()) != wanted:
        assert time.monotonic() < deadline, f"{what}: {seen!r}, not {wanted!r}"
        time.sleep(0.05)
