"""Everything that can be read of a worker at once: its connectors, the group as of the last tick, its own condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_connect_rt.base.loggers import LoggerLevel
from spark_connect_rt.errors import NotFoundError
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.loop import HerderLoop
from spark_connect_rt.runtime.herder.views import ConnectorViews
from spark_connect_rt.runtime.metric_names import MetricValue
from spark_connect_rt.runtime.values import (
    Health,
    HerderEvent,
    InternalKey,
    TaskPace,
    TaskProgress,
    WorkerProgress,
    WorkerStanding,
)
from spark_connect_rt.runtime.worker.source_offset_stores import SourceOffsetStores


class WorkerViews(ConnectorViews):
    """Implements runtime.herder.herder_api.HerderViews from the stores and the loop. Any thread."""

    def __init__(self, deps: HerderDependencies, offsets: SourceOffsetStores, loop: HerderLoop) -> None:
        super().__init__(deps, offsets)
        self._loop = loop

    def kafka_cluster_id(self) -> str:
        """Return the id of the Kafka cluster, empty while unknown."""
        return self._deps.kafka_cluster_id()

    def is_leader(self) -> bool:
        """Return whether this worker leads; False during a rebalance."""
        return self._loop.view.is_leader

    def health(self) -> Health:
        """Return whether the tick thread is started and keeps ticking."""
        return self._loop.health()

    def events(self) -> Sequence[HerderEvent]:
        """Return the last events of the tick, oldest first."""
        return self._loop.events.lines()

    def standing(self) -> WorkerStanding:
        """Return the place of this worker in its group; cheap."""
        settings, view = self._deps.settings, self._loop.view
        return WorkerStanding(
            worker_id=settings.worker_id,
            worker_url=settings.worker_url,
            is_leader=view.is_leader,
            leader_url=view.leader_url,
            generation=view.generation,
            protocol=view.protocol.protocol_name if view.protocol else "",
            group_id=settings.worker.group.group_id,
            own_group=view.own_group,
            member_urls=view.member_urls,
        )

    def progress(self) -> WorkerProgress:
        """Return what this worker does now, with counters."""
        settings, view = self._deps.settings, self._loop.view
        return WorkerProgress(
            worker_id=settings.worker_id,
            worker_url=settings.worker_url,
            is_leader=view.is_leader,
            leader_url=view.leader_url,
            generation=view.generation,
            protocol=view.protocol.protocol_name if view.protocol else "",
            connectors=self._loop.worker.connector_states(),
            tasks=self._loop.worker.task_progress(),
        )

    def task_paces(self) -> Sequence[TaskPace]:
        """Return the pace of each task of this worker."""
        now_ms = self._deps.clock.monotonic_ms()
        return [task.pace(now_ms) for task in self._loop.worker.every_task()]

    def tasks_of(self, connector: str) -> Sequence[TaskProgress]:
        """Return the counters of one connector's tasks on this worker, by task."""
        tasks = [task for task in self._loop.worker.every_task() if task.id.connector == connector]
        return [task.progress() for task in sorted(tasks, key=lambda task: task.id)]

    def connector_states(self) -> Mapping[str, str]:
        """Return the states of the connectors of this worker."""
        return self._loop.worker.connector_states()

    def metrics(self) -> Sequence[MetricValue]:
        """Return every metric of this worker that has a value."""
        return self._loop.metrics.gathered()

    def internal_key(self) -> InternalKey:
        """Return what signatures of internal requests are checked with."""
        settings, view = self._deps.settings, self._loop.view
        protocol = view.protocol or settings.protocol
        key = self._deps.config_store.snapshot().session_key
        return InternalKey(
            required=protocol.version >= 2,
            key=key.key if key else None,
            algorithm=key.algorithm if key else settings.key_algorithm,
            accepted_algorithms=settings.verification_algorithms,
        )

    def logger_levels(self) -> Mapping[str, LoggerLevel]:
        """Return the loggers of this worker that have their own level."""
        return self._deps.loggers.levels() if self._deps.loggers else {}

    def logger_level(self, name: str) -> LoggerLevel:
        """Return the level of one logger of this worker. Raises NotFoundError ``Logger s not found.``"""
        level = self._deps.loggers.level(name) if self._deps.loggers else None
        if level is None:
            raise NotFoundError(f"Logger {name} not found.")
        return level
