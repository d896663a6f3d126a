"""All connectors on one page: what is wrong first, filters, live values, and what is done to many at once.

Owns: ``/console/``, its stream, ``/console/selection/{action}``. Rows are ``/admin/overview``'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from fastapi import APIRouter, HTTPException
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.console.api import Api, ApiError, at
from spark_connect_rt.console.frame import Frame, form
from spark_connect_rt.console.shared_reads import Rendered, SharedReads, who_asks

PAGE = 100
EVERY_S = 2.0
_AT_ONCE = 8  # actions under way
_NAMES_MAX = 2000  # as many as one read of the API gives
_FILTERS = ("search", "state", "type", "abnormal", "sort")
_STATES = ("FAILED", "UNASSIGNED", "RESTARTING", "PAUSED", "STOPPED", "RUNNING")


@dataclass(frozen=True, slots=True)
class Action:
    """What can be done to a selection. ``words`` and ``done`` go before and behind the number of connectors."""

    words: str
    done: str
    method: str
    path: tuple[str, ...]
    query: Mapping[str, str]
    explains: str
    danger: bool = False


ACTIONS: Mapping[str, Action] = {
    "pause": Action("Pause", "paused", "PUT", ("pause",), {}, "Tasks stay where they are and move nothing."),
    "resume": Action("Resume", "resumed", "PUT", ("resume",), {}, "They go on where they were."),
    "stop": Action("Stop", "stopped", "PUT", ("stop",), {}, "Their tasks end; configuration and offsets stay."),
    "restart-failed": Action(
        "Restart what failed of",
        "restarted",
        "POST",
        ("restart",),
        {"includeTasks": "true", "onlyFailed": "true"},
        "Connectors and tasks that are FAILED start again; the others run on.",
    ),
    "restart": Action(
        "Restart", "restarted", "POST", ("restart",), {"includeTasks": "true"}, "Connector and all tasks start again."
    ),
    "delete": Action(
        "Delete", "deleted", "DELETE", (), {}, "Their configuration is gone; offsets and topics stay in Kafka.", True
    ),
}


def add_routes(routes: APIRouter, frame: Frame) -> None:
    """Add the page, its stream and the actions."""
    reads: SharedReads[Snapshot] = SharedReads(EVERY_S)

    @routes.get("")
    @routes.get("/")
    async def overview(request: Request) -> Response:
        query = query_of(request)
        found = await frame.api(request).get(at("admin", "overview"), query)
        return await frame.page(request, "overview.html", **view(found, query), actions=ACTIONS)

    @routes.get("/overview/stream")
    async def stream(request: Request) -> Response:
        query, api, kept = query_of(request), frame.api(request), Rendered()

        async def read() -> Snapshot:
            found = await api.get(at("admin", "overview"), query)
            values = view(found, query)
            rows = kept.rows(found["connectors"], frame.macro(request, "_overview_row.html", "one"))
            summary = frame.text(request, "_overview_summary.html", **values)
            return Snapshot(rows, summary, int(values["counts"].get("abnormal") or 0))

        return frame.stream(changes(reads.follow((who_asks(request), tuple(query.items())), read)))

    @routes.post("/selection/{action}/confirm")
    async def confirm(request: Request, action: str) -> Response:
        wanted, fields = _action(action), await form(request)
        names = await selected(frame.api(request), fields)
        return frame.fragment(request, "_confirm.html", action=action, wanted=wanted, names=names)

    @routes.post("/selection/{action}")
    async def act(request: Request, action: str) -> Response:
        wanted, names = _action(action), (await form(request)).get("name", [])
        problems = await done_to_all(frame.api(request), wanted, names)
        count = len(names) - len(problems)
        words = f"{count} {'connector' if count == 1 else 'connectors'} {wanted.done}."
        if len(names) == 1 and not problems:
            words = f"{names[0]} {wanted.done}."
        response = frame.done(request, words, problems)
        if action == "delete" and not problems and len(names) == 1:
            where = urlsplit(request.headers.get("hx-current-url", "")).path
            if at("connectors", names[0]) in where:  # its own page is nothing any more
                response.headers["HX-Redirect"] = f"{request.scope['console']['root']}/console/"
        return response


def query_of(request: Request) -> dict[str, Any]:
    """Return what of a page's address goes to ``/admin/overview``, offset and limit with it."""
    given = request.query_params
    query: dict[str, Any] = {name: given[name] for name in _FILTERS if given.get(name)}
    offset = given.get("offset", "0")
    return query | {"offset": min(int(offset), 10**9) if offset.isdecimal() else 0, "limit": PAGE}


