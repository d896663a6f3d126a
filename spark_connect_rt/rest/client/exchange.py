"""One call over several addresses, decided without a socket: whom to ask, what to ask again, what an answer means.

``exchange`` is a generator: it yields what to do next (Attempt, Pause), is sent what came of it (Answer, Failure), and
returns the value or raises. The shells only move bytes and wait.

A request that a worker may have carried out is never sent twice. A write tries the next address only if there was no
connection, or if the refusal itself says that nothing was done (Java's 409 of a rebalance).
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar, cast

from spark_connect_rt.errors import ConnectError, TimedOutError, UnreachableError
from spark_connect_rt.rest.client.calls import Call
from spark_connect_rt.rest.client.lean_httpx import httpx
from spark_connect_rt.rest.client.refusals import (
    ConflictError,
    NoAnswerError,
    NotAllowedError,
    NotServedError,
    RefusedError,
    UnknownNameError,
    is_momentary,
)

T = TypeVar("T")
BODY_LIMIT_BYTES = 256 * 1024 * 1024
PAUSE_S = 0.5
_GATEWAY = frozenset({502, 503, 504})
_MESSAGE_LIMIT = 4_000  # characters of a refusal that is not JSON


@dataclass(frozen=True, slots=True)
class Attempt:
    """Send the call to this address."""

    address: str
    index: int


@dataclass(frozen=True, slots=True)
class RetryDelay:
    """Wait, then continue with None."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ServerResponse:
    """A server's response to one request: its status and body."""

    status: int
    body: bytes


class Broken(Enum):
    """How far a request came that got no answer."""

    NO_CONNECTION = "no connection"  # nothing was sent
    TIMED_OUT = "timed out"
    CUT_OFF = "connection closed"


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """No answer came; ``why`` in the transport's words."""

    how: Broken
    why: str


Step = Attempt | RetryDelay
Outcome = ServerResponse | RequestFailure | None


def exchange(
    call: Call[T], addresses: Sequence[str], first: int = 0, rebalance_limit_s: float = 0.0
) -> Generator[Step, Outcome, tuple[T, int]]:
    """Return the call's value and the index of the address that gave it; ``first`` is asked first.

    Raises RefusedError and its kinds, UnreachableError, TimedOutError, NoAnswerError.
    """
    waited_s = 0.0
    while True:
        try:
            answer, index = yield from _asked_around(call, addresses, first)
            return value_of(call, answer, addresses[index]), index
        except ConflictError as refusal:
            if not refusal.momentary() or waited_s >= rebalance_limit_s:
                raise
            yield RetryDelay(PAUSE_S)
            waited_s += PAUSE_S


def _asked_around(
    call: Call[Any], addresses: Sequence[str], first: int
) -> Generator[Step, Outcome, tuple[ServerResponse, int]]:
    failures: list[str] = []
    last: tuple[ServerResponse, int] | None = None
    timed_out = False
    for turn in range(len(addresses)):
        index = (first + turn) % len(addresses)
        outcome = yield Attempt(addresses[index], index)
        if isinstance(outcome, ServerResponse):
            if not (call.reads and outcome.status in _GATEWAY and turn + 1 < len(addresses)):
                return outcome, index
            last = (outcome, index)
        elif isinstance(outcome, RequestFailure):
            failures.append(f"{addresses[index]}: {outcome.why}")
            timed_out = timed_out or outcome.how is Broken.TIMED_OUT
            if not call.reads and outcome.how is not Broken.NO_CONNECTION:
                raise _lost(call, outcome, addresses[index])
    if last is not None:
        return last
    kind = TimedOutError if timed_out else UnreachableError
    raise kind("no worker answers: " + "; ".join(failures))


def _lost(call: Call[Any], failure: RequestFailure, address: str) -> ConnectError:
    words = f"{call.method} {address}{call.path}: {failure.why}. It is not known whether the request was carried out"
    return TimedOutError(words) if failure.how is Broken.TIMED_OUT else UnreachableError(words)


def value_of(call: Call[T], answer: ServerResponse, address: str) -> T:
    """Return what a call's answer holds. Raises RefusedError and its kinds, NoAnswerError."""
    if answer.status >= 400:
        raise refusal_of(answer, address, call)
    if answer.status >= 300:
        raise NoAnswerError(f"{address}{call.path} answers {answer.status}, a redirect. Use the worker's own address")
    if not answer.body:
        return cast(T, None)
    value = _json_of(answer.body)
    if value is _NO_JSON:
        raise NoAnswerError(f"{address}{call.path} does not answer with JSON, so this is not a Connect worker")
    if call.field is None:
        return cast(T, value)
    if not isinstance(value, dict) or call.field not in value:
        raise NoAnswerError(f"{address}{call.path}: the answer has no field {call.field}")
    return cast(T, value[call.field])


def refusal_of(answer: ServerResponse, address: str, call: Call[Any]) -> RefusedError:
    """Return the error that an answer of 400 and more stands for."""
    body = _json_of(answer.body)
    if not isinstance(body, dict) or "message" not in body:
        text = answer.body[:_MESSAGE_LIMIT].decode("utf-8", "replace").strip()
        body = {"message": text if text and not text.startswith("<") else f"HTTP {answer.status}"}
    message = str(body["message"])
    problems = body.get("problems")
    kind = _kind_of(answer.status, message)
    if kind is NotServedError:
        message = f"this worker does not serve {call.method} {call.path} ({address})"
        body = {"hint": "It is a Java worker or an older version, or the feature is disabled there."}
    return kind(
        message,
        status=answer.status,
        address=address,
        code=body.get("code") if isinstance(body.get("code"), str) else None,
        hint=body.get("hint") if isinstance(body.get("hint"), str) else None,
        problems=_lists(problems) if isinstance(problems, dict) else None,
    )


def _kind_of(status: int, message: str) -> type[RefusedError]:
    if status in (404, 405) and message.startswith(f"HTTP {status}"):  # JAX-RS found no resource
        return NotServedError
    kinds = {401: NotAllowedError, 403: NotAllowedError, 404: UnknownNameError, 409: ConflictError}
    if status == 500 and is_momentary(message):
        return ConflictError
    return kinds.get(status, RefusedError)


def _lists(problems: dict[str, Any]) -> dict[str, list[str]]:
    return {
        key: [str(reason) for reason in why] if isinstance(why, list) else [str(why)] for key, why in problems.items()
    }


_NO_JSON = object()


def _json_of(body: bytes) -> Any:
    try:
        return json.loads(body)  # not orjson: an offset of 65 bits must stay what it is
    except (ValueError, RecursionError):
        return _NO_JSON


# httpx's ways of failing, put into ours.


def failure_of(error: Exception, limit_s: float) -> RequestFailure:
    """Return what a request's exception means: whether anything was sent, and why no answer came."""
    if isinstance(error, (httpx.ConnectTimeout, httpx.PoolTimeout)):
        return RequestFailure(Broken.NO_CONNECTION, "no connection within the timeout")
    if isinstance(error, (httpx.ConnectError, httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.ProxyError)):
        return RequestFailure(Broken.NO_CONNECTION, str(error) or type(error).__name__)
    if isinstance(error, httpx.TimeoutException):
        return RequestFailure(Broken.TIMED_OUT, f"no answer within {limit_s:.0f} s")
    return RequestFailure(Broken.CUT_OFF, str(error) or type(error).__name__)
