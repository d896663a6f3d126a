"""The tab Logs: the last lines of a connector's tasks, of driver and executors, and those that follow.

Owns: ``/console/connectors/{connector}/logs`` and its stream.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.base.json_text import decode_json
from spark_connect_rt.console.api import ApiError, at
from spark_connect_rt.console.frame import PageFrame, connector_page
from spark_connect_rt.errors import DataError
from spark_connect_rt.rest.paths import ConnectorName, decoded

LINES = 300
LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR")


def add_routes(routes: APIRouter, frame: PageFrame) -> None:
    """Add the tab and its stream."""

    @routes.get("/connectors/{connector}/logs")
    async def logs(request: Request, connector: ConnectorName) -> Response:
        name, problem, lines = decoded(connector), None, []
        path, query, chosen = _wanted(request, name)
        try:
            lines = (await frame.api(request).get(path, {**query, "tail": LINES}))["lines"]
        except ApiError as error:
            if error.status == 401 or (error.status == 404 and not error.unserved):
                raise
            problem = error
        shown = {"lines": lines, "problem": problem, "chosen": chosen, "levels": LEVELS}
        return await connector_page(frame, request, name, "logs", "connector_logs.html", **shown)

    @routes.get("/connectors/{connector}/logs/stream")
    async def stream(request: Request, connector: ConnectorName) -> Response:
        path, query, _ = _wanted(request, decoded(connector))
        events = frame.api(request).stream(f"{path}/stream", query)

        async def rendered() -> AsyncIterator[tuple[str, Any]]:
            async for _, data in events:
                lines = _lines(data)
                if lines:
                    yield "lines", [frame.text(request, "_log_line.html", line=line) for line in lines]

        return frame.stream(rendered())


def _wanted(request: Request, name: str) -> tuple[str, dict[str, str], dict[str, str]]:
    task, level = request.query_params.get("task", ""), request.query_params.get("level", "")
    path = at("admin", "connectors", name, "tasks", task, "logs") if task else at("admin", "connectors", name, "logs")
    query = {"level": level} if level in LEVELS else {}
    return path, query, {"task": task, "level": query.get("level", "")}


def _lines(data: str) -> list[Any]:
    """Return the lines of one event, be it one line or several. Pure."""
    try:
        found = decode_json(data.encode())
    except DataError:
        return []
    if isinstance(found, dict):
        found = found.get("lines", [found] if "message" in found else [])
    return [line for line in found if isinstance(line, dict)] if isinstance(found, list) else []
