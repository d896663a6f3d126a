"""When the history is written: at once, or what comes within a moment together.

Pure. A write of the history asks for the end of its topic, appends, and reads back; one for each of thousands of
connectors that are created in a row would cost as much as the rest of their creation.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

AT_ONCE, WITHIN_S = 5, 0.5  # so many writes in so short a time are a run
APART_S = 0.05  # in a run


@dataclass(slots=True)
class WritePace:
    """The writes of one worker. Times are monotonic, s."""

    _begun_s: deque[float] = field(default_factory=lambda: deque(maxlen=AT_ONCE))

    def due_s(self, now_s: float) -> float:
        """Return when what waits may be written."""
        begun = self._begun_s
        if len(begun) < AT_ONCE or now_s - begun[0] >= WITHIN_S:
            return now_s
        return max(now_s, begun[-1] + APART_S)

    def begun(self, now_s: float) -> None:
        """A write begins."""
        self._begun_s.append(now_s)
