"""Whether a JVM still lives: it says so once a second; one that is silent for long is stuck or stopped, and killed.

Owns counting the seconds of silence. Seconds in which this process did not run itself (a machine that slept, a
container that was frozen) are not counted: only looks are.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

LOOK_EACH_S = 1.0
SAY_AFTER_S = 10.0
KILL_AFTER_S = 60.0

log = logging.getLogger(__name__)


class SignsOfLife:
    """The silence of one JVM. ``notice`` is for the thread that reads its socket."""

    def __init__(self, pid: int, on_silent: Callable[[str], None], kill_after_s: float = KILL_AFTER_S) -> None:
        """``on_silent``: called once, with the reason, on a thread of its own; it has to kill the JVM."""
        self._pid = pid
        self._on_silent = on_silent
        self._kill_after_s = kill_after_s
        self._silent_s = 0.0
        self._said = False
        self._over = threading.Event()
        threading.Thread(target=self._watch, name="java-signs-of-life", daemon=True).start()

    def notice(self) -> None:
        """It has sent something."""
        self._silent_s = 0.0

    def end(self) -> None:
        """It is watched no more. Any number of times."""
        self._over.set()

    def _watch(self) -> None:
        look_s = min(LOOK_EACH_S, self._kill_after_s / 10)
        while not self._over.wait(look_s):
            self._silent_s += look_s
            if self._silent_s >= self._kill_after_s:
                self._over.set()
                self._on_silent(f"it showed no sign of life for {self._silent_s:.0f} s and was killed")
            elif self._silent_s >= min(SAY_AFTER_S, self._kill_after_s / 2) and not self._said:
                self._said = True
                log.warning(
                    "Java host pid=%d has shown no sign of life for %.0f s: it collects garbage, or is stopped. "
                    "It is killed after %.0f s",
                    self._pid,
                    self._silent_s,
                    self._kill_after_s,
                )
            elif self._said and self._silent_s <= 2 * look_s:
                self._said = False
                log.info("Java host pid=%d is alive again", self._pid)
