"""Has a JVM search places of jars for classes that no service file names (``plugin.discovery``).

Owns the thread that searches one place after the other, and how long a request waits for it. A JVM may take minutes, or
have a heap that is too small. Results count as soon as their place is done.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")  # the result of a search

WAIT_LIMIT_S = 60.0  # REST times out after 90

LATE = (
    "a JVM has been reading its classes for more than {limit_s:g} s, because of plugin.discovery. Until it has "
    "finished, only the classes in its service files are known. Set plugin.discovery=service_load to skip this; "
    "connectrt.java.heap may be too small"
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Unscanned(Generic[T]):
    """A place that only a JVM knows all of. ``search`` blocks for seconds; it may raise anything."""

    location: str
    search: Callable[[], T]


class ClassScan(Generic[T]):
    """One search of some places, which starts when a caller waits for it. Any thread."""

    def __init__(
        self,
        places: Sequence[Unscanned[T]],
        take: Callable[[ClassScan[T], Unscanned[T], T | Exception], None],
        limit_s: float,
    ) -> None:
        """``take`` gets the result or the error of each place, on the thread of the search."""
        self._left = list(places)
        self._take = take
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._ended = self._said = False
        self._begun_s: float | None = None

    def wait(self, *, patient: bool = False) -> None:
        """Start the search, and wait until all places were searched or its time limit has passed.

        ``patient``: wait without a limit.
        """
        with self._lock:
            if self._begun_s is None:
                self._begun_s = time.monotonic()
                threading.Thread(target=self._run, name="plugin-classes", daemon=True).start()
            left_s = self._begun_s + self._limit_s - time.monotonic()
        if self._done.wait(None if patient else max(0.0, left_s)):
            return
        late, said, self._said = self.late(), self._said, True
        for place in () if said else late:
            log.error("plugin=%s at %s: %s", Path(place.location).name, place.location, self.complaint())

    def late(self) -> Sequence[Unscanned[T]]:
        """Return the places that are still to be searched although all callers have stopped waiting for them."""
        with self._lock:
            is_late = self._begun_s is not None and time.monotonic() - self._begun_s >= self._limit_s
            return tuple(self._left) if is_late else ()

    def complaint(self) -> str:
        """Return the message about a place that is late."""
        return LATE.format(limit_s=self._limit_s)

    def end(self) -> None:
        """End the search after its current place. Called when its results are not needed any more."""
        self._ended = True

    def _run(self) -> None:
        try:
            while self._left and not self._ended:
                self._look_at(self._left[0])
                with self._lock:
                    self._left.pop(0)
        finally:
            self._done.set()

    def _look_at(self, place: Unscanned[T]) -> None:
        found: T | Exception
        try:
            found = place.search()
        except Exception as error:  # noqa: BLE001 - an error of any class: the other places must be searched
            found = error
        try:
            self._take(self, place, found)
        except Exception:
            log.exception("plugin=%s: the classes found there are lost", Path(place.location).name)
