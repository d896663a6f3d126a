"""The Python classes that stand for Java connectors: everything they are asked is asked of the driver's JVM.

One class is made per plug-in (``connector_class``); an instance is one Java instance from ``start`` to ``stop``, and
before that a new one for each question, as Connect has it.
"""

from __future__ import annotations

import importlib
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from spark_connect_rt.api.connector import (
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    SinkConnector,
    SourceConnector,
    SourceOffset,
)
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.config_def import ConfigDef, ConfigValue
from spark_connect_rt.engine.java_host.declarations import Complaint, declared, found
from spark_connect_rt.engine.java_host.driver_host import DriverHost, JavaError
from spark_connect_rt.engine.java_host.heartbeats import bean_key
from spark_connect_rt.engine.java_host.process import JavaHostGoneError
from spark_connect_rt.engine.task_runner import JavaCode, JavaConnector
from spark_connect_rt.errors import BadRequestError, ConnectError
from spark_connect_rt.plugins.java_plugins import JavaPluginDesc

_MIRROR = "org.apache.kafka.connect.mirror."
_UNSUPPORTED = "java.lang.UnsupportedOperationException"
_instances = itertools.count(1)

log = logging.getLogger(__name__)


class JvmConnector(JavaConnector):
    """The common part of sources and sinks. Methods are those of ``api.connector.Connector``."""

    host: ClassVar[DriverHost]
    place: ClassVar[str]
    content: ClassVar[str]  # digest of what is there
    class_name: ClassVar[str]
    described: ClassVar[Mapping[str, Any]]  # Java's answer: version, task_class, keys
    executor_class: ClassVar[str]
    context: Any

    config: dict[str, str]
    _instance = ""  # of a started one

    @property
    def java_class(self) -> str:
        """Return Java's name of the connector class."""
        return self.class_name

    @property
    def location(self) -> str:
        """Return where its jars are on the driver."""
        return self.place

    @property
    def java_task_class(self) -> str:
        """Return Java's name of the task class, as the JVM described it."""
        return str(self.described["task_class"])

    @property
    def executor_task_class(self) -> str:
        """Return ``package.module:Class`` of the class that hosts its tasks on an executor."""
        return self.executor_class

    def version(self) -> str:
        """Return what the connector says."""
        return str(self.described["version"])

    def config_def(self) -> ConfigDef:
        """Return the connector's own settings."""
        return declared(self.described["keys"])

    def task_class(self) -> type[Any]:
        """Refuse: ``executor_task_class`` names it, and only executors import it."""
        raise NotImplementedError("the tasks of a Java connector are named, not imported, on the driver")

    def config_values(self, config: Mapping[str, str]) -> Sequence[ConfigValue]:
        """Return the results of the connector's own validation. Raises BadRequestError if it refuses, ConnectError."""
        answer = self._ask("validate", config)
        if "refused" in answer:
            raise BadRequestError(answer["refused"])
        return found(answer["values"])

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Return the complaints of the connector's own validation."""
        return {
            config_value.name: list(config_value.errors)
            for config_value in self.config_values(config)
            if config_value.errors
        }

    def preview_obstacle(self, config: Mapping[str, str]) -> str | None:
        """Refuse MirrorMaker's connectors: their changes other than records cannot be rolled back."""
        return "it writes topics by itself" if self.class_name.startswith(_MIRROR) else None

    def start(self, config: Mapping[str, str]) -> None:
        """Start a Java instance. Raises JavaError, JavaHostGoneError."""
        self.config = dict(config)
        self._instance = f"{config.get('name', '')}#{next(_instances)}"
        self.host.keep(self._instance, self)
        try:
            self.host.ask("start", self.question(), instance=self._instance)
        except BaseException:
            self.host.forget(self._instance)
            raise

    def stop(self) -> None:
        """Stop it. Raises JavaError; one whose JVM is gone has stopped."""
        instance, self._instance = self._instance, ""
        if instance and self.host.forget(instance):
            try:
                self.host.ask("stop", instance=instance)
            except JavaHostGoneError:
                log.info("connector %s stopped with its JVM", instance)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Split the work. Raises JavaError, JavaHostGoneError: its JVM was lost, and it is asked again in another."""
        answer = self.host.ask("task_configs", {"tasks_max": max_tasks}, instance=self._instance)
        return [{name: value for name, value in config.items() if name != "task.class"} for config in answer]

    # The methods below are the calls of DriverHost (driver_host.Running).

    def question(self) -> Mapping[str, Any]:
        """Return the question that starts the connector."""
        return {
            **self._named(),
            "name": self.config.get("name", ""),
            "config": self.config,
        }

    def started_again(self) -> None:
        """Have the tasks configured again, because another JVM may have changed their number or settings."""
        self.context.request_task_reconfiguration()

    def failed(self, error: ConnectError) -> None:
        """Fail the connector, because it does not run any more."""
        self.context.raise_error(error)

    def asks_reconfiguration(self) -> None:
        """Have the tasks configured again, as the connector requested."""
        self.context.request_task_reconfiguration()

    def measured(self, beans: Sequence[Mapping[str, Any]]) -> None:
        """Hand the values of its MBeans to the connector's context."""
        self.context.measured({bean_key(bean): bean["value"] for bean in beans})

    def stored_offsets(self, partitions: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any] | None]:
        """Return what the worker has stored for this source."""
        return list(self.context.stored_offsets(partitions))

    def _ask(self, op: str, config: Mapping[str, str], **more: Any) -> Any:
        return self.host.ask(op, {**self._named(), "config": dict(config), **more})

    def _named(self) -> dict[str, Any]:
        return {"place": self.place, "content": self.content, "class": self.class_name}


