"""The members of the group, their work, and when it changed. Owns ``/console/group``."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.console.api import at
from spark_connect_rt.console.frame import PageFrame
from spark_connect_rt.console.values import mapping, number, objects, text, texts, whole
from spark_connect_rt.operations.events.page import EventLine, event_line

# The page Group: workers, what runs where, and the course of rebalances. Pure.


JAVA = "java"
_WIDTH = 1000  # of the time line, in its own units
_LEAST_WIDTH = 4


@dataclass(frozen=True, slots=True)
class WorkerLine:
    """One member. ``tasks``: connector -> its tasks here, in order. Unknown values are None or empty."""

    worker_id: str
    url: str
    leader: bool
    this: bool
    runtime: str
    version: str
    reachable: bool
    health: str
    connectors: tuple[str, ...]
    tasks: tuple[tuple[str, tuple[int, ...]], ...]
    records_per_second: float | None
    memory_bytes: float | None
    started_ms: int | None

    @property
    def task_count(self) -> int:
        """How many tasks run here."""
        return sum(len(numbers) for _, numbers in self.tasks)

    @property
    def note(self) -> str:
        """Why less is known of it than of others; empty: all is."""
        if self.runtime == JAVA:
            return "A Java worker. It has no management API, so its rates and memory are unknown."
        return "" if self.reachable else "It did not answer. Shown is its last assignment."


@dataclass(frozen=True, slots=True)
class GroupPage:
    """The whole group, as the page shows it."""

    group_id: str
    kafka_cluster_id: str
    protocol: str
    leader: str
    generation: int | None
    workers: tuple[WorkerLine, ...]

    @property
    def unreachable(self) -> tuple[str, ...]:
        """Workers of ours that did not answer."""
        return tuple(worker.worker_id for worker in self.workers if not worker.reachable and worker.runtime != JAVA)


def group_page(answer: Mapping[str, Any]) -> GroupPage:
    """Return what ``GET /admin/group`` says: the leader first, then by id."""
    workers = tuple(_worker(item) for item in objects(answer.get("workers")))
    return GroupPage(
        text(answer.get("group_id")),
        text(answer.get("kafka_cluster_id")),
        text(answer.get("protocol")),
        text(answer.get("leader")),
        whole(answer.get("generation")),
        tuple(sorted(workers, key=lambda worker: (not worker.leader, worker.worker_id))),
    )


def _worker(worker: Mapping[str, Any]) -> WorkerLine:
    return WorkerLine(
        worker_id=text(worker.get("worker_id")),
        url=text(worker.get("url")),
        leader=worker.get("leader") is True,
        this=worker.get("this") is True,
        runtime=text(worker.get("runtime")),
        version=text(worker.get("version")),
        reachable=worker.get("reachable") is not False,
        health=text(worker.get("health")),
        connectors=tuple(sorted(texts(worker.get("connectors")))),
        tasks=tasks_by_connector(texts(worker.get("tasks"))),
        records_per_second=number(worker.get("records_per_second")),
        memory_bytes=number(worker.get("memory_bytes")),
        started_ms=whole(worker.get("started_ms")),
    )


def tasks_by_connector(ids: Iterable[str]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return connector -> numbers of ids such as ``orders-2``; a connector's name may hold dashes itself."""
    found: dict[str, list[int]] = {}
    for task_id in ids:
        name, _, last = task_id.rpartition("-")
        if name and last.isascii() and last.isdigit():
            found.setdefault(name, []).append(int(last))
    return tuple((name, tuple(sorted(found[name]))) for name in sorted(found))


@dataclass(frozen=True, slots=True)
class RebalanceMark:
    """One rebalance on the time line: from ``x``, as wide as it took (units of 0 to 1000)."""

    x: float
    width: float
    event: EventLine
    seconds: float | None


@dataclass(frozen=True, slots=True)
class TimeLine:
    """Rebalances between two times, newest first."""

    from_ms: int
    to_ms: int
    marks: tuple[RebalanceMark, ...]

    @property
    def hours(self) -> float:
        """Return the length of the time line, in hours."""
        return (self.to_ms - self.from_ms) / 3_600_000


def time_line(events: Iterable[Mapping[str, Any]], now_ms: int) -> TimeLine:
    """Return the rebalances among events of ``GET /admin/events`` on a line that ends now and holds all of them."""
    found = [(event_line(event), _seconds(mapping(event.get("details")))) for event in events]
    found = sorted((entry for entry in found if entry[0].at_ms), key=lambda entry: -entry[0].at_ms)
    first = min((line.at_ms for line, _ in found), default=now_ms)
    start = min(first - (now_ms - first) // 20, now_ms - 3_600_000)
    span = max(now_ms - start, 1)
    marks = []
    for line, seconds in found:
        width = max((seconds or 0) * 1000 / span * _WIDTH, _LEAST_WIDTH)
        x = (line.at_ms - start) / span * _WIDTH - width  # the event is written when it has ended
        marks.append(RebalanceMark(round(min(max(x, 0.0), _WIDTH - width), 1), round(width, 1), line, seconds))
    return TimeLine(start, now_ms, tuple(marks))


def _seconds(details: Mapping[str, Any]) -> float | None:
    for name, unit in (("seconds", 1.0), ("duration_seconds", 1.0), ("duration_ms", 0.001), ("took_ms", 0.001)):
        if (value := number(details.get(name))) is not None:
            return value * unit
    return None


_REBALANCES = 200


def add_routes(routes: APIRouter, frame: PageFrame) -> None:
    """Add the route of the page Group."""

    @routes.get("/group")
    async def group(request: Request) -> Response:
        api = frame.api(request)
        page = group_page(await api.get(at("admin", "group")))
        found = await api.get_or(None, at("admin", "events"), {"kind": "rebalance", "limit": _REBALANCES})
        line = None if found is None else time_line(objects(found.get("events")), int(time.time() * 1000))
        return await frame.page(request, "group.html", page=page, line=line)
