"""Our declarations of Kafka Connect's settings are what Java 4.1.1 declares."""

from __future__ import annotations

from typing import Any

import pytest

from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, parse_value, text_of
from spark_connect_rt.config.connector_config import SINK, SOURCE
from spark_connect_rt.config.management_config import HEALTH
from spark_connect_rt.config.worker_settings import DISTRIBUTED
from tests.parity.golden.recordings import recording

JAVA = recording("settings")
OWN_SETTINGS_OF_THE_PLUGIN = {"file", "topic", "batch.size"}
FROM_THE_WORKER = {  # Java shows what the asked worker would use
    "key.converter",
    "value.converter",
    "header.converter",
    "connector.plugin.version",
    "key.converter.plugin.version",
    "value.converter.plugin.version",
    "header.converter.plugin.version",
}
OF_KAFKA_CLIENTS = ("ssl.", "sasl.")  # go to the clients as they are; ssl.client.auth is REST's


@pytest.mark.parametrize(("kind", "definition"), [("source", SOURCE), ("sink", SINK)])
def test_connector_settings_are_declared_like_javas(kind: str, definition: ConfigDef) -> None:
    theirs = {name: facts for name, facts in JAVA[kind].items() if name not in OWN_SETTINGS_OF_THE_PLUGIN}
    assert {name: connector_facts(definition[name]) for name in theirs if name in definition} == {
        name: expected(name, facts) for name, facts in theirs.items()
    }


@pytest.mark.parametrize(("kind", "definition"), [("source", SOURCE), ("sink", SINK)])
def test_connector_settings_come_in_javas_order_and_ours_last(kind: str, definition: ConfigDef) -> None:
    theirs = [name for name in JAVA[kind] if name not in OWN_SETTINGS_OF_THE_PLUGIN]
    ours = ["connectrt.isolation", "connectrt.runtime", "connectrt.java.heap", "connectrt.java.options"]
    ours += ["connectrt.errors.put.refusals.max", "tasks.max.auto"] if kind == "sink" else []
    assert list(definition.names()) == [*theirs, *ours, *HEALTH.names()]


def test_worker_settings_are_declared_like_javas() -> None:
    theirs = {
        name: facts
        for name, facts in JAVA["worker"].items()
        if not name.startswith(OF_KAFKA_CLIENTS) or name == "ssl.client.auth"
    }
    assert {name: worker_facts(DISTRIBUTED[name]) for name in theirs if name in DISTRIBUTED} == {
        name: (facts["type"], typed_default(name, facts["default"]), facts["importance"])
        for name, facts in theirs.items()
    }


def connector_facts(key: ConfigKey) -> dict[str, Any]:
    return {
        "type": key.type.value,
        "required": key.required,
        "default_value": "the worker's" if key.name in FROM_THE_WORKER else text_of(parsed_default(key)),
        "importance": key.importance.value,
        "group": key.group,
        "order": key.order,
        "width": key.width,
        "display_name": key.display_name,
    }


def expected(name: str, facts: dict[str, Any]) -> dict[str, Any]:
    return {**facts, "default_value": "the worker's"} if name in FROM_THE_WORKER else facts


def worker_facts(key: ConfigKey) -> tuple[str, Any, str]:
    return key.type.value, "required" if key.required else parsed_default(key), key.importance.value


def typed_default(name: str, text: str) -> Any:
    if DISTRIBUTED[name].default is REQUIRED and text == "":
        return "required"
    return None if text == "null" else parse_value(DISTRIBUTED[name].type, "" if text == '""' else text)


def parsed_default(key: ConfigKey) -> Any:
    return None if key.required else parse_value(key.type, key.default)
