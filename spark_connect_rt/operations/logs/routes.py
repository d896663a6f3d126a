"""Log lines of a connector's tasks, of their executors and of the driver; also as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.engine.log_lines import LEVELS
from spark_connect_rt.errors import BadRequestError, NotFoundError
from spark_connect_rt.operations.logs.model import LogList, LogReads, PlacedLine, WantedLines
from spark_connect_rt.rest.event_streams import EventStreams, StreamEvent
from spark_connect_rt.rest.json_bodies import number_up_to
from spark_connect_rt.rest.paths import ConnectorName, TaskNumber, decoded
from spark_connect_rt.rest.requests import JsonResponse
from spark_connect_rt.rest.shapes import Operation, QueryParameter

OF_CONNECTOR = "/admin/connectors/{connector}/logs"
OF_TASK = "/admin/connectors/{connector}/tasks/{task}/logs"
TAIL, TAIL_MOST = 1_000, 2_000
LOOK_EACH_S = 1.0
EVERYWHERE_EACH = 10  # looks: in between only workers that run its tasks are asked
SENT_AT_ONCE = 2_000

_TAIL = QueryParameter(
    "tail", "Most lines. The newest are returned.", {"type": "integer", "minimum": 0, "maximum": TAIL_MOST}
)
_LEVEL = QueryParameter("level", "Only lines of this level or above.", {"type": "string", "enum": list(LEVELS)})
_REFUSALS = {400: "A parameter is invalid.", 404: "The connector does not exist, or this worker keeps no lines."}
OPERATIONS = {
    ("GET", OF_CONNECTOR): Operation("getConnectorLogs", {200: LogList}, _REFUSALS, parameters=(_TAIL, _LEVEL)),
    ("GET", OF_TASK): Operation("getTaskLogs", {200: LogList}, _REFUSALS, parameters=(_TAIL, _LEVEL)),
}


def add_routes(routes: APIRouter, logs: LogReads | None, streams: EventStreams) -> None:
    """Add the routes to those of ``/admin``; ``logs`` None: this worker keeps none."""

    def kept() -> LogReads:
        if logs is None:
            raise NotFoundError("this worker keeps no log lines")
        return logs

    async def listed(wanted: WantedLines) -> Response:
        found, missing = await asyncio.to_thread(kept().lines, wanted)
        return JsonResponse(LogList(tuple(line.line for line in found), tuple(missing)))

    async def followed(request: Request, wanted: WantedLines) -> Response:
        following = _Following(kept(), wanted, request.headers.get("last-event-id", ""))
        await following.begin()
        return streams.response(following.look, LOOK_EACH_S)

    @routes.get(OF_CONNECTOR)
    async def of_connector(request: Request, connector: ConnectorName) -> Response:
        """Return the last lines that a connector and all its tasks logged, oldest first."""
        return await listed(_wanted(request, decoded(connector), None, TAIL))

    @routes.get(OF_TASK)
    async def of_task(request: Request, connector: ConnectorName, task: TaskNumber) -> Response:
        """Return the last lines that a task logged on its executor, and the driver about it, oldest first."""
        return await listed(_wanted(request, decoded(connector), task, TAIL))

    @routes.get(f"{OF_CONNECTOR}/stream", include_in_schema=False)
    async def connector_stream(request: Request, connector: ConnectorName) -> Response:
        """Send lines as they are logged, from now on; ``tail``: so many of those before."""
        return await followed(request, _wanted(request, decoded(connector), None, 0))

    @routes.get(f"{OF_TASK}/stream", include_in_schema=False)
    async def task_stream(request: Request, connector: ConnectorName, task: TaskNumber) -> Response:
        """Send lines as they are logged, from now on; ``tail``: so many of those before."""
        return await followed(request, _wanted(request, decoded(connector), task, 0))


class _Following:
    """Where one stream is: run -> number of the last line that was sent."""

    def __init__(self, logs: LogReads, wanted: WantedLines, last: str) -> None:
        self._logs = logs
        self._wanted = wanted
        self._last = last
        self._after: dict[str, int] = {}
        self._looks = 0
        self._first: Sequence[PlacedLine] = ()

    async def begin(self) -> None:
        """Find where the stream begins. Raises NotFoundError: there is no such connector."""
        found = await self._read(WantedLines(self._wanted.connector, self._wanted.task, SENT_AT_ONCE), everywhere=True)
        at_ms, run, number = _place(self._last)
        if run:
            self._first = [
                line for line in found if (line.number > number if line.run == run else line.line.at_ms > at_ms)
            ]
        elif self._wanted.tail:
            self._first = found[-self._wanted.tail :]

    async def look(self) -> Sequence[StreamEvent]:
        """Return what was logged since."""
        first, self._first = self._first, ()
        self._looks += 1
        new = await self._read(
            WantedLines(self._wanted.connector, self._wanted.task, SENT_AT_ONCE),
            everywhere=self._looks % EVERYWHERE_EACH == 0,
        )
        shown = LEVELS[LEVELS.index(self._wanted.level) :]
        return [
            StreamEvent("line", line.line, f"{line.line.at_ms}.{line.run}.{line.number}")
            for line in (*first, *new)
            if line.line.level in shown
        ]

    async def _read(self, wanted: WantedLines, *, everywhere: bool) -> Sequence[PlacedLine]:
        found, _ = await asyncio.to_thread(self._logs.lines, wanted, self._after, everywhere=everywhere)
        for line in found:
            self._after[line.run] = max(line.number, self._after.get(line.run, 0))
        return found


def _place(last: str) -> tuple[int, str, int]:
    """Return (time, run, number) of an id of ours; of another text nothing."""
    parts = last.split(".")
    if len(parts) == 3 and all(part.isascii() and part.isdigit() and len(part) < 20 for part in (parts[0], parts[2])):
        return int(parts[0]), parts[1], int(parts[2])
    return 0, "", 0


def _wanted(request: Request, connector: str, task: int | None, tail: int) -> WantedLines:
    level = request.query_params.get("level", "").upper() or LEVELS[0]
    if level not in LEVELS:
        raise BadRequestError(f"level: unknown level {level[:40]!r}. Use {', '.join(LEVELS)}")
    wanted = number_up_to(request.query_params.get("tail"), "tail", tail, TAIL_MOST)
    return WantedLines(connector, task, wanted, level)
