"""A connector configuration is checked whole, every problem at once: when it is written, and on request.

Runs the connector's own code, so never on the tick thread. Java ``AbstractHerder.validateConnectorConfig``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from spark_connect_rt.api.connector import (
    Connector,
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    SourceConnector,
)
from spark_connect_rt.api.converter import Converter, HeaderConverter
from spark_connect_rt.api.plugin_modules import BROKEN_PLUGIN, RUNTIME, VERSION_MARK, of_runtime, versioned
from spark_connect_rt.base.hidden_values import HIDDEN, without_secrets
from spark_connect_rt.base.java_hash_order import java_hash_order
from spark_connect_rt.config.client_settings import client_config_def
from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, ConfigValue, Password, Type, prefixed
from spark_connect_rt.config.connector_config import (
    COMMON,
    NULL_VALUE,
    SINK,
    SOURCE,
    connector_problems,
    unknown_class,
    wrong_class,
)
from spark_connect_rt.config.override_policy import CLIENT_PREFIXES, override_problems, policy_name, used_prefixes
from spark_connect_rt.config.secrets import named_like_secret, secret_names
from spark_connect_rt.config.stored_config import NO_SETTINGS
from spark_connect_rt.config.worker_config import worker_converter
from spark_connect_rt.config.worker_settings import BOUNDARY, SUPPORT, Boundary
from spark_connect_rt.engine.task_runner import JavaConnector, TaskKind
from spark_connect_rt.errors import BadConfigError, BadRequestError, NotFoundError
from spark_connect_rt.plugins.interfaces import PluginCatalog, PluginFacts
from spark_connect_rt.records.pipeline.chain_config import chain_config_def, chain_problems
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.herder_requests import (
    ConfigInfos,
    Findings,
    merged_infos,
    merged_keys,
    plugin_infos,
    prefixed_infos,
)
from spark_connect_rt.runtime.worker.launches import kind_of

# Validation of the ``producer.``, ``consumer.`` and ``admin.override.`` settings of a connector.
#
# Only of clients that the connector has. Java ``AbstractHerder.validateClientOverrides`` (KIP-458).


def override_infos(deps: HerderDependencies, config: Mapping[str, str], *, sink: bool) -> list[ConfigInfos]:
    """Return the answers about the overrides of each client, the policy's complaints among them."""
    prefixes = used_prefixes(config, sink=sink)
    refused = _refused(deps, config, prefixes)
    # A policy that is a plug-in may also refuse what would not be used.
    asked = [
        prefix for prefix in CLIENT_PREFIXES if prefix in prefixes or any(name.startswith(prefix) for name in refused)
    ]
    return [_client_infos(prefix, config, refused) for prefix in asked]


def _refused(deps: HerderDependencies, config: Mapping[str, str], prefixes: Sequence[str]) -> dict[str, list[str]]:
    if deps.override_policy is not None:
        return {name: [why] for name, why in deps.override_policy.problems(config).items()}
    policy = deps.settings.worker.runtime.connector_client_config_override_policy
    return override_problems(config, policy, prefixes)


def _client_infos(prefix: str, config: Mapping[str, str], refused: Mapping[str, Sequence[str]]) -> ConfigInfos:
    definition, given = client_config_def(prefix.partition(".")[0]), prefixed(config, prefix)
    return prefixed_infos(
        prefix,
        definition,
        [_found(definition, name, given[name], refused.get(f"{prefix}{name}", ())) for name in java_hash_order(given)],
    )


def _found(definition: ConfigDef, name: str, text: str, refused: Sequence[str]) -> ConfigValue:
    if name not in definition:
        return ConfigValue(name, text, tuple(refused))
    value, complaints = definition[name].parse({name: text})
    return ConfigValue(name, value, (*complaints, *refused))


# Validation of exactly-once settings: asks the connector whether it can (Java ``DistributedHerder``).
#
# Runs the connector's own code, so never on the tick thread.


log = logging.getLogger(__name__)

_NOT_ENABLED = "This worker does not have exactly-once source support enabled."
_SILENT = (
    "The connector does not implement the API required for preflight validation of exactly-once source support. "
    "Please consult the documentation for the connector to determine whether it supports exactly-once semantics, and "
    'then consider reconfiguring the connector to use the value "requested" for this property (which will disable '
    "this preflight check and allow the connector to be created)."
)


