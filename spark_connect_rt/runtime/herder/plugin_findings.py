"""What a validation finds out about the plug-ins that a connector names: are they there, of which kind and version.

Looks plug-ins up and makes converters, so never on the tick thread. Java ``AbstractHerder.validateConverterConfig`` and
``PluginsRecommenders``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connect_rt.api.converter import Converter, HeaderConverter
from spark_connect_rt.api.plugin_modules import BROKEN_PLUGIN, versioned
from spark_connect_rt.base.java_hash_order import java_hash_order
from spark_connect_rt.config.config_def import ConfigDef, Type, prefixed
from spark_connect_rt.config.connector_config import unknown_class, wrong_class
from spark_connect_rt.errors import BadConfigError, NotFoundError
from spark_connect_rt.plugins.interfaces import PluginCatalog
from spark_connect_rt.runtime.herder.config_infos import ConfigInfos, Findings, prefixed_infos
from spark_connect_rt.runtime.herder.connector_definition import (
    CONVERTERS,
    VERSION,
    class_setting,
    known,
    types_of,
    version_known,
    version_setting,
)

_KINDS = {"header.converter": HeaderConverter, "key.converter": Converter, "value.converter": Converter}


def name_classes(plugins: PluginCatalog, definition: ConfigDef, findings: Findings) -> None:
    """Put the whole name in place of every alias, nothing in place of a class that is not there."""
    for key in definition:
        if key.type is not Type.CLASS or findings[key.name].value is None:
            continue
        found = known(plugins, findings[key.name].value)
        findings.change(key.name, value=None if found is None else found.java_class)


def check_converters(plugins: PluginCatalog, config: Mapping[str, str], findings: Findings) -> None:
    """Complain about converters that the connector names and that are not there, or are none."""
    for setting in CONVERTERS:
        name, versions = config.get(setting), version_setting(setting)
        if name is None:
            continue
        try:
            kind = "header_converter" if _KINDS[setting] is HeaderConverter else "converter"
            found = plugins.class_of(name, kind) if name.strip() else None
        except NotFoundError as error:
            found, why = None, f" {error}" if error.code == BROKEN_PLUGIN else ""
            findings.complain(setting, [f"{unknown_class(setting, name)}{why}"])
            continue
        if found is None:
            findings.complain(setting, [unknown_class(setting, name)])
        elif not issubclass(found, _KINDS[setting]):
            findings.complain(setting, [wrong_class(plugins.find(name).java_class, _KINDS[setting].__name__)])
        else:
            _check_version(plugins, name, config.get(versions), findings, setting)


def _check_version(plugins: PluginCatalog, name: str, version: str | None, findings: Findings, setting: str) -> None:
    try:
        plugins.find(versioned(name, version))
    except BadConfigError as error:
        findings.complain(version_setting(setting), [why for found in error.problems.values() for why in found])
    except NotFoundError as error:
        findings.complain(setting, [str(error)])
        findings.complain(version_setting(setting), [str(error)])


def converter_infos(
    plugins: PluginCatalog, config: Mapping[str, str], findings: Findings, *, only_wrong: bool = False
) -> list[ConfigInfos]:
    """Return the answers about the settings of the connector's own converters; ``only_wrong``: about these alone."""
    return [
        _converter_infos(plugins, setting, config, only_wrong)
        for setting in CONVERTERS
        if setting in config and not findings.errors(setting) and not findings.errors(version_setting(setting))
    ]


def _converter_infos(plugins: PluginCatalog, setting: str, config: Mapping[str, str], only_wrong: bool) -> ConfigInfos:
    made: Any = plugins.class_of(versioned(config[setting], config.get(version_setting(setting))))()
    definition: ConfigDef = made.config_def()
    given = {"converter.type": setting.partition(".")[0], **prefixed(config, f"{setting}.")}
    found = {config_value.name: config_value for config_value in definition.validate(given)}
    names = [name for name in java_hash_order(found) if found[name].errors or not only_wrong]
    return prefixed_infos(f"{setting}.", definition, [found[name] for name in names])


def recommend(plugins: PluginCatalog, definition: ConfigDef, findings: Findings) -> None:
    """Say of every setting that names a plug-in, or its version, what it could be. Searches for plug-ins."""
    by_type: dict[str, list[str]] = {}
    for plugin in plugins.list(connectors_only=False):
        by_type.setdefault(plugin.type, []).append(plugin.java_class)
    for key in definition:
        types = types_of(key.name)
        if key.type is Type.CLASS and types:
            names = tuple(dict.fromkeys(by_type.get(types[0], ())))
            findings.change(key.name, recommended_values=names)
        elif key.name.endswith(VERSION):
            _recommend_version(plugins, key.name, findings)


def _recommend_version(plugins: PluginCatalog, setting: str, findings: Findings) -> None:
    named = class_setting(setting)
    name = findings[named].value if named in findings else None
    there = version_known(plugins, named, name)
    versions = tuple(plugins.versions(there)) if there else ()
    findings.change(setting, recommended_values=versions, visible=name is not None or named not in CONVERTERS)
