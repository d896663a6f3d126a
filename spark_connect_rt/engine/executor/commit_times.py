"""When a sink task is asked what may be committed: soon after its reader is idle, else about once a second. Pure.

A Java task that acts when it is asked (writes a file in ``flush``, commits elsewhere in ``preCommit``) is asked each
``offset.flush.interval.ms`` only, as by Java ``WorkerSinkTask.iteration``. Times are s on the monotonic clock.
"""

from __future__ import annotations

EACH_S = 1.0  # at most; less if offset.flush.interval.ms is less
APART_S = 0.2  # reader idle: at once unless the last was this recently


class CommitTimes:
    """Of one task. The lane's thread."""

    def __init__(self, flush_interval_s: float = 60.0, *, acts_since_s: float | None = None) -> None:
        """Take how often Java asks.

        Args:
            flush_interval_s: ``offset.flush.interval.ms``, in s.
            acts_since_s: when a task that acts when it is asked was started; None: asking costs nothing.
        """
        self._seldom = acts_since_s is not None
        self._each_s = flush_interval_s if self._seldom else min(EACH_S, flush_interval_s)
        self._most_s = flush_interval_s
        self._asked_s = acts_since_s or 0.0
        self._failures = 0  # in a row
        self.dirty = False  # something may be left to commit
        self._at_s: float | None = None

    @property
    def at_s(self) -> float | None:
        """When to ask next; None: nothing is left to commit."""
        return self._at_s if self.dirty else None

    def due(self, now_s: float) -> bool:
        """Tell whether it is time."""
        at_s = self.at_s
        return at_s is not None and now_s >= at_s

    def put(self, now_s: float) -> None:
        """Take note of a put."""
        self.dirty = True
        if self._at_s is None:
            self._at_s = max(self._asked_s + self._each_s, now_s)

    def due_in_flow(self, now_s: float) -> bool:
        """Tell whether it is time while more is on the way: what a reader that was idle for a moment hurried waits."""
        return self.dirty and now_s >= self._asked_s + self._each_s

    def idle(self, now_s: float) -> bool:
        """Nothing more is on the way: tell whether it is time."""
        if self.dirty and not self._seldom:
            self._at_s = self._asked_s + APART_S
        return self.due(now_s)

    def asked(self, now_s: float) -> None:
        """The task is asked now; what is not safe yet is asked again."""
        self._asked_s = now_s
        self._at_s = now_s + self._each_s

    def answered(self, *, all_safe: bool) -> None:
        """The task answered; ``all_safe``: nothing is left."""
        self._failures = 0
        if all_safe:
            self.dirty, self._at_s = False, None

    def failed(self, now_s: float) -> None:
        """The task could not: everything is put again. It is asked ever more seldom, at last as seldom as by Java."""
        wait_s = min(self._each_s * 2**self._failures, self._most_s)
        self._failures = min(self._failures + 1, 30)
        self._asked_s = now_s + wait_s - self._each_s
        self.dirty, self._at_s = False, None