class JavaSourceConnector(JvmConnector, SourceConnector):
    """A Java source connector, for which the driver's JVM answers."""

    executor_class = "spark_connect_rt.engine.java_host.source_task:JavaSourceTask"

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Return the Java connector's answer, None if it has none. Raises ConnectError."""
        support = self._ask("exactly_once", config)["answer"]
        return None if support is None else ExactlyOnceSupport[support]

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> ConnectorTransactionBoundaries:
        """Return the Java connector's answer, ``UNSUPPORTED`` if it has none. Raises ConnectError."""
        boundaries = self._ask("boundaries", config)["answer"]
        return ConnectorTransactionBoundaries[boundaries or "UNSUPPORTED"]

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Pass new source offsets to the Java class; return its answer. Raises ConnectError, NotImplementedError."""
        pairs = [[dict(partition or {}), offset] for partition, offset in offsets]
        return bool(_altered(lambda: self._ask("alter_offsets", config, offsets=pairs)))


class JavaSinkConnector(JvmConnector, SinkConnector):
    """A Java sink connector, for which the driver's JVM answers."""

    executor_class = "spark_connect_rt.engine.java_host.sink_task:JavaSinkTask"

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Pass new consumer offsets to the Java class; return its answer. Raises ConnectError, NotImplementedError."""
        triples = [[partition.topic, partition.partition, offset] for partition, offset in offsets.items()]
        return bool(_altered(lambda: self._ask("alter_offsets", config, offsets=triples)))


def _altered(question: Any) -> Any:
    """Ask; a connector whose offsets cannot be changed says so as Python's do."""
    try:
        return question()
    except JavaError as error:
        if error.java_class == _UNSUPPORTED:
            raise NotImplementedError(str(error)) from error
        raise


# Makes the Python class that stands for one Java plug-in: by its kind, where its jars are, and what it declares.


_CONNECTORS: Mapping[str, type[Any]] = {"source": JavaSourceConnector, "sink": JavaSinkConnector}
_STAGES = {  # kind -> what hosts it for a Python connector
    "transformation": "transformations:JavaTransformation",
    "predicate": "transformations:JavaPredicate",
    "converter": "converters:JavaConverter",
    "header_converter": "converters:JavaHeaderConverter",
    "configprovider": "config_providers:JavaConfigProvider",
}

Answer = Mapping[str, Any]


def connector_class(plugin: JavaPluginDesc, described: Answer, host: DriverHost) -> type[Any]:
    """Return the class of a connector; ``described`` is what its JVM says of it."""
    names = {
        "host": host,
        "place": plugin.location,
        "content": plugin.digest,
        "class_name": plugin.java_class,
        "described": described,
        "__doc__": f"Java's {plugin.java_class} of {plugin.location}.",
    }
    return type(_name(plugin), (_CONNECTORS[plugin.type],), names)


def stage_class(
    plugin: JavaPluginDesc,
    code: JavaCode,
    describe: Callable[[], Answer] | None = None,
    complaint: Complaint | None = None,
) -> type[Any]:
    """Return the class of a transformation, predicate or converter.

    ``describe`` and ``complaint`` ask for what it declares and what its checks say, where a JVM is at hand for that.
    """
    module, _, name = _STAGES[plugin.type].partition(":")
    base = getattr(importlib.import_module(f"spark_connect_rt.engine.java_host.stages.{module}"), name)
    names: dict[str, Any] = {
        "java_class": plugin.java_class,
        "java_code": code,
        "__doc__": f"Java's {plugin.java_class} of {plugin.location}.",
    }
    if describe is not None:
        asked = describe

        def config_def(_: Any) -> ConfigDef:
            return declared(asked()["keys"], complaint)

        names["config_def"] = config_def
    return type(_name(plugin), (base,), names)


def hosts(kind: str) -> bool:
    """Return whether plug-ins of a kind run here at all."""
    return kind in _CONNECTORS or kind in _STAGES


def _name(plugin: JavaPluginDesc) -> str:
    return plugin.java_class.rpartition(".")[2].replace("$", "_")
