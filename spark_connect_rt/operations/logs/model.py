"""Log lines of tasks as values: their text without secrets, their bounds, and the answers that hold them.

Owns how long a line may be and how many a second are kept. Lines above the limit are counted before their text is made:
a task that logs a hundred thousand lines a second pays for a comparison each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from spark_connect_rt.base.json_text import JsonShape, described, one_of
from spark_connect_rt.engine.log_lines import LEVELS, PLACES
from spark_connect_rt.rest.peers import Unanswered


@dataclass(frozen=True, slots=True)
class LogLine(JsonShape):
    """A line of the log of a task's executor or driver."""

    at_ms: int = field(metadata=described("Milliseconds since 1970, of the machine that logged it."))
    level: str = field(metadata=one_of(LEVELS))
    logger: str
    task: int | None = field(metadata=described("null: the line is of the connector itself."))
    where: str = field(
        metadata=one_of(PLACES, "process: a line of an executor's process, which every task in it gets.")
    )
    worker_id: str = field(metadata=described("Id of the worker whose task it was."))
    host: str = field(metadata=described("Host name of the machine."))
    message: str = field(metadata=described("Message, with the trace if there is one, and without secrets."))


@dataclass(frozen=True, slots=True)
class LogList(JsonShape):
    """The last lines, oldest first."""

    lines: tuple[LogLine, ...]
    unanswered: tuple[Unanswered, ...] = field(metadata=described("Workers whose lines may be missing."))


@dataclass(frozen=True, slots=True)
class WantedLines:
    """Which lines a reader asks for."""

    connector: str
    task: int | None = None  # None: of the connector and of all its tasks
    tail: int = 1_000
    level: str = "TRACE"  # and above


@dataclass(frozen=True, slots=True)
class PlacedLine:
    """A line, and where it is: the process that keeps it, and its number there."""

    line: LogLine
    run: str
    number: int


class LogReads(Protocol):
    """Log lines of the whole group's tasks. Any thread."""

    def lines(
        self, wanted: WantedLines, after: Mapping[str, int] | None = None, *, everywhere: bool = True
    ) -> tuple[Sequence[PlacedLine], Sequence[Unanswered]]:
        """Return the last lines, oldest first, and whose may be missing. Blocks for a second at most.

        Args:
            wanted: which.
            after: run -> number of the last line that is known; None: none is.
            everywhere: ask every worker; else only those that run the connector and its tasks now.
        """
