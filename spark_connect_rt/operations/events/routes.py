"""``/admin/events``: the event log of the whole group, as a list and as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.errors import BadRequestError, NotFoundError
from spark_connect_rt.operations.events.model import EventList, EventReads
from spark_connect_rt.rest.event_streams import EventStreams, StreamEvent
from spark_connect_rt.rest.json_bodies import number_up_to
from spark_connect_rt.rest.requests import JsonResponse
from spark_connect_rt.rest.shapes import Operation, QueryParameter
from spark_connect_rt.runtime.group_events import KINDS, GroupEvent

# Which events a reader of ``/admin/events`` gets, and where a stream resumes. Pure.


LATE_MS = 3_000  # clocks of workers differ, and what one says may be read a moment later


def wanted(
    events: Iterable[GroupEvent], kinds: Collection[str] = (), connector: str | None = None, since_ms: int = 0
) -> list[GroupEvent]:
    """Return the events that a reader asked for, in their order. No ``kinds``: all. Pure.

    A rebalance that moved a connector is an event of that connector, too.
    """
    return [
        event
        for event in events
        if event.at_ms >= since_ms
        and (not kinds or event.kind in kinds)
        and (connector is None or event.connector == connector or _moved(event, connector))
    ]


def _moved(event: GroupEvent, connector: str) -> bool:
    if event.kind != "rebalance":
        return False
    items = [*event.details.get("moved", ()), *event.details.get("released", ())]
    return any(isinstance(item, Mapping) and item.get("connector") == connector for item in items)


def behind(events: Sequence[GroupEvent], last: str) -> list[GroupEvent]:
    """Return the events that a client which has seen the event ``last`` may have missed. Pure.

    Of the worker that recorded it, those behind it. Others' may have been read later than they happened, so theirs
    begin a little before: none is missed, one may be repeated under the same id. An id that is not kept any more: all.
    """
    known = next((event for event in events if event.id == last), None)
    if known is None:
        return list(events)
    return [
        event
        for event in events
        if event.id != last
        and (
            (event.at_ms, event.id) > (known.at_ms, known.id)
            or (event.worker_id != known.worker_id and event.at_ms > known.at_ms - LATE_MS)
        )
    ]


PATH = "/admin/events"
LIMIT, LIMIT_MOST = 100, 2_000
LOOK_EACH_S = 1.0
SETTLE_S = 1.2  # until the views of several workers of one rebalance are one
_KIND = QueryParameter("kind", f"Kinds, separated by commas: {', '.join(KINDS)}. Default: all.", {"type": "string"})
_CONNECTOR = QueryParameter("connector", "Only events of this connector.", {"type": "string"})
_SINCE = QueryParameter("since_ms", "Only events from this time on, in ms since 1970.", {"type": "integer"})
_LIMIT = QueryParameter(
    "limit", "Most events.", {"type": "integer", "minimum": 0, "maximum": LIMIT_MOST, "default": LIMIT}
)
OPERATIONS = {
    ("GET", PATH): Operation(
        "listEvents",
        {200: EventList},
        {400: "A parameter is invalid.", 404: "This worker keeps no events."},
        parameters=(_KIND, _CONNECTOR, _SINCE, _LIMIT),
    )
}


@dataclass(frozen=True, slots=True)
class _Filter:
    kinds: Collection[str]
    connector: str | None
    since_ms: int

    def of(self, events: Sequence[GroupEvent]) -> list[GroupEvent]:
        return wanted(events, self.kinds, self.connector, self.since_ms)


def add_routes(routes: APIRouter, events: EventReads | None, streams: EventStreams) -> None:
    """Add the routes to those of ``/admin``; ``events`` None: this worker keeps none."""

    def kept() -> EventReads:
        if events is None:
            raise NotFoundError("this worker keeps no events")
        return events

    @routes.get(PATH)
    async def listed(request: Request) -> Response:
        """Return what happened in the group: rebalances, failures, restarts, changes; newest first."""
        limit = number_up_to(request.query_params.get("limit"), "limit", LIMIT, LIMIT_MOST)
        asked = _filter_of(request)
        found, missing = await asyncio.to_thread(kept().gathered)
        newest = asked.of(found)[::-1][:limit]
        return JsonResponse(EventList(tuple(newest), tuple(missing)))

    @routes.get(f"{PATH}/stream", include_in_schema=False)
    async def stream(request: Request) -> Response:
        """Send what happens in the group, as it happens; behind ``Last-Event-ID``, else from now on."""
        asked = _filter_of(request)
        last = request.headers.get("last-event-id") or request.query_params.get("last_event_id", "")
        from_start = bool(last) or "since_ms" in request.query_params
        return streams.response(_Following(kept(), asked, last, from_start).look, LOOK_EACH_S)


class _Following:
    """The events that one stream has sent so far."""

    def __init__(self, events: EventReads, asked: _Filter, last: str, from_start: bool) -> None:
        self._events = events
        self._asked = asked
        self._last = last
        self._from_start = from_start
        self._sent: set[str] | None = None  # ids that went out, or lie before where the stream begins
        self._seen_s: dict[str, float] = {}
        self._found: Sequence[GroupEvent] | None = None

    async def look(self) -> Sequence[StreamEvent]:
        """Return what is new and settled."""
        found, _ = await asyncio.to_thread(self._events.gathered)
        if found is self._found and not self._seen_s:
            return ()
        self._found = found
        known = {event.id for event in found}
        if self._sent is None:
            due = behind(found, self._last) if self._from_start else []
            self._sent = known - {event.id for event in due}
        now_s = asyncio.get_running_loop().time()
        self._seen_s = {event.id: self._seen_s.get(event.id, now_s) for event in found if event.id not in self._sent}
        ready = [event for event in found if now_s - self._seen_s.get(event.id, now_s) >= SETTLE_S]
        self._sent = (self._sent | {event.id for event in ready}) & known
        for event in ready:
            del self._seen_s[event.id]
        return [StreamEvent(event.kind, event, event.id) for event in self._asked.of(ready)]


def _filter_of(request: Request) -> _Filter:
    text = request.query_params.get("kind", "")
    kinds = {part.strip() for part in text.split(",") if part.strip()}
    if unknown := sorted(kinds - KINDS.keys()):
        raise BadRequestError(f"kind: unknown kind {', '.join(unknown)}. Use {', '.join(KINDS)}")
    since_ms = number_up_to(request.query_params.get("since_ms"), "since_ms", 0, 2**53)
    return _Filter(kinds, request.query_params.get("connector"), since_ms)
