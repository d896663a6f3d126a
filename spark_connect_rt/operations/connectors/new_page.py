"""A new connector: which plug-in, its settings, check, preview, create. Owns ``/console/new``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.console.api import Api, ApiError, at
from spark_connect_rt.console.config_form import hidden
from spark_connect_rt.console.frame import PageFrame, form
from spark_connect_rt.console.values import mapping, objects, text
from spark_connect_rt.operations.connectors.config_editor import posted_config, validated_form
from spark_connect_rt.operations.plugin_install.page import PluginLine, connector_line, matching, plugin_lines
from spark_connect_rt.operations.preview.view import check_lines, preview_page

STATES = (("RUNNING", "running"), ("PAUSED", "paused"), ("STOPPED", "stopped"))
_RECORDS_MAX, _SECONDS_MAX = 200, 60
_POLL_S = 0.5  # how often a preview checks whether its page is still there


def add_routes(routes: APIRouter, frame: PageFrame) -> None:
    """Add the pages and actions."""

    @routes.get("/new")
    async def new(request: Request) -> Response:
        given, api = request.query_params, frame.api(request)
        if given.get("copy"):
            copied = mapping(await api.get(at("admin", "connectors", given["copy"]))).get("config")
            config = {name: text for name, text in hidden(mapping(copied)).items() if name != "name"}
            return await _editor(frame, request, config, given["copy"])
        if given.get("plugin"):
            return await _editor(frame, request, {"connector.class": given["plugin"]}, "")
        lines = await listed_plugins(api)
        search, kind = given.get("search", ""), given.get("kind", "")
        found = matching(lines, search, kind)
        return await frame.page(request, "new.html", lines=found, search=search, kind=kind)

    @routes.post("/new/check")
    async def check(request: Request) -> Response:
        fields, api = await form(request), frame.api(request)
        config = await posted_config(api, fields)
        name = {"name": config["name"]} if config.get("name") else {}
        answer = mapping(await api.send("POST", at("admin", "check"), {**name, "config": config}))
        exists = bool((fields.get("connector") or [""])[0]) and fields["connector"][0] == config.get("name")
        return frame.fragment(request, "_check.html", lines=check_lines(answer), ok=answer.get("ok"), exists=exists)

    @routes.post("/new/preview")
    async def preview(request: Request) -> Response:
        fields, api = await form(request), frame.api(request)
        body = {"config": await posted_config(api, fields), **preview_wishes(fields)}
        answer = await _while_seen(request, api, body)
        return frame.fragment(
            request, "_preview.html", page=preview_page(mapping(answer)), stored=body["from"] == "stored"
        )

    @routes.post("/new")
    async def create(request: Request) -> Response:
        fields, api = await form(request), frame.api(request)
        body = creation(await posted_config(api, fields), fields)
        await api.send("POST", at("connectors"), body)
        response = frame.done(request, f"{body['name']} is created.")
        response.headers["HX-Redirect"] = f"{request.scope['console']['root']}/console{at('connectors', body['name'])}"
        return response


async def _editor(frame: PageFrame, request: Request, config: Mapping[str, str], copied: str) -> Response:
    api, plugin = frame.api(request), config.get("connector.class", "")
    found, plugins = await asyncio.gather(
        validated_form(api, config, copied, untouched=True), api.get_or({}, at("admin", "plugins"))
    )
    line = connector_line(plugin_lines(objects(mapping(plugins).get("plugins"))), plugin)
    values = {"form": found, "connector": copied, "plugin": plugin, "states": STATES}
    values |= {"description": line.description if line else "", "kind": line.kind if line else ""}
    return await frame.page(request, "new_connector.html", **values)


async def listed_plugins(api: Api) -> tuple[PluginLine, ...]:
    """Return the plug-ins that Java's API lists, with the descriptions that the management API has. Raises ApiError."""
    listed, report = await asyncio.gather(api.get(at("connector-plugins")), api.get_or({}, at("admin", "plugins")))
    described = {text(item.get("class")): item.get("description") for item in objects(mapping(report).get("plugins"))}
    return plugin_lines({**item, "description": described.get(text(item.get("class")))} for item in objects(listed))


def preview_wishes(fields: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return how many records a preview is to read, how long, and from where. Pure; odd numbers become the nearest."""
    first = {name: values[0] if values else "" for name, values in fields.items()}
    begin = first.get("from")
    return {
        "records": _whole(first.get("records", ""), 10, _RECORDS_MAX),
        "seconds": _whole(first.get("seconds", ""), 20, _SECONDS_MAX),
        "from": begin if begin in ("stored", "start") else "stored",
        "put": bool(first.get("put")),
    }


def _whole(text: str, default: int, most: int) -> int:
    return max(1, min(int(text), most)) if text.isascii() and text.isdigit() and len(text) < 10 else default


def creation(config: Mapping[str, str], fields: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the body of ``POST /connectors``. Raises ApiError with what is missing."""
    name = config.get("name", "").strip()
    if not name:
        raise ApiError(400, "The connector has no name: fill in the setting name.")
    state = (fields.get("initial_state") or ["RUNNING"])[0]
    body: dict[str, Any] = {"name": name, "config": dict(config)}
    if state != "RUNNING":
        body["initial_state"] = state
    if written := (fields.get("initial_offsets") or [""])[0].strip():
        try:
            offsets = json.loads(written)
        except (ValueError, RecursionError) as error:
            raise ApiError(400, f"The initial offsets are not JSON: {error}") from error
        if not isinstance(offsets, list):
            raise ApiError(400, 'Initial offsets must be a list: [{"partition": {}, "offset": {}}]')
        body["initial_offsets"] = offsets
    return body


async def _while_seen(request: Request, api: Api, body: Mapping[str, Any]) -> Any:
    """Preview as long as the browser waits for it: one that goes away ends it."""
    running = asyncio.ensure_future(api.send("POST", at("admin", "preview"), body))
    try:
        while not (await asyncio.wait([running], timeout=_POLL_S))[0]:
            if await request.is_disconnected():
                raise ApiError(499, "The browser no longer waits for this preview.")
        return running.result()
    finally:
        running.cancel()
