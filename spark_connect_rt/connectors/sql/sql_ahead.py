"""Pieces of a result that a thread reads ahead of the task: database, driver and converter work at the same time.

Owns the thread and what it read and nobody took yet. The thread opens the result, reads it and closes it; whatever it
raises is raised where the next piece would have come, so a poll waits and fails as if it read by itself.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Self

PIECES_AHEAD = 2
_CLOSE_LIMIT_S = 5.0
log = logging.getLogger(__name__)
Pieces = Generator[Any]


class PiecesAhead:
    """An iterator of pieces, at most ``PIECES_AHEAD`` of them in memory. One thread takes and closes."""

    def __init__(self, pieces: Pieces, cancel: Callable[[], None]) -> None:
        """Begin to read.

        Args:
            pieces: run and closed by the thread alone.
            cancel: ends a read that waits for the database; called by ``close``, beside the thread. May raise nothing.
        """
        self._pieces, self._cancel = pieces, cancel
        self._changed = threading.Condition()  # of the following
        self._read: deque[Any] = deque()
        self._failure: BaseException | None = None
        self._ended = self._closed = False
        self._thread = threading.Thread(target=self._run, name="sql-ahead", daemon=True)
        self._thread.start()

    def __iter__(self) -> Self:
        """Return this iterator."""
        return self

    def __next__(self) -> Any:
        """Return the next piece, waited for. Raises what reading it raised, StopIteration."""
        with self._changed:
            self._changed.wait_for(lambda: self._read or self._ended)
            if self._read:
                self._changed.notify_all()
                return self._read.popleft()
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        raise StopIteration

    def close(self) -> None:
        """Give up what was not taken, and wait until the database's connection is closed, a few seconds at most."""
        with self._changed:
            self._closed = self._ended = True
            self._read.clear()
            self._changed.notify_all()
        if self._thread.is_alive():
            self._cancel()
            self._thread.join(_CLOSE_LIMIT_S)
        if self._thread.is_alive():
            log.warning("the database does not answer, so a connection is closed in the background")

    # -- the thread

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            with contextlib.closing(self._pieces) as pieces:
                for piece in pieces:
                    if not self._hand_over(piece):
                        break
        except BaseException as error:  # noqa: BLE001 - it is raised where a piece is awaited
            failure = error
        with self._changed:
            self._failure = None if self._closed else failure
            self._ended = True
            self._changed.notify_all()

    def _hand_over(self, piece: Any) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._read) < PIECES_AHEAD)
            if not self._closed:
                self._read.append(piece)
                self._changed.notify_all()
            return not self._closed
