"""The history of changes and the offset history, as the management API answers with them.

A change is numbered within its group, upward. Before and after: of a configuration its settings, of a target state
``{"state"}``, of offsets ``{"offsets": [{"partition", "offset"}]}``, of a logger ``{"logger", "level"}``. Secrets are
never among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from spark_connect_rt.base.json_text import JsonShape, described, one_of
from spark_connect_rt.runtime.herder.herder_requests import Request
from spark_connect_rt.runtime.values import ConnectorOffset
from spark_connect_rt.topics.offset_changes import OffsetPair

CONFIG, STATE, OFFSETS, LOGGER = "config", "state", "offsets", "logger"
KINDS = (CONFIG, STATE, OFFSETS, LOGGER)
ACTIONS = ("create", "update", "delete", "pause", "resume", "stop", "alter", "reset", "prune", "set")
STATE_NAMES = {"STARTED": "RUNNING", "PAUSED": "PAUSED", "STOPPED": "STOPPED"}
"""Target states as the REST API names them."""


@dataclass(frozen=True, slots=True)
class Change(JsonShape):
    """One change that was made."""

    number: int
    at_ms: int = field(metadata=described("Milliseconds since 1970."))
    connector: str = field(metadata=described("Empty: the change is of a logger."))
    kind: str = field(metadata=one_of(KINDS))
    action: str = field(metadata=one_of(ACTIONS))
    who: str | None = field(metadata=described("user@address of the client; null: unknown."))
    worker_id: str | None = field(metadata=described("Id of the worker that served the request; null: unknown."))
    before: Mapping[str, Any] | None = field(metadata=described("null: there was no value, or it is unknown."))
    after: Mapping[str, Any] | None = field(metadata=described("null: there is no value, or it is unknown."))
    note: str = ""
    state: str | None = field(default=None, metadata=described("Target state at a change of the configuration."))
    changed_unseen: tuple[str, ...] = field(default=(), metadata=described("Hidden settings whose value changed."))


@dataclass(frozen=True, slots=True)
class ChangePage(JsonShape):
    """A page of changes, the newest first."""

    changes: Sequence[Change]
    problem: str = field(
        default="", metadata=described("Why changes may be missing here. Empty: the list is complete.")
    )


@dataclass(frozen=True, slots=True)
class CoursePoint(JsonShape):
    """Where a connector was at a time."""

    at_ms: int = field(metadata=described("Milliseconds since 1970."))
    offsets: Sequence[ConnectorOffset]


@dataclass(frozen=True, slots=True)
class Course(JsonShape):
    """Where a connector was, the oldest point first; between two points it was where the earlier one says."""

    points: Sequence[CoursePoint]
    problem: str = field(default="", metadata=described("Why points may be missing here. Empty: the list is complete."))


@dataclass(frozen=True, slots=True)
class ChangeQuery:
    """Which changes are wanted; ``before``: only earlier numbers."""

    connector: str | None = None
    kinds: Sequence[str] = ()
    before: int | None = None
    limit: int = 100


class History(Protocol):
    """One worker's knowledge of its group's changes. Reads block up to a few seconds, and never raise for Kafka."""

    def served(self, request: Request[Any], who: str, note: str, *, here: bool) -> None:
        """Note who asked for what was done; ``here`` False: another worker did it. Returns at once, never raises."""

    def changes(self, query: ChangeQuery) -> ChangePage:
        """Return the changes that fit."""

    def change(self, connector: str, number: int) -> Change:
        """Raises NotFoundError: there is no such change of the connector."""

    def change_at(self, connector: str, version: int) -> Change | None:
        """Return the change that made a version of a configuration (``HerderViews.config_version``), if it is known."""

    def course(self, connector: str, from_ms: int, to_ms: int) -> Course:
        """Return the points within these times, and the last one before them."""

    def offsets_at(self, connector: str, time_ms: int) -> tuple[int, Sequence[OffsetPair]] | None:
        """Return the time of the last point at or before ``time_ms`` and its offsets; None: there is none."""

    def shown(self, config: Mapping[str, str]) -> Mapping[str, str]:
        """Return a configuration with its secrets hidden. Runs plug-in code."""

    def range_problems(self, connector: str, pairs: Sequence[OffsetPair]) -> Sequence[str]:
        """Return why a sink cannot resume at these offsets: their records are deleted, or never existed."""
