"""What a Java connector's tasks need on an executor: jars, heap and options of their JVM (JavaCode).

Pure, but for the look-up of plug-ins.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from spark_connect_rt.api.config_provider import Resolve
from spark_connect_rt.api.connector import Connector
from spark_connect_rt.api.plugin_modules import of_runtime, versioned
from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.config.connectrt_config import JAVA_HEAP, JAVA_OPTIONS
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.config.worker_settings import WorkerConfig
from spark_connect_rt.engine.java_code import JavaCode, JavaConnector
from spark_connect_rt.errors import BadConfigError, NotFoundError
from spark_connect_rt.plugins.interfaces import PluginCatalog
from spark_connect_rt.runtime.worker.launches import ConnectorFacts, connector_facts, new_connector

_CONVERTERS = ("key.converter", "value.converter", "header.converter")


def facts_of(stored: StoredConfig, worker: WorkerConfig, plugins: PluginCatalog, resolve: Resolve) -> ConnectorFacts:
    """Return what a new, unstarted instance says of its tasks. Blocks; raises what providers or its own code raise."""
    config = stored.resolved(resolve)
    connector = new_connector(plugins, config)
    return connector_facts(connector, config, java_code(connector, config, worker, plugins))


def java_code(
    connector: Connector, config: Mapping[str, str], worker: WorkerConfig, plugins: PluginCatalog
) -> JavaCode | None:
    """Return what hosts the tasks of a connector of this resolved configuration; None: it is in Python.

    Raises BadConfigError: the options of the JVM cannot be read.
    """
    if not isinstance(connector, JavaConnector):
        return None
    others = (_java_place(plugins, name, version) for name, version in _chain(config, worker.raw))
    places = {location: content for location, content in others if location} | {connector.location: connector.content}
    locations = dict.fromkeys([connector.location, *places])
    return JavaCode(
        plugins=tuple(locations),
        contents=tuple(places[location] for location in locations),
        heap=config.get(JAVA_HEAP) or worker.plugins.connectrt_java_heap,
        options=_options(config.get(JAVA_OPTIONS) or worker.plugins.connectrt_java_options),
        alone=config.get("connectrt.isolation", "").strip().lower() == "process",
        connector_class=connector.java_class,
        connector_version=connector.version(),
    )


def _options(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise BadConfigError({JAVA_OPTIONS: [f"{text} is not a valid list of options: {error}"]}) from error


def _chain(config: Mapping[str, str], worker: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Yield (class, version) of the converters, transformations and predicates of a connector."""
    for setting in _CONVERTERS:
        chosen = config if config.get(setting) else worker
        if chosen.get(setting):
            yield chosen[setting], chosen.get(f"{setting}.plugin.version")
    for setting in ("transforms", "predicates"):
        for alias in parse_value(Type.LIST, config.get(setting) or ""):
            name = config.get(f"{setting}.{alias}.type")
            if name:
                yield name, config.get(f"{setting}.{alias}.plugin.version")


def _java_place(plugins: PluginCatalog, name: str, version: str | None) -> tuple[str, str]:
    """Return where the jars of a plug-in are, and their digest; empty: in Connect's own, or it is in Python."""
    try:
        found = plugins.find(versioned(of_runtime(name, "java"), version))
    except (NotFoundError, BadConfigError):
        return "", ""
    return found.location, found.content
