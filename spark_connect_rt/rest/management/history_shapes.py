"""Bodies of the history's resources: what they are asked and what they answer (ours)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_connect_rt.planning.history.config_diff import SettingChange
from spark_connect_rt.ports.json_shape import JsonShape, described, renamed


@dataclass(frozen=True, slots=True)
class ConfigDiff(JsonShape):
    """What differs between the configurations after two changes."""

    changes: Sequence[SettingChange]


@dataclass(frozen=True, slots=True)
class WantedRollback(JsonShape):
    """What a rollback does."""

    dry_run: bool = field(default=False, metadata=described("Answer with the diff, change nothing."))
    secrets: Mapping[str, str] = field(
        default_factory=dict,
        metadata=described("Values of settings that the history hides; without one the present value stays."),
    )
    initial_state: str | None = field(
        default=None, metadata=described("RUNNING, PAUSED or STOPPED, of a connector that is made again.")
    )


@dataclass(frozen=True, slots=True)
class RolledBack(JsonShape):
    """What a rollback changes, or would change."""

    diff: Sequence[SettingChange]
    applied: bool
    kept: Sequence[str] = field(default=(), metadata=described("Hidden settings whose present value stays."))
    problems: Mapping[str, Sequence[str]] = field(
        default_factory=dict, metadata=described("Of a dry run: setting -> why it would be refused.")
    )


@dataclass(frozen=True, slots=True)
class WantedUndo(JsonShape):
    """What an undo does."""

    dry_run: bool = field(default=False, metadata=described("Answer with the offsets, change nothing."))
    force: bool = field(default=False, metadata=described("Also where the connector has moved on since the change."))


@dataclass(frozen=True, slots=True)
class WantedTime(JsonShape):
    """Where to go back to."""

    time_ms: int = field(metadata=described("Milliseconds since 1970.", minimum=0))
    dry_run: bool = field(default=False, metadata=described("Answer with the offsets, change nothing."))


@dataclass(frozen=True, slots=True)
class MovedOffset(JsonShape):
    """One partition; an offset of null: the connector begins with it as if it were new."""

    partition: Mapping[str, Any] | None
    from_: Mapping[str, Any] | None = field(metadata=renamed("from", "Where it is."))
    to: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class OffsetsMoved(JsonShape):
    """What an undo, or a way back to a time, writes or would write."""

    offsets: Sequence[MovedOffset]
    applied: bool
    problems: Sequence[str] = field(default=(), metadata=described("Of a dry run: why it would be refused."))
    at_ms: int | None = field(default=None, metadata=described("Time of the point of the course that was taken."))
