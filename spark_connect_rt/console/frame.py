"""The frame of every page: the layout, the links, the serving worker, and the answer of an action.

How to add a page:

1. A module ``page.py`` in the feature's folder with ``add_routes(routes: APIRouter, frame: Frame) -> None``. Add a line
   to ``PAGES`` of ``app/rest/console_app.py``, and one to ``LINKS`` here, if it is in the navigation.
2. Read with ``api = frame.api(request)`` (``console/api.py``), show with ``await frame.page(request, "x.html", ...)``;
   the template extends ``layout.html`` (blocks ``title``, ``content``, ``scripts``) and imports ``_parts.html`` for
   states, times, problems, tables. A path parameter is decoded by ``rest.paths.decoded``. A refusal of the API may
   be left to rise: it is shown with code and hint, as a page or as a message. So is a path that the worker lacks.
3. A dialog is a fragment asked for with ``hx-get|hx-post`` and ``hx-target="#dialog"``: it opens by itself, holds the
   focus, and closes by Escape or ``data-close``. Render it with ``frame.fragment(request, "_name.html", ...)``.
4. An action is a POST by htmx (``hx-post``) or by ``connectrt.post`` of ``console.js``: both bring the token that
   ``Protection`` asks for, so there is nothing to check. Read the body with ``await form(request)`` (name -> texts);
   answer with ``frame.done(request, "what was done")``: the message is read out, the dialog closes, and everything with
   ``hx-trigger="console:changed from:body"`` is read again.
5. Live values: ``connectrt.live(address, {event: function})`` in a file of ``static/``, over ``frame.stream(events)``.
   It is closed while the page is out of sight: a browser has six connections to a worker, for all its tabs.
6. No script, style or handler inside a page: the policy refuses them. Files of ``static/`` are named by
   ``{{ asset("x.js") }}``; a page's own script goes into its block ``scripts``.
7. Tests: ``tests/unit/console`` (the page over a stand-in of the API), ``tests/browser`` (in Chromium).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jinja2
import orjson
from fastapi import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from spark_connect_rt._version import __version__
from spark_connect_rt.api.rest_extension import Asgi
from spark_connect_rt.console import protection as assets
from spark_connect_rt.console.api import Api, ApiError, at
from spark_connect_rt.console.protection import Protection, content_policy, origin_of
from spark_connect_rt.console.shared_reads import who_asks
from spark_connect_rt.console.words import FILTERS

LINKS: tuple[tuple[str, str], ...] = (
    *(("", "Connectors"), ("new", "New"), ("group", "Group"), ("events", "Events")),
    *(("plugins", "Plug-ins"), ("loggers", "Loggers")),
)
"""(path below /console/, words) of the navigation, in order."""

GROUP_KEPT_S = 5.0
HEARTBEAT_S = 10.0
_GROUP_LIMIT_S = 2.0
_ASKS = 'Basic realm="Kafka Connect", charset="UTF-8"'
_GROUPS_MAX = 256  # logins whose view of the group is kept


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A worker of the group, where a browser reaches it."""

    worker_id: str
    url: str
    this: bool
    reachable: bool


