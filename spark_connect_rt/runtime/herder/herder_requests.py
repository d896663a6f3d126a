"""Requests to a herder as values; ``HerderApi.submit`` takes any of them and returns the answer to come.

Owns: what can be asked for, the type of the answer (``Request[answer]``) and its errors. Messages are Java's.
Who serves: *leader* answers NotLeaderError elsewhere, *owner* also NotAssignedError, *any* worker serves the rest.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.java_hash_order import hash_order_of_copy, in_java_hash_order, java_hash_order
from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, ConfigValue
from spark_connect_rt.group.load import Swap
from spark_connect_rt.runtime.values import ConfigWritten, ConnectorOffset, ConnectorStateInfo
from spark_connect_rt.topics.config_records import TargetState
from spark_connect_rt.topics.offset_changes import OffsetPair

# Answers to a validation: what is declared, what was given, what is wrong with it (Java ``ConfigInfos``).
#
# Pure. Owns how findings of several declarations become one answer; who is asked is runtime.herder.validation's.
# Source: Java ``AbstractHerder.generateResult`` and ``mergeConfigInfos``, whose order and counts these are.


@dataclass(frozen=True, slots=True)
class ConfigInfo:
    """One setting: its declaration (None: no one declares it) and what was found (None: not looked at)."""

    key: ConfigKey | None
    value: ConfigValue | None


@dataclass(frozen=True, slots=True)
class ConfigInfos:
    """Everything found. ``error_count`` is Java's: messages, but settings of converters and clients count once."""

    name: str
    error_count: int
    groups: tuple[str, ...]
    configs: tuple[ConfigInfo, ...]

    def declared(self) -> set[str]:
        """Return the names of all settings that someone declares."""
        return {config.key.name for config in self.configs if config.key is not None}

    def problems(self) -> dict[str, list[str]]:
        """Return setting -> complaints, in the order of the answer."""
        found: dict[str, list[str]] = {}
        for config in self.configs:
            if config.value is not None and config.value.errors:
                found.setdefault(config.value.name, []).extend(config.value.errors)
        return found


class Findings:
    """Findings by setting while they are being collected; the last of a name counts, complaints are added to it."""

    def __init__(self, found: Iterable[ConfigValue] = ()) -> None:
        self._by_name: dict[str, ConfigValue] = {config_value.name: config_value for config_value in found}

    def __getitem__(self, name: str) -> ConfigValue:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def get(self, name: str) -> ConfigValue | None:
        """Return the finding about a setting, None when no one looked at it."""
        return self._by_name.get(name)

    def errors(self, name: str) -> tuple[str, ...]:
        """Return the complaints about a setting."""
        return self._by_name[name].errors if name in self._by_name else ()

    def any_wrong(self) -> bool:
        """Return whether there is any complaint."""
        return any(config_value.errors for config_value in self._by_name.values())

    def change(self, name: str, **parts: object) -> None:
        """Replace parts of one finding; of a setting that no one looked at there is none."""
        if name in self._by_name:
            self._by_name[name] = replace(self._by_name[name], **parts)  # type: ignore[arg-type]

    def complain(self, name: str, messages: Iterable[str], value: object = None) -> None:
        """Add complaints that are not there yet; a setting that no one declares gets a finding with ``value``."""
        config_value = self._by_name.setdefault(name, ConfigValue(name, value))
        new = tuple(message for message in dict.fromkeys(messages) if message not in config_value.errors)
        self._by_name[name] = replace(config_value, errors=config_value.errors + new)

    def values(self) -> list[ConfigValue]:
        """Return the findings in the order of Java's hash map."""
        return [self._by_name[name] for name in java_hash_order(self._by_name)]


def plugin_infos(name: str, keys: Sequence[ConfigKey], found: Findings) -> ConfigInfos:
    """Return the answer about a connector's declared settings; undeclared ones come first."""
    declared = {key.name: key for key in keys}
    values = found.values()
    configs = [ConfigInfo(None, config_value) for config_value in values if config_value.name not in declared]
    configs += [ConfigInfo(key, found.get(key.name)) for key in declared.values()]
    count = sum(len(config_value.errors) for config_value in values)
    return ConfigInfos(name, count, groups_of(declared.values()), tuple(configs))


def prefixed_infos(prefix: str, definition: ConfigDef, found: Iterable[ConfigValue]) -> ConfigInfos:
    """Return the answer about settings that stand behind ``prefix``: a converter's, a client's."""
    declared = {key.name: key for key in definition}
    configs, keys = [], []
    for config_value in found:
        key = declared.get(config_value.name)
        if key is not None:
            keys.append(key)
            shown = key.display_name or key.name
            key = replace(key, name=f"{prefix}{key.name}", display_name=shown)
        configs.append(ConfigInfo(key, replace(config_value, name=f"{prefix}{config_value.name}")))
    count = sum(bool(config.value and config.value.errors) for config in configs)
    return ConfigInfos("", count, groups_of(keys), tuple(configs))


def merged_infos(name: str, parts: Iterable[ConfigInfos]) -> ConfigInfos:
    """Return several answers as one."""
    whole = list(parts)
    groups = tuple(dict.fromkeys(group for part in whole for group in part.groups))
    configs = tuple(config for part in whole for config in part.configs)
    return ConfigInfos(name, sum(part.error_count for part in whole), groups, configs)


def groups_of(keys: Iterable[ConfigKey]) -> tuple[str, ...]:
    """Return the groups of some settings, in the order in which they first come."""
    return tuple(dict.fromkeys(key.group for key in keys if key.group is not None))


def merged_keys(first: ConfigDef, second: ConfigDef) -> list[ConfigKey]:
    """Return the settings of both, the second's declaration winning in the first's place (``Map.putAll``)."""
    by_name: Mapping[str, ConfigKey] = {key.name: key for key in (*first, *second)}
    return list(by_name.values())


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
    PutConfig
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
"""Requests that ``requests.connector_requests`` serves on the tick thread."""

HerderRequest = (
    TickRequest
    | CreateConnector
    | CatchUp
    | DescribePlugin
    | ValidateConfig
    | SetLoggerLevel
    | ResetTopics
    | ReadOffsets
    | PatchConfig
)


# A change to some settings of a connector (KIP-477; Java ``ConnectUtils.patchConfig``).


def patched_config(raw: Mapping[str, str], patch: Mapping[str, str | None]) -> dict[str, str]:
    """Return the raw configuration with the patch applied: a value replaces or adds, None removes. Java's order."""
    patched = {**in_java_hash_order(raw), **patch}
    kept = {key: value for key, value in patched.items() if value is not None}
    return {key: kept[key] for key in hash_order_of_copy(raw, kept)}
