"""Lets the tasks of a process poll one after the other when they have little to do at the same instant.

Python runs one thread at a time. Tasks that poll at the same instant would pass the interpreter to each other at every
call that releases it: 43 switches for a batch of thirty lines instead of 6. A task with more to do does not use the
gate. A task waits at the gate only for ``PATIENCE_S``, so a poll that hangs does not stop the others.

Tasks also wake a little apart. Threads that wake at the same time wake each other until each has had the interpreter.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

PATIENCE_S = 0.02  # after that the task polls in parallel with the one that passed the gate
LITTLE_S = 0.01  # a task whose poll took longer does not use the gate the next time
SHARED_WAIT_S = 0.1  # a task that waits at least this long polls at the same instants as others
PLACES, APART_S = 25, 0.001  # how many tasks are spread after such an instant, and how far apart


class PollGate:
    """The gate of one process, which lets one task in at a time. Any thread."""

    def __init__(self) -> None:
        """Start with an open gate."""
        self.taken = threading.Lock()
        self._tasks = itertools.count()

    def place_s(self) -> float:
        """Return a delay in s for one more task, so that tasks do not wake at exactly the same time."""
        return next(self._tasks) % PLACES * APART_S


class GatedPolls:
    """Sends the polls of one task through the gate of its process. The task's thread."""

    def __init__(self, gate: PollGate, clock_s: Callable[[], float] = time.monotonic) -> None:
        """Take the gate of the process and a monotonic clock."""
        self._gate = gate
        self._clock_s = clock_s
        self._place_s = gate.place_s()
        self._waited = self._is_slow = False

    def waits(self, wait_s: float) -> float:
        """Note that the task waits this long before its next poll, and return how long it has to wait, both in s."""
        self._waited = wait_s >= SHARED_WAIT_S
        return wait_s + self._place_s if self._waited else wait_s

    def run(self, work: Callable[[], bool]) -> bool:
        """Run ``work`` and return its result. Raises the error of ``work``.

        It goes through the gate only if the task has waited for a shared instant and its last poll was short.
        """
        has_turn = self._waited and not self._is_slow and self._gate.taken.acquire(timeout=PATIENCE_S)
        begun_s = self._clock_s()
        try:
            return work()
        finally:
            if has_turn:
                self._gate.taken.release()
            self._is_slow = self._clock_s() - begun_s > LITTLE_S


POLL_GATE = PollGate()
