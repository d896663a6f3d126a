"""One after the other: tasks of a process that have a little to do at the same instant.

Python runs one thread at a time. Tasks that look at the instants they share would hand the interpreter to each other at
every call that lets go of it: 43 switches for a batch of thirty lines instead of 6. Who has more to do takes no turn,
and nobody waits long for one: a task that hangs in its turn keeps no other from working. They wake a little apart, too:
threads that wake at once wake each other again until each had the interpreter.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

PATIENCE_S = 0.02  # then it works beside the one that has the turn
LITTLE_S = 0.01  # who worked for longer takes no turn the next time
SHARED_WAIT_S = 0.1  # who waited so long looks at instants that others share
PLACES, APART_S = 25, 0.001  # of tasks around such an instant


class Turns:
    """The turns of one process. Any thread."""

    def __init__(self) -> None:
        """Nobody has the turn."""
        self.taken = threading.Lock()
        self._tasks = itertools.count()

    def place_s(self) -> float:
        """Return how long after an instant one more task looks."""
        return next(self._tasks) % PLACES * APART_S


class TakesTurns:
    """Whether one task works in its turn; its own thread's."""

    def __init__(self, turns: Turns, clock_s: Callable[[], float] = time.monotonic) -> None:
        """``clock_s``: monotonic."""
        self._turns = turns
        self._clock_s = clock_s
        self._place_s = turns.place_s()
        self._waited = self._is_slow = False

    def waits(self, wait_s: float) -> float:
        """Take note that the task waits so long before it works again; return how long it does, with others near."""
        self._waited = wait_s >= SHARED_WAIT_S
        return wait_s + self._place_s if self._waited else wait_s

    def run(self, work: Callable[[], bool]) -> bool:
        """Return what ``work`` returns, and raise what it raises; in its turn, if it has little to do."""
        has_turn = self._waited and not self._is_slow and self._turns.taken.acquire(timeout=PATIENCE_S)
        begun_s = self._clock_s()
        try:
            return work()
        finally:
            if has_turn:
                self._turns.taken.release()
            self._is_slow = self._clock_s() - begun_s > LITTLE_S


TURNS = Turns()