def exactly_once_problems(
    connector: SourceConnector, config: Mapping[str, str], *, enabled: bool
) -> dict[str, list[str]]:
    """Return complaints in Java's words: setting -> messages. Invalid values are reported elsewhere.

    ``enabled``: whether the worker has exactly-once source support.
    """
    problems: dict[str, list[str]] = {}
    if config.get(SUPPORT, "").strip().lower() == "required":
        problems[SUPPORT] = ([] if enabled else [_NOT_ENABLED]) + _asked(lambda: _support(connector, config))
    if config.get(BOUNDARY, "").strip().lower() == Boundary.CONNECTOR.value:
        problems[BOUNDARY] = _asked(lambda: _boundaries(connector, config))
    return problems


def _support(connector: SourceConnector, config: Mapping[str, str]) -> list[str]:
    said = connector.exactly_once_support(config)
    if said is None:
        return [_SILENT]
    if said is ExactlyOnceSupport.SUPPORTED:
        return []
    return ["The connector does not support exactly-once semantics with the provided configuration."]


def _boundaries(connector: SourceConnector, config: Mapping[str, str]) -> list[str]:
    if connector.can_define_transaction_boundaries(config) is ConnectorTransactionBoundaries.SUPPORTED:
        return []
    return [
        "The connector does not support connector-defined transaction boundaries with the given configuration. "
        "Please reconfigure it to use a different transaction boundary definition."
    ]


def _asked(question: Callable[[], list[str]]) -> list[str]:
    try:
        return question()
    except BaseException as error:  # the connector's code
        log.exception("the exactly-once support of a connector cannot be determined")
        return [f"An unexpected error occurred during validation: {error}"]


# Every setting that a connector of a given configuration has, with the defaults that this worker would take.
#
# Common ones, a source's or a sink's, those of its transformations and predicates. The connector's own ones, its
# converters' and its clients' are not here. Java ``ConnectorConfig.enrichedConfigDef`` and ``enrich``.


