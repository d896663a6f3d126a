"""Changes of a captured database that continue while a process is killed, or while the server itself restarts.

Owns: the thread that makes the changes, its pauses, and how it resumes after a crash: no change is lost or made twice.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Self

from tests.support.captured_database import BATCH, CapturedDatabase


class ChangesMeanwhile:
    """``with ChangesMeanwhile(database, 1000) as changes: kill(); `` returns when all of them are made."""

    def __init__(self, database: CapturedDatabase, count: int) -> None:
        """``count``: half of them come at once, the rest after ``go_on``."""
        self._database, self._count = database, count
        self._second_half = threading.Event()
        self._lock = threading.Lock()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="changes", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._second_half.set()
        self._thread.join()
        if self._error is not None and kind is None:
            raise self._error

    def go_on(self) -> bool:
        """Let the second half come; return whether some of it was still to come."""
        first = not self._second_half.is_set()
        self._second_half.set()
        return first and self._thread.is_alive()

    def going_on(self) -> bool:
        """Return whether there are changes still to be made."""
        return self._thread.is_alive()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Make no change in the block: it stands between two transactions."""
        with self._lock:
            yield

    def _run(self) -> None:
        try:
            for number in range(0, self._count, BATCH):
                if number >= self._count // 2:
                    self._second_half.wait()
                with self._lock:
                    self._database.change(min(BATCH, self._count - number))
        except Exception as error:  # noqa: BLE001 - raised where the block ends
            self._error = error
