"""The REST API as the pages see it: values in, values out, a refusal as an exception.

``await api.get(at("connectors", name, "status"))`` asks the worker that rendered the page; it forwards within the
group as for any client. A name may hold anything: ``at`` encodes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request

from spark_connect_rt.api.rest_extension import Asgi
from spark_connect_rt.base.json_text import decode_json, encode_finite_json
from spark_connect_rt.errors import explain_hint

# Asks the worker's own REST API in this process: no socket, the same checks.
#
# Owns the ASGI call. The browser's headers, address, scheme and Host are passed on, so that logins, extensions and the
# audit see the user. Headers of the browser's own request (its body, its wishes for types) are not.


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
class ApiResponse:
    """The API's answer; ``headers`` by their names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def ask(
    app: Asgi, browser: Request, method: str, target: str, body: bytes | None = None, own: Own = JSON
) -> ApiResponse:
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
    return ApiResponse(status, headers, b"".join(parts))


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


READ_LIMIT_S = 20.0
_UNSERVED = "HTTP 404 Not Found"
Query = Mapping[str, Any]


def at(*segments: object) -> str:
    """Return the path of these segments, each percent-encoded as a whole: ``/connectors/a%2Fb/status``."""
    return "".join(f"/{quote(str(segment), safe='', errors='replace')}" for segment in segments)


class ApiError(Exception):
    """The API refused, or did not answer in time.

    Attributes:
        status: of HTTP.
        code: ``CRT-nnnn``, if there is one.
        hint: what to do about it, may be empty.
        problems: setting -> what is wrong with it.
        body: the whole answer, None if it was no JSON.
    """

    def __init__(self, status: int, message: str, body: Any = None, challenge: str = "") -> None:
        super().__init__(message)
        known = body if isinstance(body, Mapping) else {}
        self.status, self.message, self.body, self.challenge = status, message, body, challenge
        self.code, self.hint = str(known.get("code") or ""), str(known.get("hint") or "")
        self.problems: Mapping[str, Sequence[str]] = known.get("problems") or {}

    @property
    def explain_hint(self) -> str:
        """The command that explains the code, as the end of a sentence; empty for an error without a code."""
        return explain_hint(self.code)

    @property
    def unserved(self) -> bool:
        """Whether this worker has no such path at all: an older one, or a part that is off."""
        return self.status in (404, 405) and self.message.startswith("HTTP 40")


class Api:
    """The API for one request of a browser, with that browser's login."""

    def __init__(self, app: Asgi, browser: Request) -> None:
        self._app, self._browser = app, browser

    async def get(self, path: str, query: Query | None = None) -> Any:
        """Return the JSON value at a path of ``at``. Raises ApiError."""
        return await self._value("GET", path, query, None, READ_LIMIT_S)

    async def get_version(self, path: str) -> tuple[Any, str]:
        """Return the value at a path and its ETag, empty where it has none. Raises ApiError."""
        answer = await self._answer("GET", path, None, None, READ_LIMIT_S)
        return decode_json(answer.body), answer.headers.get("etag", "")

    async def get_or(self, default: Any, path: str, query: Query | None = None) -> Any:
        """Return the value at a path, ``default`` where it cannot be read: for what a page can do without."""
        try:
            return await self.get(path, query)
        except ApiError as error:
            if error.status == 401:
                raise
            return default

    async def send(
        self, method: str, path: str, body: Any = None, query: Query | None = None, version: str = ""
    ) -> Any:
        """Change something; return the answer's JSON value, None if it has none.

        ``version``: an ETag; if it is not that any more, nothing is changed. Raises ApiError (then of status 412).
        """
        data = None if body is None else encode_finite_json(body)
        return await self._value(
            method, path, query, data, None, {**JSON, **({"if-match": version} if version else {})}
        )

    async def stream(self, path: str, query: Query | None = None, last_id: str = "") -> AsyncIterator[tuple[str, str]]:
        """Yield (event, data) of a path that serves server-sent events, until it ends. Raises ApiError."""
        browser = _with_last_id(self._browser, last_id) if last_id else self._browser
        target = _target(path, query)
        async with opened(self._app, browser, "GET", target, own={"accept": "text/event-stream"}) as (
            status,
            headers,
            chunks,
        ):
            if status != 200:
                raise _refusal(ApiResponse(status, headers, b"".join([chunk async for chunk in chunks])))
            event, data, pending = "message", [], b""
            async for chunk in chunks:
                *lines, pending = (pending + chunk).split(b"\n")
                for line in (line.decode("utf-8", "replace").rstrip("\r") for line in lines):
                    name, _, value = line.partition(":")
                    if name == "event":
                        event = value.strip()
                    elif name == "data":
                        data.append(value.removeprefix(" "))
                    elif not line:
                        if data:
                            yield event, "\n".join(data)
                        event, data = "message", []

    async def _value(
        self, method: str, path: str, query: Query | None, body: bytes | None, limit_s: float | None, own: Own = JSON
    ) -> Any:
        answer = await self._answer(method, path, query, body, limit_s, own)
        return decode_json(answer.body) if answer.body else None

    async def _answer(
        self, method: str, path: str, query: Query | None, body: bytes | None, limit_s: float | None, own: Own = JSON
    ) -> ApiResponse:
        target = _target(path, query)
        try:
            answer = await asyncio.wait_for(ask(self._app, self._browser, method, target, body, own), limit_s)
        except TimeoutError:
            raise ApiError(504, f"{method} {path} was not answered within {limit_s:.0f} s") from None
        except Exception as error:
            raise ApiError(500, f"{method} {path} failed: {error}") from error
        if answer.status >= 400:
            raise _refusal(answer)
        return answer


def _target(path: str, query: Query | None) -> str:
    given = {name: value for name, value in (query or {}).items() if value not in (None, "")}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def _refusal(answer: ApiResponse) -> ApiError:
    challenge = answer.headers.get("www-authenticate", "")
    try:
        body = decode_json(answer.body)
        return ApiError(answer.status, str(body["message"]), body, challenge)
    except Exception:  # noqa: BLE001 - an extension's own words, or nothing
        words = answer.body.decode("utf-8", "replace").strip()[:500]
        return ApiError(answer.status, words or f"HTTP {answer.status}", None, challenge)


def _with_last_id(browser: Request, last_id: str) -> Request:
    kept = [(name, value) for name, value in browser.scope["headers"] if name.lower() != b"last-event-id"]
    return Request({**browser.scope, "headers": [*kept, (b"last-event-id", last_id.encode())]})
