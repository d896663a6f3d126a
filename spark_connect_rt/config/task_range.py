"""``tasks.max.auto=min..max``: the bounds within which the number of a sink's tasks follows its load."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

TASKS_AUTO = "tasks.max.auto"
LARGEST = 100_000
_RANGE = re.compile(r"\s*(\d{1,6})\s*\.\.\s*(\d{1,6})\s*")


@dataclass(frozen=True, slots=True)
class TaskRange:
    """The bounds that the setting gives, both included."""

    least: int
    most: int

    def clamped(self, tasks: int) -> int:
        """Return the number within the bounds that is nearest."""
        return max(self.least, min(tasks, self.most))

    @staticmethod
    def of(text: str) -> TaskRange:
        """Read ``min..max``. Raises ValueError that says what is wrong."""
        found = _RANGE.fullmatch(text)
        if found is None:
            raise ValueError(f"must be two whole numbers, min..max, for example 2..16, but is {text[:40]!r}")
        least, most = int(found[1]), int(found[2])
        if not 1 <= least <= most <= LARGEST:
            raise ValueError(f"must be 1 <= min <= max <= {LARGEST}, but is {text[:40]!r}")
        return TaskRange(least, most)


def task_range(value: Any) -> str | None:
    """Complain about a text that is no range; None and no text at all are fine."""
    if not value:
        return None
    try:
        TaskRange.of(value)
    except ValueError as error:
        return str(error)
    return None
