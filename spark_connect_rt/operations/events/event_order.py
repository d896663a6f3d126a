"""Which events a reader of ``/admin/events`` gets, and from where a stream goes on. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from spark_connect_rt.runtime.group_events import GroupEvent

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
    begin a little before: none is missed, one may come again under the same id. An id that is not kept any more: all.
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