CONVERTERS = ("header.converter", "key.converter", "value.converter")
VERSION = ".plugin.version"
_TYPES = {  # plug-in types that a setting may name; recommended ones first
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
    """Return the settings of a connector; those of a class that cannot be loaded are left out."""
    return ConfigDef(_with_default(key, deps, config) for key in declared_for(deps, config, sink=sink))


def declared_for(deps: HerderDependencies, config: Mapping[str, str], *, sink: bool) -> ConfigDef:
    """Return the same settings with the defaults that are declared, whatever this worker would take."""
    common, chain = common_to(deps, sink=sink), chain_config_def(config, deps.plugins.class_of)
    return ConfigDef((*common, *chain)) if len(chain) else common


def definition_without_version(deps: HerderDependencies, config: Mapping[str, str]) -> ConfigDef:
    """Return the definition to validate with if the wanted version of the plug-in is missing: the common settings."""
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


# Validation of the plug-ins that a connector names: presence, kind and version.
#
# Looks plug-ins up and makes converters, so never on the tick thread. Java ``AbstractHerder.validateConverterConfig``
# and ``PluginsRecommenders``.


_KINDS = {"header.converter": HeaderConverter, "key.converter": Converter, "value.converter": Converter}


def name_classes(plugins: PluginCatalog, definition: ConfigDef, findings: Findings) -> None:
    """Put the whole name in place of every alias, nothing in place of a class that is not there."""
    for key in definition:
        if key.type is not Type.CLASS or findings[key.name].value is None:
            continue
        found = known(plugins, findings[key.name].value)
        findings.change(key.name, value=None if found is None else found.java_class)


def check_converters(plugins: PluginCatalog, config: Mapping[str, str], findings: Findings) -> None:
    """Complain about missing classes, and classes other than converters, that the connector names as converters."""
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


# The settings that a plug-in declares: the answer to ``GET /connector-plugins/{plugin}/config``.
#
# Makes the plug-in, that is runs its own code, so never on the tick thread.
# Java ``AbstractHerder.connectorPluginConfig``.


# In the order of Java's sentence.
_SETTING_KINDS = ("sink", "source", "converter", "header_converter", "transformation", "predicate")


def plugin_settings(deps: HerderDependencies, name: str, version: str | None) -> list[ConfigKey]:
    """Return the settings of a plug-in, a connector's own ones first; ``version`` None: the newest.

    Raises NotFoundError: no such plug-in; BadRequestError: not of a kind that connectors configure, no such version.
    """
    plain = name.partition(VERSION_MARK)[0]
    try:
        found = deps.plugins.find(plain)
    except NotFoundError:
        if policy_name(plain):
            raise _of_no_connector(name) from None
        raise NotFoundError(f"Unknown plugin {name}.") from None
    if found.type not in _SETTING_KINDS:
        raise _of_no_connector(name)
    if version is not None:
        found = _of_version(deps, plain, found, version)
    made = found.cls()
    own: ConfigDef = made.config_def()
    if not isinstance(made, Connector):
        return list(own)
    return [*own, *(key for key in _common(deps, found) if key.name not in own)]


def _of_no_connector(name: str) -> BadRequestError:
    return BadRequestError(f"Invalid plugin class {name}. Valid types are {', '.join(_SETTING_KINDS)}.")


def _of_version(deps: HerderDependencies, name: str, found: PluginFacts, version: str) -> PluginFacts:
    if not version.strip():
        available = ", ".join(deps.plugins.versions(name))
        raise BadRequestError(
            f"Plugin {found.java_class} not found that matches the version range [,], available versions: [{available}]"
        )
    try:
        return deps.plugins.find(versioned(name, version))
    except NotFoundError as error:
        raise BadRequestError(str(error)) from error
    except BadConfigError:
        raise BadRequestError(f"Invalid version specification: {version}") from None


def _common(deps: HerderDependencies, found: PluginFacts) -> list[ConfigKey]:
    """Return what every connector of that kind has; the version's default is the one that would be taken."""
    common = common_to(deps, sink=kind_of(found.cls) is not TaskKind.SOURCE)
    newest = {"connector.plugin.version": found.version}
    return [replace(key, default=newest[key.name]) if key.name in newest else key for key in common]


# The mask that this product shows in place of secrets, sent back as a value: a secret would be lost by it.
#
# A configuration copied from the history, a diff or a log has ``[hidden]`` where a password was. Java stores that
# text as well, but never shows it in a configuration.


_MASKED = (
    f"is {HIDDEN}, the placeholder for a hidden value. Send the value itself or a reference to a config provider, "
    "or use PATCH, which leaves other settings unchanged"
)


def mask_problems(
    config: Mapping[str, str], stored: Mapping[str, str], secret: Collection[str]
) -> dict[str, list[str]]:
    """Return a complaint for each setting that is the mask. Pure.

    Args:
        config: the configuration as it was sent.
        stored: that of the same connector now; empty: there is none. A setting that is the mask there may stay so.
        secret: names of the settings that are declared to hold secrets.
    """
    return {
        name: [_MASKED]
        for name, value in config.items()
        if value == HIDDEN and _was_masked(name, stored.get(name), secret)
    }


def _was_masked(name: str, stored: str | None, secret: Collection[str]) -> bool:
    return stored != HIDDEN and (stored is not None or name in secret or named_like_secret(name))


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
    except BadConfigError as error:  # it is not a version
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
    for name, why in _all_doubts(deps, connector, own, config).items():
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
    connector = deps.plugins.class_of(named)()
    return _all_doubts(deps, connector, connector.config_def(), config)


def _all_doubts(
    deps: HerderDependencies, connector: Connector, own: ConfigDef, config: Mapping[str, str]
) -> dict[str, str]:
    return {**connector.doubts(config), **(own + chain_config_def(config, deps.plugins.class_of)).doubts(config)}


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
    """Return Java's rendering of a map. Without a class it is unknown what is secret: suspicious names are hidden."""
    return ", ".join(
        f"{key}={'[hidden]' if _SUSPICIOUS.search(key) else config[key]}" for key in java_hash_order(config, sized=True)
    )
