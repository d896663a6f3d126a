"""One pass of the herder's loop: named steps in order, each with a verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

IDLE_LIMIT_MS = 3_000  # the loop passes at least this often, so that the last pass shows its health


class Verdict(NamedTuple):
    """The conclusion of one step or of a whole tick. An empty reason: nothing to do."""

    reason: str = ""
    wake_at_ms: int | None = None  # monotonic
    stop: bool = False  # True: the next steps would act on facts this step found stale


Step = Callable[[int], Verdict]
"""Takes the monotonic time, ms."""
Tell = Callable[[str, str], None]
"""Takes a step's name and its reason."""

NOTHING = Verdict()


def tick(now_ms: int, steps: Sequence[tuple[str, Step]], tell: Tell) -> Verdict:
    """Run the steps in order until one says stop; return why the tick ended and when to wake."""
    wake_at_ms = now_ms + IDLE_LIMIT_MS
    for name, one_step in steps:
        verdict = one_step(now_ms)
        tell(name, verdict.reason)
        if verdict.wake_at_ms is not None:
            wake_at_ms = min(wake_at_ms, verdict.wake_at_ms)
        if verdict.stop:
            return Verdict(verdict.reason, wake_at_ms, stop=True)
    return Verdict("stable: nothing left to do", wake_at_ms)


def blocking_limit_ms(now_ms: int, wake_at_ms: int | None) -> int:
    """Return how long the loop may wait: to ``wake_at_ms``, 0 if that has passed, at most the idle limit."""
    if wake_at_ms is None:
        return IDLE_LIMIT_MS
    return max(0, min(wake_at_ms - now_ms, IDLE_LIMIT_MS))
