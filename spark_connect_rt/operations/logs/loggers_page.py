"""Levels of loggers, on one worker or in the whole group. Owns ``/console/loggers``."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.base.loggers import LEVELS
from spark_connect_rt.console.api import at
from spark_connect_rt.console.frame import PageFrame, form
from spark_connect_rt.console.values import mapping, text, whole


def add_routes(routes: APIRouter, frame: PageFrame) -> None:
    """Add the page and its action."""

    @routes.get("/loggers")
    async def loggers(request: Request) -> Response:
        found = mapping(await frame.api(request).get(at("admin", "loggers")))
        lines = [
            (name, text(mapping(logger).get("level")), whole(mapping(logger).get("last_modified")))
            for name, logger in found.items()
        ]
        lines.sort(key=lambda line: (line[0] != "root", line[0]))
        return await frame.page(request, "loggers.html", lines=lines, levels=tuple(LEVELS))

    @routes.post("/loggers")
    async def set_level(request: Request) -> Response:
        fields = await form(request)
        name, level = fields.get("logger", [""])[0].strip(), fields.get("level", [""])[0]
        scope = "worker" if fields.get("scope") == ["worker"] else "cluster"
        await frame.api(request).send("PUT", at("admin", "loggers", name), {"level": level}, {"scope": scope})
        return frame.done(request, f"{name} is {level} on {'every worker' if scope == 'cluster' else 'this worker'}.")
