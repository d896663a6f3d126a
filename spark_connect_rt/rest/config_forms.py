"""``/admin/connector-plugins``: Java's validation with what a form needs besides (ours).

Java's answer does not name the values of a setting with a closed set; its own must stay as it is.
"""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.rest.config_shapes import checked_form
from spark_connect_rt.rest.connector_plugins import PluginName, validation
from spark_connect_rt.rest.context import JsonResponse, RestContext
from spark_connect_rt.rest.paths import decoded


def add_routes(routes: APIRouter, context: RestContext) -> None:
    """Add the route."""

    @routes.put("/admin/connector-plugins/{plugin}/config/validate")
    async def validate(request: Request, plugin: PluginName) -> Response:
        """Check a configuration; also return the values that each setting may have, where these are a closed set."""
        return JsonResponse(checked_form(await validation(context, request, decoded(plugin))))
