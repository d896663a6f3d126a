"""``/admin/overview``, ``/admin/connectors/{name}``, ``/admin/group``: the whole group at a glance (ours)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.base.json_text import encode_quick_json
from spark_connect_rt.operations.overview.model import ConnectorDetail, GroupInfo, Overview, OverviewPage
from spark_connect_rt.operations.overview.selection import LIMIT, LIMIT_MOST, SORTS, OverviewQuery
from spark_connect_rt.rest.event_streams import EventStreams, StreamEvent
from spark_connect_rt.rest.json_values import as_json
from spark_connect_rt.rest.paths import ConnectorName, decoded
from spark_connect_rt.rest.requests import JsonResponse, RestContext
from spark_connect_rt.rest.shapes import Operation, QueryParameter
from spark_connect_rt.topics.aggregate_state import AGGREGATES

LOOK_EACH_S = 0.5  # for what the worker has found; it looks once for all streams
OVERLAP_MS = 10_000  # of a stream that continues on another worker: clocks differ, and a row twice does no harm


def add_routes(routes: APIRouter, context: RestContext, overview: Overview | None, streams: EventStreams) -> None:
    """Add the routes to those of ``/admin``; ``overview`` None: this worker serves none."""
    if overview is None:
        return

    @routes.get("/admin/overview")
    async def page(request: Request) -> Response:
        """Return a page of all connectors of the group: states, rates, lags, errors; abnormal ones first."""
        wanted = OverviewQuery.of(request.query_params)
        await context.started()
        return _answer(await asyncio.to_thread(overview.page, wanted))

    @routes.get("/admin/overview/stream", include_in_schema=False)
    async def stream(request: Request) -> Response:
        """Send what changes in the overview as server-sent events, at most each two seconds.

        ``since_ms``: at_ms of the page that the client has; nothing between the two is missed.
        """
        await context.started()
        known = _known(request)

        async def look() -> Sequence[StreamEvent]:
            nonlocal known
            change = overview.changes(known)
            known = change.at_ms
            return [] if change.body is None else [StreamEvent("overview", change.body, str(change.at_ms))]

        return streams.response(look, LOOK_EACH_S)

    @routes.get("/admin/connectors/{connector}")
    async def connector(connector: ConnectorName) -> Response:
        """Return one connector whole: its tasks, configuration without secrets, and the course of the last hour."""
        await context.started()
        name = decoded(connector)
        await context.known(lambda: context.herder.views.connector_status(name))
        return _answer(await asyncio.to_thread(overview.connector, name))

    @routes.get("/admin/group")
    async def group() -> Response:
        """Return the workers of the group, what runs on each, and how they are."""
        await context.started()
        return _answer(await asyncio.to_thread(overview.group))


def _answer(value: object) -> Response:
    return Response(encode_quick_json(as_json(value)), media_type=JsonResponse.media_type)


def _known(request: Request) -> int:
    """Return the look whose rows the client has: of the page it has read, or of the last event; 0: it does not say."""
    last = request.headers.get("last-event-id", "")
    if last.isascii() and last.isdigit() and len(last) < 16:
        return max(1, int(last) - OVERLAP_MS)
    since = request.query_params.get("since_ms", "")
    return int(since) if since.isascii() and since.isdigit() and len(since) < 16 else 0


def _text(name: str, description: str) -> QueryParameter:
    return QueryParameter(name, description, {"type": "string"})


_PAGE = (
    _text("search", "Part of a name or class. Case does not matter."),
    _text(
        "state",
        f"States of a connector and its tasks together, separated by commas: {', '.join(AGGREGATES)}. FAILED and "
        "UNASSIGNED also match a single task.",
    ),
    QueryParameter("type", "Of connectors.", {"enum": ["source", "sink", "unknown"]}),
    QueryParameter("abnormal", "Only connectors that need attention.", {"type": "boolean", "default": False}),
    QueryParameter(
        "sort", "Abnormal connectors first, then by name; or the greatest value first.", {"enum": list(SORTS)}
    ),
    QueryParameter("offset", "Number of connectors to skip.", {"type": "integer", "minimum": 0, "default": 0}),
    QueryParameter(
        "limit", "Most connectors.", {"type": "integer", "minimum": 1, "maximum": LIMIT_MOST, "default": LIMIT}
    ),
)
OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("GET", "/admin/overview"): Operation(
        "getOverview", {200: OverviewPage}, {400: "A query parameter is invalid."}, parameters=_PAGE
    ),
    ("GET", "/admin/connectors/{connector}"): Operation(
        "getConnectorOverview", {200: ConnectorDetail}, {404: "The connector does not exist."}
    ),
    ("GET", "/admin/group"): Operation("getGroup", {200: GroupInfo}),
}
