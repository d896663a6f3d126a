"""Previews and checks of one worker, on its own clients and its own Spark session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spark_connect_rt.engine.executor.reach import Obstacles
from spark_connect_rt.engine.previews.model import PreviewRunner
from spark_connect_rt.engine.task_runner import TaskRunner
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.kafka.permission_checks import PermissionChecks
from spark_connect_rt.operations.checks.service import ConnectorChecks
from spark_connect_rt.operations.preview.service import ConnectorPreviews
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.herder import DistributedHerder

SPARK_WAIT_S = 60.0
TOPICS_LIMIT_S = 15.0


def previews(deps: HerderDependencies, herder: DistributedHerder, runner: TaskRunner) -> ConnectorPreviews:
    """Return previews on the worker's Spark session, once that is up."""

    def runs() -> PreviewRunner:
        found = real_runner(runner, SPARK_WAIT_S)
        if not hasattr(found, "previews"):
            raise ConnectError("this worker has no executors that can run a preview")
        made: PreviewRunner = found.previews()
        return made

    return ConnectorPreviews(deps, herder, runs, lambda given: PermissionChecks().topics(given, TOPICS_LIMIT_S))


def checks(deps: HerderDependencies, herder: DistributedHerder, runner: TaskRunner) -> ConnectorChecks:
    """Return checks with an executor's view of the network, where there is one, else the worker's."""

    def reach(places: Sequence[tuple[str, int]], limit_s: float) -> Obstacles:
        found = real_runner(runner, 0.1)  # a check does not wait for Spark to come up
        if not hasattr(found, "reach"):
            raise ConnectError("this worker has no executors")
        seen: Obstacles = found.reach()(places, limit_s)
        return seen

    return ConnectorChecks(deps, herder, PermissionChecks(), reach=reach)


def real_runner(runner: TaskRunner, limit_s: float) -> Any:
    """Return the runner behind one that is built later. Raises ConnectError: it is not built in time, or cannot be."""
    wait = getattr(runner, "real", None)
    try:
        return runner if wait is None else wait(limit_s)
    except Exception as error:
        raise ConnectError(f"Spark is not available: {error or type(error).__name__}") from error
