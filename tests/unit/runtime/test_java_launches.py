"""What the tasks of a Java connector are launched with; what stands for the connector says it in place of a JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from spark_connect_rt.api.connector import SinkConnector
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.config_def import ConfigDef, ConfigValue
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.engine.executor.control_wire import decode_launch, encode_launch
from spark_connect_rt.engine.task_runner import JavaCode, JavaConnector, TaskKind
from spark_connect_rt.errors import BadConfigError, NotFoundError
from spark_connect_rt.runtime.herder.dependencies import resolve_nothing
from spark_connect_rt.runtime.worker.java_launches import facts_of
from spark_connect_rt.runtime.worker.launches import TaskSpec, make_launch, task_class_namer
from spark_connect_rt.testing.memory_connectors import MemorySource
from spark_connect_rt.testing.worker_settings import worker_settings

WORKER = {
    "value.converter": "com.example.AvroConverter",
    "connectrt.java.heap": "300m",
    "connectrt.java.options": "-Da=1",
}


class Orders(JavaConnector, SinkConnector):
    """A Java connector of the test's own."""

    java_class = "com.example.Orders"
    location = "/plugins/orders"
    content = "d1"
    java_task_class = "com.example.OrdersTask"
    executor_task_class = "hosting.module:Hosts"

    def version(self) -> str:
        return "2.1"

    def config_def(self) -> ConfigDef:
        return ConfigDef()

    def config_values(self, config: Mapping[str, str]) -> Sequence[ConfigValue]:
        return []

    def task_class(self) -> type[Any]:
        raise NotImplementedError

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return []


@dataclass(frozen=True)
class Found:
    cls: type[Any]
    java_class: str = ""
    location: str = ""
    type: str = "sink"
    version: str | None = "1"
    is_java: bool = True
    content: str = ""


class Catalog:
    """Port PluginCatalog: names as they are looked up -> what is found."""

    def __init__(self, **found: Found) -> None:
        self.found = found

    def find(self, name: str) -> Found:
        if name not in self.found:
            raise NotFoundError(name)
        return self.found[name]

    def class_of(self, name: str) -> type[Any]:
        return self.find(name).cls

    def versions(self, name: str) -> Sequence[str]:
        return []

    def list(self, connectors_only: bool) -> Sequence[Found]:
        return []


CATALOG = Catalog(
    **{
        "Orders": Found(Orders, "com.example.Orders", "/plugins/orders"),
        "Memory": Found(MemorySource, is_java=False),
        "com.example.AvroConverter%java": Found(object, location="/plugins/avro", content="d2"),
        "com.example.Route%java@[1,2)": Found(object, location="/plugins/routes.jar", content="d3"),
        "com.example.Cut%java": Found(object, location="/plugins/orders", content="d1"),
    }
)


def config(**more: str) -> dict[str, str]:
    return {"name": "o", "connector.class": "Orders", "topics": "t"} | {n.replace("_", "."): v for n, v in more.items()}


def test_the_connectors_jars_come_first_then_those_of_its_chain_once_each() -> None:
    chain = {
        "transforms": "cut, route,cast",
        "transforms.cut.type": "com.example.Cut",
        "transforms.route.type": "com.example.Route",
        "transforms.route.plugin.version": "[1,2)",
        "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Key",  # Connect's own, or Python's
    }
    found = facts_of(StoredConfig(config() | chain), worker_settings(WORKER), CATALOG, resolve_nothing).java
    assert found == JavaCode(
        plugins=("/plugins/orders", "/plugins/avro", "/plugins/routes.jar"),
        heap="300m",
        options=("-Da=1",),
        connector_class="com.example.Orders",
        connector_version="2.1",
        contents=("d1", "d2", "d3"),
    )


def test_heap_options_and_isolation_are_the_connectors_where_it_says_so() -> None:
    own = {"connectrt.java.heap": "1g", "connectrt.java.options": "-Db='x y' -ea", "connectrt.isolation": "Process"}
    found = facts_of(
        StoredConfig(config(value_converter="StringConverter") | own), worker_settings(WORKER), CATALOG, resolve_nothing
    ).java
    assert found is not None
    assert (found.plugins, found.heap, found.options, found.alone) == (
        ("/plugins/orders",),
        "1g",
        ("-Db=x y", "-ea"),
        True,
    )
    with pytest.raises(BadConfigError, match=r"connectrt\.java\.options"):
        facts_of(
            StoredConfig(config() | {"connectrt.java.options": "'"}), worker_settings(WORKER), CATALOG, resolve_nothing
        )


def test_the_topic_names_javas_task_and_the_launch_what_hosts_it() -> None:
    worker = worker_settings(WORKER)
    facts = facts_of(StoredConfig(config()), worker, CATALOG, resolve_nothing)
    assert (facts.kind, facts.task_class, facts.version) == (TaskKind.SINK, "hosting.module:Hosts", "2.1")
    assert task_class_namer(CATALOG, StoredConfig(config()), resolve_nothing)(Orders()) == "com.example.OrdersTask"
    launch = make_launch(
        TaskSpec(ConnectorTaskId("o", 0), StoredConfig(config()), StoredConfig(config())), facts, worker, 1, 1
    )
    assert launch.java == facts.java
    assert decode_launch(encode_launch(launch)).java == facts.java


def test_a_connector_in_python_needs_no_jvm() -> None:
    assert (
        facts_of(StoredConfig({"connector.class": "Memory"}), worker_settings(WORKER), CATALOG, resolve_nothing).java
        is None
    )
