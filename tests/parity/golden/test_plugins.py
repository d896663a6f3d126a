"""Plug-ins, their settings and validations are those of Java 4.1.1, as its REST API showed them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from spark_connect_rt.config.config_def import ConfigKey, parse_value, text_of
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.plugins.registry import SINK, SOURCE
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from tests.parity.conversation import Ask
from tests.parity.golden.plugin_answers import answer_of, differences, errors_of, with_errors, worker_with
from tests.parity.golden.recordings import recording
from tests.parity.golden.wanted_of_plugins import WANTED
from tests.parity.plugin_scripts import (
    ABOUT_PLUGINS,
    FILE_CONNECTORS,
    OF_TEST_CONNECTORS,
    OVERRIDES,
    POLICIES,
    TEST_CONNECTORS,
)
from tests.parity.shared_trees import unpack

CONTENT = recording("plugins")
ANSWERS: dict[str, dict[str, Any]] = {
    group: {answer["name"]: answer for answer in said}
    for group, said in unpack(CONTENT["trees"], CONTENT["answers"]).items()
}
FACTS = ("type", "required", "default_value", "importance", "group", "order", "width", "display_name", "dependents")
ASKED: dict[str, tuple[Ask, ...]] = {
    "All": ABOUT_PLUGINS,
    **dict.fromkeys(POLICIES, OVERRIDES),
    "test connectors": OF_TEST_CONNECTORS,
}
CASES = [pytest.param(group, step, id=f"{group}: {step.name}") for group, steps in ASKED.items() for step in steps]
DIFFERENCES = Path(__file__).parents[3] / "docs" / "reference" / "differences.md"
CHAIN = sorted(name for name in ANSWERS["All"] if name.startswith("settings of org.apache.kafka.connect.transforms."))


def facts(key: ConfigKey) -> tuple[Any, ...]:
    default = None if key.required else text_of(parse_value(key.type, key.default))
    shown = key.display_name or key.name
    importance = key.importance.value
    group, dependents = key.group, list(key.dependents)
    return key.type.value, key.required, default, importance, group, key.order, key.width, shown, dependents


def test_the_list_holds_what_javas_holds_in_its_order() -> None:
    java = [(plugin["class"], plugin["type"]) for plugin in ANSWERS["All"]["list ?connectorsOnly=false"]["body"]]
    ours = [(plugin.java_class, plugin.type) for plugin in bundled_plugins().list(connectors_only=False)]
    assert [plugin for plugin in ours if plugin in java] == java
    more = [kind for name, kind in ours if (name, kind) not in java]
    assert set(more) <= {SINK, SOURCE, "converter"}


def test_javas_connectors_are_listed_and_its_test_connectors_are_not() -> None:
    listed = {plugin["class"] for plugin in ANSWERS["All"]["list plainly"]["body"]}
    assert listed == set(FILE_CONNECTORS)
    assert not listed & set(TEST_CONNECTORS)


@pytest.mark.parametrize("name", CHAIN)
def test_transformations_and_predicates_declare_what_java_declares(name: str) -> None:
    made = bundled_plugins().class_of(name.removeprefix("settings of "))()
    java = {setting["name"]: tuple(setting[fact] for fact in FACTS) for setting in ANSWERS["All"][name]["body"]}
    assert {key.name: facts(key) for key in made.config_def()} == java


@pytest.mark.parametrize(
    "name", [connector for connector in TEST_CONNECTORS if not connector.endswith(".MockConnector")]
)
def test_test_connectors_declare_no_additional_settings(name: str) -> None:
    answers = ANSWERS["test connectors"]
    found = answers[f"settings of {name}"]["body"]
    files = FILE_CONNECTORS[1 if "Sink" in name else 0]
    own = {"file", "topic", "batch.size"}
    common = [
        setting["name"] for setting in ANSWERS["All"][f"settings of {files}"]["body"] if setting["name"] not in own
    ]
    assert [setting["name"] for setting in found] == common
    assert bundled_plugins().class_of(name)().config_def().names() == ()


@pytest.fixture(scope="module")
def workers() -> Iterator[dict[str, ASGIApp]]:
    with InProcessCluster() as cluster:
        cluster.add_worker()
        policies = {group: group if group in POLICIES else "All" for group in ASKED}
        yield {group: worker_with(cluster, policy) for group, policy in policies.items()}


@pytest.mark.parametrize(("group", "step"), CASES)
def test_ours_answers_what_java_answers(workers: dict[str, ASGIApp], group: str, step: Ask) -> None:
    java, wanted = ANSWERS[group][step.name], WANTED.get(step.name)
    ours = answer_of(workers[group], step)
    if wanted is None:
        assert (ours["status"], differences(ours["body"], java["body"])) == (java["status"], [])
        return
    assert ours["status"] == (wanted.status or java["status"])
    assert (ours["status"], ours["body"]) != (java["status"], java["body"]), "no difference is left: take it off"
    if not wanted.status:
        assert differences(ours["body"], with_errors(java["body"], wanted.errors)) == []
    elif wanted.same_as is not None:
        assert ours == answer_of(workers[group], wanted.same_as)
    elif wanted.errors:
        assert {name: found[:1] for name, found in errors_of(ours["body"]).items()} == wanted.errors
    else:
        assert ours["body"]["message"].startswith(wanted.begins)


def test_every_recorded_answer_is_compared() -> None:
    assert {group: list(said) for group, said in ANSWERS.items()} == {
        group: [step.name for step in steps] for group, steps in ASKED.items()
    }
    assert sum(map(len, ANSWERS.values())) == 246


def test_every_wanted_difference_shows_and_is_documented() -> None:
    rows = set(re.findall(r"^\| \*\*(.+?)\*\* ?\|", DIFFERENCES.read_text("utf-8"), re.MULTILINE))
    assert {wanted.heading for wanted in WANTED.values()} <= rows
    assert set(WANTED) <= {step.name for steps in ASKED.values() for step in steps}
