"""Makes the engine's input for a task, TaskLaunch, from configurations and the connector's class."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.api.config_provider import Resolve
from spark_connect_rt.api.connector import Connector, SinkConnector, SparkSinkConnector
from spark_connect_rt.api.plugin_modules import PLUGIN_SETTINGS, connector_plugin, public_module
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.client_properties import (
    connector_admin_properties,
    dead_letter_admin_properties,
    dead_letter_producer_properties,
    exactly_once_producer_properties,
    ignored_overrides,
    sharing,
    sink_consumer_properties,
    source_producer_properties,
)
from spark_connect_rt.config.connector_config import TOPIC_NAME
from spark_connect_rt.config.override_policy import endpoints_in
from spark_connect_rt.config.programs import PROGRAMS
from spark_connect_rt.config.secrets import secret_names
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.config.topic_creation import asks_for_topics
from spark_connect_rt.config.worker_settings import WorkerConfig, offsets_topic
from spark_connect_rt.engine.task_runner import JavaCode, JavaConnector, TaskKind, TaskLaunch
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.plugins.interfaces import PluginCatalog
from spark_connect_rt.runtime.worker.worker_sink_task import SUBSCRIPTION, SinkSettings

log = logging.getLogger(__name__)

# Worker settings an executor needs; the rest (secrets of the REST listener ...) does not leave the driver.
_FOR_EXECUTORS = (
    "key.converter",
    "value.converter",
    "header.converter",
    "config.providers",
    "connectrt.oauth.",
    PROGRAMS,
)

_APACHE, _CONNECTOR = "org.apache.kafka.", "Connector"


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """The input for a task's launch: its configuration, and that of the connector it was generated from."""

    task: ConnectorTaskId
    task_config: StoredConfig
    connector_config: StoredConfig
    paused: bool = False


@dataclass(frozen=True, slots=True)
class ConnectorFacts:
    """Facts about a connector's tasks, as its class and an unstarted instance report them.

    ``settings``: the connector's, references resolved, for what the driver itself obeys; they do not leave it.
    """

    settings: Mapping[str, str]
    kind: TaskKind
    task_class: str  # package.module:ClassName
    version: str
    secret_settings: tuple[str, ...] = ()  # names of the settings that hold secrets
    java: JavaCode | None = None  # of a Java connector's tasks


def connector_facts(connector: Connector, settings: Mapping[str, str], java: JavaCode | None = None) -> ConnectorFacts:
    """Ask an unstarted instance. Raises what the connector's own code raises.

    Args:
        connector: the instance.
        settings: its configuration, references resolved.
        java: the Java code that its tasks need, None for Python tasks.
    """
    return ConnectorFacts(
        settings,
        kind_of(type(connector)),
        task_class_name(connector),
        version_of(connector) or "",
        secret_settings(connector),
        java,
    )


def version_of(connector: Connector) -> str | None:
    """Return what a connector says of its version, as a text; None as in Java: it says nothing."""
    version: object = connector.version()
    return None if version is None else str(version)


def task_class_name(connector: Connector) -> str:
    """Return ``package.module:ClassName`` of what runs on executors."""
    if isinstance(connector, JavaConnector):
        return connector.executor_task_class
    return executor_name(connector.task_class())


def kind_of(connector_class: type[Any]) -> TaskKind:
    """Return how tasks of this connector class are hosted."""
    if issubclass(connector_class, SparkSinkConnector):
        return TaskKind.SPARK_SINK
    return TaskKind.SINK if issubclass(connector_class, SinkConnector) else TaskKind.SOURCE


def make_launch(
    spec: TaskSpec, connector: ConnectorFacts, worker: WorkerConfig, run: int, generation: int
) -> TaskLaunch:
    """Return the launch of a task of this connector."""
    kind, texts, settings = connector.kind, spec.connector_config.written(), connector.settings
    exactly_once = kind is TaskKind.SOURCE and worker.group.exactly_once
    properties = source_producer_properties if kind is TaskKind.SOURCE else sink_consumer_properties
    if exactly_once:
        properties = exactly_once_producer_properties
        for sentence in ignored_overrides(worker, settings, spec.task.connector, spec.task.task):
            log.warning("task=%s %s", spec.task, sentence)
    return TaskLaunch(
        task=spec.task,
        run=run,
        generation=generation,
        kind=kind,
        task_class=connector.task_class,
        config=spec.task_config,
        connector_config=spec.connector_config,
        worker_config=executor_worker_config(worker),
        client_config={
            **properties(worker, texts, spec.task.connector, spec.task.task),
            **(sharing(worker, texts) if kind is TaskKind.SOURCE and not exactly_once else {}),
        },
        paused=spec.paused,
        flush=worker.flush,
        offsets_topic=offsets_topic(worker, settings) if exactly_once else "",
        topic_admin=_topic_admin(spec, texts, worker) if kind is TaskKind.SOURCE else {},
        secret_settings=connector.secret_settings,
        java=connector.java,
        isolation=settings.get("connectrt.isolation") or "auto",
        fused=worker.engine.connectrt_fused,
        **_dead_letter_clients(spec, settings, worker),
    )