def view(found: Mapping[str, Any], query: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the template shows of an answer of ``/admin/overview``. Pure."""
    offset, filters = query["offset"], {name: query[name] for name in _FILTERS if name in query}
    counts = found.get("counts") or {}

    def link(**changes: Any) -> str:
        given = {name: value for name, value in {**filters, **changes}.items() if value not in (None, "")}
        return f"?{urlencode(given)}" if given else "?"

    known = [state for state in _STATES if counts.get(state)]
    others = [state for state in counts if state not in _STATES and state != "abnormal" and counts[state]]
    matching = found.get("matching", 0)
    return {
        "rows": found.get("connectors") or [],
        "total": found.get("total", 0),
        "matching": matching,
        "counts": counts,
        "records_per_second": found.get("records_per_second"),
        "states": known + others,
        "unanswered": found.get("unanswered") or [],
        "filters": filters,
        "link": link,
        "offset": offset,
        "until": min(offset + PAGE, matching),
        "before": link(offset=max(0, offset - PAGE) or None) if offset else "",
        "after": link(offset=offset + PAGE) if offset + PAGE < matching else "",
        "live": f"/overview/stream{link(offset=offset or None)}",
    }


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of the list: name -> row as HTML, in order; what stands above it; how many are abnormal."""

    rows: Mapping[str, str]
    summary: str
    abnormal: int


async def changes(snapshots: AsyncIterator[Snapshot]) -> AsyncIterator[tuple[str, Any]]:
    """Yield what a page must change to show each snapshot: at first everything."""
    before = Snapshot({}, "", 0)
    async for now in snapshots:
        changed = {name: html for name, html in now.rows.items() if before.rows.get(name) != html}
        reordered = list(now.rows) != list(before.rows)
        if changed or reordered or now.summary != before.summary:
            yield (
                "overview",
                {
                    "changed": changed,
                    "order": list(now.rows) if reordered else None,
                    "summary": now.summary if now.summary != before.summary else None,
                    "abnormal": now.abnormal,
                },
            )
        before = now


async def selected(api: Api, fields: Mapping[str, list[str]]) -> list[str]:
    """Return the names chosen: those ticked, or all that the filter of the page finds."""
    if fields.get("all") != ["1"]:
        return sorted(set(fields.get("name", [])))
    query = {name: fields[f"filter-{name}"][0] for name in _FILTERS if fields.get(f"filter-{name}")}
    found = await api.get(at("admin", "overview"), {**query, "offset": 0, "limit": _NAMES_MAX})
    return [row["name"] for row in found["connectors"]]


async def done_to_all(api: Api, action: Action, names: list[str]) -> list[str]:
    """Do it to each connector, a few at once; return one sentence for each that refused."""
    turns, problems = asyncio.Semaphore(_AT_ONCE), dict[str, str]()

    async def one(name: str) -> None:
        async with turns:
            try:
                await api.send(action.method, at("connectors", name, *action.path), None, action.query)
            except ApiError as error:
                problems[name] = f"{name}: {error.message}"

    await asyncio.gather(*(one(name) for name in names))
    return [problems[name] for name in names if name in problems]


def _action(name: str) -> Action:
    if name not in ACTIONS:
        raise HTTPException(404, f"there is no action {name}")
    return ACTIONS[name]
