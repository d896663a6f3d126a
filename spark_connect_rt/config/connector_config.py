"""Settings that every connector has, and what may not stand beside what (Java ``ConnectorConfig``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connect_rt.config.config_def import HIGH, LOW, MEDIUM, REQUIRED, ConfigDef, ConfigKey, Type
from spark_connect_rt.config.connectrt_config import CONNECTOR, OF_SINKS_ONLY
from spark_connect_rt.config.dead_letter_config import dead_letter_problems
from spark_connect_rt.config.error_config import ERRORS
from spark_connect_rt.config.health_config import HEALTH
from spark_connect_rt.config.sink_config import OF_SINKS, sink_problems
from spark_connect_rt.config.source_config import OF_SOURCES, source_problems
from spark_connect_rt.config.validators import AtLeast, no_control_characters, one_of, unique
from spark_connect_rt.config.worker_config import PLUGIN_VERSION

_COMMON, _TRANSFORMS, _PREDICATES = "Common", "Transforms", "Predicates"

_CONNECTOR = ConfigDef(
    [
        ConfigKey(
            "name",
            Type.STRING,
            REQUIRED,
            HIGH,
            "Unique name of the connector.",
            no_control_characters,
            _COMMON,
            1,
            "MEDIUM",
            "Connector name",
        ),
        ConfigKey(
            "connector.class",
            Type.STRING,
            REQUIRED,
            HIGH,
            "Class of the connector: Java's full name, its alias, or package.module:Class.",
            group=_COMMON,
            order=2,
            width="LONG",
            display_name="Connector class",
        ),
        ConfigKey(
            "connector.plugin.version",
            Type.STRING,
            None,
            MEDIUM,
            PLUGIN_VERSION,
            group=_COMMON,
            order=3,
            width="MEDIUM",
            display_name="Connector version",
        ),
        ConfigKey(
            "tasks.max",
            Type.INT,
            1,
            HIGH,
            "Most tasks that the connector may have.",
            AtLeast(1),
            _COMMON,
            4,
            "SHORT",
            "Tasks max",
        ),
        ConfigKey(
            "tasks.max.enforce",
            Type.BOOLEAN,
            True,
            LOW,
            "true: fail a connector that creates more tasks than tasks.max. false: only log a warning.",
            group=_COMMON,
            order=5,
            width="SHORT",
            display_name="Enforce tasks max",
        ),
    ]
)


def _converter_keys(kind: str, holds: str, order: int) -> list[ConfigKey]:
    return [
        ConfigKey(
            f"{kind}.converter",
            Type.CLASS,
            None,
            LOW,
            f"Converter of {holds}. Not set: the worker's.",
            group=_COMMON,
            order=order,
            width="SHORT",
            display_name=f"{kind.capitalize()} converter class",
        ),
        ConfigKey(
            f"{kind}.converter.plugin.version",
            Type.STRING,
            None,
            LOW,
            PLUGIN_VERSION,
            group=_COMMON,
            order=order + 1,
            width="SHORT",
            display_name=f"{kind.capitalize()} converter version",
        ),
    ]


_CONVERTERS = ConfigDef(
    [
        *_converter_keys("key", "keys", 6),
        *_converter_keys("value", "values", 8),
        *_converter_keys("header", "headers", 10),
    ]
)
_CHAIN = ConfigDef(
    [
        ConfigKey(
            "transforms",
            Type.LIST,
            "",
            LOW,
            "Aliases of the transformations, in order. Configure each with transforms.<alias>.",
            unique,
            _TRANSFORMS,
            12,
            "LONG",
            "Transforms",
        ),
        ConfigKey(
            "predicates",
            Type.LIST,
            "",
            LOW,
            "Aliases of the predicates that transformations can use. Configure each with predicates.<alias>.",
            unique,
            _PREDICATES,
            13,
            "LONG",
            "Predicates",
        ),
        ConfigKey(
            "config.action.reload",
            Type.STRING,
            "restart",
            LOW,
            "What to do when a config provider's value changes.",
            one_of("none", "restart"),
            _COMMON,
            14,
            "MEDIUM",
            "Reload Action",
        ),
    ]
)

COMMON = _CONNECTOR + _CONVERTERS + _CHAIN + ERRORS
SOURCE = COMMON + OF_SOURCES + CONNECTOR + HEALTH
SINK = COMMON + OF_SINKS + CONNECTOR + OF_SINKS_ONLY + HEALTH

PASSED_ON = (
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "transforms.",
    "predicates.",
    "topic.creation.",
    "producer.override.",
    "consumer.override.",
    "admin.override.",
    "spark.",
)


NULL_VALUE = "Null value can not be supplied as the configuration value."  # Java's sentence


def unknown_class(setting: str, name: str) -> str:
    """Return Java's sentence about a class that is not found."""
    return f"Invalid value {name} for configuration {setting}: Class {name} could not be found."


def wrong_class(name: str, word: str) -> str:
    """Return Java's sentence about a class of another kind; ``word``: Converter, Transformation ..."""
    return f"Class class {name} does not implement the {word} interface"


def connector_problems(config: Mapping[str, Any], *, sink: bool, worker_group: str) -> dict[str, list[str]]:
    """Return what no single setting of a connector shows: setting -> complaints.

    Args:
        config: the connector's settings, references resolved.
        sink: whether its class is a sink's.
        worker_group: the worker's ``group.id``; empty: it is in none.
    """
    if sink:
        return sink_problems(config, worker_group or None)
    return {**source_problems(config), **dead_letter_problems(config)}
