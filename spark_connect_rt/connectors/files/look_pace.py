"""How often a task looks at a file that grows.

Often while data comes now and then, so that a line is not late. But what costs is the batch, not its lines: a task
whose every look finds some would send dozens of tiny batches a second. So batches are rationed: many in a row at
once, few a second for long.
"""

from __future__ import annotations

import time
from collections.abc import Callable

RECENT_LOOKS = 100  # after data so many looks that find none, then the task settles down
EAGER_WAIT_MS, CALM_WAIT_MS = 20, 100
BATCHES_AT_ONCE = 40.0
BATCHES_PER_S = 2.0  # for long; Java's task looks once a second


class LookPace:
    """The waits of one task; a token bucket. They come after looks that found nothing: who is behind never waits."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        """``now_s`` is a monotonic clock."""
        self._now_s = now_s
        self._eager_looks = 0  # left
        self._batches_left, self._counted_s = BATCHES_AT_ONCE, now_s()

    def looked(self, found: bool) -> None:
        """Take note of a look."""
        if not found:
            self._eager_looks = max(0, self._eager_looks - 1)
            return
        self._eager_looks = RECENT_LOOKS
        now_s = self._now_s()
        gained = (now_s - self._counted_s) * BATCHES_PER_S
        self._batches_left = max(0.0, min(BATCHES_AT_ONCE, self._batches_left + gained) - 1.0)
        self._counted_s = now_s

    def wait_ms(self) -> int:
        """Return how long to wait after a look that found nothing."""
        if not self._eager_looks:
            return CALM_WAIT_MS
        missing = 1.0 - self._batches_left - (self._now_s() - self._counted_s) * BATCHES_PER_S
        return max(EAGER_WAIT_MS, int(1000 * missing / BATCHES_PER_S))
