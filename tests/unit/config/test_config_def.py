"""ConfigDef: typed values, every problem at once, Java's words."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from spark_connect_rt.config.config_def import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    Importance,
    Password,
    Type,
    prefixed,
    text_of,
)
from spark_connect_rt.config.validators import AllOf, AtLeast, AtLeastOr, Between, java_regex, non_empty, one_of, unique
from spark_connect_rt.errors import BadConfigError


def key(name: str, kind: Type, default: Any = None, check: Any = lambda _: None) -> ConfigKey:
    return ConfigKey(name, kind, default, Importance.LOW, "doc", check)


DEFINITION = ConfigDef(
    [
        key("topic", Type.STRING, REQUIRED, non_empty),
        key("tasks.max", Type.INT, 1, AtLeast(1)),
        key("secret", Type.PASSWORD),
        key("names", Type.LIST, "", unique),
        key("on", Type.BOOLEAN, False),
        key("share", Type.DOUBLE, 0.5, Between(0, 1)),
        key("big", Type.LONG, 2**40),
        key("small", Type.SHORT, 3, AtLeastOr(1, -1)),
        key("mode", Type.STRING, "a", one_of("a", "b", ignore_case=True)),
    ]
)


def test_text_becomes_typed_values_and_defaults_fill_in() -> None:
    raw = {"topic": " t ", "names": "a, b", "on": "TRUE", "secret": "s3", "small": "-1"}
    values = DEFINITION.parse(raw)
    assert values == {
        "topic": "t",
        "tasks.max": 1,
        "secret": Password("s3"),
        "names": ["a", "b"],
        "on": True,
        "share": 0.5,
        "big": 2**40,
        "small": -1,
        "mode": "a",
    }
    assert "s3" not in repr(values)


def test_every_problem_is_reported_in_javas_words() -> None:
    raw = {"tasks.max": "x", "secret": "s3", "names": "a,a", "on": "maybe", "share": "2", "big": "1e3", "small": "0"}
    with pytest.raises(BadConfigError) as caught:
        DEFINITION.parse({**raw, "mode": "c"})
    assert {name: next(iter(why)) for name, why in caught.value.problems.items()} == {
        "topic": 'Missing required configuration "topic" which has no default value.',
        "tasks.max": "Invalid value x for configuration tasks.max: Not a number of type INT",
        "names": "Invalid value [a, a] for configuration names: Duplicate alias provided.",
        "on": "Invalid value maybe for configuration on: Expected value to be either true or false",
        "share": "Invalid value 2.0 for configuration share: Value must be between 0 and 1",
        "big": "Invalid value 1e3 for configuration big: Not a number of type LONG",
        "small": "Invalid value 0 for configuration small: Value must be at least 1, or -1 for the broker's default",
        "mode": "Invalid value c for configuration mode: String must be one of (case insensitive): a, b",
    }
    assert caught.value.problems["tasks.max"][1:] == [
        "Invalid value null for configuration tasks.max: Value must be non-null"
    ]


def test_validate_never_raises_and_keeps_what_only_a_check_refuses() -> None:
    findings = {
        config_value.name: config_value
        for config_value in DEFINITION.validate({"tasks.max": "0", "names": "b,b", "on": "maybe"})
    }
    assert findings["tasks.max"].errors == ("Invalid value 0 for configuration tasks.max: Value must be at least 1",)
    assert (findings["tasks.max"].value, findings["names"].value) == (0, ["b", "b"])
    assert findings["on"].errors
    assert findings["on"].value is None
    assert findings["topic"].errors
    assert findings["share"].value == 0.5


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (AtLeast(1), ["Invalid value null for configuration n: Value must be non-null"]),
        (one_of("a", "b"), ["Invalid value null for configuration n: String must be one of: a, b"]),
        (non_empty, []),
        (lambda value: None if value else "Empty", ["Invalid value null for configuration n: Empty"]),
    ],
)
def test_missing_value_is_also_checked_as_in_java(check: Any, said: list[str]) -> None:
    missing = 'Missing required configuration "the.n" which has no default value.'
    declared = replace(key("the.n", Type.STRING, REQUIRED, check), checked_as="n")
    assert ConfigDef([declared]).validate({})[0].errors == (missing, *said)


def test_secrets_stay_out_of_complaints() -> None:
    definition = ConfigDef([key("p", Type.PASSWORD, None, lambda _: "is weak")])
    assert definition.validate({"p": "hunter2"})[0].errors == ("Invalid value [hidden] for configuration p: is weak",)


def test_definitions_add_up_and_refuse_to_say_it_twice() -> None:
    other = ConfigDef([key("tasks.max", Type.LONG, 5), key("more", Type.STRING)])
    both = DEFINITION + other
    assert both.names() == (*DEFINITION.names(), "more")
    assert both["tasks.max"].default == 5
    assert "more" in both
    with pytest.raises(ValueError, match="declared twice"):
        ConfigDef([key("a", Type.STRING), key("a", Type.INT)])


@pytest.mark.parametrize(
    ("text", "kind", "good"),
    [("2147483647", Type.INT, True), ("2147483648", Type.INT, False), ("32768", Type.SHORT, False),
     ("1_0", Type.INT, False),
     ("-5", Type.LONG, True), ("", Type.INT, False), ("1.5", Type.DOUBLE, True), ("x", Type.DOUBLE, False)]
)  # fmt: skip
def test_numbers_have_javas_ranges(text: str, kind: Type, good: bool) -> None:
    assert bool(ConfigDef([key("n", kind, 1)]).validate({"n": text})[0].errors) is not good


def test_unknown_names_prefixes_and_text() -> None:
    assert DEFINITION.unknown({"topic": "t", "tpoic": "t", "spark.x": "1"}, ["spark."]) == ["tpoic"]
    assert prefixed({"a.b": "1", "b.a": "2"}, "a.") == {"b": "1"}
    assert [text_of(v) for v in (None, True, ["a", "b"], Password("x"), 5)] == [None, "true", "a,b", "[hidden]", "5"]
    assert AllOf((non_empty, java_regex))("(") is not None
    assert str(AllOf((AtLeast(1), Between(1, 2)))) == "[1,...] and [1,...,2]"


def test_required_stays_itself_through_pickling() -> None:
    assert pickle.loads(pickle.dumps(REQUIRED)) is REQUIRED


@pytest.mark.parametrize("name", ["http.batch.prefix", "http.batch.separator", "http.batch.suffix", "delimiter"])
def test_a_setting_whose_value_is_a_line_end_or_a_tab_keeps_it(name: str) -> None:
    from spark_connect_rt.connectors.files.delimited_settings import ROWS
    from spark_connect_rt.connectors.http.http_sink import CONFIG

    key = (ROWS if name == "delimiter" else CONFIG)[name]
    assert key.parse({name: "\t"}) == ("\t", [])
