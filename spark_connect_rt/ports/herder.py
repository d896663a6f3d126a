"""The herder as REST and the console see it: frozen values out, requests in (Java ``Herder``).

Reads answer at once from immutable snapshots, also during a rebalance. Writes are queued for the tick thread
and return a ``concurrent.futures.Future``; its exception is an errors.py kind (NotLeaderError and
NotAssignedError say where to forward). The caller bounds its own wait (REST: 90 s). Nothing here knows HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from spark_connect_rt.config.config_def import ConfigKey
from spark_connect_rt.planning.config_infos import ConfigInfos
from spark_connect_rt.planning.offset_changes import OffsetPair
from spark_connect_rt.ports.loggers import LoggerLevel
from spark_connect_rt.ports.metric_names import Measured
from spark_connect_rt.protocol.ids import ConnectorTaskId
from spark_connect_rt.state.target_state import TargetState


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """What was configured; ``type`` is source, sink or unknown. ``config`` is raw (references unresolved)."""

    name: str
    config: Mapping[str, str]
    tasks: tuple[ConnectorTaskId, ...]
    type: str


@dataclass(frozen=True, slots=True)
class InstanceState:
    """Status of one connector or task; ``trace`` and ``version`` are None when there is none."""

    state: str
    worker_id: str
    trace: str | None = None
    version: str | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)  # ours: restart (of a FAILED one), progress (it has none)


@dataclass(frozen=True, slots=True)
class TaskInstanceState:
    """Status of one task of a connector, by its number."""

    task: int
    instance: InstanceState


@dataclass(frozen=True, slots=True)
class ConnectorStateInfo:
    """Status of a connector and its tasks, tasks by number. Also what a restart plan answers (RESTARTING)."""

    name: str
    connector: InstanceState
    tasks: tuple[TaskInstanceState, ...]
    type: str


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """One task's configuration, raw."""

    id: ConnectorTaskId
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConfigWritten:
    """Answer to create and put_config: was it new, and what is configured now."""

    created: bool
    info: ConnectorInfo


@dataclass(frozen=True, slots=True)
class ConnectorOffset:
    """One partition and its offset as ``GET /offsets`` shows them (sinks: kafka_topic, kafka_partition)."""

    partition: Mapping[str, Any] | None
    offset: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """One plug-in; ``class_name`` is Java's name where there is one. ``type``: sink, source, converter ..."""

    class_name: str
    type: str
    version: str | None


@dataclass(frozen=True, slots=True)
class Health:
    """``status`` is healthy, starting or unhealthy; ``detail`` says what the tick does or waits for.

    ``live`` False: only a new process can help. ``serves``: it may be asked, and told, though it is unhealthy.
    """

    status: str
    detail: str = ""
    live: bool = True
    serves: bool = False


@dataclass(frozen=True, slots=True)
class InternalKey:
    """What internal requests are checked with: ``required`` only under protocol ``sessioned`` (KIP-507)."""

    required: bool
    key: bytes | None  # None: not read from the config topic yet
    algorithm: str = "HmacSHA256"  # of the key
    accepted_algorithms: tuple[str, ...] = ("HmacSHA256",)


@dataclass(frozen=True, slots=True)
class StoryLine:
    """One sentence of the herder's: what it did or waits for, and since when; repeats are counted."""

    at_ms: int  # wall clock
    step: str
    reason: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """Counters of one task of THIS worker since its start here."""

    task: ConnectorTaskId
    state: str
    kind: str  # source, sink, spark-sink
    records: int = 0
    data_bytes: int = 0
    skipped: int = 0
    records_per_s: float = 0.0  # over the last 5 s
    lag: int | None = None  # sinks: records behind the log end; None: unknown
    topics: tuple[str, ...] = ()
    stalled: Mapping[str, Any] | None = None  # since_ms (wall clock), reason: RUNNING, but it moves nothing


@dataclass(frozen=True, slots=True)
class WorkerProgress:
    """What this worker does now."""

    worker_id: str
    worker_url: str
    is_leader: bool
    leader_url: str | None
    generation: int
    protocol: str  # default, compatible, sessioned; empty before the first join
    connectors: Mapping[str, str] = field(default_factory=dict)  # name -> state, of this worker
    tasks: tuple[TaskProgress, ...] = ()


