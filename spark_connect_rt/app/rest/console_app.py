"""The console as an ASGI application, and the REST API with it in front.

Owns: which pages there are, what a browser gets when something fails, and the mount at ``/console``. It stands inside
the REST extensions: a login they ask for guards the pages too, and the pages ask the API with the browser's login.
"""

from __future__ import annotations

import logging
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from spark_connect_rt.api.rest_extension import Asgi
from spark_connect_rt.console import protection as assets
from spark_connect_rt.console.api import ApiError
from spark_connect_rt.console.frame import PageFrame
from spark_connect_rt.console.protection import Protection
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.operations.connectors import config_editor
from spark_connect_rt.operations.connectors import config_page as connector_config
from spark_connect_rt.operations.connectors import new_page as new_connector
from spark_connect_rt.operations.connectors import page as connector
from spark_connect_rt.operations.dead_letters import page as connector_letters
from spark_connect_rt.operations.events import page as events
from spark_connect_rt.operations.history import offsets_page as connector_offsets
from spark_connect_rt.operations.history import page as connector_history
from spark_connect_rt.operations.logs import loggers_page as loggers
from spark_connect_rt.operations.logs import page as connector_logs
from spark_connect_rt.operations.overview import group_page as group
from spark_connect_rt.operations.overview import page as overview
from spark_connect_rt.operations.plugin_install import page as plugins
from spark_connect_rt.rest.middleware import BodyLimit
from spark_connect_rt.rest.paths import EncodedPaths
from spark_connect_rt.rest.requests import answer_of

PAGES = (
    *(overview, connector, connector_config, connector_history, connector_letters, connector_offsets, connector_logs),
    *(config_editor, new_connector, group, plugins, loggers, events),
)
"""Modules of the features' pages, each with an ``add_routes``."""

log = logging.getLogger(__name__)


class Console:
    """The console of one worker. ``in_front_of(app)`` first, then ``asks(app with all that is around it)``."""

    def __init__(self, aside: bool = False) -> None:
        """``aside``: it is served by ``admin.listeners``."""
        self._protection = Protection()
        self._api: Asgi | None = None
        self._frame = PageFrame(self._ask, self._protection, aside)
        self._pages = _application(self._frame, self._protection)

    def in_front_of(self, app: Asgi) -> Asgi:
        """Return an application that serves ``/console``, leads a browser there from ``/``, and hands all else on."""

        async def mounted(scope: Any, receive: Any, send: Any) -> None:
            raw = scope.get("raw_path") or scope.get("path", "").encode() if scope["type"] == "http" else b""
            if raw == b"/console" or raw.startswith((b"/console/", b"/console?")):
                root = scope.get("root_path", "").rstrip("/")
                await self._pages({**scope, "console": {"root": root}}, receive, send)
            elif raw == b"/" and is_browser(scope):
                root = scope.get("root_path", "").rstrip("/")
                leads = RedirectResponse(f"{root}/console", headers={"Vary": "Accept", "Cache-Control": "no-store"})
                await leads(scope, receive, send)
            else:
                await app(scope, receive, send)

        return mounted

    def asks(self, app: Asgi) -> None:
        """Take the application that pages ask: the REST API with its extensions."""
        self._api = app

    def close(self) -> None:
        """End what is streamed; a stopping worker waits for no page."""
        self._frame.close()

    async def _ask(self, scope: Any, receive: Any, send: Any) -> None:
        assert self._api is not None
        await self._api(scope, receive, send)


def is_browser(scope: Any) -> bool:
    """Return whether a request is a person's who opened the address in a browser.

    ``text/html`` alone does not show it: Java's HttpURLConnection asks for that, too, and expects Java's JSON.
    """
    accept = Headers(scope=scope).get("accept", "")
    return scope["method"] in ("GET", "HEAD") and "text/html" in accept and "application/xhtml+xml" in accept


def _application(frame: PageFrame, protection: Protection) -> Asgi:
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    routes = APIRouter(prefix="/console")
    for page in PAGES:
        page.add_routes(routes, frame)
    app.include_router(routes)
    app.router.routes.append(Route("/console/static/{name:path}", assets.serve))
    app.router.routes.append(Route("/console/alive", _alive(frame, protection)))
    _answer_errors(app, frame)

    app.add_middleware(BodyLimit)  # type: ignore[arg-type]
    app.add_middleware(EncodedPaths)  # type: ignore[arg-type]

    async def protected(scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in protection.headers(request).items():
                    headers.setdefault(name, value)
            await send(message)

        if refusal := protection.refusal(request):
            log.warning("console action %s rejected: %s", scope["path"], refusal)
            refused = await frame.refused(request, ApiError(403, f"Not done: {refusal}."))
            await refused(scope, receive, with_headers)
        else:
            await app(scope, receive, with_headers)

    return protected


def _alive(frame: PageFrame, protection: Protection) -> Any:
    async def alive(request: Request) -> Response:
        """Say that this worker lives, who else does, and the token of this process."""
        workers = frame.neighbours(request, await frame.group(request))
        from spark_connect_rt.rest.requests import JsonResponse

        listed = [
            {"worker_id": worker.worker_id, "url": worker.url}
            for worker in workers
            if not worker.this and worker.reachable
        ]
        return JsonResponse({"workers": listed, "token": protection.token(request)})

    return alive


def _answer_errors(app: FastAPI, frame: PageFrame) -> None:
    @app.exception_handler(ApiError)
    async def refused(request: Request, error: ApiError) -> Response:
        return await frame.refused(request, error)

    @app.exception_handler(ConnectError)
    async def ours(request: Request, error: ConnectError) -> Response:
        answer = answer_of(error, request.scope["path"])
        return await frame.refused(request, ApiError(answer.status, str(error)))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        return await frame.refused(request, ApiError(error.status_code, f"{error.detail}"))

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        log.exception("the page %s failed", request.scope["path"], exc_info=error)
        return await frame.refused(request, ApiError(500, f"The page failed: {type(error).__name__}: {error}"))
