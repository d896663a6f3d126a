"""Plug-ins and their settings are those of Java 4.1.1, as its REST API showed them."""

from __future__ import annotations

from typing import Any

import pytest

from spark_connect_rt.app.plugin_scan import bundled_plugins
from spark_connect_rt.config.config_def import ConfigKey, parse_value, text_of
from spark_connect_rt.plugins.registry import SINK, SOURCE
from tests.parity.golden.recordings import recording
from tests.parity.plugin_scripts import FILE_CONNECTORS, TEST_CONNECTORS
from tests.parity.shared_trees import unpack

CONTENT = recording("plugins")
ANSWERS: dict[str, dict[str, Any]] = {
    group: {one["name"]: one for one in said} for group, said in unpack(CONTENT["trees"], CONTENT["answers"]).items()
}
FACTS = ("type", "required", "default_value", "importance", "group", "order", "width", "display_name", "dependents")
CHAIN = sorted(name for name in ANSWERS["All"] if name.startswith("settings of org.apache.kafka.connect.transforms."))


def facts(key: ConfigKey) -> tuple[Any, ...]:
    default = None if key.required else text_of(parse_value(key.type, key.default))
    shown = key.display_name or key.name
    importance = key.importance.value
    group, dependents = key.group, list(key.dependents)
    return key.type.value, key.required, default, importance, group, key.order, key.width, shown, dependents


def test_the_list_holds_what_javas_holds_in_its_order() -> None:
    java = [(one["class"], one["type"]) for one in ANSWERS["All"]["list ?connectorsOnly=false"]["body"]]
    ours = [(one.java_class, one.type) for one in bundled_plugins().list(connectors_only=False)]
    assert [one for one in ours if one in java] == java
    more = [kind for name, kind in ours if (name, kind) not in java]
    assert set(more) <= {SINK, SOURCE}


def test_javas_connectors_are_listed_and_its_test_connectors_are_not() -> None:
    listed = {one["class"] for one in ANSWERS["All"]["list plainly"]["body"]}
    assert listed == set(FILE_CONNECTORS)
    assert not listed & set(TEST_CONNECTORS)


@pytest.mark.parametrize("name", CHAIN)
def test_transformations_and_predicates_declare_what_java_declares(name: str) -> None:
    made = bundled_plugins().class_of(name.removeprefix("settings of "))()
    java = {one["name"]: tuple(one[fact] for fact in FACTS) for one in ANSWERS["All"][name]["body"]}
    assert {key.name: facts(key) for key in made.config_def()} == java


@pytest.mark.parametrize("name", [one for one in TEST_CONNECTORS if not one.endswith(".MockConnector")])
def test_test_connectors_declare_nothing_of_their_own(name: str) -> None:
    answers = ANSWERS["test connectors"]
    found = answers[f"settings of {name}"]["body"]
    files = FILE_CONNECTORS[1 if "Sink" in name else 0]
    own = {"file", "topic", "batch.size"}
    common = [one["name"] for one in ANSWERS["All"][f"settings of {files}"]["body"] if one["name"] not in own]
    assert [one["name"] for one in found] == common
    assert bundled_plugins().class_of(name)().config_def().names() == ()
