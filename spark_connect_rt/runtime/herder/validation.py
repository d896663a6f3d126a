"""A connector configuration is checked whole, every problem at once, before it is written.

Runs the connector's own code, so never on the tick thread. Java ``AbstractHerder.validateConnectorConfig``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from spark_connect_rt.api.connector import Connector
from spark_connect_rt.api.plugin_modules import BROKEN_PLUGIN, versioned
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.config.connector_config import connector_problems
from spark_connect_rt.errors import BadConfigError, BadRequestError, NotFoundError
from spark_connect_rt.pipeline.chain_config import chain_problems
from spark_connect_rt.ports.task_runner import TaskKind
from spark_connect_rt.protocol.java_hash_order import java_hash_order
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.worker.launches import kind_of

CONVERTERS = ("key.converter", "value.converter", "header.converter")
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
    class_name = named.get("connector.class")
    if not class_name:
        raise BadRequestError(f"Connector config {{{_shown(named)}}} contains no connector type")
    try:
        connector_class = deps.plugins.class_of(versioned(class_name, named.get("connector.plugin.version")))
    except NotFoundError as error:
        raise BadRequestError(str(error)) from error
    problems = config_problems(deps, connector_class, named)
    if problems:
        raise BadConfigError(problems)
    return named


def config_problems(
    deps: HerderDependencies, connector_class: type[Connector], config: Mapping[str, str]
) -> dict[str, list[str]]:
    """Return every problem: setting -> messages. The connector's own code runs here."""
    connector = connector_class()
    resolved = deps.resolve(config)
    common = deps.source_config if kind_of(connector_class) is TaskKind.SOURCE else deps.sink_config
    own = connector.config_def()
    problems: dict[str, list[str]] = {}
    _collect(problems, own if common is None else common + own, resolved)
    _add_missing_classes(problems, deps, resolved)
    for key, messages in chain_problems(resolved, deps.plugins.class_of).items():
        problems.setdefault(key, messages)
    for key, messages in connector.validate(resolved).items():
        if messages:
            problems.setdefault(key, []).extend(messages)
    is_sink = kind_of(connector_class) is not TaskKind.SOURCE
    for key, messages in connector_problems(resolved, sink=is_sink, worker=deps.settings.raw).items():
        problems.setdefault(key, []).extend(messages)
    if deps.override_policy is not None:
        for key, message in deps.override_policy.problems(resolved).items():
            problems.setdefault(key, []).append(message)
    return problems


def _collect(problems: dict[str, list[str]], definition: ConfigDef, config: Mapping[str, str]) -> None:
    for value in definition.validate(config):
        if value.errors:
            problems.setdefault(value.name, []).extend(value.errors)


def _add_missing_classes(problems: dict[str, list[str]], deps: HerderDependencies, config: Mapping[str, str]) -> None:
    """Look up every converter, transformation and predicate that the connector names."""
    keys = [*CONVERTERS]
    for kind in ("transforms", "predicates"):
        aliases = (alias.strip() for alias in config.get(kind, "").split(","))
        keys += [f"{kind}.{alias}.type" for alias in aliases if alias]
    for key in keys:
        name = config.get(key)
        if name is None or key in problems:
            continue
        try:
            deps.plugins.class_of(versioned(name, config.get(_version_setting(key))))
        except NotFoundError as error:
            why = f" {error}" if error.code == BROKEN_PLUGIN else ""
            problems[key] = [f"Invalid value {name} for configuration {key}: Class {name} could not be found.{why}"]


def _version_setting(key: str) -> str:
    """Return where the version of the plug-in that ``key`` names is asked for (KIP-891)."""
    return f"{key.removesuffix('.type')}.plugin.version"


def _shown(config: Mapping[str, str]) -> str:
    """Return Java's rendering of a map. Without a class nobody can tell what is secret: suspicious names are hidden."""
    return ", ".join(
        f"{key}={'[hidden]' if _SUSPICIOUS.search(key) else config[key]}" for key in java_hash_order(config, sized=True)
    )
