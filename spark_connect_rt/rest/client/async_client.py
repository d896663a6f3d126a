"""The client for an event loop: the console's, in process over ``httpx.ASGITransport``, or over the network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, TypeVar

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
)
from spark_connect_rt.rest.client.lean_httpx import httpx

T = TypeVar("T")
IN_PROCESS = "http://worker"
"""A stand-in address: in process it is not used, unless ``headers`` name another Host."""


class AsyncClient:
    """A client for an event loop. Use it as a context manager.

    ``async with in_process(app) as client: await client.send(calls.connector_names(), headers)``
    """

    def __init__(self, connection: ClusterConnection, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._connection = connection
        self._first: dict[tuple[str, ...], int] = {}  # addresses -> which of them answered last
        limits = httpx.Timeout(connection.request_limit_s, connect=connection.connect_limit_s)
        self._http = httpx.AsyncClient(
            headers=connection.all_headers(), verify=connection.tls(), timeout=limits, transport=transport
        )

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections to all addresses."""
        await self._http.aclose()

    async def send(self, call: Call[T], headers: Mapping[str, str] | None = None) -> T:
        """Return what the call gives; ``headers`` of this request win (credentials of a browser handed on).

        Raises RefusedError and its kinds, UnreachableError, TimedOutError, NoAnswerError.
        """
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
            outcome = await self._act(step, call, headers or {})

    async def _act(self, step: Step, call: Call[Any], headers: Mapping[str, str]) -> Outcome:
        if not isinstance(step, Attempt):
            await asyncio.sleep(step.seconds)
            return None
        content = None if call.body is None else json.dumps(call.body).encode()
        every = {**dict(call.headers), **headers} | (
            {"Content-Type": "application/json"} if content is not None else {}
        )
        try:
            async with self._http.stream(
                call.method, step.address + call.path, params=call.query or None, content=content, headers=every
            ) as answer:
                return await _whole(answer)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return failure_of(error, self._connection.request_limit_s)


def in_process(app: Any, client: tuple[str, int] = ("127.0.0.1", 0), rebalance_limit_s: float = 0.0) -> AsyncClient:
    """Return a client of an ASGI application in this process; ``client``: whose address the application sees.

    An exception of the application becomes its answer 500, as over the network. Streams of events do not end, and
    httpx.ASGITransport hands an answer on when it has ended: a browser asks for them itself.
    """
    transport = httpx.ASGITransport(app=app, client=client, raise_app_exceptions=False)
    return AsyncClient(ClusterConnection((IN_PROCESS,), rebalance_limit_s=rebalance_limit_s), transport)


async def _whole(answer: httpx.Response) -> ServerResponse | RequestFailure:
    pieces, size = [], 0
    async for piece in answer.aiter_bytes():
        size += len(piece)
        if size > BODY_LIMIT_BYTES:
            return RequestFailure(Broken.CUT_OFF, f"the answer is larger than {BODY_LIMIT_BYTES} bytes")
        pieces.append(piece)
    return ServerResponse(answer.status_code, b"".join(pieces))
