"""Requests to a herder as values; ``HerderApi.submit`` takes any of them and returns the answer to come.

Each class names a request, the type of its answer (``Request[answer]``) and its errors. Messages are Java's.
*Leader*: other workers answer NotLeaderError. *Owner*: others also answer NotAssignedError. *Any*: every worker may.
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

# Answers to a validation: declarations, values and problems (Java ``ConfigInfos``).
#
# Pure functions make an answer from the findings of several declarations. ``validation`` asks the connector.
# Order and counts are those of Java's ``AbstractHerder.generateResult`` and ``mergeConfigInfos``.


@dataclass(frozen=True, slots=True)
class ConfigInfo:
    """A setting: its declaration (None: it is not declared) and the finding about it (None: it was not checked)."""

    key: ConfigKey | None
    value: ConfigValue | None


@dataclass(frozen=True, slots=True)
class ConfigInfos:
    """All findings. ``error_count`` is Java's: the messages, but a setting of a converter or client counts once."""

    name: str
    error_count: int
    groups: tuple[str, ...]
    configs: tuple[ConfigInfo, ...]

    def declared(self) -> set[str]:
        """Return the names of all declared settings."""
        return {config.key.name for config in self.configs if config.key is not None}

    def problems(self) -> dict[str, list[str]]:
        """Return setting -> problems, in the order of the answer."""
        found: dict[str, list[str]] = {}
        for config in self.configs:
            if config.value is not None and config.value.errors:
                found.setdefault(config.value.name, []).extend(config.value.errors)
        return found


class Findings:
    """Findings by setting while they are collected. The last finding of a name counts and gets further problems."""

    def __init__(self, found: Iterable[ConfigValue] = ()) -> None:
        self._by_name: dict[str, ConfigValue] = {config_value.name: config_value for config_value in found}

    def __getitem__(self, name: str) -> ConfigValue:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def get(self, name: str) -> ConfigValue | None:
        """Return the finding about a setting, or None if it was not checked."""
        return self._by_name.get(name)

    def errors(self, name: str) -> tuple[str, ...]:
        """Return the problems of a setting."""
        return self._by_name[name].errors if name in self._by_name else ()

    def any_wrong(self) -> bool:
        """Return whether any setting has a problem."""
        return any(config_value.errors for config_value in self._by_name.values())

    def change(self, name: str, **parts: object) -> None:
        """Replace parts of a finding. A setting that was not checked has no finding and stays without."""
        if name in self._by_name:
            self._by_name[name] = replace(self._by_name[name], **parts)  # type: ignore[arg-type]

    def complain(self, name: str, messages: Iterable[str], value: object = None) -> None:
        """Add new problems of a setting. A setting that is not declared gets a finding with ``value``."""
        config_value = self._by_name.setdefault(name, ConfigValue(name, value))
        new = tuple(message for message in dict.fromkeys(messages) if message not in config_value.errors)
        self._by_name[name] = replace(config_value, errors=config_value.errors + new)

    def values(self) -> list[ConfigValue]:
        """Return the findings in the order of Java's hash map."""
        return [self._by_name[name] for name in java_hash_order(self._by_name)]


def plugin_infos(name: str, keys: Sequence[ConfigKey], found: Findings) -> ConfigInfos:
    """Return the answer about a connector's settings. Settings that are not declared come first."""
    declared = {key.name: key for key in keys}
    values = found.values()
    configs = [ConfigInfo(None, config_value) for config_value in values if config_value.name not in declared]
    configs += [ConfigInfo(key, found.get(key.name)) for key in declared.values()]
    count = sum(len(config_value.errors) for config_value in values)
    return ConfigInfos(name, count, groups_of(declared.values()), tuple(configs))


def prefixed_infos(prefix: str, definition: ConfigDef, found: Iterable[ConfigValue]) -> ConfigInfos:
    """Return the answer about settings with ``prefix``: of a converter or a client."""
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
    """Return the answers of several declarations as a single answer."""
    whole = list(parts)
    groups = tuple(dict.fromkeys(group for part in whole for group in part.groups))
    configs = tuple(config for part in whole for config in part.configs)
    return ConfigInfos(name, sum(part.error_count for part in whole), groups, configs)


def groups_of(keys: Iterable[ConfigKey]) -> tuple[str, ...]:
    """Return the groups of some settings, in the order of their first settings."""
    return tuple(dict.fromkeys(key.group for key in keys if key.group is not None))


