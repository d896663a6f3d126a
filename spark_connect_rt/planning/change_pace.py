"""When changes of the configuration are dealt out to the group: at once, or many of them in one rebalance.

Pure. In a rebalance no request is served and nothing starts, so a script that creates one connector after another
would wait for one each time. The first few are dealt out at once; where they come so often, those that come while
others wait are dealt out with them. Every worker goes by the same times after the same records, so members of a group
ask at the same moment. Java asks for a rebalance at each.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

AT_ONCE, WITHIN_MS = 4, 3_000  # a connector's creation and its task set are two
QUIET_MS = 50  # nothing changed for so long: dealt out
MOST_MS = 500  # and that long after the first change at the latest


@dataclass(slots=True)
class ChangePace:
    """The changes of one worker's view. Times are monotonic, ms."""

    _dealt_ms: deque[int] = field(default_factory=lambda: deque(maxlen=AT_ONCE))
    _first_ms: int | None = None  # of the changes that wait
    _last_ms: int = 0
    _last: object = None

    def due_ms(self, changed: object, now_ms: int) -> int:
        """Return when the changes that wait are due; ``changed`` is the last one, another object each time."""
        if self._last is not changed or self._first_ms is None:
            self._last, self._last_ms = changed, now_ms
            self._first_ms = now_ms if self._first_ms is None else self._first_ms
        if len(self._dealt_ms) < AT_ONCE or now_ms - self._dealt_ms[0] >= WITHIN_MS:
            return now_ms
        return min(self._last_ms + QUIET_MS, self._first_ms + MOST_MS)

    def dealt(self, now_ms: int) -> None:
        """All that waits is being dealt out."""
        self._dealt_ms.append(now_ms)
        self._first_ms = None

    def nothing_waits(self) -> None:
        """What waited was dealt out by a rebalance that came for another reason."""
        self._first_ms = None
