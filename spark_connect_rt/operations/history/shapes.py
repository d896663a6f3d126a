"""Bodies of requests to the history's resources and of their answers (ours)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_connect_rt.base.json_text import JsonShape, described, renamed
from spark_connect_rt.topics.config_diff import SettingChange


@dataclass(frozen=True, slots=True)
class ConfigDiff(JsonShape):
    """The difference between the configurations after two changes."""

    changes: Sequence[SettingChange]


@dataclass(frozen=True, slots=True)
class WantedRollback(JsonShape):
    """The request of a rollback: its options."""

    dry_run: bool = field(default=False, metadata=described("Return the diff and change nothing."))
    secrets: Mapping[str, str] = field(
        default_factory=dict,
        metadata=described(
            "Values of settings that the history hides. A hidden setting without one keeps its current value."
        ),
    )
    initial_state: str | None = field(
        default=None,
        metadata=described("Initial state of a connector that is created again: RUNNING, PAUSED or STOPPED."),
    )


@dataclass(frozen=True, slots=True)
class RolledBack(JsonShape):
    """The changes of a rollback, made or only shown."""

    diff: Sequence[SettingChange]
    applied: bool
    kept: Sequence[str] = field(default=(), metadata=described("Hidden settings that keep their current value."))
    problems: Mapping[str, Sequence[str]] = field(
        default_factory=dict, metadata=described("In a dry run: why a setting would be rejected.")
    )


@dataclass(frozen=True, slots=True)
class WantedUndo(JsonShape):
    """The request of an undo: its options."""

    dry_run: bool = field(default=False, metadata=described("Return the offsets and change nothing."))
    force: bool = field(default=False, metadata=described("Undo even if the connector has moved since the change."))


@dataclass(frozen=True, slots=True)
class WantedTime(JsonShape):
    """Where to go back to."""

    time_ms: int = field(metadata=described("Milliseconds since 1970.", minimum=0))
    dry_run: bool = field(default=False, metadata=described("Return the offsets and change nothing."))


@dataclass(frozen=True, slots=True)
class MovedOffset(JsonShape):
    """One partition; an offset of null: the connector begins with it as if it were new."""

    partition: Mapping[str, Any] | None
    from_: Mapping[str, Any] | None = field(metadata=renamed("from", "Current offset."))
    to: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class OffsetsMoved(JsonShape):
    """The offsets that an undo, or a return to a time, writes or would write."""

    offsets: Sequence[MovedOffset]
    applied: bool
    problems: Sequence[str] = field(default=(), metadata=described("In a dry run: why the request would be rejected."))
    at_ms: int | None = field(default=None, metadata=described("Time of the offsets that were used."))