def merged_keys(first: ConfigDef, second: ConfigDef) -> list[ConfigKey]:
    """Return the settings of both. The second's declaration replaces the first's in its place (``Map.putAll``)."""
    by_name: Mapping[str, ConfigKey] = {key.name: key for key in (*first, *second)}
    return list(by_name.values())


T_co = TypeVar("T_co", covariant=True)


class Request(Generic[T_co]):
    """A request whose answer is a ``T_co``."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CatchUp(Request[None]):
    """Any. Read the config topic to its end, so that every answered write is known here. It never fails.

    For reads that found nothing: after a worker answered 201, a GET at another worker must not answer 404.
    """


@dataclass(frozen=True, slots=True)
class DescribePlugin(Request[list[ConfigKey]]):
    """Any. Return a plug-in's settings; runs its code. NotFoundError ``Unknown plugin X.``, BadRequestError."""

    name: str
    version: str | None = None  # None: the newest


@dataclass(frozen=True, slots=True)
class ValidateConfig(Request[ConfigInfos]):
    """Any. Check a connector's configuration; runs its code. BadRequestError: no connector class, or an unknown one."""

    config: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class SetLoggerLevel(Request[Sequence[str]]):
    """Any. Set a level (a log4j name) on this worker. The answer lists the loggers that it applies to."""

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
    """Any. Return the connector's offsets (of a sink: from Kafka). NotFoundError ``Connector s not found``."""

    name: str


@dataclass(frozen=True, slots=True)
class ModifyOffsets(Request[str]):
    """Leader. Write (partition, offset) pairs (KIP-875). A None offset removes its partition, None removes all.

    The answer is Java's message, once the offsets are durable. NotFoundError ``Connector s not found``, BadRequestError
    (it is not STOPPED, a sink's partition or offset is invalid), ConnectError (the connector refuses, sink tasks run).
    """

    name: str
    offsets: Sequence[OffsetPair] | None


@dataclass(frozen=True, slots=True)
class CreateConnector(Request[ConfigWritten]):
    """Leader. AlreadyExistsError ``Connector s already exists``, BadConfigError.

    ``initial_offsets`` (KIP-995) replace all offsets of the name before the connector is written: BadRequestError (they
    are invalid), ConnectError (the connector refuses them).
    """

    name: str
    config: Mapping[str, str]
    initial_state: TargetState | None = None
    initial_offsets: Sequence[OffsetPair] | None = None


@dataclass(frozen=True, slots=True)
class PutConfig(Request[ConfigWritten]):
    """Leader. Create or replace. BadConfigError, ConfigConflictError (the version is not ``expected`` any longer)."""

    name: str
    config: Mapping[str, str]
    expected: int | None = None  # HerderViews.config_version; None: any version


@dataclass(frozen=True, slots=True)
class PatchConfig(Request[ConfigWritten]):
    """Leader. Change some settings (None removes a setting). The whole configuration is validated.

    NotFoundError ``Connector s not found``, ConfigConflictError (the version is not ``expected`` any longer).
    """

    name: str
    patch: Mapping[str, str | None]
    expected: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteConnector(Request[None]):
    """Leader. Delete the connector; its offsets stay. NotFoundError ``Connector s not found``."""

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
    """Any. Record that a connector is stopped for a change of its offsets, and the target state that it gets back.

    If this worker dies in between, another worker or its next process sets the target state. The next SetTargetState
    other than STOPPED removes the record. NotFoundError ``Unknown connector s``.
    """

    name: str
    target: TargetState


@dataclass(frozen=True, slots=True)
class RestartConnector(Request[ConnectorStateInfo | None]):
    """Restart as KIP-745. NotFoundError ``Unknown connector: s``.

    Both flags False: the owner restarts the connector alone and answers None once it runs. Otherwise the leader answers
    with the plan, in which the instances are RESTARTING.
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
    """Leader, internal: write the task set that a follower generated. The caller has checked the signature."""

    name: str
    configs: Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class SwapTasks(Request[None]):
    """Leader, internal: swap tasks between workers in the next two rounds. ``Swap`` names workers by their URLs."""

    swaps: tuple[Swap, ...]


@dataclass(frozen=True, slots=True)
class FenceZombies(Request[None]):
    """Leader, internal: fence older producers before exactly-once tasks start (KIP-618)."""

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
    """Return the raw configuration with the patch: a value replaces or adds, None removes. The order is Java's."""
    patched = {**in_java_hash_order(raw), **patch}
    kept = {key: value for key, value in patched.items() if value is not None}
    return {key: kept[key] for key in hash_order_of_copy(raw, kept)}
