"""The shapes of requests and answers for the API's own description; answers themselves are made in entities.py.

Owns: the names and types of fields as OpenAPI shows them. Imported when the description is first asked for, so that a
worker's start does not pay for it. A test holds real answers against these.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

Config = dict[str, str]
"""Setting -> value, references to config providers as they were written."""

Setting = str | int | float | bool
"""A setting's value in a request; numbers and booleans become the text that was sent."""

ConnectorType = Literal["source", "sink", "unknown"]
State = Literal["UNASSIGNED", "RUNNING", "PAUSED", "STOPPED", "FAILED", "RESTARTING"]


class Shape(BaseModel):
    """An object with these fields and no others."""

    model_config = ConfigDict(extra="forbid")


class Error(Shape):
    """A refusal: Kafka Connect's two fields, and what this product adds."""

    error_code: Annotated[int, Field(description="The HTTP status.")]
    message: str
    code: Annotated[str, Field(description="Stable code of the error.", pattern="^CRT-[0-9]{4}$")] = ""
    hint: Annotated[str, Field(description="What to do about it.")] = ""
    problems: Annotated[dict[str, list[str]], Field(description="Of a configuration: setting -> what is wrong.")] = {}


class WorkerVersion(Shape):
    """The worker's version and its Kafka cluster."""

    version: str
    commit: str
    kafka_cluster_id: Annotated[str, Field(description="Empty while it is not known.")]


class WorkerHealth(Shape):
    """Whether this worker can be used, and what it does."""

    status: Literal["healthy", "starting", "unhealthy"]
    message: str


class NewConnector(Shape):
    """A connector to create."""

    name: str
    config: dict[str, Setting]
    initial_state: Annotated[
        Literal["RUNNING", "PAUSED", "STOPPED"] | None, Field(description="Any case; none: RUNNING.")
    ] = None


class NewConfig(RootModel[dict[str, Setting]]):
    """A whole configuration."""


class ConfigPatch(RootModel[dict[str, Setting | None]]):
    """Settings to change; null removes one."""


class TaskId(Shape):
    """A task by its connector and number."""

    connector: str
    task: int


class ConnectorInfo(Shape):
    """What is configured of a connector."""

    name: str
    config: Config
    tasks: list[TaskId]
    type: ConnectorType


class ConnectorConfig(RootModel[Config]):
    """A configuration."""


class RestartNote(Shape):
    """What the restart policy does about a FAILED connector or task (only here, not in Java)."""

    attempts: Annotated[int, Field(description="Restarts within the window, with the next one.")]
    next_attempt_ms: Annotated[int, Field(description="When it is started again: milliseconds since 1970.")] = 0
    stopped: Annotated[str, Field(description="Why it is started no more by itself.")] = ""


class ProgressNote(Shape):
    """Why a RUNNING task is said to move nothing though there is work (only here, not in Java)."""

    since_ms: Annotated[int, Field(description="Milliseconds since 1970.")]
    reason: str


class InstanceState(Shape):
    """The last reported state of a connector or task."""

    state: State
    worker_id: Annotated[str, Field(description="host:port of who reported it; empty: nobody yet.")]
    version: Annotated[str, Field(description="Of the plug-in that runs; absent while unknown.")] = ""
    trace: Annotated[str, Field(description="Why it FAILED.")] = ""
    restart: RestartNote = None  # type: ignore[assignment]  # absent, never null
    progress: ProgressNote = None  # type: ignore[assignment]


class TaskState(InstanceState):
    """The last reported state of a task."""

    id: int


class ConnectorState(Shape):
    """The states of a connector and its tasks."""

    name: str
    connector: InstanceState
    tasks: list[TaskState]
    type: ConnectorType


class ExpandedConnector(Shape):
    """What ``expand`` asked for."""

    status: ConnectorState = None  # type: ignore[assignment]  # absent, never null
    info: ConnectorInfo = None  # type: ignore[assignment]


