"""``/admin/loggers`` (Java ``LoggingResource``): levels of this worker's loggers, or of the whole group's."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.base.loggers import LEVELS
from spark_connect_rt.errors import BadRequestError, NotFoundError
from spark_connect_rt.rest.paths import decoded, json_body
from spark_connect_rt.rest.requests import JsonResponse, RestContext, read_patch
from spark_connect_rt.runtime.herder.herder_requests import SetGroupLoggerLevel, SetLoggerLevel


def add_routes(routes: APIRouter, context: RestContext) -> None:
    """Add the routes to those of ``/admin``."""
    herder = context.herder

    @routes.get("/admin/loggers")
    async def levels() -> Response:
        """Return the loggers that have their own level."""
        return JsonResponse(herder.views.logger_levels())

    @routes.get("/admin/loggers/{logger}")
    async def level(logger: str) -> Response:
        """Return the level of one logger."""
        return JsonResponse(herder.views.logger_level(decoded(logger)))

    @routes.put("/admin/loggers/{logger}")
    async def set_level(request: Request, logger: str) -> Response:
        """Set a logger and all below it; ``scope=cluster``: on every worker of the group."""
        wanted = _wanted_level(await json_body(request))
        name = decoded(logger)
        if request.query_params.get("scope", "worker").lower() != "cluster":
            of_worker = SetLoggerLevel(name, wanted)
            changed = await asyncio.wrap_future(herder.submit(of_worker))
            context.note(request, of_worker, here=True)
            return JsonResponse(changed)
        of_group = SetGroupLoggerLevel(name, wanted)
        await asyncio.wrap_future(herder.submit(of_group))
        context.note(request, of_group, here=True)
        return Response(status_code=204)


def _wanted_level(body: bytes) -> str:
    level = read_patch(body).get("level")
    if level is None:
        raise BadRequestError("Desired 'level' parameter was not specified in request.")
    if level.upper() not in LEVELS:
        raise NotFoundError(f"invalid log level '{level}'.")
    return level.upper()
