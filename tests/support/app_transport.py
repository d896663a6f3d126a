"""An ASGI application behind a blocking client: no socket in between, and a separate event loop for each request."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx


class AppTransport(httpx.BaseTransport):
    """``Client(connection, AppTransport(app))``. Answers are returned when they are complete: no streams."""

    def __init__(self, app: Any) -> None:
        self.app = app

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Serve a request by the application in a new event loop, and return its answer (``httpx.BaseTransport``)."""

        async def send() -> tuple[int, httpx.Headers, bytes]:
            transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
            answer = await transport.handle_async_request(asynchronous)
            return answer.status_code, answer.headers, await answer.aread()

        asynchronous = httpx.Request(request.method, request.url, headers=request.headers, content=request.read())
        status, headers, body = asyncio.run(send())
        return httpx.Response(status, headers=headers, content=body)