class HerderApi(Protocol):
    """What a worker answers. Any thread."""

    @property
    def started(self) -> Future[None]:
        """Done once the internal topics are read; its error says why not. Before, reads of connectors find nothing."""

    def catch_up(self) -> Future[None]:
        """Read the config topic to its end, so that what any worker answered is known here; never fails.

        For reads that found nothing: after a 201 of one worker a GET at another must not answer 404.
        """

    def worker_id(self) -> str:
        """Return the advertised ``host:port``."""

    def worker_url(self) -> str:
        """Return the advertised URL with its trailing slash."""

    def kafka_cluster_id(self) -> str:
        """Return the id of the Kafka cluster, empty while unknown."""

    def is_leader(self) -> bool:
        """Return whether this worker leads; False during a rebalance."""

    def leader_url(self) -> str | None:
        """Return the leader's URL, None while nobody leads."""

    def health(self) -> Health:
        """Return whether the tick thread is started and keeps ticking."""

    def story(self) -> Sequence[StoryLine]:
        """Return the last reasons of the tick, oldest first."""

    def progress(self) -> WorkerProgress:
        """Return what this worker does now, with counters."""

    def metrics(self) -> Sequence[Measured]:
        """Return every metric of this worker that has a value."""

    def internal_key(self) -> InternalKey:
        """Return what signatures of internal requests are checked with."""

    def list_connectors(self) -> list[str]:
        """Return every connector's name, sorted."""

    def connector_info(self, name: str) -> ConnectorInfo:
        """Raises NotFoundError ``Connector s not found``."""

    def connector_config(self, name: str) -> Mapping[str, str]:
        """Raises NotFoundError ``Connector s not found``."""

    def connector_mark(self, name: str) -> object:
        """Return a value that equals an earlier one only if status and info are as they were then; cheaper than these.

        Raises NotFoundError ``Connector s not found``.
        """

    def connector_status(self, name: str) -> ConnectorStateInfo:
        """UNASSIGNED for a connector or task that no worker has reported yet.

        Raises NotFoundError ``No status found for connector s``.
        """

    def task_status(self, task: ConnectorTaskId) -> InstanceState:
        """Raises NotFoundError ``No status found for task s-0``."""

    def task_infos(self, name: str) -> list[TaskInfo]:
        """Return the tasks' raw configurations by number. Raises NotFoundError ``Connector s not found``."""

    def topics(self, name: str) -> tuple[str, ...]:
        """Return the topics the connector used, sorted; empty for an unknown connector.

        Raises ForbiddenError ``Topic tracking is disabled.``
        """

    def reset_topics(self, name: str) -> None:
        """Forget the topics. Raises ForbiddenError ``Topic tracking reset is disabled.``"""

    def plugins(self, connectors_only: bool) -> list[PluginInfo]:
        """Return the plug-ins in Java's order of types."""

    def plugin_settings(self, name: str, version: str | None) -> Future[list[ConfigKey]]:
        """Return what a plug-in declares; runs its code. ``Unknown plugin X.``, BadRequestError (kind, version)."""

    def validate_config(self, config: Mapping[str, str | None]) -> Future[ConfigInfos]:
        """Check a connector's configuration; runs its code. BadRequestError: no connector class, or an unknown one."""

    def logger_levels(self) -> Mapping[str, LoggerLevel]:
        """Return the loggers of this worker that have a level of their own."""

    def logger_level(self, name: str) -> LoggerLevel:
        """Raises NotFoundError ``Logger s not found.``"""

    def set_logger_level(self, namespace: str, level: str) -> Sequence[str]:
        """Set a level on this worker (a log4j name); return the loggers it applies to."""

    def put_logger_level(self, namespace: str, level: str) -> Future[None]:
        """Set a level on every worker of the group (KIP-976). Any worker."""

    def offsets(self, name: str) -> Future[list[ConnectorOffset]]:
        """Read where the connector is (sinks: asks Kafka). NotFoundError ``Connector s not found``."""

    def alter_offsets(self, name: str, offsets: Sequence[OffsetPair]) -> Future[str]:
        """Write (partition, offset) pairs, a None offset forgetting its partition (KIP-875). Leader only.

        Answered in Java's words when it is durable. NotFoundError ``Connector s not found``, BadRequestError (it is
        not STOPPED, a sink's partition or offset is none), ConnectError (the connector refuses, sink tasks still run).
        """

    def reset_offsets(self, name: str) -> Future[str]:
        """Forget every offset of the connector; otherwise as ``alter_offsets``."""

    def create(self, name: str, config: Mapping[str, str], initial_state: TargetState | None) -> Future[ConfigWritten]:
        """Leader only. AlreadyExistsError ``Connector s already exists``, BadConfigError, NotLeaderError."""

    def put_config(self, name: str, config: Mapping[str, str]) -> Future[ConfigWritten]:
        """Create or replace. Leader only. BadConfigError, NotLeaderError."""

    def patch_config(self, name: str, patch: Mapping[str, str | None]) -> Future[ConfigWritten]:
        """Change some settings, None removing one; checked as a whole. Leader only. ``Connector s not found``."""

    def delete(self, name: str) -> Future[None]:
        """Leader only. NotFoundError ``Connector s not found``, NotLeaderError."""

    def pause(self, name: str) -> Future[None]:
        """Any worker. NotFoundError ``Unknown connector s``."""

    def resume(self, name: str) -> Future[None]:
        """Any worker. NotFoundError ``Unknown connector s``."""

    def stop_connector(self, name: str) -> Future[None]:
        """Drop the tasks, keep the configuration (STOPPED, KIP-875). Leader only. ``Unknown connector s``."""

    def restart(self, name: str, include_tasks: bool, only_failed: bool) -> Future[ConnectorStateInfo | None]:
        """Restart as KIP-745.

        Both flags False: the connector alone, by its owner, finished when it answers None
        (NotFoundError ``Unknown connector: s``, NotAssignedError). Otherwise leader only: the plan,
        RESTARTING.
        """

    def restart_task(self, task: ConnectorTaskId) -> Future[None]:
        """Owner only (a follower that is not the owner: NotLeaderError). ``Unknown task: s-0``."""

    def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> Future[None]:
        """Internal: a follower's generated task set. Leader only; the signature is checked by the caller."""

    def fence(self, name: str) -> Future[None]:
        """Internal: shut out older producers before exactly-once tasks start. Leader only."""
