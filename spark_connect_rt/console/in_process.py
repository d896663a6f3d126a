"""Asks the worker's own REST API in this process: no socket, the same checks.

Owns the ASGI call. The browser's headers, address, scheme and Host go along, so that logins, extensions and the audit
see who asks; what belongs to the browser's own request (its body, its wishes for types) does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from spark_connect_rt.api.rest_extension import Asgi

_NOT_HANDED_ON = {
    *(b"accept", b"accept-encoding", b"connection", b"content-encoding", b"content-length", b"content-type"),
    *(
        b"expect",
        b"if-match",
        b"if-modified-since",
        b"if-none-match",
        b"range",
        b"te",
        b"transfer-encoding",
        b"upgrade",
    ),
}
_WAITING = 64  # chunks of a stream that is read slowly
Own = Mapping[str, str]
JSON: Own = {"accept": "application/json"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API answered; ``headers`` by their names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def ask(
    app: Asgi, browser: Request, method: str, target: str, body: bytes | None = None, own: Own = JSON
) -> Answer:
    """Send one request and return the whole answer.

    Args:
        app: the API.
        browser: the request of the browser that wants it.
        method: of HTTP.
        target: path, percent-encoded, with its query.
        body: JSON; None: none.
        own: headers of this request, names in lower case.
    """
    async with opened(app, browser, method, target, body, own) as (status, headers, chunks):
        parts = [chunk async for chunk in chunks]
    return Answer(status, headers, b"".join(parts))


@asynccontextmanager
async def opened(
    app: Asgi, browser: Request, method: str, target: str, body: bytes | None = None, own: Own = JSON
) -> AsyncIterator[tuple[int, Mapping[str, str], AsyncIterator[bytes]]]:
    """Send one request; give status, headers and the body as it comes. Leaving hangs up: the API sees a disconnect."""
    messages: asyncio.Queue[Any] = asyncio.Queue(_WAITING)
    gone = asyncio.Event()
    sent = False

    async def receive() -> Any:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": body or b"", "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def run() -> None:
        try:
            await app(_scope(browser, method, target, body, own), receive, messages.put)
            await messages.put(None)
        except Exception as error:  # noqa: BLE001 - the reader raises it
            await messages.put(error)

    running = asyncio.get_running_loop().create_task(run())
    try:
        start = await messages.get()
        if not isinstance(start, dict):
            raise start or RuntimeError(f"{method} {target} was not answered")
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start["headers"]}
        yield start["status"], headers, _chunks(messages)
    finally:
        gone.set()
        running.cancel()


async def _chunks(messages: asyncio.Queue[Any]) -> AsyncIterator[bytes]:
    while isinstance(message := await messages.get(), dict):
        if message.get("body"):
            yield message["body"]
        if not message.get("more_body"):
            return
    if message is not None:
        raise message


def _scope(browser: Request, method: str, target: str, body: bytes | None, own: Own) -> dict[str, Any]:
    path, _, query = target.partition("?")
    headers = [(name, value) for name, value in browser.scope["headers"] if name.lower() not in _NOT_HANDED_ON]
    headers += [(name.encode(), value.encode()) for name, value in own.items()]
    if body is not None:
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": browser.scope.get("scheme", "http"),
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": browser.scope.get("console", {}).get("root", ""),
        "headers": headers,
        "client": browser.scope.get("client"),
        "server": browser.scope.get("server"),
        "state": {},
    }
