"""Lets only a few jobs be planned at once, first come first served.

Owns nothing but the queue. Spark starts one Python process per planning step and thread, so a hundred jobs planned
together would want gigabytes; a plain semaphore is not fair.
"""

from __future__ import annotations

import threading
from types import TracebackType


class Turn:
    """A place at the gate; given back once."""

    def __init__(self, gate: FairGate) -> None:
        self._gate = gate
        self._lock = threading.Lock()
        self._held = True

    def give_back(self) -> None:
        """Let the next one in."""
        with self._lock:
            held, self._held = self._held, False
        if held:
            self._gate.leave()

    def __enter__(self) -> Turn:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back()


class FairGate:
    """Lets a few in at a time, first come first served (a plain semaphore is not fair)."""

    def __init__(self, width: int) -> None:
        self._free = width
        self._queue: list[threading.Event] = []
        self._lock = threading.Lock()

    def turn(self) -> Turn:
        """Wait, in the order of the calls, until a place is free; return the turn that holds it."""
        with self._lock:
            if self._free > 0 and not self._queue:
                self._free -= 1
                return Turn(self)
            called = threading.Event()
            self._queue.append(called)
        called.wait()
        return Turn(self)

    def leave(self) -> None:
        """Give the place to the caller that waits longest, or free it."""
        with self._lock:
            if self._queue:
                self._queue.pop(0).set()
            else:
                self._free += 1
