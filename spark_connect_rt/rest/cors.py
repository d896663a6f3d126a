"""Answers for pages of other origins (``access.control.allow.*``), as Jetty's CrossOriginHandler gives them.

A page's origin is echoed when it is allowed; a preflight goes on to the API, which answers OPTIONS itself. Requests of
origins that are not allowed are answered too, only without the headers: a browser keeps the answer from the page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from spark_connect_rt.api.rest_extension import Asgi
from spark_connect_rt.config.java_regex import java_pattern

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
