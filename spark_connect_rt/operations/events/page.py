"""The group's own story, as it happens. Owns ``/console/events`` and its stream."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.base.json_text import decode_json
from spark_connect_rt.console.api import Api, at
from spark_connect_rt.console.frame import Frame
from spark_connect_rt.console.values import mapping
from spark_connect_rt.operations.events.events import (
    KINDS,
    SPANS,
    EventFilter,
    EventLine,
    event_filter,
    event_line,
    event_lines,
)

_MISSED_MAX = 100  # events that a page out of sight is sent again


def add_routes(routes: APIRouter, frame: Frame) -> None:
    """Add the page and what it listens to."""

    @routes.get("/events")
    async def events(request: Request) -> Response:
        wanted = _wanted(request)
        found = await frame.api(request).get(at("admin", "events"), wanted.query(int(time.time() * 1000)))
        live = f"/events/stream?{urlencode(wanted.page_query(), doseq=True)}"
        values = {"lines": event_lines(found), "wanted": wanted, "kinds": KINDS, "spans": SPANS, "live": live}
        return await frame.page(request, "events.html", **values)

    @routes.get("/events/stream")
    async def stream(request: Request) -> Response:
        wanted = _wanted(request)
        return frame.stream(_rendered(frame, request, frame.api(request), wanted))


def _wanted(request: Request) -> EventFilter:
    given = request.query_params
    return event_filter(given.getlist("kind"), given.get("connector", ""), given.get("seconds", ""))


async def _rendered(frame: Frame, request: Request, api: Api, wanted: EventFilter) -> AsyncIterator[tuple[str, Any]]:
    """Yield the events that the filter lets through, as the page shows them.

    First come the latest ones again: a page that was out of sight has missed some, and knows by their ids which.
    """
    query = {"kind": ",".join(wanted.kinds), "connector": wanted.connector}
    latest = event_lines(mapping(await api.get(at("admin", "events"), query | {"limit": _MISSED_MAX})))
    for line in reversed(latest):
        yield _event(frame, request, line)
    last_id = latest[0].id if latest else ""
    async for _, data in api.stream(at("admin", "events", "stream"), query, last_id):
        line = event_line(mapping(decode_json(data.encode())))
        if (wanted.kinds and line.kind not in wanted.kinds) or wanted.connector not in ("", line.connector):
            continue
        yield _event(frame, request, line)


def _event(frame: Frame, request: Request, line: EventLine) -> tuple[str, Any]:
    html = frame.text(request, "_event.html", line=line)
    return "event", {"id": line.id, "html": html, "words": f"{line.kind}: {line.connector} {line.summary}"}
