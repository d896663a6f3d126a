"""``GET /health`` (KIP-1017)."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from spark_connect_rt.rest.context import JsonResponse, RestContext
from spark_connect_rt.rest.entities import HEALTH_STATUS, health_entity


def router(context: RestContext) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(tags=["worker"])

    @routes.get("/health")
    async def health() -> Response:
        """Return healthy (200), starting (503) or unhealthy (500), and what the worker does."""
        found = context.herder.health()
        return JsonResponse(health_entity(found), HEALTH_STATUS[found.status])

    return routes
