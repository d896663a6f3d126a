"""Requests to a herder as values; ``HerderApi.submit`` takes any of them and returns the answer to come.

Owns: what can be asked for, the type of the answer (``Request[answer]``) and its errors. Messages are Java's.
Who serves: *leader* answers NotLeaderError elsewhere, *owner* also NotAssignedError, *any* worker serves the rest.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.config_def import ConfigKey
from spark_connect_rt.group.load import Swap
from spark_connect_rt.runtime.herder.config_infos import ConfigInfos
from spark_connect_rt.runtime.values import ConfigWritten, ConnectorOffset, ConnectorStateInfo
from spark_connect_rt.topics.offset_changes import OffsetPair
from spark_connect_rt.topics.target_state import TargetState

T_co = TypeVar("T_co", covariant=True)


class Request(Generic[T_co]):
    """What is answered with a ``T_co``."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CatchUp(Request[None]):
    """Any. Read the config topic to its end, so that what any worker answered is known here; never fails.

    For reads that found nothing: after a 201 of one worker a GET at another must not answer 404.
    """


@dataclass(frozen=True, slots=True)
class DescribePlugin(Request[list[ConfigKey]]):
    """Any. What a plug-in declares; runs its code. NotFoundError ``Unknown plugin X.``, BadRequestError."""

    name: str
    version: str | None = None  # None: the newest


@dataclass(frozen=True, slots=True)
class ValidateConfig(Request[ConfigInfos]):
    """Any. Check a connector's configuration; runs its code. BadRequestError: no connector class, or an unknown one."""

    config: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class SetLoggerLevel(Request[Sequence[str]]):
    """Any. Set a level (a log4j name) on this worker; answers the loggers it applies to."""

    namespace: str
    level: str
    event_key: str = field(default_factory=lambda: f"logger-{uuid.uuid4().hex[:12]}", compare=False)


@dataclass(frozen=True, slots=True)
class SetGroupLoggerLevel(Request[None]):
    """Any. Set a level on every worker of the group (KIP-976)."""

    namespace: str
    level: str


@dataclass(frozen=True, slots=True)
class ResetTopics(Request[None]):
    """Any. Forget the topics a connector used. ForbiddenError ``Topic tracking reset is disabled.``"""

    name: str


@dataclass(frozen=True, slots=True)
class ReadOffsets(Request[list[ConnectorOffset]]):
    """Any. Where the connector is (sinks: asks Kafka). NotFoundError ``Connector s not found``."""

    name: str


@dataclass(frozen=True, slots=True)
class ModifyOffsets(Request[str]):
    """Leader. Write (partition, offset) pairs, a None offset forgetting its partition; None: forget all (KIP-875).

    Answered in Java's words when it is durable. NotFoundError ``Connector s not found``, BadRequestError (it is not
    STOPPED, a sink's partition or offset is none), ConnectError (the connector refuses, sink tasks still run).
    """

    name: str
    offsets: Sequence[OffsetPair] | None


@dataclass(frozen=True, slots=True)
class CreateConnector(Request[ConfigWritten]):
    """Leader. AlreadyExistsError ``Connector s already exists``, BadConfigError.

    With ``initial_offsets`` (KIP-995) all offsets of the name are replaced by these before the connector is written:
    BadRequestError (they are none), ConnectError (the connector refuses them).
    """

    name: str
    config: Mapping[str, str]
    initial_state: TargetState | None = None
    initial_offsets: Sequence[OffsetPair] | None = None


@dataclass(frozen=True, slots=True)
class PutConfig(Request[ConfigWritten]):
    """Leader. Create or replace. BadConfigError, ConfigConflictError (it is not of version ``expected`` any more)."""

    name: str
    config: Mapping[str, str]
    expected: int | None = None  # HerderViews.config_version; None: whatever is there


@dataclass(frozen=True, slots=True)
class PatchConfig(Request[ConfigWritten]):
    """Leader. Change some settings, None removing one; checked as a whole.

    NotFoundError ``Connector s not found``, ConfigConflictError (it is not of version ``expected`` any more).
    """

    name: str
    patch: Mapping[str, str | None]
    expected: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteConnector(Request[None]):
    """Leader. NotFoundError ``Connector s not found``."""

    name: str


@dataclass(frozen=True, slots=True)
class SetTargetState(Request[None]):
    """Pause (any), resume (any) or stop (leader) a connector. NotFoundError ``Unknown connector s``.

    STOPPED drops the tasks and keeps the configuration (KIP-875).
    """

    name: str
    target: TargetState


@dataclass(frozen=True, slots=True)
class NoteRestore(Request[None]):
    """Any. Remember that a connector is stopped for a change of its offsets, and what is wanted of it then.

    Should this worker die meanwhile another one, or it itself when it is back, sets the target state. The next
    SetTargetState but STOPPED ends it. NotFoundError ``Unknown connector s``.
    """

    name: str
    target: TargetState


@dataclass(frozen=True, slots=True)
class RestartConnector(Request[ConnectorStateInfo | None]):
    """Restart as KIP-745. NotFoundError ``Unknown connector: s``.

    Both flags False: the connector alone, by its owner, finished when it answers None. Otherwise leader: answers the
    plan, RESTARTING.
    """

    name: str
    include_tasks: bool = False
    only_failed: bool = False


@dataclass(frozen=True, slots=True)
class RestartTask(Request[None]):
    """Owner (a follower that is not the owner: NotLeaderError). NotFoundError ``Unknown task: s-0``."""

    task: ConnectorTaskId


@dataclass(frozen=True, slots=True)
class PutTaskConfigs(Request[None]):
    """Leader, internal: a follower's generated task set; the caller has checked the signature."""

    name: str
    configs: Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class SwapTasks(Request[None]):
    """Leader, internal: have tasks change places in the next two rounds; ``Swap`` names workers by their URLs."""

    swaps: tuple[Swap, ...]


@dataclass(frozen=True, slots=True)
class FenceZombies(Request[None]):
    """Leader, internal: shut out older producers before exactly-once tasks start (KIP-618)."""

    name: str


ConfigRequest = CreateConnector | PutConfig
TickRequest = (
    CreateConnector
    | PutConfig
    | DeleteConnector
    | SetTargetState
    | NoteRestore
    | RestartConnector
    | RestartTask
    | ModifyOffsets
    | PutTaskConfigs
    | SwapTasks
    | FenceZombies
    | SetGroupLoggerLevel
)
"""Requests that the tick thread serves."""

HerderRequest = (
    TickRequest | CatchUp | DescribePlugin | ValidateConfig | SetLoggerLevel | ResetTopics | ReadOffsets | PatchConfig
)
