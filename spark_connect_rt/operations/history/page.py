"""The tab History: changes, their users, the difference of two, and the way back. Also what was of the offsets.

Owns: ``/console/connectors/{connector}/history`` and, for the tab Offsets, ``.../offsets/history``, undo and goto.
"""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, HTTPException
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.console.api import ApiError, at
from spark_connect_rt.console.frame import PageFrame, connector_page, form
from spark_connect_rt.console.values import mapping, text, texts
from spark_connect_rt.operations.history.view import (
    KINDS,
    course,
    diff_lines,
    history_page,
    moves,
    suggested_ms,
    time_ms,
)
from spark_connect_rt.rest.paths import ConnectorName, decoded

PAGE = 50
_COURSE_MS = 24 * 3_600_000


def add_routes(routes: APIRouter, frame: PageFrame) -> None:
    """Add the tab, and what is asked before something is taken back."""

    @routes.get("/connectors/{connector}/history")
    async def history(request: Request, connector: ConnectorName) -> Response:
        name, given = decoded(connector), request.query_params
        kind, before = given.get("kind", ""), given.get("before", "")
        query = {"connector": name, "kind": kind if kind in KINDS else "", "limit": PAGE}
        query |= {"before": before if before.isdecimal() else ""}
        problem, page = None, history_page({}, PAGE)
        try:
            page = history_page(mapping(await frame.api(request).get(at("admin", "history"), query)), PAGE)
        except ApiError as error:
            problem = _shown(error)
        values = {"page": page, "kinds": KINDS, "kind": query["kind"], "problem": problem}
        return await connector_page(frame, request, name, "history", "connector_history.html", **values)

    @routes.get("/connectors/{connector}/history/diff")
    async def diff(request: Request, connector: ConnectorName) -> Response:
        name, given = decoded(connector), request.query_params
        first, second = given.get("from", ""), given.get("to", "")
        answer = await frame.api(request).get(at("admin", "history", name, "diff"), {"from": first, "to": second})
        values = {"first": first, "second": second, "lines": diff_lines(mapping(answer))}
        return frame.fragment(request, "_history_diff.html", **values)

    _add_rollback(routes, frame)
    _add_offsets(routes, frame)


def _add_rollback(routes: APIRouter, frame: PageFrame) -> None:
    @routes.post("/connectors/{connector}/history/{number:int}/rollback")
    async def rollback(request: Request, connector: ConnectorName, number: int) -> Response:
        """Show what would change; with ``sure``: do it."""
        name, sure = decoded(connector), "sure" in await form(request)
        path = at("admin", "history", name, number, "rollback")
        answer = mapping(await frame.api(request).send("POST", path, {"dry_run": not sure}))
        if sure:
            return frame.done(request, f"{name} is rolled back to change {number}.")
        problems = [
            f"{setting}: {problem}"
            for setting, all_of in mapping(answer.get("problems")).items()
            for problem in texts(all_of)
        ]
        values = {"lines": diff_lines(answer, "diff"), "kept": texts(answer.get("kept")), "problems": problems}
        return frame.fragment(request, "_rollback.html", name=name, number=number, **values)


def _add_offsets(routes: APIRouter, frame: PageFrame) -> None:
    @routes.get("/connectors/{connector}/offsets/history")
    async def offset_history(request: Request, connector: ConnectorName) -> Response:
        name, api = decoded(connector), frame.api(request)
        now_ms = int(time.time() * 1000)
        query = {"connector": name, "kind": "offsets", "limit": PAGE}
        values: dict[str, Any] = {"name": name, "page": history_page({}, PAGE), "points": (), "problems": []}
        values["suggested_ms"] = suggested_ms(now_ms, {})
        try:
            values["page"] = history_page(mapping(await api.get(at("admin", "history"), query)), PAGE)
            path = at("admin", "connectors", name, "offsets", "course")
            found = mapping(await api.get(path, {"from_ms": now_ms - _COURSE_MS, "to_ms": now_ms}))
            values["points"] = course(found)
            values["suggested_ms"] = suggested_ms(now_ms, found)
            values["problems"] = [
                problem for problem in (values["page"].problem, text(found.get("problem"))) if problem
            ]
        except ApiError as error:
            values["problem"] = _shown(error)
        return frame.fragment(request, "_offset_history.html", **values)

    @routes.post("/connectors/{connector}/offsets/undo/{number:int}")
    async def undo(request: Request, connector: ConnectorName, number: int) -> Response:
        name, fields = decoded(connector), await form(request)
        path = at("admin", "history", name, number, "undo")
        title = f"Undo offset change {number} of {name}?"
        return await _moved(frame, request, name, path, {"force": True} if "force" in fields else {}, title)

    @routes.post("/connectors/{connector}/offsets/goto")
    async def goto(request: Request, connector: ConnectorName) -> Response:
        name, written = decoded(connector), (await form(request)).get("time", [""])[0]
        wanted = time_ms(written)
        if wanted is None or wanted < 0:
            raise HTTPException(400, f"{written[:40]!r} is not a valid time. Use UTC, for example 2026-11-21T10:00.")
        path = at("admin", "connectors", name, "offsets", "goto")
        title = f"Move {name} back to its offsets of {written} UTC?"
        return await _moved(frame, request, name, path, {"time_ms": wanted}, title)


async def _moved(
    frame: PageFrame, request: Request, name: str, path: str, body: dict[str, Any], title: str
) -> Response:
    """Show what would move; with ``sure`` in the form: move it."""
    fields = await form(request)
    sure = "sure" in fields
    answer = mapping(await frame.api(request).send("POST", path, {**body, "dry_run": not sure}))
    found = moves(answer)
    if sure:
        moved = sum(move.moves for move in found)
        return frame.done(request, f"{name}: {moved} offset{'' if moved == 1 else 's'} written.")
    again = {field: values[0] for field, values in fields.items() if field in ("time",)}
    values: dict[str, Any] = {
        "title": title,
        "moves": found,
        "problems": texts(answer.get("problems")),
        "fields": again,
    }
    values |= {"address": _address(request), "at_ms": answer.get("at_ms"), "can_force": path.endswith("/undo")}
    return frame.fragment(request, "_offsets_moved.html", name=name, forced="force" in fields, **values)


def _address(request: Request) -> str:
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return f"{request.scope['console']['root']}{raw.decode('ascii', 'replace').partition('?')[0]}"


def _shown(error: ApiError) -> ApiError:
    """Return the error that a part of a page shows. A user who is not logged in sees no page."""
    if error.status == 401:
        raise error
    return error
