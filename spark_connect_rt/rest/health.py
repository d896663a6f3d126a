"""``GET /health`` (KIP-1017), and its two halves as Kubernetes asks: is the process to be replaced, may it be asked."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from spark_connect_rt.rest.context import JsonResponse, RestContext
from spark_connect_rt.rest.entities import HEALTH_STATUS, health_entity, liveness_entity


def router(context: RestContext) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(tags=["worker"])

    @routes.get("/health")
    async def health() -> Response:
        """Return healthy (200), starting (503) or unhealthy (500), and what the worker does."""
        found = context.herder.health()
        return JsonResponse(health_entity(found), HEALTH_STATUS[found.status])

    @routes.get("/health/live")
    async def live() -> Response:
        """Return 200 unless only a new process can help (500): a part ended, or no tick goes well."""
        found = context.herder.health()
        return JsonResponse(liveness_entity(found), 200 if found.live else 500)

    @routes.get("/health/ready")
    async def ready() -> Response:
        """Return 200 when requests can be served; 503 before that, while it stops, is out of its group or not live."""
        found = context.herder.health()
        return JsonResponse(health_entity(found), 200 if found.status == "healthy" or found.serves else 503)

    return routes
