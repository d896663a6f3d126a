"""Everything a worker was configured with, parsed once (Java ``DistributedConfig``, ``StandaloneConfig``).

Owns: the groups together, and what follows from several of them. Adapters take a group, or the whole; texts are only
for what goes on to others under a prefix (clients, converters, config providers, Spark, plug-ins).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_connect_rt.config.connection_config import ConnectionSettings
from spark_connect_rt.config.connectrt_config import EngineSettings, PluginSettings
from spark_connect_rt.config.group_config import GroupSettings, SessionKeySettings
from spark_connect_rt.config.health_config import HealthSettings
from spark_connect_rt.config.management_config import ManagementSettings
from spark_connect_rt.config.placement import PlacementSettings
from spark_connect_rt.config.plugin_install import PluginInstallSettings
from spark_connect_rt.config.settings_group import SettingsGroup
from spark_connect_rt.config.storage_config import StorageTopic
from spark_connect_rt.config.worker_config import FlushSettings, RestSettings, RuntimeSettings

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
    engine: EngineSettings
    health: HealthSettings
    plugin_install: PluginInstallSettings
    management: ManagementSettings
    placement: PlacementSettings
    storage: Mapping[str, StorageTopic]  # config, offset, status; standalone: none
    raw: Mapping[str, str] = field(repr=False)  # as it was given, for tasks: references are for those who use them
    resolved: Mapping[str, str] = field(repr=False)  # the same for the worker's own clients; holds secrets
    warnings: Sequence[str] = ()

    @property
    def channel_timeout_ms(self) -> int:
        """Return how long executors and driver bear silence, ms: surely less than the group bears it of a worker.

        A driver that was stopped (SIGSTOP, a paused machine) sent its last heartbeat up to a heartbeat interval before,
        so its tasks may start elsewhere ``session - heartbeat`` later (7 s by default). Its executors, which live on,
        must have ended by then (E5): 6 s.
        """
        given = self.engine.connectrt_channel_timeout_ms
        bears_ms = self.group.session_timeout_ms - self.group.heartbeat_interval_ms
        return given or max(CHANNEL_TIMEOUT_MIN_MS, bears_ms * 6 // 7)

    @property
    def lost_work_delay_ms(self) -> int:
        """Return how long the work of a lost worker waits in a group of our own workers, ms.

        The user's own word for it, else the user's word for Java's, else at once.
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
    "engine": EngineSettings,
    "health": HealthSettings,
    "plugin_install": PluginInstallSettings,
    "management": ManagementSettings,
    "placement": PlacementSettings,
}


def typed_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a WorkerConfig holds of typed values (setting -> value): its servers and every group."""
    groups = {name: group.taken_from(values) for name, group in _GROUPS.items()}
    return {"bootstrap_servers": ",".join(values["bootstrap.servers"]), **groups}
