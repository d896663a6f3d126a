"""One question for everybody who asks it at the same time.

Owns who puts it: of those who came while it was under way the first one, once it is answered, for all of them; so each
has an answer to a question that was put after it came. A thousand tasks that start ask a thousand times for the end of
the offset topic.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Round(Generic[T]):
    """Those who came between two questions."""

    answer: T | None = None
    over: bool = False
    failed: bool = False


class JointQuestion(Generic[T]):
    """Any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._under_way = False
        self._next: _Round[T] = _Round()

    def ask(self, put: Callable[[float], T], limit_s: float) -> T:
        """Return the answer to a question that is put from now on; ``put`` takes how many s are left, and may raise.

        A failure is only its own asker's: the others put the question again. Raises TimeoutError: others' questions
        took all the time.
        """
        end_s = time.monotonic() + limit_s
        while True:
            with self._changed:
                mine = self._next
                while self._under_way and not mine.over:
                    if (left_s := end_s - time.monotonic()) <= 0 or not self._changed.wait(left_s):
                        raise TimeoutError
                if not mine.over:  # nobody puts it for these
                    self._under_way, self._next = True, _Round()
                    break
                if not mine.failed:
                    return mine.answer  # type: ignore[return-value]
        mine.failed = True
        try:
            mine.answer = put(max(0.0, end_s - time.monotonic()))
            mine.failed = False
            return mine.answer
        finally:
            with self._changed:
                mine.over, self._under_way = True, False
                self._changed.notify_all()
