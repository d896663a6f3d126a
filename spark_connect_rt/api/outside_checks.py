"""Values of checks that need an external system: one finding a line (``Connector.outside_checks``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How a check went. WARNING: it will run, perhaps not as wanted. PROBLEM: it will not run as it is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a check's result: the checked thing, the finding and the advice. It contains no secret."""

    check: str
    """The kind of check: host, credentials, topic ... (``operations.checks.model.CHECKS``)."""
    setting: str
    """The setting it is about; empty: none in particular."""
    level: Level
    what: str
    change: str = ""


OutsideCheck = Callable[[], Sequence[Finding]]
"""Checks one thing outside; may block for seconds."""
