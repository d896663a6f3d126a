"""``/connector-plugins`` (Java ``ConnectorPluginsResource``)."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from spark_connect_rt.rest.context import JsonResponse, RestContext
from spark_connect_rt.rest.entities import plugins_entity


def router(context: RestContext) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(tags=["plug-ins"])

    @routes.get("/connector-plugins")
    async def plugins(connectorsOnly: str = "true") -> Response:  # noqa: N803 - Kafka's name of the parameter
        """Return the connectors, or with ``connectorsOnly=false`` every plug-in."""
        return JsonResponse(plugins_entity(context.herder.plugins(connectorsOnly.lower() == "true")))

    return routes
