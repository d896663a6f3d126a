"""``GET /admin/plugins``: every plug-in, where it is, and what is wrong with the broken ones (ours, not Java's)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from spark_connect_rt.rest.context import JsonResponse

PluginReport = Callable[[], Mapping[str, Sequence[Mapping[str, Any]]]]
"""Returns ``{"plugins": [{class, type, version, location}], "broken": [{name, location, error}]}``."""


def router(report: PluginReport) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(tags=["worker"])

    @routes.get("/admin/plugins")
    async def plugins() -> Response:
        """Return all plug-ins by their metadata, and those that cannot be used with their errors."""
        return JsonResponse(dict(report()))

    return routes
