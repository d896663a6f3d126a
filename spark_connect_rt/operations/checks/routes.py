"""``POST /admin/check``: checks of a configuration that need other systems, one line each (ours)."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.base.json_text import JsonShape, left_out
from spark_connect_rt.errors import BadRequestError, NotFoundError
from spark_connect_rt.operations.checks.model import CheckReport, CheckRequest, Checks
from spark_connect_rt.rest.json_bodies import json_object
from spark_connect_rt.rest.paths import json_body
from spark_connect_rt.rest.requests import JsonResponse, RestContext, config_of
from spark_connect_rt.rest.shapes import Operation


@dataclass(frozen=True, slots=True)
class WantedCheck(JsonShape):
    """The configuration to check: a new one, an existing connector's, or one under another's name."""

    name: str | None = field(default=None, metadata=left_out("Name of a connector, existing or not."))
    config: dict[str, str] | None = field(
        default=None, metadata=left_out("Configuration to check instead of the connector's own.")
    )


OPERATIONS = {
    ("POST", "/admin/check"): Operation(
        "checkConfig",
        {200: CheckReport},
        {
            400: "The body does not have the expected shape. Problems of the configuration itself are in the "
            "lines of a 200 answer.",
            404: "The connector does not exist, or this worker serves no checks.",
        },
        WantedCheck,
    ),
}


def add_routes(routes: APIRouter, context: RestContext, checks: Checks | None) -> None:
    """Add the route to those of ``/admin``; ``checks`` None: this worker serves none."""
    threads = ThreadPoolExecutor(8, thread_name_prefix="rest-check")

    @routes.post("/admin/check")
    async def check(request: Request) -> Response:
        """Check a configuration with what answers outside: hosts, credentials, topics, registries, offsets, name."""
        if checks is None:
            raise NotFoundError("this worker does not serve checks")
        wanted = read_check(await json_body(request))
        await context.started()
        running = asyncio.get_running_loop()
        return JsonResponse(await running.run_in_executor(threads, lambda: checks.check(wanted)))


def read_check(data: bytes) -> CheckRequest:
    """Return what a request's body asks for. Raises BadRequestError, BadConfigError."""
    body = json_object(data, ("name", "config"))
    name, config = body.get("name"), body.get("config")
    if name is not None and (not isinstance(name, str) or not name):
        raise BadRequestError("name: must be a non-empty string")
    if name is None and config is None:
        raise BadRequestError("name or config is required: the configuration to check")
    return CheckRequest(name, None if config is None else config_of(config))
