"""Connectors that are refused when they are created: with every configuration that a validation finds wrong.

Taken from the validations (plugin_scripts) whose recorded answer holds errors and is ours, too; nothing is created.
"""

from __future__ import annotations

from typing import Any

from tests.parity.conversation import Ask, Step
from tests.parity.golden.recordings import recording
from tests.parity.golden.wanted_of_plugins import WANTED
from tests.parity.plugin_scripts import CHAINS, COMMON, CONVERTING, SINK, SINKS, SOURCE
from tests.parity.shared_trees import unpack

# Versions differ between the two; what is not there (docs/explanation/limits.md) is one more complaint of ours; the
# group of the workers is another one live.
_LEFT_OUT = ("version", "exactly-once", "topic groups", "the workers' group")


def _refused() -> set[str]:
    content = recording("plugins")
    said: list[dict[str, Any]] = unpack(content["trees"], content["answers"])["All"]
    return {
        answer["name"]
        for answer in said
        if answer["status"] == 200 and "configs" in answer["body"] and answer["body"]["error_count"]
    }


def _create(config: dict[str, str]) -> dict[str, Any]:
    return {"name": "a", "config": {name: value for name, value in config.items() if value is not None}}


def _asks() -> list[Ask]:
    refused = _refused() - set(WANTED)
    return [
        Ask(step.name.replace("validate", "create", 1), "POST", "/connectors", _create(step.body))
        for step in (*COMMON, *CONVERTING, *CHAINS, *SINKS)
        if step.name in refused and step.body["name"] == "a" and not any(word in step.name for word in _LEFT_OUT)
    ]


MANY = {
    "tasks.max": "0",
    "errors.tolerance": "some",
    "key.converter": "Nope",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "perhaps",
    "transforms": "t,u",
    "transforms.t.type": "RegexRouter",
    "transforms.t.regex": "a",
    "transforms.u.type": "Nope",
    "topic": "",
}
REFUSALS: tuple[Step, ...] = (
    *_asks(),
    Ask(
        "create sink in the workers' group",
        "POST",
        "/connectors",
        _create(SINK | {"consumer.override.group.id": "parity"}),
    ),
    Ask(
        "put config with many mistakes",
        "PUT",
        "/connectors/a/config",
        SINK | MANY | {"topics.regex": "x", "topic": "t"},
    ),
    Ask(
        "create with many mistakes",
        "POST",
        "/connectors",
        _create(SOURCE | {k: v for k, v in MANY.items() if k != "transforms"}),
    ),
)
