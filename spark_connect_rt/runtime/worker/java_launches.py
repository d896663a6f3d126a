"""Needs of a Java connector's tasks on an executor: jars, heap and options of their JVM (JavaCode).

Pure, but for the look-up of plug-ins.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator, Mapping

from spark_connect_rt.api.config_provider import Resolve
from spark_connect_rt.api.connector import Connector
from spark_connect_rt.api.plugin_modules import of_runtime, versioned
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.config.connectrt_config import JAVA_HEAP, JAVA_OPTIONS
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.config.worker_settings import WorkerConfig
from spark_connect_rt.engine.task_runner import Expect, JavaCode, JavaConnector
from spark_connect_rt.errors import BadConfigError, NotFoundError
from spark_connect_rt.plugins.interfaces import PluginCatalog
from spark_connect_rt.runtime.worker.launches import (
    ConnectorFacts,
    connector_facts,
    executor_worker_config,
    new_connector,
)

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


# Tasks that are likely to start on this worker soon: the JVM of a Java connector's starts during its validation.
#
# A Java connector is asked in the driver's JVM what is wrong with it and what its tasks are; only then the JVM of its
# tasks would start. Owns when that is known beforehand.


log = logging.getLogger(__name__)


def comes_here(config: Mapping[str, str], members: int) -> bool:
    """Return whether one of a connector's tasks is likely to be this worker's: in a group of ``members`` that it leads.

    Tasks are dealt evenly: where there may be as many of them as there are workers, each gets one.
    """
    try:
        tasks_max = int(config.get("tasks.max") or "1")
    except ValueError:  # validation says so
        return False
    return 0 < members <= tasks_max


def expected(
    name: str, stored: StoredConfig, members: int, worker: WorkerConfig, plugins: PluginCatalog, resolve: Resolve
) -> Expect | None:
    """Return what the runner expects before a connector of this configuration is validated or starts; None: nothing.

    May block, as validation does, while providers and the plug-in are asked. Never raises.

    Args:
        name: the connector's.
        stored: its configuration, perhaps wrong.
        members: of the group, where this worker leads; 0: not known.
        worker: its settings.
        plugins: where the connector's class is found.
        resolve: looks references up.
    """
    try:
        config = stored.resolved(resolve)
        if not comes_here(config, members):
            return None
        code = java_code(new_connector(plugins, config), config, worker, plugins)
    except BaseException:  # the same is found again, and said, by validation
        log.debug("connector=%s too little is known to prepare for its tasks", name, exc_info=True)
        return None
    if code is None or code.alone:  # a task alone in a JVM starts that itself
        return None
    return Expect(ConnectorTaskId(name, 0), code, executor_worker_config(worker))
