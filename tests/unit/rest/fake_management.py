"""Every part of the management API, answering one thing each: for what is asked of all routes."""

from __future__ import annotations

from collections.abc import Sequence

from spark_connect_rt.ports.management.events import GroupEvent
from spark_connect_rt.ports.management.group_reads import Unanswered
from spark_connect_rt.rest.management.routes import Management

EVENT = GroupEvent("e-1", 5, "failure", "w1:8083", "src", 0, "task src-0 FAILED: ValueError: no", {"trace": "..."})


class FakeEvents:
    """One event, and a worker that did not answer."""

    def gathered(self) -> tuple[Sequence[GroupEvent], Sequence[Unanswered]]:
        return (EVENT,), (Unanswered("w2:8083", "no answer within 1000 ms"),)


EVERY_PART = Management(events=FakeEvents())
