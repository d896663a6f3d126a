"""The plug-ins of this process: the bundled ones, those of ``plugin.path``, those installed beside the worker.

Owns also what needs them: the config providers, and by these a worker's settings.

One registry a process and ``plugin.path``: modules are loaded once, in the driver as on executors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from spark_connect_rt.app.plugin_scan import BUNDLED
from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.config.worker.distributed_config import parse_distributed
from spark_connect_rt.config.worker.own_settings import PluginSettings
from spark_connect_rt.config.worker.worker_settings import WorkerConfig
from spark_connect_rt.config_providers.providers import ConfigProviders
from spark_connect_rt.plugins.discovery import Discovered, discover
from spark_connect_rt.plugins.registry import Plugins

_JavaSettings = tuple[str, str, str]  # heap, options, plugin.discovery

if TYPE_CHECKING:  # what speaks to a JVM is imported when one is needed
    from spark_connect_rt.java_host.plugin_answers import DriverAnswers


def plugins_of(raw: Mapping[str, str]) -> Plugins:
    """Return the registry of a worker's configuration.

    Of modules that are no plug-ins it imports those that this configuration itself names, or allows.
    """
    settings = PluginSettings.of(raw)
    trusted = frozenset(name for value in raw.values() for name in parse_value(Type.LIST, value))
    return _registry(settings.folders, frozenset(settings.connectrt_plugins_modules), trusted, _java_settings(settings))


def java_of(raw: Mapping[str, str]) -> DriverAnswers | None:
    """Return what this process asks about Java plug-ins of a worker's configuration; None: it has no plugin.path."""
    settings = PluginSettings.of(raw)
    return _java(_java_settings(settings)) if settings.folders else None


def _java_settings(settings: PluginSettings) -> _JavaSettings:
    return settings.connectrt_java_heap, settings.connectrt_java_options, settings.plugin_discovery.lower()


@cache
def _java(settings: _JavaSettings) -> DriverAnswers:
    from spark_connect_rt.java_host.driver_jvm import JvmSettings, driver_host
    from spark_connect_rt.java_host.plugin_answers import DriverAnswers

    heap, options, discovery = settings
    return DriverAnswers(driver_host(JvmSettings(heap, options)), discovery)


@cache
def _executors_java() -> Any:
    from spark_connect_rt.java_host.plugin_answers import ExecutorAnswers

    return ExecutorAnswers()


def providers_of(raw: Mapping[str, str]) -> ConfigProviders:
    """Return the config providers of a worker's configuration. Raises BadConfigError."""
    return ConfigProviders.from_config(raw, plugins_of(raw).class_of)


def distributed_config(raw: Mapping[str, str]) -> WorkerConfig:
    """Return a distributed worker's settings, references looked up. Raises BadConfigError."""
    return parse_distributed(raw, providers_of(raw).resolve)


@cache
def _registry(folders: Sequence[str], allowed: frozenset[str], trusted: frozenset[str], java: _JavaSettings) -> Plugins:
    def may_import(name: str, module: str) -> bool:
        parents = (module.rsplit(".", up)[0] for up in range(module.count(".") + 1))
        return name in trusted or "*" in allowed or any(one in allowed for one in parents)

    return Plugins(BUNDLED, lambda: _found(folders, _java(java)), may_import)


@cache
def plugins_in(folders: Sequence[str]) -> Plugins:
    """Return a registry of these folders that imports whatever it is asked for, for names that a worker let pass."""
    return Plugins(BUNDLED, lambda: _found(folders, _executors_java()))


@cache
def _found(folders: Sequence[str], java: Any) -> Discovered:
    return discover(folders, java=java)
