"""An ASGI application behind a client that waits: no socket between, each request in a loop of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx


class AppTransport(httpx.BaseTransport):
    """``Client(connection, AppTransport(app))``. Answers are handed on when they have ended: no streams."""

    def __init__(self, app: Any) -> None:
        self.app = app

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """See httpx."""

        async def send() -> tuple[int, httpx.Headers, bytes]:
            transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
            answer = await transport.handle_async_request(asynchronous)
            return answer.status_code, answer.headers, await answer.aread()

        asynchronous = httpx.Request(request.method, request.url, headers=request.headers, content=request.read())
        status, headers, body = asyncio.run(send())
        return httpx.Response(status, headers=headers, content=body)
