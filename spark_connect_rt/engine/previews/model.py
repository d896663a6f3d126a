"""Previews: a connector's records as it would read and convert them, with nothing left behind.

Owns the limits, what is asked, what is answered, and what crosses to the executor that does it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from spark_connect_rt.engine.task_runner import TaskLaunch

RECORDS_MAX, SECONDS_MAX = 1_000, 120
BYTES_MAX = 8 << 20  # of JSON, of all records together
VALUE_BYTES_MAX = 64 << 10  # of one key or value, as JSON or as bytes; longer ones are cut
OFFSETS_MAX = 100_000  # source partitions whose offsets go along


class Ended(Enum):
    """The reason why a preview ended."""

    RECORDS = "records"
    TIME = "time"
    BYTES = "bytes"
    NOTHING_MORE = "nothing more"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class PreviewOrder:
    """The order for a preview, sent to an executor. References to secrets are resolved there.

    ``launch`` is of one task with all of the connector's work. ``planned``: ``launch.config`` is its configuration,
    else the connector is asked for it there. ``positions``: topic, partition and where a sink reads from
    (-1 beginning, -2 end).
    """

    launch: TaskLaunch
    records: int
    seconds: float
    planned: bool = True
    offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]] = ()
    positions: Sequence[tuple[str, int, int]] = ()
    put: bool = False


@dataclass(frozen=True, slots=True)
class PreviewOutcome:
    """An executor's answer: each record as its stages (PreviewStage as JSON)."""

    records: Sequence[Sequence[Mapping[str, Any]]]
    ended: Ended
    error: str | None = None


class PreviewRunner(Protocol):
    """The port that runs previews on executors."""

    def run(self, order: PreviewOrder, cancelled: threading.Event) -> PreviewOutcome:
        """Return what came of it, at the latest some seconds after its time and the wait for a free core.

        Nothing of it runs any more then. ``cancelled`` set: it is ended at once.
        """
