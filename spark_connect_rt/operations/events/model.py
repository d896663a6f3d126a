"""Events of the group as values, and the port through which parts of a worker report them.

Owns the kinds of events, and what an event holds. A part of the worker sends an event for ``/admin/events`` to
``RecordEvent`` and does not depend on who stores it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from spark_connect_rt.base.json_text import JsonShape, described
from spark_connect_rt.rest.peers import Unanswered
from spark_connect_rt.runtime.group_events import GroupEvent


@dataclass(frozen=True, slots=True)
class EventList(JsonShape):
    """Events of the whole group, newest first."""

    events: tuple[GroupEvent, ...]
    unanswered: tuple[Unanswered, ...] = field(metadata=described("Workers whose latest events may be missing."))


class EventReads(Protocol):
    """The story of the whole group. Any thread."""

    def gathered(self) -> tuple[Sequence[GroupEvent], Sequence[Unanswered]]:
        """Return all events, oldest first, and whose may be missing. Blocks for a second at most."""
