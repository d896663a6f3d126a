"""Every setting that a connector of a given configuration has, with the defaults that this worker would take.

Common ones, a source's or a sink's, those of its transformations and predicates. The connector's own ones, its
converters' and its clients' are not here. Java ``ConnectorConfig.enrichedConfigDef`` and ``enrich``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from spark_connect_rt.api.plugin_modules import RUNTIME, of_runtime, versioned
from spark_connect_rt.config.config_def import ConfigDef, ConfigKey
from spark_connect_rt.config.connector_config import COMMON, SINK, SOURCE
from spark_connect_rt.config.worker_config import worker_converter
from spark_connect_rt.errors import BadConfigError, NotFoundError
from spark_connect_rt.plugins.interfaces import PluginCatalog, PluginFacts
from spark_connect_rt.records.pipeline.chain_config import chain_config_def
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies

CONVERTERS = ("header.converter", "key.converter", "value.converter")
VERSION = ".plugin.version"
_TYPES = {  # what a setting may name; what is recommended for it comes first
    "connector": ("sink", "source"),
    "header.converter": ("header_converter", "converter"),  # most are both
    "key.converter": ("converter",),
    "value.converter": ("converter",),
    "transforms": ("transformation",),
    "predicates": ("predicate",),
}


def common_to(deps: HerderDependencies, *, sink: bool) -> ConfigDef:
    """Return the settings that all sinks, or all sources, have."""
    return (deps.sink_config or SINK) if sink else (deps.source_config or SOURCE)


def definition_of(deps: HerderDependencies, config: Mapping[str, str], *, sink: bool) -> ConfigDef:
    """Return the settings of a connector; those of a class that cannot be had are left out."""
    return ConfigDef(_with_default(key, deps, config) for key in declared_for(deps, config, sink=sink))


def declared_for(deps: HerderDependencies, config: Mapping[str, str], *, sink: bool) -> ConfigDef:
    """Return the same settings with the defaults that are declared, whatever this worker would take."""
    common, chain = common_to(deps, sink=sink), chain_config_def(config, deps.plugins.class_of)
    return ConfigDef((*common, *chain)) if len(chain) else common


def definition_without_version(deps: HerderDependencies, config: Mapping[str, str]) -> ConfigDef:
    """Return what is looked at when no plug-in of the wanted version is there: what every connector has."""
    setting = f"connector{VERSION}"
    return ConfigDef(_with_default(key, deps, config) if key.name == setting else key for key in COMMON)


def class_setting(version_setting: str) -> str:
    """Return the setting that names the plug-in whose version ``version_setting`` asks for (KIP-891)."""
    plugin = version_setting.removesuffix(VERSION)
    if plugin == "connector":
        return "connector.class"
    return plugin if plugin in CONVERTERS else f"{plugin}.type"


def version_setting(setting: str) -> str:
    """Return where the version of the plug-in that ``setting`` names is asked for."""
    return f"{setting.removesuffix('.type')}{VERSION}"


def version_known(plugins: PluginCatalog, setting: str, name: str | None) -> str | None:
    """Return the name under which there are versions of what ``setting`` names; None when it is of another kind."""
    found = known(plugins, name)
    return found.java_class if found is not None and found.type in types_of(setting) else None


def types_of(setting: str) -> tuple[str, ...]:
    """Return the types of plug-in that a setting may name; none for a setting that names no plug-in."""
    return _TYPES.get(setting if setting in CONVERTERS else setting.partition(".")[0], ())


def known(plugins: PluginCatalog, name: str | None, version: str | None = None) -> PluginFacts | None:
    """Return a plug-in, None when there is no such one."""
    try:
        return plugins.find(versioned(name, version)) if name and name.strip() else None
    except (NotFoundError, BadConfigError):
        return None


def _with_default(key: ConfigKey, deps: HerderDependencies, config: Mapping[str, str]) -> ConfigKey:
    if key.name in CONVERTERS:
        name = worker_converter(deps.settings.worker.raw, key.name)
        found = known(deps.plugins, name)
        return replace(key, default=found.java_class if found is not None else name)
    if key.name.endswith(VERSION):
        return replace(key, default=_default_version(key.name, deps, config))
    return key


def _default_version(setting: str, deps: HerderDependencies, config: Mapping[str, str]) -> str | None:
    """Return the version that would be taken: the worker's for a worker's converter, else the newest."""
    named = class_setting(setting)
    name, worker = config.get(named), deps.settings.worker.raw
    if name is None and named in CONVERTERS:
        if worker.get(setting):
            return worker[setting]
        name = worker_converter(worker, named)
    if named == "connector.class" and name:
        found = known(deps.plugins, of_runtime(name, config.get(RUNTIME)))
        return found.version if found is not None and found.type in types_of(named) else None
    there = version_known(deps.plugins, named, name)
    return None if there is None else deps.plugins.find(there).version
