"""Events of the group as values, and the port through which parts of a worker report them.

Owns the kinds of events, and what an event holds. A part of the worker sends an event for ``/admin/events`` to
``RecordEvent`` and does not depend on who stores it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from spark_connect_rt.base.json_text import JsonShape, described, one_of

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "rebalance": (
            "A rebalance completed: its generation and leader, who joined and left, the reason, what moved from "
            "where to where, the time of each worker. One event for the whole group."
        ),
        "failure": "A connector or task FAILED. The summary is its error in one line, and the details have the trace.",
        "restart": "A restart, by a request or by the restart policy (with the number of the attempt and its time).",
        "config": "A connector was created, reconfigured or deleted, with the names of the settings that changed.",
        "state": "A connector or task changed its state, got another target state, stalled, or moves again.",
        "offsets": "A connector's offsets were altered or reset, or it was created with initial offsets.",
        "logger": "The level of a logger was set, on one worker or on all.",
        "report": "A connector or task reported something: records that were deleted before it read them, for example.",
        "worker": "A worker started, stops or lost contact to its group, or a part of it failed.",
    }
)
"""Kind of event -> what it says."""

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class GroupEvent(JsonShape):
    """One thing that happened in the group."""

    id: str = field(metadata=described("The same on every worker, for as long as the event is kept."))
    at_ms: int = field(metadata=described("Milliseconds since 1970, of the worker that recorded it."))
    kind: str = field(metadata=one_of(KINDS))
    worker_id: str = field(metadata=described("host:port of the worker that recorded it first."))
    connector: str | None
    task: int | None
    summary: str = field(metadata=described("Summary in one line, without secrets."))
    details: Mapping[str, Any] = field(metadata=described("More details. The fields depend on the kind."))
    who: str | None = field(
        default=None,
        metadata=described("user@address of the client that asked for it; null: no client did, or it is unknown."),
    )


class RecordEvent(Protocol):
    """Takes note of something that happened on this worker. Any thread; quick; raises nothing."""

    def __call__(
        self,
        kind: str,
        summary: str,
        *,
        connector: str | None = None,
        task: int | None = None,
        details: Mapping[str, Any] = NOTHING,
        key: str = "",
    ) -> None:
        """Take one event of this worker.

        Args:
            kind: one of ``KINDS``.
            summary: the event in one line; secrets are hidden in it and in ``details``.
            details: values that JSON can represent.
            key: names an event that several workers see alike (``config_event_key``): it is shown once.
                Empty: only this worker can know of it.
        """


def config_event_key(offset: int) -> str:
    """Return the event key of a config record, which every worker reads."""
    return f"config-{offset}"


class NameClient(Protocol):
    """Learns who asked for what an event is about. Any thread; quick; raises nothing."""

    def __call__(self, key: str, who: str) -> None:
        """Take that ``who`` asked for the event of a key, which may still come."""


def no_client(key: str, who: str) -> None:
    """Take no note: a NameClient for who keeps no events."""


def no_event(kind: str, summary: str, **_: object) -> None:
    """Take no note of anything: a RecordEvent for who has no management API."""
