"""Everything a worker was configured with, parsed once (Java ``DistributedConfig``, ``StandaloneConfig``).

Owns: the groups together, and values that depend on several of them. Adapters take a group or the whole. Texts are only
for settings that are passed through by prefix (clients, converters, config providers, Spark, plug-ins).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from spark_connect_rt.config import worker_config
from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.connectrt_config import ENGINE, QUICKSTART, ConnectrtEngineSettings, PluginSettings
from spark_connect_rt.config.group_config import (
    GROUP,
    PLACEMENT,
    SESSION_KEYS,
    STORAGE,
    TOPIC_KINDS,
    GroupSettings,
    PlacementSettings,
    SessionKeySettings,
    StorageTopic,
    storage_topics,
)
from spark_connect_rt.config.management_config import (
    HEALTH,
    MANAGEMENT,
    PLUGIN_INSTALL,
    HealthSettings,
    ManagementSettings,
    PluginInstallSettings,
)
from spark_connect_rt.config.settings_group import SettingsGroup
from spark_connect_rt.config.validators import non_empty
from spark_connect_rt.config.worker_config import (
    CLIENTS,
    WORKER,
    ConnectionSettings,
    FlushSettings,
    RestSettings,
    RuntimeSettings,
    listener_problems,
    unknown_setting_warnings,
)
from spark_connect_rt.config.worker_config import PASSED_ON as PASSED_ON_STANDALONE_CONFIG
from spark_connect_rt.errors import BadConfigError

Resolve = Callable[[Mapping[str, str]], Mapping[str, str]]
CHANNEL_TIMEOUT_MIN_MS = 1_000
_MAX_DELAY = "scheduled.rebalance.max.delay.ms"


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """A worker's settings in groups."""

    bootstrap_servers: str  # host:port, by commas
    group: GroupSettings
    session_keys: SessionKeySettings
    connection: ConnectionSettings
    runtime: RuntimeSettings
    flush: FlushSettings
    plugins: PluginSettings
    rest: RestSettings
    engine: ConnectrtEngineSettings
    health: HealthSettings
    plugin_install: PluginInstallSettings
    management: ManagementSettings
    placement: PlacementSettings
    storage: Mapping[str, StorageTopic]  # config, offset, status; standalone: none
    raw: Mapping[str, str] = field(repr=False)  # as it was given, for tasks: each user of a reference resolves it
    resolved: Mapping[str, str] = field(repr=False)  # the same for the worker's own clients; holds secrets
    warnings: Sequence[str] = ()

    @property
    def channel_timeout_ms(self) -> int:
        """Return how long executors and driver tolerate silence, ms.

        It is shorter than the group tolerates it of a worker.

        A driver that was stopped (SIGSTOP, a paused machine) sent its last heartbeat up to one heartbeat interval
        earlier. So its tasks may start elsewhere ``session - heartbeat`` later (7 s by default). Its executors live on
        and must have ended by then (E5): 6 s.
        """
        given = self.engine.connectrt_channel_timeout_ms
        bears_ms = self.group.session_timeout_ms - self.group.heartbeat_interval_ms
        return given or max(CHANNEL_TIMEOUT_MIN_MS, bears_ms * 6 // 7)

    @property
    def lost_work_delay_ms(self) -> int:
        """Return how long the work of a lost worker waits in a group that has only our workers, ms.

        The worker's own setting, else the user's value of Java's setting, else 0.
        """
        if self.engine.connectrt_lost_work_delay_ms is not None:
            return self.engine.connectrt_lost_work_delay_ms
        return self.group.scheduled_rebalance_max_delay_ms if _MAX_DELAY in self.raw else 0


_GROUPS: Mapping[str, type[SettingsGroup]] = {
    "group": GroupSettings,
    "session_keys": SessionKeySettings,
    "connection": ConnectionSettings,
    "runtime": RuntimeSettings,
    "flush": FlushSettings,
    "plugins": PluginSettings,
    "rest": RestSettings,
    "engine": ConnectrtEngineSettings,
    "health": HealthSettings,
    "plugin_install": PluginInstallSettings,
    "management": ManagementSettings,
    "placement": PlacementSettings,
}


def typed_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a WorkerConfig from typed values (setting -> value): its servers and every group."""
    groups = {name: group.taken_from(values) for name, group in _GROUPS.items()}
    return {"bootstrap_servers": ",".join(values["bootstrap.servers"]), **groups}


# Settings of a distributed worker, typed (Java ``DistributedConfig``).


DISTRIBUTED = (
    GROUP
    + STORAGE
    + SESSION_KEYS
    + CLIENTS
    + WORKER
    + ENGINE
    + PLUGIN_INSTALL
    + MANAGEMENT
    + PLACEMENT
    + HEALTH
    + QUICKSTART
)

PASSED_ON = (*worker_config.PASSED_ON, *(f"{kind}.storage." for kind in TOPIC_KINDS))
"""Names with these prefixes are passed through to their owners, those of a topic to its creation."""


def parse_distributed(raw: Mapping[str, str], resolve: Resolve = dict) -> WorkerConfig:
    """Return the typed settings; ``resolve`` looks up ``${provider:...}``.

    Raises BadConfigError with every problem of every setting.
    """
    resolved = resolve(raw)
    problems: dict[str, list[str]] = {}
    values: dict[str, Any] = {}
    for key in DISTRIBUTED:
        values[key.name], complaints = key.parse(resolved)
        if complaints:
            problems[key.name] = complaints
    for name, complaint in _problems_between(values):
        problems.setdefault(name, []).append(complaint)
    if problems:
        raise BadConfigError(problems)
    return WorkerConfig(
        **typed_settings(values),
        storage=storage_topics(values, resolved),
        raw=dict(raw),
        resolved=resolved,
        warnings=tuple(unknown_settings(raw)),
    )


def unknown_settings(raw: Mapping[str, str]) -> list[str]:
    """Return one sentence for each setting that nothing reads: probably a misspelling."""
    return unknown_setting_warnings(DISTRIBUTED, raw, PASSED_ON)


def _problems_between(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (setting, complaint) for settings that are wrong together."""
    found = listener_problems("listeners", values["listeners"] or ["http://:8083"])  # empty: complained about already
    found += listener_problems("admin.listeners", values["admin.listeners"] or ["http://:8083"])
    signature = values["inter.worker.signature.algorithm"]
    accepted = values["inter.worker.verification.algorithms"]
    if accepted is not None and not accepted:
        found.append(("inter.worker.verification.algorithms", "must contain at least one algorithm"))
    elif signature and accepted and signature.lower() not in {name.lower() for name in accepted}:
        found.append(
            ("inter.worker.signature.algorithm", f"{signature} is not among inter.worker.verification.algorithms")
        )
    found += _timing_problems(values)
    topics = [(f"{kind}.storage.topic", values[f"{kind}.storage.topic"]) for kind in TOPIC_KINDS]
    for index, (name, topic) in enumerate(topics):
        clash = next((other for other, same in topics[:index] if same == topic and topic), None)
        if clash:
            found.append((name, f"must not be the same as the topic of {clash}"))
    return found


def _timing_problems(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the problems between the timeouts of the group and of the executors."""
    session, heartbeat = values["session.timeout.ms"], values["heartbeat.interval.ms"]
    if session is None or heartbeat is None:
        return []  # complained about already
    if heartbeat >= session:
        return [
            ("heartbeat.interval.ms", f"must be less than session.timeout.ms ({session} ms), but is {heartbeat} ms")
        ]
    silence, most = values["connectrt.channel.timeout.ms"], session - heartbeat
    if silence is None or silence < most:
        return []
    why = (
        f"must be less than session.timeout.ms minus heartbeat.interval.ms ({most} ms), but is {silence} ms. "
        "Otherwise executors of a hanging worker still run tasks that the group has already moved to others"
    )
    return [("connectrt.channel.timeout.ms", why)]


# Settings of a standalone worker (Java ``StandaloneConfig``).


OWN = ConfigDef(
    [
        ConfigKey(
            "offset.storage.file.filename",
            Type.STRING,
            REQUIRED,
            Importance.HIGH,
            "File that stores the source offsets.",
            non_empty,
        )
    ]
)
STANDALONE = OWN + WORKER + ENGINE + PLUGIN_INSTALL + MANAGEMENT + PLACEMENT + HEALTH


@dataclass(frozen=True, slots=True)
class StandaloneConfig(WorkerConfig):
    """A standalone worker's settings: a group of one, no internal topics, no transactions (as Java)."""

    offset_storage_file_filename: str = ""


# Compatible: tasks continue while others are added, and session keys are not needed.
_GROUP_OF_ONE = {"group.id": "", "connect.protocol": "compatible"}


def parse_standalone(raw: Mapping[str, str], resolve: Resolve = dict) -> StandaloneConfig:
    """Return the typed settings; ``resolve`` looks up ``${provider:...}``. Raises BadConfigError with every problem."""
    resolved = resolve(raw)
    values = STANDALONE.parse(resolved)
    problems: dict[str, list[str]] = {}
    for name in ("listeners", "admin.listeners"):
        for _, why in listener_problems(name, values[name] or ["http://:8083"]):
            problems.setdefault(name, []).append(why)
    if problems:
        raise BadConfigError(problems)
    of_groups = {key.name: key.parse(_GROUP_OF_ONE)[0] for key in GROUP + SESSION_KEYS + CLIENTS}
    return StandaloneConfig(
        **typed_settings({**of_groups, **values}),
        storage={},
        raw=dict(raw),
        resolved=resolved,
        warnings=tuple(unknown_setting_warnings(STANDALONE, raw, PASSED_ON_STANDALONE_CONFIG)),
        offset_storage_file_filename=values["offset.storage.file.filename"],
    )


# Exactly-once source support: which connectors have it, and where their offsets are stored (KIP-618). Pure.


OWN_TOPIC = "offsets.storage.topic"
BOUNDARY = "transaction.boundary"
INTERVAL = "transaction.boundary.interval.ms"
SUPPORT = "exactly.once.support"


class Boundary(Enum):
    """Where the transactions of a source task end."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"

    @staticmethod
    def of(connector: Mapping[str, str]) -> Boundary:
        """Return the transaction boundary that a connector's configuration sets. It was checked before."""
        return Boundary((connector.get(BOUNDARY) or "poll").strip().lower())


def interval_ms(flush: FlushSettings, connector: Mapping[str, str]) -> int:
    """Return the length of a transaction with boundary ``interval``, ms."""
    return int(connector.get(INTERVAL) or flush.offset_flush_interval_ms)


def own_offsets_topic(worker: WorkerConfig, connector: Mapping[str, str]) -> str | None:
    """Return the offset topic of a connector alone; None when it uses the worker's.

    The worker's own topic, named by the connector in the worker's own cluster, is the worker's.
    """
    topic = (connector.get(OWN_TOPIC) or "").strip()
    servers = connector.get("producer.override.bootstrap.servers")
    elsewhere = servers is not None and servers != worker.bootstrap_servers
    return topic if topic and (elsewhere or topic != worker.storage["offset"].name) else None


def offsets_topic(worker: WorkerConfig, connector: Mapping[str, str]) -> str:
    """Return the topic that an exactly-once task writes its offsets to, with the records."""
    return (connector.get(OWN_TOPIC) or "").strip() or worker.storage["offset"].name
