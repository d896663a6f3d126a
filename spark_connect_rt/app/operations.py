"""The parts behind the management API of one worker: made, started and stopped here."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

from spark_connect_rt._version import CONNECT_VERSION
from spark_connect_rt.app.rest.admin_api import Management
from spark_connect_rt.config.worker_settings import WorkerConfig
from spark_connect_rt.engine.task_runner import TaskRunner
from spark_connect_rt.kafka.admin import KafkaAdmin
from spark_connect_rt.operations.checks.wiring import checks, previews
from spark_connect_rt.operations.dead_letters.wiring import dead_letters
from spark_connect_rt.operations.events.memory import EventMemory
from spark_connect_rt.operations.events.service import GroupEvents
from spark_connect_rt.operations.history.wiring import worker_history
from spark_connect_rt.operations.logs.service import GroupLogs
from spark_connect_rt.operations.overview.wiring import OverviewParts, shown_configs
from spark_connect_rt.operations.placement.load_watch import LoadWatch
from spark_connect_rt.operations.placement.task_scaling import TaskScaling
from spark_connect_rt.rest.peers import HttpGroupReads
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.herder import DistributedHerder

log = logging.getLogger(__name__)


class WorkerService(Protocol):
    """A part with its own threads or clients. If it cannot start, the worker logs that and continues without it."""

    def start(self) -> None:
        """Start it; returns at once."""

    def stop(self) -> None:
        """Stop it, also if it never started."""


class Troubled(Protocol):
    """A part that knows when it does not do its work."""

    def trouble(self) -> str:
        """Return why not, for /health; empty: it does."""


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The base of the parts: one worker, of which nothing is started yet."""

    config: WorkerConfig
    worker_id: str
    dependencies: HerderDependencies
    herder: DistributedHerder
    admin: KafkaAdmin
    runner: TaskRunner


def _group_reads(around: WorkerContext) -> HttpGroupReads:
    """Return the reads between workers, through which parts ask the whole group."""
    deps = around.dependencies

    def reporting() -> set[str]:
        store = deps.status_store
        statuses = (
            task for name in store.connectors() for task in (store.connector(name), *store.tasks(name).values())
        )
        return {status.worker_id for status in statuses if status is not None and status.worker_id}

    return HttpGroupReads(around.herder.views, deps.peers, deps.settings.signature_algorithm, reporting)


def _group_events(around: WorkerContext, reads: HttpGroupReads) -> GroupEvents | None:
    """Return the group's event log; None: this worker's herder records none."""
    deps = around.dependencies
    if not isinstance(deps.record_event, EventMemory):
        return None
    return GroupEvents(deps.record_event, reads, deps.clock, around.herder.views.is_leader)


class WorkerManagement:
    """The parts of one worker."""

    def __init__(self, around: WorkerContext) -> None:
        reads = _group_reads(around)
        self._services: list[WorkerService] = [reads]
        self._record_event = around.dependencies.record_event
        events = _group_events(around, reads)
        if events is not None:
            self._services.append(events.rounds)
        deps, views = around.dependencies, around.herder.views
        overview = OverviewParts(views, reads, deps.clock, deps.peers, shown_configs(deps))
        self._services.append(overview)
        scaling = TaskScaling(views, reads, around.herder.submit, deps.clock, deps.record_event, deps.resolve)
        loads = LoadWatch(views, reads, around.herder.submit, deps.clock, deps.record_event, around.config.placement)
        self._services += [scaling.rounds, loads.rounds]
        logs = GroupLogs(views, reads, around.worker_id)
        history = worker_history(around.config, around.worker_id, deps, views, around.admin)
        self._services += [history] if history is not None else []
        letters, replays = dead_letters(around.config, around.worker_id, deps, around.herder, around.admin, history)
        self._services.append(replays)
        shown = previews(deps, around.herder, around.runner)
        self._services.append(shown)
        looks = checks(deps, around.herder, around.runner)
        rounds = [scaling.rounds, loads.rounds, *([] if events is None else [events.rounds])]
        watched: list[Troubled | None] = [overview, *rounds, replays, history]
        for part in filter(None, watched):
            deps.supervisor.watch(part.trouble)
        self.parts = Management(
            group_reads=reads,
            events=events,
            logs=logs,
            letters=letters,
            replays=replays,
            previews=shown,
            checks=looks,
            history=history,
            overview=overview.overview,
        )

    def start(self) -> None:
        """Start every part of the management API."""
        self._record_event("worker", f"the worker starts, version {CONNECT_VERSION}")
        for service in self._services:
            service.start()

    def end_streams(self) -> None:
        """End what clients keep open: the worker begins to stop."""
        self._record_event("worker", "the worker stops")
        self.parts.streams.end()

    def stop(self) -> None:
        """Stop every part; one that does not stop in order is logged."""
        services, self._services = self._services, []
        for service in reversed(services):
            try:
                service.stop()
            except Exception:
                log.exception("%s did not stop cleanly", type(service).__name__)
