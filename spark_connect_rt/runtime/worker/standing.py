"""How everything of one worker stands, as values: looked at several times a tick, and of thousands one has changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from spark_connect_rt.planning.work_plan import Actual, Life
from spark_connect_rt.protocol.ids import ConnectorTaskId

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

    @classmethod
    def of(cls, connectors: Mapping[str, Actual], tasks: Mapping[ConnectorTaskId, Actual]) -> Self:
        """Return it with what was asked to stop and has not ended yet."""
        return cls(connectors, tasks, _stopping(connectors), _stopping(tasks))


def _stopping(actuals: Mapping[T, Actual]) -> tuple[T, ...]:
    return tuple(item for item, actual in actuals.items() if actual.life is Life.STOPPING)
