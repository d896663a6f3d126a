"""Which instances one restart request touches (KIP-745; Java ``RestartPlan``, ``RestartRequest``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spark_connect_rt.topics.connector_status import ConnectorStatus, State


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """What the user asked for."""

    connector: str
    include_tasks: bool = False
    only_failed: bool = False

    @property
    def impact(self) -> tuple[bool, bool]:
        """Order of requests: tasks or not weighs less than failed-only or all (the KIP's order)."""
        return (not self.only_failed, self.include_tasks)


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """What is to be restarted: the connector or not, and tasks by number."""

    request: RestartRequest
    restart_connector: bool
    tasks: tuple[int, ...]

    def empty(self) -> bool:
        """Return whether there is nothing to restart."""
        return not (self.restart_connector or self.tasks)


def plan_restart(
    request: RestartRequest, connector: ConnectorStatus | None, tasks: Mapping[int, ConnectorStatus]
) -> RestartPlan | None:
    """Plan from the status topic's facts; None when the connector has no status at all."""
    if connector is None:
        return None

    def chosen(status: ConnectorStatus) -> bool:
        return not request.only_failed or status.state is State.FAILED

    numbers = [n for n, status in sorted(tasks.items()) if request.include_tasks and chosen(status)]
    return RestartPlan(request, chosen(connector), tuple(numbers))


def most_impactful(requests: Iterable[RestartRequest]) -> dict[str, RestartRequest]:
    """Keep one pending request a connector: the one that restarts the most."""
    kept: dict[str, RestartRequest] = {}
    for request in requests:
        known = kept.get(request.connector)
        if known is None or request.impact > known.impact:
            kept[request.connector] = request
    return kept
