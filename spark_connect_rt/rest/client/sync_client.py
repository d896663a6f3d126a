"""The client that waits: the command line's. ``transport`` may be any httpx transport (tests: an app in memory)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from spark_connect_rt.errors import UnreachableError
from spark_connect_rt.rest.client.calls import Call
from spark_connect_rt.rest.client.connection import ClusterConnection
from spark_connect_rt.rest.client.exchange import (
    BODY_LIMIT_BYTES,
    Attempt,
    Broken,
    Outcome,
    RequestFailure,
    ServerResponse,
    Step,
    exchange,
    failure_of,
    refusal_of,
)
from spark_connect_rt.rest.client.lean_httpx import httpx
from spark_connect_rt.rest.client.refusals import NoAnswerError

# Server-sent events, from bytes to values (WHATWG's event stream, as far as the management API uses it).


LINE_LIMIT = 16 * 1024 * 1024  # characters without a line's end


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event; ``data`` is its JSON."""

    kind: str
    data: Any
    id: str = ""


class EventReader:
    """Takes pieces of a stream as they come. One stream, one reader."""

    def __init__(self) -> None:
        self._rest = b""
        self._kind = "message"
        self._data: list[str] = []
        self._id = ""

    def take(self, piece: bytes) -> Iterator[ServerEvent]:
        """Yield the events that ``piece`` completes. Raises ValueError: it is not an event stream."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > LINE_LIMIT:
            raise ValueError("a line without an end")
        for line in lines:
            event = self._line(line.rstrip(b"\r").decode("utf-8", "replace"))
            if event is not None:
                yield event

    def _line(self, line: str) -> ServerEvent | None:
        if not line:
            return self._complete()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
        elif name == "id":
            self._id = value
        return None

    def _complete(self) -> ServerEvent | None:
        kind, data = self._kind, "\n".join(self._data)
        self._kind, self._data = "message", []
        return ServerEvent(kind, json.loads(data), self._id) if data else None


T = TypeVar("T")
JSON_TYPE = {"Content-Type": "application/json"}


class Client:
    """``with Client(connection) as client: client.send(calls.connector_names())``. One thread at a time."""

    def __init__(
        self,
        connection: ClusterConnection,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connection = connection
        self._first: dict[tuple[str, ...], int] = {}  # addresses -> which of them answered last
        self._sleep = sleep
        limits = httpx.Timeout(connection.request_limit_s, connect=connection.connect_limit_s)
        self._http = httpx.Client(
            headers=connection.all_headers(), verify=connection.tls(), timeout=limits, transport=transport
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to all addresses."""
        self._http.close()

    def bases(self, path: str) -> tuple[str, ...]:
        """Return the addresses that a request for a path goes to."""
        return self._connection.bases(path)

    def send(self, call: Call[T]) -> T:
        """Return what the call gives. Raises RefusedError, UnreachableError, TimedOutError, NoAnswerError."""
        addresses = self._connection.bases(call.path)
        steps = exchange(call, addresses, self._first.get(addresses, 0), self._connection.rebalance_limit_s)
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                value: T
                value, self._first[addresses] = end.value
                return value
            outcome = self._act(step, call)

    def stream(self, call: Call[Any], last_id: str = "") -> Iterator[ServerEvent]:
        """Yield server-sent events until the worker closes the stream.

        Raises as ``send``; UnreachableError where a stream breaks off: call again with the last event's id.
        """
        headers = {"Accept": "application/json, text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
        limits = httpx.Timeout(self._connection.connect_limit_s, read=60.0)  # a heartbeat comes every 10 s
        failures, addresses = [], self._connection.bases(call.path)
        for turn in range(len(addresses)):
            index = (self._first.get(addresses, 0) + turn) % len(addresses)
            address, opened = addresses[index], False
            try:
                with self._http.stream(
                    "GET", address + call.path, params=dict(call.query), headers=headers, timeout=limits
                ) as answer:
                    opened, self._first[addresses] = True, index
                    if answer.status_code >= 400:
                        raise refusal_of(ServerResponse(answer.status_code, answer.read()), address, call)
                    yield from _events(answer, address)
                    return
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                failures.append(f"{address}: {failure_of(error, 60.0).why}")
                if opened:
                    break
        raise UnreachableError("the stream was interrupted: " + "; ".join(failures))

    def _act(self, step: Step, call: Call[Any]) -> Outcome:
        if not isinstance(step, Attempt):
            self._sleep(step.seconds)
            return None
        content = None if call.body is None else json.dumps(call.body).encode()
        headers = dict(call.headers) | (JSON_TYPE if content is not None else {})
        try:
            with self._http.stream(
                call.method, step.address + call.path, params=call.query or None, content=content, headers=headers
            ) as answer:
                return _whole(answer)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return failure_of(error, self._connection.request_limit_s)


def _whole(answer: httpx.Response) -> ServerResponse | RequestFailure:
    pieces, size = [], 0
    for piece in answer.iter_bytes():
        size += len(piece)
        if size > BODY_LIMIT_BYTES:
            return RequestFailure(Broken.CUT_OFF, f"the answer is larger than {BODY_LIMIT_BYTES} bytes")
        pieces.append(piece)
    return ServerResponse(answer.status_code, b"".join(pieces))


def _events(answer: httpx.Response, address: str) -> Iterator[ServerEvent]:
    reader = EventReader()
    try:
        for piece in answer.iter_bytes():
            yield from reader.take(piece)
    except ValueError as error:
        raise NoAnswerError(f"{address}: no event stream: {error}") from error
