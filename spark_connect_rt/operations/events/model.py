"""The events of the whole group: the shape of the answer, and the port that reads them.

``runtime.group_events`` owns the kinds of events and the fields of each.
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
    """The event log of the whole group. Any thread."""

    def gathered(self) -> tuple[Sequence[GroupEvent], Sequence[Unanswered]]:
        """Return all events, oldest first, and whose may be missing. Blocks for a second at most."""
