"""The herder as REST and the console see it: views to read, requests to submit (Java ``Herder``).

Reads answer at once from immutable snapshots, also during a rebalance. Requests are values (herder_requests.py), queued
for the tick thread and answered by a ``concurrent.futures.Future``; its exception is an errors.py kind
(NotLeaderError and NotAssignedError say where to forward). The caller bounds its own wait (REST: 90 s). Nothing here
knows HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol, TypeVar

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.loggers import LoggerLevel
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.runtime.herder.herder_requests import Request
from spark_connect_rt.runtime.metric_names import MetricValue
from spark_connect_rt.runtime.values import (
    ConnectorInfo,
    ConnectorStateInfo,
    Health,
    HerderEvent,
    InternalKey,
    PluginInfo,
    TaskInfo,
    TaskPace,
    TaskProgress,
    TaskState,
    WorkerProgress,
    WorkerStanding,
)
from spark_connect_rt.topics.config_records import TargetState

T = TypeVar("T")


class HerderViews(Protocol):
    """Reads that return at once. Any thread."""

    def kafka_cluster_id(self) -> str:
        """Return the id of the Kafka cluster, empty while unknown."""

    def is_leader(self) -> bool:
        """Return whether this worker leads; False during a rebalance."""

    def health(self) -> Health:
        """Return whether the tick thread is started and keeps ticking."""

    def events(self) -> Sequence[HerderEvent]:
        """Return the last events of the tick, oldest first."""

    def standing(self) -> WorkerStanding:
        """Return the place of this worker in its group; cheap."""

    def task_paces(self) -> Sequence[TaskPace]:
        """Return the pace of each task of this worker."""

    def tasks_of(self, connector: str) -> Sequence[TaskProgress]:
        """Return the counters of one connector's tasks on this worker, by task."""

    def connector_states(self) -> Mapping[str, str]:
        """Return the states of the connectors of this worker."""

    def progress(self) -> WorkerProgress:
        """Return what this worker does now, with counters."""

    def metrics(self) -> Sequence[MetricValue]:
        """Return every metric of this worker that has a value."""

    def internal_key(self) -> InternalKey:
        """Return what signatures of internal requests are checked with."""

    def list_connectors(self) -> list[str]:
        """Return every connector's name, sorted."""

    def connector_info(self, name: str) -> ConnectorInfo:
        """Return a connector's configuration, tasks and type. Raises NotFoundError ``Connector s not found``."""

    def connector_config(self, name: str) -> StoredConfig:
        """Return a connector's configuration as it is stored. Raises NotFoundError ``Connector s not found``."""

    def connector_mark(self, name: str) -> object:
        """Return a value that equals an earlier one only if status and info are as they were then; cheaper than these.

        Raises NotFoundError ``Connector s not found``.
        """

    def states_mark(self) -> object:
        """Return a value that equals an earlier one only if no connector's mark has changed since; cheap."""

    def status_times(self, name: str) -> Mapping[int | None, int]:
        """Return task number (None: the connector itself) -> when its status was written, ms since 1970; 0: unknown."""

    def config_version(self, name: str) -> int | None:
        """Return a number that is another one after each write of a connector's configuration; None: no connector."""

    def target_state(self, name: str) -> TargetState | None:
        """Return what is wanted of a connector; None: no connector."""

    def connector_status(self, name: str) -> ConnectorStateInfo:
        """UNASSIGNED for a connector or task that no worker has reported yet.

        Raises NotFoundError ``No status found for connector s``.
        """

    def task_status(self, task: ConnectorTaskId) -> TaskState:
        """Return the state of one task. Raises NotFoundError ``No status found for task s-0``."""

    def task_infos(self, name: str) -> list[TaskInfo]:
        """Return the tasks' raw configurations by number. Raises NotFoundError ``Connector s not found``."""

    def topics(self, name: str) -> tuple[str, ...]:
        """Return the topics the connector used, sorted; empty for an unknown connector.

        Raises ForbiddenError ``Topic tracking is disabled.``
        """

    def plugins(self, connectors_only: bool) -> list[PluginInfo]:
        """Return the plug-ins in Java's order of types."""

    def logger_levels(self) -> Mapping[str, LoggerLevel]:
        """Return the loggers of this worker that have their own level."""

    def logger_level(self, name: str) -> LoggerLevel:
        """Return the level of one logger of this worker. Raises NotFoundError ``Logger s not found.``"""


class HerderApi(Protocol):
    """A worker's herder. Any thread."""

    @property
    def started(self) -> Future[None]:
        """Done once the internal topics are read; its error says why not. Before, reads of connectors find nothing."""

    @property
    def views(self) -> HerderViews:
        """Everything that can be read without waiting."""

    def submit(self, request: Request[T]) -> Future[T]:
        """Have a request served; its class says by whom, and what it answers."""
