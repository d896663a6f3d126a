"""When to try again what is quick if it works and lost work if not. Pure."""

from __future__ import annotations

_LONGEST_WAIT = 64


class AdaptiveFallback:
    """Whether to try the quick way this time: after each failure half as often, at least once in 65 times."""

    def __init__(self) -> None:
        """Start hopeful."""
        self._left, self._wait = 0, 1

    def due(self) -> bool:
        """Return whether to try now; asked once each time."""
        self._left -= 1
        return self._left < 0

    def worked(self) -> None:
        """It will probably work the next time, too."""
        self._left, self._wait = 0, 1

    def failed(self) -> None:
        """Wait twice as long as after the last failure."""
        self._left, self._wait = self._wait, min(_LONGEST_WAIT, 2 * self._wait)
