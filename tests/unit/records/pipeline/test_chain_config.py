"""The settings of a chain: which are listed, and which complaints are reported before anything starts."""

from __future__ import annotations

import pytest

from spark_connect_rt.config.config_def import REQUIRED
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.records.pipeline.chain_config import chain_config_def, chain_problems

FIND = bundled_plugins().class_of
JAVA = "org.apache.kafka.connect.transforms"
GOOD = {
    "transforms": "route, drop",
    "transforms.route.type": "RegexRouter",
    "transforms.route.regex": "(.*)",
    "transforms.route.replacement": "$1",
    "transforms.drop.type": f"{JAVA}.Filter",
    "transforms.drop.predicate": "old",
    "transforms.drop.negate": "true",
    "predicates": "old",
    "predicates.old.type": "TopicNameMatches",
    "predicates.old.pattern": "old-.*",
}


def test_every_alias_has_its_own_settings() -> None:
    definition = chain_config_def(GOOD, FIND)
    assert definition.names()[:6] == (
        "transforms.route.type",
        "transforms.route.plugin.version",
        "transforms.route.regex",
        "transforms.route.replacement",
        "transforms.route.negate",
        "transforms.route.predicate",
    )
    assert definition["transforms.route.regex"].default is REQUIRED
    assert definition["predicates.old.pattern"].group == "Predicates: old"
    assert chain_problems(GOOD, FIND) == {}


@pytest.mark.parametrize(
    ("change", "setting", "word"),
    [
        ({"transforms.route.regex": "["}, "transforms.route.regex", "Invalid regex"),
        ({"transforms.route.type": "NoSuch"}, "transforms.route.type", "could not be found"),
        ({"transforms.route.type": ""}, "transforms.route.type", "could not be found"),
        ({"transforms.route.type": "StringConverter"}, "transforms.route.type", "not implement the Transformation"),
        ({"transforms.drop.predicate": "new"}, "transforms.drop.predicate", "predicate new does not exist"),
        ({"transforms.route.negate": "true"}, "transforms.route.type", "there is no config"),
        ({"transforms.drop.negate": "perhaps"}, "transforms.drop.negate", "true or false"),
        ({"predicates.old.pattern": ""}, "predicates.old.pattern", "non-empty"),
        (
            {"transforms": "in", "transforms.in.type": f"{JAVA}.InsertField$Value"},
            "transforms.in.topic.field",
            "No field insertion configured",
        ),
        (
            {"transforms": "h", "transforms.h.type": "HeaderFromValue", "transforms.h.fields": "a",
             "transforms.h.headers": "b,c", "transforms.h.operation": "move"},
            "transforms.h.headers", "same number of elements",
        ),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named(change: dict[str, str], setting: str, word: str) -> None:
    problems = chain_problems({**GOOD, **change}, FIND)
    assert list(problems) == [setting]
    assert word in problems[setting][0]


@pytest.mark.parametrize(("version", "word"), [("0.0.1", "not found that matches"), ("[1", "is no version")])
def test_a_wrong_version_is_an_error_of_the_version_and_of_the_class(version: str, word: str) -> None:
    problems = chain_problems({**GOOD, "transforms.drop.plugin.version": version}, FIND)
    assert list(problems) == ["transforms.drop.type", "transforms.drop.plugin.version"]
    assert all(word in why[0] for why in problems.values())


def test_missing_settings_are_all_reported() -> None:
    problems = chain_problems({"transforms": "a,b", "transforms.a.type": "RegexRouter"}, FIND)
    assert list(problems) == ["transforms.a.regex", "transforms.a.replacement", "transforms.b.type"]
