"""How much of a request's body is read: a longer one is refused (413), whatever the request is.

Owns: the ASGI wrapper. It counts while an endpoint reads, so a body that is not needed is not read at all.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from email.utils import formatdate
from typing import Any

from starlette.exceptions import HTTPException

from spark_connect_rt.api.rest_extension import Asgi
from spark_connect_rt.config.java_regex import java_pattern
from spark_connect_rt.config.worker_config import HeaderRule
from spark_connect_rt.errors import as_error
from spark_connect_rt.rest.paths import AsgiApp, Scope

LIMIT_BYTES = 8 * 1024 * 1024
TASKS_LIMIT_BYTES = 64 * 1024 * 1024  # a whole task set, from another worker
_TASKS = re.compile(r"/connectors/[^/]+/tasks")


class BodyLimit:
    """Lets an application read bodies up to their limit. Behind EncodedPaths."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit_bytes = TASKS_LIMIT_BYTES if _TASKS.fullmatch(scope["path"]) else LIMIT_BYTES
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        declared_bytes = int(length) if length.isdigit() else 0
        read_bytes = 0

        async def limited() -> Any:
            nonlocal read_bytes
            if declared_bytes > limit_bytes:
                raise HTTPException(413)
            message = await receive()
            read_bytes += len(message.get("body", b""))
            if read_bytes > limit_bytes:
                raise HTTPException(413)
            return message

        await self._app(scope, limited, send)


# Answers for pages of other origins (``access.control.allow.*``), as Jetty's CrossOriginHandler gives them.
#
# A page's origin is echoed when it is allowed; a preflight is passed to the API, which answers OPTIONS itself. Requests
# of origins that are not allowed are answered too, only without the headers: a browser keeps the answer from the page.


DEFAULT_METHODS = ("GET", "POST", "HEAD")
ALLOWED_HEADERS = "Content-Type"
MAX_AGE_S = "60"


class CrossOrigin:
    """ASGI: adds the headers around ``app``."""

    def __init__(self, app: Asgi, origins: Sequence[str], methods: Sequence[str]) -> None:
        """Take the allowed origins (regular expressions; ``*`` alone: all) and methods (none: GET, POST, HEAD)."""
        self._app = app
        self._origins = [_pattern(origin) for origin in origins]
        self._methods = ",".join(methods or DEFAULT_METHODS)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        added = [(b"vary", b"Origin"), *self._headers(scope)]

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*added, *message.get("headers", [])]}
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _headers(self, scope: Any) -> list[tuple[bytes, bytes]]:
        asked = {name: value.decode("latin-1") for name, value in scope["headers"]}
        origin = asked.get(b"origin")
        if not origin or not any(pattern.fullmatch(origin) for pattern in self._origins):
            return []
        headers = [(b"access-control-allow-origin", origin.encode("latin-1"))]
        if scope["method"] == "OPTIONS" and b"access-control-request-method" in asked:
            headers += [
                (b"access-control-allow-methods", self._methods.encode("latin-1")),
                (b"access-control-allow-headers", ALLOWED_HEADERS.encode("latin-1")),
                (b"access-control-max-age", MAX_AGE_S.encode("latin-1")),
            ]
        return headers


def _pattern(origin: str) -> re.Pattern[str]:
    # Jetty 12 reads them as regular expressions: a dot stands for any character.
    return java_pattern(".*" if origin == "*" else origin)


# Adds the headers of ``response.http.headers.config`` to every answer (Jetty's HeaderFilter).


RawHeaders = list[tuple[bytes, bytes]]


class ResponseHeaders:
    """ASGI: applies the rules around ``app``; headers that the application itself sets win over ``set``."""

    def __init__(self, app: Asgi, rules: Sequence[HeaderRule], now_ms: Callable[[], int]) -> None:
        self._app = app
        self._rules = rules
        self._now_ms = now_ms

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": self._with_rules(list(message.get("headers", [])))}
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _with_rules(self, own: RawHeaders) -> RawHeaders:
        added: RawHeaders = []
        for rule in self._rules:
            name = rule.name.lower().encode("latin-1")
            if rule.replaces:
                added = [pair for pair in added if pair[0] != name]
            added.append((name, self._value(rule).encode("latin-1", "replace")))
        # The filter works before the resource does: a header of the resource (its content type) replaces the filter's.
        mine = {name for name, _ in own}
        return [*(pair for pair in added if pair[0] not in mine), *own]

    def _value(self, rule: HeaderRule) -> str:
        if not rule.is_date:
            return rule.value
        return formatdate((self._now_ms() + int(rule.value)) / 1000, usegmt=True)


# An exception of plug-in code fails only its request: SystemExit must not end the listener's thread.


class PluginExits:
    """Turns other exceptions, SystemExit of a plug-in first of all, into errors; the application answers it 500."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        try:
            await self._app(scope, receive, send)
        except (Exception, asyncio.CancelledError):
            raise
        except BaseException as raised:
            raise as_error(raised) from raised
