"""How often a task looks at a file that grows. Pure.

Often while data comes now and then, so that a line is not late; less often after a while without any, and while every
look finds some: what costs is the batch, not its lines, and so many lines share one.
"""

from __future__ import annotations

RECENT_LOOKS = 100  # after data so many looks that find none, then the task settles down
STEADY_LOOKS = 5  # so many looks in a row that found data after a wait: it flows
EAGER_WAIT_MS, CALM_WAIT_MS = 20, 100


class LookPace:
    """The waits of one task."""

    def __init__(self) -> None:
        """Begin calm: nothing was found yet."""
        self._eager_looks = self._steady_looks = 0
        self._waited = False  # the look before found nothing, so the task has waited since

    def looked(self, found: bool) -> None:
        """Take note of a look."""
        if not found:
            self._eager_looks = max(0, self._eager_looks - 1)
            self._steady_looks = 0 if self._waited else self._steady_looks
        else:
            self._eager_looks = RECENT_LOOKS
            self._steady_looks += self._waited
        self._waited = not found

    def wait_ms(self) -> int:
        """Return how long to wait after a look that found nothing."""
        eager = self._eager_looks > 0 and self._steady_looks < STEADY_LOOKS
        return EAGER_WAIT_MS if eager else CALM_WAIT_MS
