"""How everything of one worker stands, as values: looked at several times a tick, and of thousands one has changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.group.work_plan import Actual, Life

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FailedWork:
    """A connector or task of this worker that FAILED and is over."""

    key: Any  # of the run that failed
    trace: str
    moved: bool = True  # whether the run committed an offset; connectors have none: True


@dataclass(frozen=True, slots=True)
class Standing:
    """How everything of this worker stands."""

    connectors: Mapping[str, Actual]
    tasks: Mapping[ConnectorTaskId, Actual]
    stopping_connectors: tuple[str, ...]
    stopping_tasks: tuple[ConnectorTaskId, ...]

    def changed(
        self, connectors: Mapping[str, Actual | None], tasks: Mapping[ConnectorTaskId, Actual | None]
    ) -> Standing:
        """Return it with these instead, None: not here any more. What is the very same stays the same mapping."""
        now_connectors, now_tasks = _patched(self.connectors, connectors), _patched(self.tasks, tasks)
        if now_connectors is self.connectors and now_tasks is self.tasks:
            return self
        return Standing(
            now_connectors,
            now_tasks,
            _stopping(self.stopping_connectors, connectors),
            _stopping(self.stopping_tasks, tasks),
        )


NOTHING_HERE = Standing({}, {}, (), ())


def _patched(before: Mapping[T, Actual], instead: Mapping[T, Actual | None]) -> Mapping[T, Actual]:
    others = {item: actual for item, actual in instead.items() if before.get(item) is not actual}
    if not others:
        return before
    now = {**before, **{item: actual for item, actual in others.items() if actual is not None}}
    for item, actual in others.items():
        if actual is None:
            del now[item]
    return now


def _stopping(before: tuple[T, ...], instead: Mapping[T, Actual | None]) -> tuple[T, ...]:
    kept = [item for item in before if item not in instead]
    return (*kept, *(item for item, actual in instead.items() if actual is not None and actual.life is Life.STOPPING))