class PageFrame:
    """The layout and its surroundings, of one worker."""

    def __init__(self, api: Asgi, protection: Protection, aside: bool = False) -> None:
        """``api`` is the REST API with all that stands around it; ``aside``: ``admin.listeners`` serve the console."""
        self._app, self._protection, self._aside = api, protection, aside
        self._groups: dict[Hashable, tuple[float, Mapping[str, Any]]] = {}
        self._closing: set[asyncio.Event] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self.templates = jinja2.Environment(
            loader=jinja2.PackageLoader("spark_connect_rt.console"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=jinja2.ChainableUndefined,
            auto_reload=False,
        )
        self.templates.filters.update(FILTERS)

    def api(self, request: Request) -> Api:
        """Return the API with the login of this browser."""
        return Api(self._app, request)

    async def page(self, request: Request, template: str, status: int = 200, /, **values: Any) -> Response:
        """Return a whole page with its content policy."""
        group = await self.group(request)
        workers = self.neighbours(request, group)
        text = self._text(request, template, {"group": group, "workers": workers, **values})
        policy = content_policy(origin_of(worker.url) for worker in workers)
        return HTMLResponse(text, status, headers={"Content-Security-Policy": policy})

    def fragment(self, request: Request, template: str, status: int = 200, /, **values: Any) -> Response:
        """Return a part of a page, for htmx."""
        return HTMLResponse(self._text(request, template, values), status)

    def text(self, request: Request, template: str, /, **values: Any) -> str:
        """Return a part of a page as text, for what a stream sends."""
        return self._text(request, template, values)

    def macro(self, request: Request, template: str, name: str) -> Callable[..., str]:
        """Return a macro of a template: for many of the same, a tenth of what ``text`` costs."""
        module = self.templates.get_template(template).make_module(self._surroundings(request))
        return lambda *values: _in_utf_8(str(getattr(module, name)(*values)).strip())

    def done(
        self,
        request: Request,
        message: str,
        problems: Sequence[str] = (),
        *,
        close: bool = True,
        events: Sequence[str] = (),
    ) -> Response:
        """Answer an action: the message, what of it failed, and that pages should read again.

        ``close``: the dialog closes; ``events``: further events that are dispatched on the body.
        """
        response = self.fragment(request, "_message.html", message=message, problems=problems)
        fired = ["console:changed", *(["console:close"] if close else []), *events]
        return _retargeted(response, dict.fromkeys(fired, True))

    def seal(self, value: Any) -> str:
        """Return what a value is recognised by, as ``process.digest``: nothing can be guessed from it."""
        return self._protection.seal(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))

    async def refused(self, request: Request, error: ApiError) -> Response:
        """Return a refusal of the API as a page, or as a message on the page that asked."""
        values = {"error": error, "path": request.scope["path"]}
        if "hx-request" in request.headers:
            response = _retargeted(self.fragment(request, "_problem.html", error.status, **values), {})
        elif error.status == 401:
            response = HTMLResponse(self._text(request, "problem.html", {"group": {}, "workers": [], **values}), 401)
        else:
            response = await self.page(request, "problem.html", error.status, **values)
        if error.status == 401:  # Connect's login names no scheme: a browser then shows no place to type a password
            response.headers["WWW-Authenticate"] = error.challenge or _ASKS
        return response

    def neighbours(self, request: Request, group: Mapping[str, Any]) -> list[Neighbour]:
        """Return the workers of the group, where their consoles are."""
        return neighbours(group, f"{request.url.scheme}://{request.url.netloc}" if self._aside else "")

    async def group(self, request: Request) -> Mapping[str, Any]:
        """Return ``/admin/group`` as it was up to 5 s ago, empty where it is not served."""
        key = who_asks(request)
        kept = self._groups.get(key)
        if kept is not None and time.monotonic() - kept[0] < GROUP_KEPT_S:
            return kept[1]
        try:
            found = await asyncio.wait_for(self.api(request).get_or({}, at("admin", "group")), _GROUP_LIMIT_S)
        except TimeoutError:
            found = kept[1] if kept else {}
        if len(self._groups) >= _GROUPS_MAX:
            self._groups.clear()
        self._groups[key] = (time.monotonic(), found)
        return found  # type: ignore[no-any-return]

    def stream(self, events: AsyncIterator[tuple[str, Any]]) -> Response:
        """Return server-sent events: (name, value as JSON), a comment every 10 s; ends when the worker stops."""
        return StreamingResponse(
            self._lines(events),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    async def _lines(self, events: AsyncIterator[tuple[str, Any]]) -> AsyncIterator[bytes]:
        closing = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._closing.add(closing)
        ended = asyncio.ensure_future(closing.wait())
        following: asyncio.Future[Any] = asyncio.ensure_future(anext(events))
        try:
            yield b"retry: 2000\n\n"
            while not self._closed:
                done, _ = await asyncio.wait([following, ended], timeout=HEARTBEAT_S, return_when="FIRST_COMPLETED")
                if ended in done:
                    return
                if not done:
                    yield b": alive\n\n"
                    continue
                try:
                    name, value = following.result()
                except StopAsyncIteration:
                    return
                except ApiError as error:
                    name, value = "problem", {"message": error.message, "status": error.status}
                yield b"event: " + name.encode() + b"\ndata: " + orjson.dumps(value) + b"\n\n"
                if name == "problem":
                    return
                following = asyncio.ensure_future(anext(events))
        finally:
            following.cancel()
            ended.cancel()
            self._closing.discard(closing)

    def close(self) -> None:
        """End every stream, from any thread: a stopping worker waits for none of them."""
        self._closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end_streams)

    def _end_streams(self) -> None:
        for event in list(self._closing):
            event.set()

    def _text(self, request: Request, template: str, values: Mapping[str, Any]) -> str:
        return _in_utf_8(self.templates.get_template(template).render({**self._surroundings(request), **values}))

    def _surroundings(self, request: Request) -> dict[str, Any]:
        base = request.scope["console"]["root"] + "/console"
        theme = request.cookies.get("connectrt_theme", "")
        return {
            "base": base,
            "here": request.scope["path"].removeprefix("/console").strip("/"),
            "links": LINKS,
            "asset": lambda name: base + assets.address(name),
            "url": lambda *segments: base + at(*segments),
            "token": self._protection.token(request),
            "theme": theme if theme in ("light", "dark") else "auto",
            "version": __version__,
            "now_ms": int(time.time() * 1000),
        }


