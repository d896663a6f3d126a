"""What is: states of connectors and tasks, and the rule that keeps late writers out (``ConnectorStatus``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class State(Enum):
    """State of a connector or task; DESTROYED is never written as a value, it is the tombstone."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    DESTROYED = "DESTROYED"


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """One status of a connector or of a task: who says so, in which generation, with a trace if FAILED."""

    state: State
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)  # ours: restart, progress -> what status shows of it
    at_ms: int = field(default=0, compare=False)  # when it was written, by its record; 0: unknown


def may_replace(previous: ConnectorStatus | None, new: ConnectorStatus) -> bool:
    """Return whether a safe put may write: not over what another worker wrote in a later generation."""
    return previous is None or previous.worker_id == new.worker_id or previous.generation <= new.generation
