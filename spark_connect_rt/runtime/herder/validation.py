"""A connector configuration is checked whole, every problem at once: when it is written, and on request.

Runs the connector's own code, so never on the tick thread. Java ``AbstractHerder.validateConnectorConfig``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import replace

from spark_connect_rt.api.connector import Connector, SourceConnector
from spark_connect_rt.api.plugin_modules import RUNTIME, of_runtime, versioned
from spark_connect_rt.base.hidden_values import without_secrets
from spark_connect_rt.base.java_hash_order import java_hash_order
from spark_connect_rt.config.config_def import ConfigDef, ConfigValue, Password
from spark_connect_rt.config.connector_config import NULL_VALUE, connector_problems
from spark_connect_rt.config.secrets import secret_names
from spark_connect_rt.config.stored_config import NO_SETTINGS
from spark_connect_rt.engine.java_code import JavaConnector
from spark_connect_rt.engine.task_runner import TaskKind
from spark_connect_rt.errors import BadConfigError, BadRequestError, NotFoundError
from spark_connect_rt.records.pipeline.chain_config import chain_config_def, chain_problems
from spark_connect_rt.runtime.herder.config_infos import ConfigInfos, Findings, merged_infos, merged_keys, plugin_infos
from spark_connect_rt.runtime.herder.connector_definition import (
    CONVERTERS,
    VERSION,
    declared_for,
    definition_of,
    definition_without_version,
    known,
)
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.exactly_once_findings import exactly_once_problems
from spark_connect_rt.runtime.herder.mask_findings import mask_problems
from spark_connect_rt.runtime.herder.override_findings import override_infos
from spark_connect_rt.runtime.herder.plugin_findings import check_converters, converter_infos, name_classes, recommend
from spark_connect_rt.runtime.worker.launches import kind_of

log = logging.getLogger(__name__)
_GROUP_OVERRIDE = "consumer.override.group.id"
_SUSPICIOUS = re.compile(r"pass|secret|token|credential|jaas|private|api.?key", re.IGNORECASE)


def checked_config(deps: HerderDependencies, name: str, config: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration to write (its ``name`` filled in).

    Raises:
        BadRequestError: no connector class, an unknown one, or another connector's name in the configuration.
        BadConfigError: settings are wrong; all of them are named.
    """
    named = {**config, "name": config.get("name") or name}  # added last, as Java does
    if named["name"] != name:
        raise BadRequestError(
            f"Connector name configuration ({named['name']}) doesn't match connector name in the URL ({name})"
        )
    problems = validated(deps, named, recommending=False).problems()
    if problems:
        raise BadConfigError(problems)
    return named


def validated(deps: HerderDependencies, config: Mapping[str, str | None], *, recommending: bool = True) -> ConfigInfos:
    """Return everything that is declared, given and wrong about a connector's configuration.

    Args:
        config: the settings as given, references unresolved; a null value is a mistake that is reported.
        recommending: also say what plug-ins and versions there are; searches for all plug-ins.

    Raises:
        BadRequestError: no connector class, or an unknown one.
    """
    given = {name: value for name, value in config.items() if value is not None}
    resolved = deps.resolve(given)
    class_name = resolved.get("connector.class")
    if not class_name:
        raise BadRequestError(f"Connector config {{{_shown(given)}}} contains no connector type")
    try:
        version = resolved.get(f"connector{VERSION}")
        connector_class = _connector_class(deps, class_name, version, resolved.get(RUNTIME))
    except BadRequestError as error:
        raise BadRequestError(without_secrets(str(error), _references(given, resolved))) from None
    except NotFoundError as error:
        infos = _without_version(deps, class_name, resolved, str(error))
    else:
        nulls = [name for name, value in config.items() if value is None]
        infos = _infos(deps, connector_class, resolved, nulls, recommending=recommending)
    return _as_given(infos, given, resolved)


def _connector_class(deps: HerderDependencies, name: str, version: str | None, runtime: str | None) -> type[Connector]:
    """Return the class. Raises BadRequestError; NotFoundError: it is there, but not in that version."""
    try:
        found = deps.plugins.class_of(versioned(of_runtime(name, runtime), version))
    except BadConfigError as error:  # that is no version
        raise BadRequestError("; ".join(why for found in error.problems.values() for why in found)) from error
    except NotFoundError as error:
        if version and known(deps.plugins, name) is not None:
            raise
        raise BadRequestError(str(error)) from error
    if name != name.strip() or not issubclass(found, Connector):  # a Java worker of the group knows no such name
        there = ", ".join(plugin.java_class for plugin in deps.plugins.list(connectors_only=True))
        raise BadRequestError(
            f"Failed to find any class that implements Connector and which name matches {name}, "
            f"available connectors are: {there}"
        )
    return found


