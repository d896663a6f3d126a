"""All connectors on one page: problems first, filters, live values, and what is done to many at once.

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
from spark_connect_rt.console.frame import PageFrame, form
from spark_connect_rt.console.shared_reads import Rendered, SharedReads, who_asks
from spark_connect_rt.console.values import mapping, objects
from spark_connect_rt.topics.aggregate_state import AGGREGATES

PAGE = 100
EVERY_S = 2.0
_AT_ONCE = 8  # actions in progress
_NAMES_MAX = 2000  # as many as one read of the API gives
_FILTERS = ("search", "state", "type", "abnormal", "sort")


@dataclass(frozen=True, slots=True)
class BulkAction:
    """An action on selected connectors. ``words`` and ``done`` precede and follow the number of connectors."""

    words: str
    done: str
    method: str
    path: tuple[str, ...]
    query: Mapping[str, str]
    explains: str
    danger: bool = False


ACTIONS: Mapping[str, BulkAction] = {
    "pause": BulkAction(
        "Pause", "paused", "PUT", ("pause",), {}, "Tasks stay on their workers and process no records."
    ),
    "resume": BulkAction("Resume", "resumed", "PUT", ("resume",), {}, "Tasks continue from their committed offsets."),
    "stop": BulkAction(
        "Stop", "stopped", "PUT", ("stop",), {}, "The tasks end; the configuration and the offsets are kept."
    ),
    "restart-failed": BulkAction(
        "Restart failed tasks of",
        "restarted",
        "POST",
        ("restart",),
        {"includeTasks": "true", "onlyFailed": "true"},
        "Only connectors and tasks that are FAILED restart.",
    ),
    "restart": BulkAction(
        "Restart",
        "restarted",
        "POST",
        ("restart",),
        {"includeTasks": "true"},
        "The connector and all of its tasks restart.",
    ),
    "delete": BulkAction(
        "Delete", "deleted", "DELETE", (), {}, "The configuration is deleted; offsets and topics are kept.", True
    ),
}


def add_routes(routes: APIRouter, frame: PageFrame) -> None:
    """Add the page, its stream and the actions."""
    reads: SharedReads[OverviewSnapshot] = SharedReads(EVERY_S)

    @routes.get("")
    @routes.get("/")
    async def overview(request: Request) -> Response:
        query = query_of(request)
        found = await frame.api(request).get(at("admin", "overview"), query)
        return await frame.page(request, "overview.html", **view(found, query), actions=ACTIONS)

    @routes.get("/overview/stream")
    async def stream(request: Request) -> Response:
        query, api, kept = query_of(request), frame.api(request), Rendered()

        async def read() -> OverviewSnapshot:
            found = await api.get(at("admin", "overview"), query)
            values = view(found, query)
            rows = kept.rows(found["connectors"], frame.macro(request, "_overview_row.html", "one"))
            summary = frame.text(request, "_overview_summary.html", **values)
            return OverviewSnapshot(rows, summary, int(values["counts"].get("abnormal") or 0))

        return frame.stream(changes(reads.follow((who_asks(request), tuple(query.items())), read)))

    @routes.post("/selection/{action}/confirm")
    async def confirm(request: Request, action: str) -> Response:
        wanted, fields = _action(action), await form(request)
        names = await selected(frame.api(request), fields)
        return frame.fragment(request, "_confirm.html", action=action, wanted=wanted, names=names)

    @routes.post("/selection/{action}")
    async def act(request: Request, action: str) -> Response:
        wanted, names = _action(action), (await form(request)).get("name", [])
        answers, problems = await done_to_all(frame.api(request), wanted, names)
        if action == "restart-failed":
            answers = {name: answer for name, answer in answers.items() if _restarts(answer)}
        response = frame.done(request, _said(wanted, names, answers, problems), problems)
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

    known = [state for state in AGGREGATES if counts.get(state)]
    others = [state for state in counts if state not in AGGREGATES and state != "abnormal" and counts[state]]
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
class OverviewSnapshot:
    """One state of the list: name -> row as HTML, in order; the summary above it; the number of abnormal connectors."""

    rows: Mapping[str, str]
    summary: str
    abnormal: int


async def changes(snapshots: AsyncIterator[OverviewSnapshot]) -> AsyncIterator[tuple[str, Any]]:
    """Yield what a page must change to show each snapshot: at first everything."""
    before = OverviewSnapshot({}, "", 0)
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


async def done_to_all(api: Api, action: BulkAction, names: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Do it to each connector, a few at once.

    Returns the API's answer for each connector that accepted it, and one sentence for each that refused.
    """
    turns, answers, problems = asyncio.Semaphore(_AT_ONCE), dict[str, Any](), dict[str, str]()

    async def act_on(name: str) -> None:
        async with turns:
            try:
                path = at("connectors", name, *action.path)
                answers[name] = await api.send(action.method, path, None, action.query)
            except ApiError as error:
                problems[name] = f"{name}: {error.message}"

    await asyncio.gather(*(act_on(name) for name in names))
    return answers, [problems[name] for name in names if name in problems]


def _restarts(answer: Any) -> bool:
    """Return whether the answer to a restart names anything that restarts: Java's shows it as RESTARTING already."""
    found = mapping(answer)
    states = [
        mapping(found.get("connector")).get("state"),
        *(task.get("state") for task in objects(found.get("tasks"))),
    ]
    return "RESTARTING" in states


def _said(action: BulkAction, names: list[str], answers: Mapping[str, Any], problems: list[str]) -> str:
    """Return the sentence about an action that was done. Pure."""
    if not answers and not problems:
        have = f"{names[0]} has" if len(names) == 1 else f"the {len(names)} connectors have"
        return f"Nothing was {action.done}: {have} no failed tasks."
    if len(names) == 1 and not problems:
        return f"{names[0]} {action.done}."
    return f"{len(answers)} {'connector' if len(answers) == 1 else 'connectors'} {action.done}."


def _action(name: str) -> BulkAction:
    if name not in ACTIONS:
        raise HTTPException(404, f"unknown action {name}")
    return ACTIONS[name]
