"""The first tab of a connector: its state, its course over the last hour, its tasks, its topics; all of it live.

Owns: ``/console/connectors/{connector}``, its stream, the restart of one task.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.console.api import at
from spark_connect_rt.console.frame import PageFrame, connector_page, values_of
from spark_connect_rt.console.shared_reads import Rendered, SharedReads, who_asks
from spark_connect_rt.console.words import wrong_first
from spark_connect_rt.rest.paths import ConnectorName, TaskNumber, decoded

EVERY_S = 2.0
_TABLE_STEP_MS = 60_000  # the table next to the chart has a row a minute
Point = Mapping[str, Any]


def add_routes(routes: APIRouter, frame: PageFrame) -> None:
    """Add the page, its stream and the restart of a task."""
    reads: SharedReads[ConnectorSnapshot] = SharedReads(EVERY_S)

    @routes.get("/connectors/{connector}")
    async def status(request: Request, connector: ConnectorName) -> Response:
        return await connector_page(frame, request, decoded(connector), "", "connector_status.html", minutes=minutes)

    @routes.get("/connectors/{connector}/stream")
    async def stream(request: Request, connector: ConnectorName) -> Response:
        name, api, kept = decoded(connector), frame.api(request), Rendered("id")

        async def read() -> ConnectorSnapshot:
            values = values_of(await api.get(at("admin", "connectors", name)), name)
            found = values["connector"]
            row = frame.macro(request, "_task_row.html", "one")
            tasks = kept.rows(wrong_first(found.get("tasks")), lambda task: row(task, name))
            facts = frame.text(request, "_connector_facts.html", **values)
            topics = frame.text(request, "_topics.html", **values)
            tables = frame.text(request, "_tables.html", **values)
            state = str(found.get("aggregate") or found.get("state") or "")
            return ConnectorSnapshot(facts, tasks, found.get("course") or (), state, topics, tables)

        return frame.stream(changes(reads.follow((who_asks(request), name), read)))

    @routes.post("/connectors/{connector}/tasks/{task}/restart")
    async def restart(request: Request, connector: ConnectorName, task: TaskNumber) -> Response:
        name = decoded(connector)
        await frame.api(request).send("POST", at("connectors", name, "tasks", task, "restart"))
        return frame.done(request, f"Task {task} of {name} is restarted.")


@dataclass(frozen=True, slots=True)
class ConnectorSnapshot:
    """A connector at one moment: facts, tasks (problems first), topics and tables as HTML, its course, its state."""

    facts: str
    tasks: Mapping[str, str]
    course: Sequence[Point]
    state: str
    topics: str = ""
    tables: str = ""


async def changes(snapshots: AsyncIterator[ConnectorSnapshot]) -> AsyncIterator[tuple[str, Any]]:
    """Yield what a page must change to show each snapshot: at first everything."""
    before: ConnectorSnapshot | None = None
    last_ms = 0
    async for now in snapshots:
        fresh = [point for point in now.course if point["at_ms"] > last_ms]
        last_ms = max((point["at_ms"] for point in fresh), default=last_ms)
        known = before.tasks if before else {}
        yield (
            "connector",
            {
                "facts": now.facts if before is None or before.facts != now.facts else None,
                "topics": now.topics if before is None or before.topics != now.topics else None,
                "tables": now.tables if before is None or before.tables != now.tables else None,
                "tasks": {task: html for task, html in now.tasks.items() if known.get(task) != html},
                "order": list(now.tasks) if before is None or list(now.tasks) != list(known) else None,
                "course": columns(fresh),
                "state": now.state,
            },
        )
        before = now


def columns(course: Sequence[Point]) -> dict[str, list[Any]]:
    """Return a course as uPlot takes it: times in seconds, then one list for each line. Pure."""
    return {
        "at_s": [point["at_ms"] / 1000 for point in course],
        **{name: [point.get(name) for point in course] for name in ("records_per_second", "lag", "errors")},
    }


def minutes(course: Sequence[Point] | None) -> list[Point]:
    """Return one point a minute, newest first, for the table. Pure."""
    found: dict[int, Point] = {}
    for point in course or ():
        found[int(point["at_ms"]) // _TABLE_STEP_MS] = point
    return [found[minute] for minute in sorted(found, reverse=True)]