def _without_version(deps: HerderDependencies, class_name: str, config: Mapping[str, str], why: str) -> ConfigInfos:
    """Return the answer when the connector is there, but not in the version that is asked for."""
    definition = definition_without_version(deps, config)
    findings = Findings(definition.validate(config))
    name_classes(deps.plugins, definition, findings)
    for setting in ("connector.class", f"connector{VERSION}"):
        findings.complain(setting, [why])
    findings.change(f"connector{VERSION}", recommended_values=tuple(deps.plugins.versions(class_name)))
    for setting in CONVERTERS:
        findings.change(f"{setting}{VERSION}", visible=findings[setting].value is not None)
    return plugin_infos(class_name, list(definition), findings)


def _infos(
    deps: HerderDependencies,
    connector_class: type[Connector],
    config: Mapping[str, str],
    nulls: list[str],
    *,
    recommending: bool,
) -> ConfigInfos:
    connector, sink = connector_class(), kind_of(connector_class) is not TaskKind.SOURCE
    # Which defaults would be taken is a part of the answer, but never wrong.
    definition = (definition_of if recommending else declared_for)(deps, config, sink=sink)
    own = connector.config_def()
    is_java = isinstance(connector, JavaConnector)
    values = connector.config_values(config) if isinstance(connector, JavaConnector) else own.validate(config)
    findings = Findings([*definition.validate(config), *values])  # its own declaration of a name wins
    check_converters(deps.plugins, config, findings)
    name_classes(deps.plugins, definition, findings)
    if sink and _GROUP_OVERRIDE in config:
        findings.complain(_GROUP_OVERRIDE, (), config[_GROUP_OVERRIDE])  # Java lists it here, too
    _collect(findings, chain_problems(config, deps.plugins.class_of), config)
    _collect(findings, connector_problems(config, sink=sink, worker_group=deps.settings.worker.group.group_id), config)
    stored = deps.config_store.snapshot().connector_config(config.get("name", "")) or NO_SETTINGS
    _collect(findings, mask_problems(config, stored.written(), secret_names(own)), config)
    if isinstance(connector, SourceConnector):
        _collect(
            findings, exactly_once_problems(connector, config, enabled=deps.settings.worker.group.exactly_once), config
        )
    if not is_java:  # whose own validation was asked above
        _collect(findings, connector.validate(config), config)
    for name, why in (own + chain_config_def(config, deps.plugins.class_of)).doubts(config).items():
        log.warning("connector %s: setting %s is valid but probably a mistake: %s", config.get("name"), name, why)
    for name in nulls:
        findings.change(name, errors=())
        findings.complain(name, [NULL_VALUE])
    if recommending:
        recommend(deps.plugins, definition, findings)
    class_name = config["connector.class"]
    of_clients = override_infos(deps, config, sink=sink)
    of_converters = converter_infos(deps.plugins, config, findings, only_wrong=not recommending)
    if recommending or findings.any_wrong():
        main = plugin_infos(class_name, merged_keys(definition, own), findings)
        return merged_infos(class_name, [main, *of_clients, *of_converters])
    return merged_infos(class_name, [*of_clients, *of_converters])


def doubts(deps: HerderDependencies, config: Mapping[str, str]) -> dict[str, str]:
    """Return setting -> why its value, which is valid, is surely not meant: of the connector and its chain.

    Args:
        config: resolved, of a connector that is there.
    """
    named = versioned(of_runtime(config["connector.class"], config.get(RUNTIME)), config.get(f"connector{VERSION}"))
    own: ConfigDef = deps.plugins.class_of(named)().config_def()
    return (own + chain_config_def(config, deps.plugins.class_of)).doubts(config)


def _collect(findings: Findings, problems: Mapping[str, list[str]], config: Mapping[str, str]) -> None:
    for name, messages in problems.items():
        if messages:
            findings.complain(name, messages, config.get(name))


def _as_given(infos: ConfigInfos, given: Mapping[str, str], resolved: Mapping[str, str]) -> ConfigInfos:
    """Put references back in place of what they stand for: it may be a secret."""
    referring = {name for name, text in given.items() if resolved.get(name) != text}
    if not referring:
        return infos
    instead = _references(given, resolved)

    def shown(value: ConfigValue | None) -> ConfigValue | None:
        if value is None:
            return value
        errors = tuple(without_secrets(error, instead) for error in value.errors)
        kept = value.name not in referring or value.value is None or isinstance(value.value, Password)
        return replace(value, value=value.value if kept else given[value.name], errors=errors)

    configs = tuple(replace(config, value=shown(config.value)) for config in infos.configs)
    return replace(infos, configs=configs)


def _references(given: Mapping[str, str], resolved: Mapping[str, str]) -> dict[str, str]:
    """Return resolved value -> the setting as it was given, for all that hold references."""
    return {resolved[name]: text for name, text in given.items() if resolved.get(name) not in (None, "", text)}


def _shown(config: Mapping[str, str]) -> str:
    """Return Java's rendering of a map. Without a class no one can tell what is secret: suspicious names are hidden."""
    return ", ".join(
        f"{key}={'[hidden]' if _SUSPICIOUS.search(key) else config[key]}" for key in java_hash_order(config, sized=True)
    )
