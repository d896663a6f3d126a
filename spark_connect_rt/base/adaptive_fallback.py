"""Decides when to retry a method that is fast if it succeeds and wasted work if it fails. Pure."""

from __future__ import annotations

_LONGEST_WAIT = 64


class AdaptiveFallback:
    """Whether to try the fast method this time. Each failure in a row halves the rate, down to once in 65 times."""

    def __init__(self) -> None:
        """Create it in the state after a success: the first call tries the fast method."""
        self._left, self._wait = 0, 1

    def due(self) -> bool:
        """Return whether to try the fast method now. Call it exactly once for each piece of work."""
        self._left -= 1
        return self._left < 0

    def worked(self) -> None:
        """Note a success: try again the next time."""
        self._left, self._wait = 0, 1

    def failed(self) -> None:
        """Note a failure: wait twice as long as after the last one."""
        self._left, self._wait = self._wait, min(_LONGEST_WAIT, 2 * self._wait)
