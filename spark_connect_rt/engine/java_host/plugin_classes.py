"""Makes the Python class that stands for one Java plug-in: by its kind, where its jars are, and what it declares."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.engine.java_code import JavaCode
from spark_connect_rt.engine.java_host.connectors import JavaSinkConnector, JavaSourceConnector
from spark_connect_rt.engine.java_host.declarations import Complaint, declared
from spark_connect_rt.engine.java_host.driver_host import DriverHost
from spark_connect_rt.plugins.java_plugins import JavaPluginDesc

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
    """Tell whether plug-ins of a kind run here at all."""
    return kind in _CONNECTORS or kind in _STAGES


def _name(plugin: JavaPluginDesc) -> str:
    return plugin.java_class.rpartition(".")[2].replace("$", "_")
