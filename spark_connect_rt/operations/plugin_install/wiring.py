"""Puts together what installs plug-ins on a worker: its folder, the group's topic, who uses what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from spark_connect_rt.api.plugin_modules import connector_plugin, of_runtime, versioned
from spark_connect_rt.base.concurrency import SystemClock
from spark_connect_rt.config.client_properties import log_client_properties
from spark_connect_rt.config.worker_settings import WorkerConfig
from spark_connect_rt.engine.process_plugins import install_directory, plugin_folders, plugins_of, refresh_plugins
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.internal_topics import topic_source
from spark_connect_rt.operations.plugin_install.folders import PluginFolder
from spark_connect_rt.operations.plugin_install.group_installs import GroupInstalls
from spark_connect_rt.operations.plugin_install.installer import Installer
from spark_connect_rt.plugins.path_watch import PathWatch
from spark_connect_rt.plugins.registry import Plugins
from spark_connect_rt.runtime.herder.herder_api import HerderApi

# Which connectors use an installed plug-in: by the classes that their configurations name. Pure.


_VERSION = "plugin.version"
_CONVERTERS = ("key.converter", "value.converter", "header.converter")


@dataclass(frozen=True, slots=True)
class PluginLocation:
    """Where a plug-in is, and whether a JVM runs it."""

    location: str
    is_java: bool = False


Find = Callable[[str], PluginLocation | None]
"""From a name as plug-ins are looked up (with version, runtime) to its place; None: there is none."""


def stage_names(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (name, wanted version) of every other plug-in that a connector's or worker's configuration names."""
    for setting in _CONVERTERS:
        if name := config.get(setting):
            yield name, config.get(f"{setting}.{_VERSION}", "")
    for chain in ("transforms", "predicates"):
        for alias in _parts(config.get(chain)):
            if name := config.get(f"{chain}.{alias}.type"):
                yield name, config.get(f"{chain}.{alias}.{_VERSION}", "")
    for alias in _parts(config.get("config.providers")):
        if name := config.get(f"config.providers.{alias}.class"):
            yield name, ""
    for setting in ("rest.extension.classes", "connector.client.config.override.policy"):
        yield from ((name, "") for name in _parts(config.get(setting)))


def used_places(config: Mapping[str, str], find: Find) -> Iterator[str]:
    """Yield where everything is that a configuration uses."""
    connector = find(connector_plugin(config)) if config.get("connector.class") else None
    if connector is not None:
        yield connector.location
    for name, version in stage_names(config):
        looked_up = [name]
        if connector is not None and connector.is_java:  # its chain stays in the JVM where it can
            looked_up.append(of_runtime(name, "java"))
        for reference in looked_up:
            if (place := find(versioned(reference, version))) is not None:
                yield place.location


def users_of(folder: str, configs: Mapping[str, Mapping[str, str]], find: Find) -> list[str]:
    """Return those of ``configs`` (name -> configuration) that use a plug-in of this folder, sorted."""
    wanted = PurePath(folder)

    def is_there(location: str) -> bool:
        return wanted == PurePath(location) or wanted in PurePath(location).parents

    return sorted(name for name, config in configs.items() if any(map(is_there, used_places(config, find))))


def _parts(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


WORKER = "the worker's file"


def installer_of(config: WorkerConfig) -> Installer:
    """Return what installs into this worker's folder."""
    settings = config.plugin_install
    folder = PluginFolder(Path(install_directory(config.raw)).absolute())
    allowed, limit_bytes = settings.connectrt_plugins_allowed, settings.connectrt_plugins_size_max_bytes
    return Installer(folder, allowed, limit_bytes, SystemClock().now_ms)


def plugin_topic(config: WorkerConfig) -> TopicSpec | None:
    """Return the topic of the group's record; None: a standalone worker has none."""
    if "config" not in config.storage:
        return None
    configs = config.storage["config"]
    name = config.plugin_install.connectrt_plugins_storage_topic or f"{configs.name}-plugins"
    return TopicSpec(name, 1, configs.replication_factor, {})


def group_installs(config: WorkerConfig, worker: str, admin: KafkaAdmin, herder: HerderApi) -> GroupInstalls:
    """Return what installs plug-ins on this worker and its group, not started."""
    plugins = plugins_of(config.raw)

    def users(folder: str) -> Sequence[str]:
        configs: dict[str, Mapping[str, str]] = {WORKER: config.raw}
        configs |= {name: herder.views.connector_config(name).written() for name in herder.views.list_connectors()}
        return users_of(folder, configs, lambda name: place_of(plugins, name))

    topic = plugin_topic(config)
    group_log = None if topic is None else topic_source(topic, admin, log_client_properties(config, "plugins"))
    return GroupInstalls(worker, installer_of(config), refresh_plugins, users, group_log)


def path_watch(config: WorkerConfig) -> PathWatch:
    """Return what sees new plug-ins in the folders of ``plugin.path``, not started; names that are not known ask it."""
    each_s = config.plugin_install.connectrt_plugins_watch_interval_ms / 1000
    watch = PathWatch(plugin_folders(config.raw), refresh_plugins, each_s)
    plugins_of(config.raw).look = watch.look_now
    return watch


def place_of(plugins: Plugins, name: str) -> PluginLocation | None:
    """Return where a plug-in is that a configuration names; None: there is none."""
    try:
        found = plugins.find(name)
    except ConnectError:
        return None
    return PluginLocation(found.location, found.is_java)
