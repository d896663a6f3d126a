"""Shapes of bodies that only the REST API knows; those of the herder's answers are runtime/values.py.

Owns: names and order of fields. Requests are read by requests.py; their shapes are here for the description.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_connect_rt.base.json_text import JsonShape, described, left_out, one_of
from spark_connect_rt.errors import ConfigConflictError, ConnectError
from spark_connect_rt.plugins.interfaces import InstalledInfo
from spark_connect_rt.runtime.values import ConnectorInfo, ConnectorOffset, ConnectorStateInfo, HerderEvent
from spark_connect_rt.topics.config_diff import SettingChange
from spark_connect_rt.topics.config_records import TargetState

INITIAL_STATES = {"RUNNING": TargetState.STARTED, "PAUSED": TargetState.PAUSED, "STOPPED": TargetState.STOPPED}
Setting = str | int | float | bool
"""A setting's value in a request; numbers and booleans become the text that was sent."""


@dataclass(frozen=True, slots=True)
class Error(JsonShape):
    """A refusal: Kafka Connect's two fields, and what this product adds."""

    error_code: int = field(metadata=described("The HTTP status."))
    message: str
    code: str | None = field(default=None, metadata=left_out("Stable code of the error.", pattern="^CRT-[0-9]{4}$"))
    hint: str | None = field(default=None, metadata=left_out("How to fix the problem."))
    problems: Mapping[str, Sequence[str]] | None = field(default=None, metadata=left_out("Problems of each setting."))
    diff: tuple[SettingChange, ...] | None = field(
        default=None, metadata=left_out("The changes of another client in the meantime.")
    )


class RestError(ConnectError):
    """A refusal whose status and message are already decided: a forwarded answer, a failed signature check."""

    def __init__(self, status: int, message: str, *, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.status = status


class ConfigChangedError(RestError):
    """The configuration was changed since the client read it. ``diff`` lists the changes, with secrets hidden."""

    def __init__(self, message: str, diff: Sequence[SettingChange]) -> None:
        super().__init__(412, message, code=ConfigConflictError.code)
        self.diff = diff


@dataclass(frozen=True, slots=True)
class WorkerVersion(JsonShape):
    """The Connect version that the worker speaks, and its Kafka cluster."""

    version: str
    commit: str
    kafka_cluster_id: str = field(metadata=described("Empty until it is known."))


@dataclass(frozen=True, slots=True)
class WorkerHealth(JsonShape):
    """Whether this worker can be used, and what it does."""

    status: str = field(metadata=one_of(("healthy", "starting", "unhealthy")))
    message: str


@dataclass(frozen=True, slots=True)
class WantedOffset(JsonShape):
    """A partition and where to resume; an offset of null forgets the partition."""

    partition: Mapping[str, Any] | None
    offset: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class NewConnector(JsonShape):
    """A connector to create, with its initial state."""

    name: str
    config: Mapping[str, Setting]
    initial_state: str | None = field(
        default=None, metadata=described("Case does not matter. Default: RUNNING.", enum=[*INITIAL_STATES, None])
    )
    initial_offsets: Sequence[WantedOffset] | None = field(
        default=None,
        metadata=described("Where the connector starts (KIP-995). All other stored offsets of this name are deleted."),
    )


@dataclass(frozen=True, slots=True)
class ExpandedConnector(JsonShape):
    """A connector of the list with what ``expand`` asked for."""

    status: ConnectorStateInfo | None = field(default=None, metadata=left_out("Only with expand=status."))
    info: ConnectorInfo | None = field(default=None, metadata=left_out("Only with expand=info."))


@dataclass(frozen=True, slots=True)
class Topics(JsonShape):
    """Names of the topics that a connector used."""

    topics: Sequence[str]


@dataclass(frozen=True, slots=True)
class ConnectorOffsets(JsonShape):
    """The offsets of a connector, one for each partition."""

    offsets: Sequence[ConnectorOffset]


@dataclass(frozen=True, slots=True)
class WantedOffsets(JsonShape):
    """Offsets to write to a stopped connector."""

    offsets: Sequence[WantedOffset] = field(metadata=described("Partitions to change.", minItems=1))


@dataclass(frozen=True, slots=True)
class Message(JsonShape):
    """The result of a request, in Java's words."""

    message: str


@dataclass(frozen=True, slots=True)
class WantedLevel:
    """The level to set; other fields are passed over."""

    level: str = field(metadata=described("TRACE, DEBUG, INFO, WARN, ERROR, FATAL, OFF or ALL. Case does not matter."))


@dataclass(frozen=True, slots=True)
class WorkerEvents(JsonShape):
    """The actions and waits of the herder, oldest first."""

    story: Sequence[HerderEvent]


@dataclass(frozen=True, slots=True)
class PluginReport(JsonShape):
    """Every plug-in by its metadata, those that cannot be used, and those installed while the worker ran."""

    plugins: Sequence[Mapping[str, Any]] = ()
    broken: Sequence[Mapping[str, Any]] = ()
    installed: Sequence[InstalledInfo] = ()
    problem: str = field(
        default="", metadata=described("Why the worker cannot follow the group's plug-in record. Empty: it can.")
    )


# Description of one operation of the REST API: app/rest/openapi.py makes /openapi.json from these classes.


Shape = Any
"""A dataclass of the ports or of rest/shapes.py, or a list or dict of these."""


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """A parameter that may be left out; ``repeats``: given more than once, each adds to the others."""

    name: str
    description: str
    schema: Mapping[str, Any]
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """One method on one path. ``answers``: status -> what it holds (None: nothing); ``refusals``: status -> why."""

    id: str
    answers: Mapping[int, Shape | None]
    refusals: Mapping[int, str] = field(default_factory=dict)
    body: Shape | None = None
    parameters: tuple[QueryParameter, ...] = ()
