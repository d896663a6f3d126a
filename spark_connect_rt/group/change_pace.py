"""When changes of the configuration are dealt out to the group: at once, or many of them in one rebalance.

Pure. In a rebalance no request is served and nothing starts, and it goes through everything that is configured. A
script that creates one connector after another would wait for one each time. The first few are dealt out at once; where
they come so often, those that come while others wait are dealt out with them, and the longer the run, the more of them.
Every worker goes by the same times after the same records, so members of a group ask at the same moment. Java asks for
a rebalance at each.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

AT_ONCE, WITHIN_MS = 4, 3_000  # a connector's creation and its task set are two
QUIET_MS = 50  # nothing changed for so long: dealt out
QUIET_GAPS = 4  # ... or for so many times the pause before the last change, where changes come slowly
QUIET_MOST_MS = 250
MOST_MS = 500  # and that long after the first change at the latest
LONGER_MS, LONGEST_MS = 250, 2_000  # each time that comes in a row, it is later by so much


@dataclass(slots=True)
class ChangePace:
    """The changes of one worker's view. Times are monotonic, ms."""

    _dealt_ms: deque[int] = field(default_factory=lambda: deque(maxlen=AT_ONCE))
    _first_ms: int | None = None  # of the changes that wait
    _last_ms: int = 0
    _last: object = None
    _quiet_ms: int = QUIET_MS
    _most_ms: int = MOST_MS

    def due_ms(self, changed: object, now_ms: int) -> int:
        """Return when the changes that wait are due; ``changed`` is the last one, another object each time."""
        if self._last is not changed or self._first_ms is None:
            if self._first_ms is not None:  # else a rebalance was between the two
                self._quiet_ms = max(QUIET_MS, min(QUIET_GAPS * (now_ms - self._last_ms), QUIET_MOST_MS))
            self._last, self._last_ms = changed, now_ms
            self._first_ms = now_ms if self._first_ms is None else self._first_ms
        if self._most_ms == MOST_MS and (len(self._dealt_ms) < AT_ONCE or now_ms - self._dealt_ms[0] >= WITHIN_MS):
            return now_ms
        return min(self._last_ms + self._quiet_ms, self._first_ms + self._most_ms)

    def dealt(self, now_ms: int) -> None:
        """All that waits is being dealt out."""
        in_a_run = self._first_ms is not None and now_ms >= self._first_ms + self._most_ms
        self._most_ms = min(self._most_ms + LONGER_MS, LONGEST_MS) if in_a_run else MOST_MS
        self._dealt_ms.append(now_ms)
        self._first_ms = None

    def nothing_waits(self) -> None:
        """What waited was dealt out by a rebalance that came for another reason."""
        self._first_ms = None
