"""The group's event log, live. Owns ``/console/events`` and its stream."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.base.json_text import decode_json
from spark_connect_rt.console.api import Api, at
from spark_connect_rt.console.frame import PageFrame
from spark_connect_rt.console.values import mapping, objects, text, whole
from spark_connect_rt.console.words import shape, tone

# Events of the group as lines to read, and the filter over them. Pure.


KINDS = ("rebalance", "failure", "restart", "config", "state", "offsets", "logger", "worker")
SPANS = ((900, "15 minutes"), (3600, "hour"), (86_400, "day"), (0, "any time"))
"""(seconds, words) of how far back events are asked for."""
_TONES = {"failure": "bad", "rebalance": "busy", "restart": "warn", "worker": "ok"}
_ICONS = {"config": "change", "offsets": "change", "logger": "logger"}
_STATES = ("RUNNING", "PAUSED", "STOPPED", "FAILED", "UNASSIGNED", "RESTARTING")


@dataclass(frozen=True, slots=True)
class EventLine:
    """One event; ``details``: further facts about it."""

    id: str
    at_ms: int
    kind: str
    tone: str
    icon: str
    worker_id: str
    connector: str
    task: int | None
    summary: str
    details: tuple[tuple[str, str], ...]


def event_line(event: Mapping[str, Any]) -> EventLine:
    """Return one event of the API; a kind of tomorrow is shown as it is."""
    kind = text(event.get("kind"))
    known = {"who": event.get("who"), **mapping(event.get("details"))}
    details = tuple((str(name), detail_text(value)) for name, value in known.items())
    state = _state_of(kind, text(event.get("summary")))
    return EventLine(
        id=text(event.get("id")),
        at_ms=whole(event.get("at_ms")) or 0,
        kind=kind,
        tone=tone(state) if state else _TONES.get(kind, "idle"),
        icon=shape(state) if state else _ICONS.get(kind) or _TONES.get(kind, "ok"),
        worker_id=text(event.get("worker_id")),
        connector=text(event.get("connector")),
        task=whole(event.get("task")),
        summary=_without_name(text(event.get("summary")), text(event.get("connector")), whole(event.get("task"))),
        details=tuple((name, value) for name, value in details if value),
    )


def _without_name(summary: str, connector: str, task: int | None) -> str:
    """Return a summary without the name of its connector or task at its start: the line has the name already."""
    for name in (f"connector {connector}", f"task {connector}-{task}", f"task {task}") if connector else ():
        for link in (": ", " is ", " "):
            if summary.startswith(name + link):
                return summary[len(name + link) :]
    return summary


def _state_of(kind: str, summary: str) -> str:
    """Return the state that an event of kind ``state`` is about, empty where its summary names none."""
    words = summary.replace(":", " ").replace(",", " ").split() if kind == "state" else ()
    return next((word for word in reversed(words) if word in _STATES), "")


def detail_text(value: Any) -> str:
    """Return one detail: a list has a line for each value, and what moved reads as a sentence."""
    if not isinstance(value, list):
        return text(value)
    return "\n".join(_sentence(entry) if isinstance(entry, Mapping) else text(entry) for entry in value)


def _sentence(detail: Mapping[str, Any]) -> str:
    if "connector" in detail and "from" in detail:
        what = text(detail["connector"]) + ("" if detail.get("task") is None else f" task {text(detail['task'])}")
        way = [f"from {text(detail['from'])}"] if detail["from"] else []
        return " ".join([what, *way, *([f"to {text(detail['to'])}"] if detail.get("to") else [])])
    return ", ".join(f"{name} {text(value)}" for name, value in detail.items() if value not in (None, ""))


def event_lines(answer: Mapping[str, Any]) -> tuple[EventLine, ...]:
    """Return the events of ``GET /admin/events``."""
    return tuple(event_line(item) for item in objects(answer.get("events")))


@dataclass(frozen=True, slots=True)
class EventFilter:
    """The filter of the page Events."""

    kinds: tuple[str, ...]
    connector: str
    seconds: int

    def query(self, now_ms: int) -> dict[str, Any]:
        """Return the query of the API."""
        since = now_ms - self.seconds * 1000 if self.seconds else None
        return {"kind": ",".join(self.kinds), "connector": self.connector, "since_ms": since, "limit": 500}

    def page_query(self) -> dict[str, Any]:
        """Return the query of the page that asks the same."""
        return {"kind": list(self.kinds), "connector": self.connector, "seconds": self.seconds or ""}


def event_filter(kinds: Iterable[str], connector: str, seconds: str) -> EventFilter:
    """Return the filter of a page's query. Invalid kinds and numbers are ignored."""
    wanted: Sequence[str] = [kind for kind in kinds if kind in KINDS]
    number = int(seconds) if seconds.isascii() and seconds.isdigit() and len(seconds) < 9 else 0
    return EventFilter(tuple(dict.fromkeys(wanted)), connector.strip(), number)


_MISSED_MAX = 100  # events that a page out of sight is sent again


def add_routes(routes: APIRouter, frame: PageFrame) -> None:
    """Add the page and what it listens to."""

    @routes.get("/events")
    async def events(request: Request) -> Response:
        wanted = _wanted(request)
        found = await frame.api(request).get(at("admin", "events"), wanted.query(int(time.time() * 1000)))
        live = f"/events/stream?{urlencode(wanted.page_query(), doseq=True)}"
        values = {"lines": event_lines(found), "wanted": wanted, "kinds": KINDS, "spans": SPANS, "live": live}
        return await frame.page(request, "events.html", **values)

    @routes.get("/events/stream")
    async def stream(request: Request) -> Response:
        wanted = _wanted(request)
        return frame.stream(_rendered(frame, request, frame.api(request), wanted))


def _wanted(request: Request) -> EventFilter:
    given = request.query_params
    return event_filter(given.getlist("kind"), given.get("connector", ""), given.get("seconds", ""))


async def _rendered(
    frame: PageFrame, request: Request, api: Api, wanted: EventFilter
) -> AsyncIterator[tuple[str, Any]]:
    """Yield the events that the filter lets through, as the page shows them.

    First come the latest ones again: a page that was out of sight has missed some, and knows by their ids which.
    """
    query = {"kind": ",".join(wanted.kinds), "connector": wanted.connector}
    latest = event_lines(mapping(await api.get(at("admin", "events"), query | {"limit": _MISSED_MAX})))
    for line in reversed(latest):
        yield _event(frame, request, line)
    last_id = latest[0].id if latest else ""
    async for _, data in api.stream(at("admin", "events", "stream"), query, last_id):
        line = event_line(mapping(decode_json(data.encode())))
        if (wanted.kinds and line.kind not in wanted.kinds) or wanted.connector not in ("", line.connector):
            continue
        yield _event(frame, request, line)


def _event(frame: PageFrame, request: Request, line: EventLine) -> tuple[str, Any]:
    html = frame.text(request, "_event.html", line=line)
    return "event", {"id": line.id, "html": html, "words": f"{line.kind}: {line.connector} {line.summary}"}
