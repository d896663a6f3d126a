"""``GET /``: version and Kafka cluster (Java ``RootResource``)."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from spark_connect_rt.rest.requests import JsonResponse, RestContext
from spark_connect_rt.rest.shapes import WorkerVersion


def router(context: RestContext) -> APIRouter:
    """Return the routes of ``/``."""
    routes = APIRouter(tags=["worker"])

    @routes.get("/")
    async def root() -> Response:
        """Return the Connect version this worker speaks, its commit, the id of the Kafka cluster."""
        cluster_id = context.herder.views.kafka_cluster_id()
        return JsonResponse(WorkerVersion(context.version, context.commit, cluster_id))

    return routes
