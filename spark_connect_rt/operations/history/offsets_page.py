"""The tab Offsets: where a connector is, and an edit of it while it is stopped.

Owns: ``/console/connectors/{connector}/offsets``. Past offsets belong to the history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, HTTPException
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.base.json_text import decode_json
from spark_connect_rt.console.api import ApiError, at
from spark_connect_rt.console.frame import PageFrame, connector_page, form
from spark_connect_rt.console.words import short_json
from spark_connect_rt.errors import DataError
from spark_connect_rt.rest.paths import ConnectorName, decoded


def add_routes(routes: APIRouter, frame: PageFrame) -> None:
    """Add the tab, the edit with its diff, the reset."""

    @routes.get("/connectors/{connector}/offsets")
    async def offsets(request: Request, connector: ConnectorName) -> Response:
        name, problem, found = decoded(connector), None, []
        try:
            found = (await frame.api(request).get(at("connectors", name, "offsets")))["offsets"]
        except ApiError as error:  # a broker that is away, a connector that cannot say: the page is there all the same
            if error.status in (401, 404):
                raise
            problem = error
        return await connector_page(
            frame, request, name, "offsets", "connector_offsets.html", offsets=found, problem=problem
        )

    _add_edit(routes, frame)
    _add_reset(routes, frame)


def _add_edit(routes: APIRouter, frame: PageFrame) -> None:
    @routes.get("/connectors/{connector}/offsets/edit")
    async def edit(request: Request, connector: ConnectorName) -> Response:
        name = decoded(connector)
        found = (await frame.api(request).get(at("connectors", name, "offsets")))["offsets"]
        return frame.fragment(request, "_offsets_edit.html", name=name, offsets=found)

    @routes.post("/connectors/{connector}/offsets/diff")
    async def diff(request: Request, connector: ConnectorName) -> Response:
        name, fields = decoded(connector), await form(request)
        before = (await frame.api(request).get(at("connectors", name, "offsets")))["offsets"]
        moves = moved(before, given(fields))
        text = (fields.get("offsets") or [""])[0]
        return frame.fragment(
            request, "_offsets_diff.html", name=name, moves=moves, text=text, before=short_json(before)
        )

    @routes.post("/connectors/{connector}/offsets")
    async def write(request: Request, connector: ConnectorName) -> Response:
        name, fields, api = decoded(connector), await form(request), frame.api(request)
        path = at("connectors", name, "offsets")
        before = (await api.get(path))["offsets"]
        if short_json(before) != (fields.get("before") or [""])[0]:
            raise ApiError(
                409, "The offsets have moved in the meantime, so nothing was changed. Close this and edit them again."
            )
        moves = moved(before, given(fields))
        if not moves:
            return frame.done(request, "Nothing was changed.")
        wanted = [{"partition": move["partition"], "offset": move["to"]} for move in moves]
        answer = await api.send("PATCH", path, {"offsets": wanted})
        return frame.done(request, str((answer or {}).get("message") or "The offsets are saved."))


def _add_reset(routes: APIRouter, frame: PageFrame) -> None:
    @routes.post("/connectors/{connector}/offsets/reset/confirm")
    async def confirm_reset(request: Request, connector: ConnectorName) -> Response:
        return frame.fragment(request, "_offsets_reset.html", name=decoded(connector))

    @routes.post("/connectors/{connector}/offsets/reset")
    async def reset(request: Request, connector: ConnectorName) -> Response:
        path = at("connectors", decoded(connector), "offsets")
        answer = await frame.api(request).send("DELETE", path)
        return frame.done(request, str((answer or {}).get("message") or "The offsets are reset."))


def given(fields: Mapping[str, Sequence[str]]) -> list[Mapping[str, Any]]:
    """Return the offsets that a form holds as JSON. Raises HTTPException with what is wrong."""
    text = (fields.get("offsets") or [""])[0]
    try:
        found = decode_json(text.encode())
    except DataError as error:
        raise HTTPException(400, f"The offsets are {error}") from error
    wanted = 'a list of {"partition": {...}, "offset": {...} or null}'
    if not isinstance(found, list) or not all(
        isinstance(entry, dict)
        and isinstance(entry.get("partition"), dict)
        and isinstance(entry.get("offset"), dict | None)
        for entry in found
    ):
        raise HTTPException(400, f"The offsets are not {wanted}")
    return found


def moved(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what must be written to get from one list of offsets to another: partition, from, to. Pure.

    A partition that is left out is forgotten (``to`` None).
    """
    known = {_key(entry["partition"]): entry for entry in before}
    wanted = {_key(entry["partition"]): entry for entry in after}
    moves = [
        {"partition": entry["partition"], "from": known.get(key, {}).get("offset"), "to": entry.get("offset")}
        for key, entry in wanted.items()
    ]
    gone = [{**entry, "from": entry.get("offset"), "to": None} for key, entry in known.items() if key not in wanted]
    return [move for move in [*moves, *gone] if move["from"] != move["to"]]


def _key(partition: Any) -> str:
    if not isinstance(partition, Mapping):
        return short_json(partition)
    return short_json([[name, partition[name]] for name in sorted(partition)])
