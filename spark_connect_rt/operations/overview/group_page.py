"""Who is in the group, what runs where, and when it changed. Owns ``/console/group``."""

from __future__ import annotations

import time

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.console.api import at
from spark_connect_rt.console.frame import Frame
from spark_connect_rt.console.values import objects
from spark_connect_rt.operations.overview.group import group_page, time_line

_REBALANCES = 200


def add_routes(routes: APIRouter, frame: Frame) -> None:
    """Add the page."""

    @routes.get("/group")
    async def group(request: Request) -> Response:
        api = frame.api(request)
        page = group_page(await api.get(at("admin", "group")))
        found = await api.get_or(None, at("admin", "events"), {"kind": "rebalance", "limit": _REBALANCES})
        line = None if found is None else time_line(objects(found.get("events")), int(time.time() * 1000))
        return await frame.page(request, "group.html", page=page, line=line)