def executor_worker_config(worker: WorkerConfig) -> dict[str, str]:
    """Return what executors see of a worker's settings."""
    return {k: v for k, v in worker.raw.items() if k.startswith(_FOR_EXECUTORS)} | endpoints_in(worker.raw)


def secret_settings(connector: Connector) -> tuple[str, ...]:
    """Return which settings of a connector hold secrets; none where it cannot say."""
    try:
        return secret_names(connector.config_def())
    except BaseException:
        log.warning(
            "%s cannot list its settings, so its passwords are not hidden", type(connector).__name__, exc_info=True
        )
        return ()


def _topic_admin(spec: TaskSpec, texts: Mapping[str, str], worker: WorkerConfig) -> dict[str, str]:
    """Return the properties of the client that makes a source's topics, none where topics are not made."""
    if not (worker.runtime.topic_creation_enable and asks_for_topics(texts)):
        return {}
    return connector_admin_properties(worker, texts, spec.task.connector, spec.task.task)


def _dead_letter_clients(
    spec: TaskSpec, settings: Mapping[str, str], worker: WorkerConfig
) -> dict[str, Mapping[str, str]]:
    """Return the properties of the dead letter queue's clients, none where there is no queue."""
    if not settings.get(TOPIC_NAME, "").strip():
        return {}
    parts = (worker, spec.connector_config.written(), spec.task.connector, spec.task.task)
    return {
        "dead_letter_producer": dead_letter_producer_properties(*parts),
        "dead_letter_admin": dead_letter_admin_properties(*parts),
    }


def new_connector(plugins: PluginCatalog, config: Mapping[str, str]) -> Connector:
    """Return a new, unstarted instance. Raises NotFoundError, BadConfigError (not a connector)."""
    cls = plugins.class_of(connector_plugin(config))
    if not issubclass(cls, Connector):
        raise BadConfigError({"connector.class": [f"{config.get('connector.class', '')} is not a connector"]})
    return cls()


def executor_name(task_class: type[Any]) -> str:
    """Return ``package.module:ClassName``, what an executor imports."""
    return f"{task_class.__module__}:{task_class.__qualname__}"


def stored_task_class(connector: Connector, java_class: str) -> str:
    """Return ``task.class`` as the config topic holds it: Java's where Java has the task, so that it runs there too.

    A Java connector says it. Apache's own connectors name their task classes alike: ``FileStreamSourceConnector``,
    ``FileStreamSourceTask``.
    """
    if isinstance(connector, JavaConnector):
        return connector.java_task_class
    if java_class.startswith(_APACHE) and java_class.endswith(_CONNECTOR):
        return java_class.removesuffix(_CONNECTOR) + "Task"
    task_class = connector.task_class()
    return f"{public_module(task_class.__module__)}:{task_class.__qualname__}"


def task_class_namer(plugins: PluginCatalog, config: StoredConfig, resolve: Resolve) -> Callable[[Connector], str]:
    """Return what names the task class of a connector of this configuration, as the config topic holds it."""
    return lambda made: stored_task_class(made, plugins.find(plugin_of(config, resolve)).java_class)


def plugin_settings(config: StoredConfig, resolve: Resolve) -> Mapping[str, str]:
    """Return what names a connector's plug-in. Raises what a provider raises."""
    return config.only(PLUGIN_SETTINGS).resolved(resolve)


def plugin_of(config: StoredConfig, resolve: Resolve) -> str:
    """Return the name under which a connector's plug-in is looked up. Raises what a provider raises."""
    return connector_plugin(plugin_settings(config, resolve))


def sink_settings(launch: TaskLaunch, resolve: Resolve) -> SinkSettings:
    """Return how the sink task's group membership works."""
    of_connector, of_task = launch.connector_config.only(SUBSCRIPTION), launch.config.only(SUBSCRIPTION)
    return SinkSettings(
        # Offsets are committed when they are durable, by the worker only, whatever is configured.
        consumer_config={**launch.client_config, "enable.auto.commit": "false"},
        resolve=resolve,
        subscription=StoredConfig({**of_connector.written(), **of_task.written()}),
        reports_generation=launch.java is not None,
    )