class ConnectorNames(RootModel[list[str] | dict[str, ExpandedConnector]]):
    """The names; with ``expand``, name -> what is known."""


class TaskConfig(Shape):
    """A task and its raw configuration."""

    id: TaskId
    config: Config


class TaskConfigs(RootModel[list[TaskConfig]]):
    """All tasks of a connector."""


class Topics(Shape):
    """Names of topics."""

    topics: list[str]


class ConnectorTopics(RootModel[dict[str, Topics]]):
    """The connector's name -> the topics it used."""


class ConnectorOffset(Shape):
    """A source partition and its offset (of a sink: kafka_topic, kafka_partition -> kafka_offset)."""

    partition: dict[str, Any] | None
    offset: dict[str, Any] | None


class ConnectorOffsets(Shape):
    """Where a connector is."""

    offsets: list[ConnectorOffset]


class WantedOffset(Shape):
    """A partition and where to go on; an offset of null forgets the partition."""

    partition: dict[str, Any] | None
    offset: dict[str, Any] | None = None


class WantedOffsets(Shape):
    """Offsets to write."""

    offsets: Annotated[list[WantedOffset], Field(min_length=1)]


class Message(Shape):
    """What was done."""

    message: str


class Plugin(Shape):
    """A plug-in by its class."""

    class_: Annotated[str, Field(alias="class", description="Java's name where there is one.")]
    type: str
    version: str = ""


class PluginList(RootModel[list[Plugin]]):
    """Plug-ins in Java's order of kinds."""


class ConfigKey(Shape):
    """The declaration of one setting."""

    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    documentation: str | None
    group: str | None
    width: str
    display_name: str | None
    dependents: list[str]
    order: int


class ConfigKeys(RootModel[list[ConfigKey]]):
    """The declared settings of a plug-in."""


class ConfigValue(Shape):
    """The value of one setting and what is wrong with it."""

    name: str
    value: str | None
    recommended_values: list[str | None]
    errors: list[str]
    visible: bool


class CheckedSetting(Shape):
    """One setting: as it is declared and as it was given."""

    definition: ConfigKey | None
    value: ConfigValue | None


class CheckedConfig(Shape):
    """A configuration, checked."""

    name: str
    error_count: int
    groups: list[str]
    configs: list[CheckedSetting]


class LoggerLevel(Shape):
    """The level of a logger."""

    level: str
    last_modified: Annotated[int | None, Field(description="Milliseconds since 1970; null: as it started.")]


class LoggerLevels(RootModel[dict[str, LoggerLevel]]):
    """Loggers with a level of their own."""


class WantedLevel(BaseModel):
    """The level to set."""

    level: Annotated[str, Field(description="TRACE, DEBUG, INFO, WARN, ERROR, FATAL, OFF or ALL; any case.")]


class LoggerNames(RootModel[list[str]]):
    """The loggers that the level applies to."""


class StoryLine(Shape):
    """One sentence of the herder."""

    at_ms: int
    step: str
    reason: str
    times: int


class WorkerStory(Shape):
    """What the herder did or waited for, oldest first."""

    story: list[StoryLine]


class TaskProgress(Shape):
    """Counters of one task of this worker since it started here."""

    task: TaskId
    state: str
    kind: str
    records: int
    data_bytes: int
    skipped: int
    records_per_s: float
    lag: int | None
    topics: list[str]
    stalled: Annotated[ProgressNote | None, Field(description="null: it moves, or has nothing to do.")]


class WorkerProgress(Shape):
    """What this worker does now."""

    worker_id: str
    worker_url: str
    is_leader: bool
    leader_url: str | None
    generation: int
    protocol: str
    connectors: dict[str, str]
    tasks: list[TaskProgress]


class PluginReport(BaseModel):
    """Every plug-in by its metadata, and those that cannot be used."""

    plugins: list[dict[str, Any]]
    broken: list[dict[str, Any]]