def neighbours(group: Mapping[str, Any], aside: str = "") -> list[Neighbour]:
    """Return the workers of ``/admin/group`` that have an address a browser may open. Pure.

    ``aside``: the address of this console where ``admin.listeners`` serves it; then the others' have its scheme and
    port, as a group's workers are set up alike, for what they advertise is the listener without the console.
    """
    found = []
    for worker in group.get("workers") or ():
        url = str(worker.get("url") or "").rstrip("/")
        if aside and (origin := origin_of(url)):
            here, host = urlsplit(aside), re.sub(r":\d+$", "", urlsplit(origin).netloc)
            url = f"{here.scheme}://{host}{':' + str(here.port) if here.port else ''}"
        if worker.get("runtime") != "java" and origin_of(url):
            found.append(
                Neighbour(
                    str(worker.get("worker_id")), url, bool(worker.get("this")), worker.get("reachable") is not False
                )
            )
    return found


async def form(request: Request) -> dict[str, list[str]]:
    """Return the fields of a form, urlencoded as htmx sends it. Raises HTTPException."""
    try:
        text = (await request.body()).decode("utf-8")
        return parse_qs(text, keep_blank_values=True, max_num_fields=20_000)
    except ValueError as error:
        raise HTTPException(400, f"the form cannot be read: {error}") from error


def _in_utf_8(text: str) -> str:
    """Return what a browser can be sent: JSON may hold halves of characters, which UTF-8 has no form for."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _retargeted(response: Response, triggers: Mapping[str, Any]) -> Response:
    response.headers["HX-Retarget"] = "#messages"
    response.headers["HX-Reswap"] = "afterbegin"
    if triggers:
        response.headers["HX-Trigger"] = orjson.dumps(triggers).decode()
    return response


# One connector's page: the part above its tabs, and its tabs.
#
# How to add a tab: a line in ``TABS``, and a module ``page.py`` that serves ``/connectors/{connector}/<slug>``
# and answers ``await connector_page(frame, request, name, "<slug>", "connector_x.html", ...)``; its template extends
# ``connector.html`` (block ``tab``) and has ``connector`` (the answer of ``/admin/connectors/{name}``) at hand.


TABS: tuple[tuple[str, str], ...] = (
    ("", "Status"),
    ("configuration", "Configuration"),
    ("offsets", "Offsets"),
    ("history", "History"),
    ("dead-letters", "Dead letters"),
    ("logs", "Logs"),
)
"""(last part of the path, words), in order."""


async def connector_page(
    frame: PageFrame, request: Request, name: str, tab: str, template: str, status: int = 200, /, **values: Any
) -> Response:
    """Return a tab of a connector's page. Raises ApiError, as where there is no such connector."""
    found = await frame.api(request).get(at("admin", "connectors", name))
    return await frame.page(request, template, status, **values_of(found, name), tab=tab, **values)


def values_of(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return what every tab shows of an answer of ``/admin/connectors/{name}``. Pure."""
    return {"connector": {**found, "name": name}, "name": name, "tabs": TABS}
