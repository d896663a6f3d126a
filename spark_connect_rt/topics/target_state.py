"""What the user wants of a connector (Java ``TargetState``)."""

from __future__ import annotations

from enum import Enum


class TargetState(Enum):
    """STARTED, PAUSED (tasks kept, idle) or STOPPED (no tasks, KIP-875)."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
