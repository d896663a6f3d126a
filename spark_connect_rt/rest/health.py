"""``GET /health`` (KIP-1017) and our own ``/admin/story`` and ``/admin/progress``."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from spark_connect_rt.rest.context import JsonResponse, RestContext
from spark_connect_rt.rest.entities import HEALTH_STATUS, health_entity, progress_entity, story_entity


def router(context: RestContext) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(tags=["worker"])

    @routes.get("/health")
    async def health() -> Response:
        """Return healthy (200), starting (503) or unhealthy (500), and what the worker does."""
        found = context.herder.health()
        return JsonResponse(health_entity(found), HEALTH_STATUS[found.status])

    @routes.get("/admin/story")
    async def story() -> Response:
        """Return the last things the herder did or waited for, and why."""
        return JsonResponse(story_entity(context.herder.story()))

    @routes.get("/admin/progress")
    async def progress() -> Response:
        """Return the counters of this worker's tasks."""
        return JsonResponse(progress_entity(context.herder.progress()))

    return routes
