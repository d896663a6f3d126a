"""Paths as the client sent them, so that ``%2F`` stays inside one segment; HEAD as GET; a last slash is ignored.

Owns: the ASGI wrapper around the application, and decoding one path parameter.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Annotated, Any
from urllib.parse import quote, unquote

from fastapi import HTTPException, Path
from pydantic import BeforeValidator
from starlette.requests import Request

Scope = MutableMapping[str, Any]
AsgiApp = Callable[[Scope, Any, Any], Awaitable[None]]

_SEGMENT_SAFE = "!$&'()*+,;=:@"  # characters that RFC 3986 allows in a segment unencoded, as Java's UriBuilder

ConnectorName = Annotated[str, Path(description="Name of the connector, percent-encoded (a slash as %2F).")]
_NUMBER = re.compile(r"[+-]?[0-9]+")
_ABSOLUTE = re.compile(r"https?://[^/]*", re.IGNORECASE)  # RFC 9112, 3.2.2: a server takes that form, too


def _task_number(segment: str) -> str:
    if not _NUMBER.fullmatch(unquote(segment)):
        raise ValueError("not a number as Java's Integer reads it")
    return unquote(segment)


TaskNumber = Annotated[
    int, BeforeValidator(_task_number), Path(ge=-(2**31), lt=2**31, description="Number of the task.")
]


def decoded(segment: str) -> str:
    """Return a path parameter as text."""
    return unquote(segment)


def connector_path(name: str) -> str:
    """Return the path of a connector."""
    return f"/connectors/{quote(name, safe=_SEGMENT_SAFE)}"


class EncodedPaths:
    """Routes on the raw path; the server itself drops the body of an answer to HEAD."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            raw = scope.get("raw_path") or scope["path"].encode("utf-8")
            path = _ABSOLUTE.sub("", raw.partition(b"?")[0].decode("latin-1"), count=1)
            method = "GET" if scope["method"] == "HEAD" else scope["method"]
            scope = {**scope, "path": path.removesuffix("/") or "/", "method": method}
        await self._app(scope, receive, send)


# Content types, as JAX-RS checks them once a path is found: JSON in, JSON out.
#
# More than a nicety: a page in a browser may send forms and plain text to any address without asking first, but not
# JSON. Refusing the former keeps strangers' pages from creating connectors on a worker of this machine.


_JSON = "application/json"
_STREAM = "/stream"  # ends the paths of server-sent events
_ACCEPTS_JSON = (_JSON, "application/*", "*/*", "*")


async def speaks_json(request: Request) -> None:
    """Refuse a request that brings another type than JSON (415), or wants another back (406)."""
    given = request.headers.get("content-type")
    if given is not None and _media_type(given) != _JSON:
        raise HTTPException(415)
    wanted = request.headers.get("accept")
    types = {_media_type(part) for part in wanted.split(",")} if wanted else set()
    if request.url.path.endswith(_STREAM) and "text/event-stream" in types:  # all that a browser's EventSource accepts
        return
    if wanted and types.isdisjoint(_ACCEPTS_JSON):
        raise HTTPException(406)


async def json_body(request: Request) -> bytes:
    """Return the body of a request that must have one. A body without a content type is refused (415)."""
    body = await request.body()
    if body and "content-type" not in request.headers:
        raise HTTPException(415)
    return body


def _media_type(text: str) -> str:
    return text.partition(";")[0].strip().lower()
