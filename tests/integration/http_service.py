"""A web service of uvicorn on a free loopback port: answers what a test says, remembers what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


@dataclass
class HttpService:
    """``with HttpService(lambda asked: Response("[]")) as service: service.url``."""

    answer: Callable[[Asked], Response]
    asked: list[Asked] = field(default_factory=list)

    def __enter__(self) -> Self:
        app = Starlette(routes=[Route("/{path:path}", self._serve, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])])
        self._server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off"))
        self._ready = threading.Event()
        startup = self._server.startup

        async def started(*arguments: Any, **named: Any) -> None:
            await startup(*arguments, **named)
            self._ready.set()

        self._server.startup = started  # type: ignore[method-assign]
        self._thread = threading.Thread(target=self._server.run, name="http-service", daemon=True)
        self._thread.start()
        assert self._ready.wait(60), "the service did not come up"
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(30)

    async def _serve(self, request: Request) -> Response:
        body = await request.body()
        asked = Asked(request.method, request.url.path, dict(request.query_params), dict(request.headers), body)
        self.asked.append(asked)
        return self.answer(asked)
