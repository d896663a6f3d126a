"""Which events a reader of ``/admin/events`` gets, and from where a stream goes on. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from spark_connect_rt.ports.management.events import GroupEvent

LATE_MS = 3_000  # clocks of workers differ, and what one says may be read a moment later


def wanted(
    events: Iterable[GroupEvent], kinds: Collection[str] = (), connector: str | None = None, since_ms: int = 0
) -> list[GroupEvent]:
    """Return the events that a reader asked for, in their order. No ``kinds``: all. Pure.

    A rebalance that moved a connector is an event of that connector, too.
    """
    return [
        one
        for one in events
        if one.at_ms >= since_ms
        and (not kinds or one.kind in kinds)
        and (connector is None or one.connector == connector or _moved(one, connector))
    ]


def _moved(event: GroupEvent, connector: str) -> bool:
    if event.kind != "rebalance":
        return False
    items = [*event.details.get("moved", ()), *event.details.get("released", ())]
    return any(isinstance(one, Mapping) and one.get("connector") == connector for one in items)


def behind(events: Sequence[GroupEvent], last: str) -> list[GroupEvent]:
    """Return the events that a client which has seen the event ``last`` may have missed. Pure.

    Of the worker that recorded it, those behind it. Others' may have been read later than they happened, so theirs
    begin a little before: none is missed, one may come again under the same id. An id that is not kept any more: all.
    """
    known = next((one for one in events if one.id == last), None)
    if known is None:
        return list(events)
    return [
        one
        for one in events
        if one.id != last
        and (
            (one.at_ms, one.id) > (known.at_ms, known.id)
            or (one.worker_id != known.worker_id and one.at_ms > known.at_ms - LATE_MS)
        )
    ]
