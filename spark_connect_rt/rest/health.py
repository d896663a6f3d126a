"""``GET /health`` (KIP-1017), and its two halves as Kubernetes asks: is the process to be replaced, may it be asked."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from spark_connect_rt.rest.requests import JsonResponse, RestContext
from spark_connect_rt.rest.shapes import WorkerHealth
from spark_connect_rt.runtime.values import Health

_STATUS = {"healthy": 200, "starting": 503, "unhealthy": 500}
_MESSAGE = {
    "healthy": "Worker has completed startup and is ready to handle requests.",
    "starting": "Worker is still starting up.",
    "unhealthy": "Worker was unable to handle this request and may be unable to handle other requests.",
}


def router(context: RestContext) -> APIRouter:
    """Return the routes of ``/health`` and of its halves."""
    routes = APIRouter(tags=["worker"])

    @routes.get("/health")
    async def health() -> Response:
        """Return healthy (200), starting (503) or unhealthy (500), and what the worker does."""
        found = context.herder.views.health()
        return JsonResponse(worker_health(found), _STATUS[found.status])

    @routes.get("/health/live")
    async def live() -> Response:
        """Return 200 unless only a new process can help (500): a part ended, or no tick goes well."""
        found = context.herder.views.health()
        return JsonResponse(worker_liveness(found), 200 if found.live else 500)

    @routes.get("/health/ready")
    async def ready() -> Response:
        """Return 200 when requests can be served; 503 before that, while it stops, is out of its group or not live."""
        found = context.herder.views.health()
        return JsonResponse(worker_health(found), 200 if found.status == "healthy" or found.serves else 503)

    return routes


def worker_health(health: Health) -> WorkerHealth:
    """Return Java's words; healthy says nothing more, the others say what the worker does."""
    message = _MESSAGE[health.status]
    if health.status != "healthy" and health.detail:
        message = f"{message} {health.detail}"
    if health.note:
        message = f"{message} {health.note}"
    return WorkerHealth(health.status, message)


def worker_liveness(health: Health) -> WorkerHealth:
    """Return what /health/live answers: a worker that starts or stops in order is live, and says so."""
    if not health.live:
        return worker_health(health)
    message = "Worker is live." if health.status == "healthy" else f"Worker is live. {health.detail}".rstrip()
    return WorkerHealth("healthy", message)
