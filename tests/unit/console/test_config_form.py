"""A validation's answer becomes a form: groups, controls, complaints; and no secret gets into it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_connect_rt.console.config_form import (
    FIRST,
    OTHER,
    OWN,
    FormField,
    form_of,
    hidden,
    is_secret_name,
    json_text,
    read_json,
    restored,
)
from tests.parity.golden.recordings import recording
from tests.parity.shared_trees import unpack


def setting(name: str, kind: str = "STRING", **parts: Any) -> dict[str, Any]:
    finding = {key: parts.pop(key) for key in ("errors", "recommended_values", "visible") if key in parts}
    definition = {"name": name, "type": kind, "required": False, "default_value": None, "importance": "LOW"}
    definition |= {"documentation": "What it does.", "group": None, "display_name": name, "order": -1, **parts}
    return {"definition": definition, "value": {"name": name, "value": None, "errors": [], "visible": True} | finding}


def answer(*configs: dict[str, Any], groups: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"name": "x", "error_count": 0, "groups": list(groups), "configs": list(configs)}


def only(*configs: dict[str, Any], **given: str) -> FormField:
    [field] = form_of(answer(*configs), given).fields()
    return field


def test_required_and_important_settings_come_first_and_others_are_folded() -> None:
    configs = (
        setting("errors.tolerance", group="Error Handling"),
        setting("batch.size"),
        setting("table", importance="HIGH"),
        setting("url", required=True),
        setting("db.ssl", group="Database"),
        setting("name", group="Common", order=1, required=True),
        setting("tasks.max", group="Common", order=3, importance="HIGH"),
        setting("connector.class", group="Common", order=2, required=True),
        setting("transforms.a.type", "CLASS", group="Transforms: a", required=True),
        setting("value.converter.schemas.enable", "BOOLEAN"),
        setting("value.converter.converter.type", required=True),
        setting("producer.override.linger.ms"),
    )
    given = {"name": "x", "connector.class": "C", "stranger": "1", "errors.tolerance": "all"}
    groups = ("Error Handling", "Common", "Database", "Transforms: a")
    form = form_of(answer(*configs, groups=groups), given)
    assert {group.name: [field.name for field in group.fields] for group in form.groups} == {
        FIRST: ["name", "url", "table", "tasks.max"],
        OWN: ["batch.size"],
        "Database": ["db.ssl"],
        "Transforms: a": ["transforms.a.type"],
        "Converters": ["value.converter.schemas.enable"],
        "Error handling": ["errors.tolerance"],
        "Common to all connectors": ["connector.class"],
        "Kafka clients": ["producer.override.linger.ms"],
        OTHER: ["stranger"],
    }
    unfolded = [group.name for group in form.groups if group.open]
    assert unfolded == [FIRST, "Transforms: a", "Error handling", OTHER]


def test_settings_that_a_connector_asks_for_by_its_own_check_are_required() -> None:
    configs = (
        setting("include.list", importance="HIGH"),
        setting("host", importance="HIGH", errors=["A value is required"]),
        setting("port", "INT", importance="HIGH", default_value="5432", errors=["in use"]),
        setting("slot", importance="MEDIUM", errors=["A value is required"]),
        setting("topics", "LIST", errors=["Must configure one of topics or topics.regex"]),
    )
    form = form_of(answer(*configs), {}, untouched=True)
    assert [field.name for field in form.groups[0].fields] == ["topics", "host", "include.list", "port"]
    assert {field.name for field in form.fields() if field.required} == {"host", "slot"}
    assert [field.name for field in form.groups[1].shown] == ["slot"]
    [host] = [field for field in form_of(answer(*configs), {"host": "db"}).fields() if field.name == "host"]
    assert not host.required


def test_a_sink_is_asked_for_its_topics_first() -> None:
    configs = (setting("url", required=True), setting("topics", "LIST"), setting("name"), setting("topics.regex"))
    assert [field.name for field in form_of(answer(*configs), {}).groups[0].fields] == [
        "name",
        "topics",
        "topics.regex",
        "url",
    ]


def test_an_empty_setting_is_wrong_only_after_the_user_typed() -> None:
    configs = (setting("topic", required=True, errors=["missing"]), setting("size", "INT", errors=["no number"]))
    assert form_of(answer(*configs), {"size": "x"}, untouched=True).errors == (("size", "no number"),)
    assert len(form_of(answer(*configs), {"size": "x"}).errors) == 2


def test_setting_with_fixed_values_is_a_choice_in_the_spelling_that_is_set() -> None:
    closed = setting("mode") | {"choices": ["insert", "upsert"]}
    assert (only(closed).control, only(closed).recommended) == ("choice", ("insert", "upsert"))
    assert (only(closed, mode="UPSERT").control, only(closed, mode="UPSERT").recommended) == (
        "choice",
        ("insert", "UPSERT"),
    )
    assert only(closed, mode="${env:MODE}").control == "text"


@pytest.mark.parametrize(
    ("kind", "value", "recommended", "control"),
    [
        ("BOOLEAN", "", [], "switch"),
        ("BOOLEAN", "TRUE", [], "switch"),
        ("BOOLEAN", "perhaps", [], "text"),
        ("INT", "12", [], "number"),
        ("INT", "${env:N}", [], "text"),
        ("DOUBLE", "1e5", [], "text"),
        ("STRING", "", ["a", "b"], "choice"),
        ("STRING", "c", ["a", "b"], "text"),
        ("CLASS", "", [str(n) for n in range(40)], "text"),
        ("LIST", "a,b", ["a", "b"], "text"),
        ("STRING", "select 1\nfrom x", [], "lines"),
        ("PASSWORD", "", [], "secret"),
        ("PASSWORD", "${file:/p:k}", [], "text"),
    ],
)
def test_the_control_follows_the_type_and_never_loses_what_is_set(
    kind: str, value: str, recommended: list[str], control: str
) -> None:
    field = only(setting("s", kind, recommended_values=recommended), s=value)
    assert (field.control, field.value) == (control, value)


def test_no_secret_is_in_a_form_nor_in_its_json() -> None:
    given = {
        "db.login": "hunter-2",
        "producer.override.sasl.jaas.config": 'x required password="hunter-2";',
        "http.api.key": "hunter-2",
        "reference": "${file:/p:hunter}",
    }
    form = form_of(answer(setting("db.login", "PASSWORD", default_value="hunter-2")), given)
    assert "hunter-2" not in repr(form)
    assert {field.name: field.value for field in form.fields()} == dict.fromkeys(given, "[hidden]") | {
        "reference": "${file:/p:hunter}"
    }


def test_a_hidden_value_is_the_stored_one_on_the_way_back() -> None:
    given = {"password": "[hidden]", "topic": "t", "token": "[hidden]"}
    config, missing = restored(given, {"password": "hunter-2", "topic": "old"})
    assert config == {"password": "hunter-2", "topic": "t", "token": "[hidden]"}
    assert missing == ("token",)


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("connection.password", True),
        ("ssl.keystore.key", True),
        ("basic.auth.credentials.source", True),
        ("passwd", True),
        ("topic", False),
        ("tokenizer.class", False),
        ("key.converter", False),
    ],
)
def test_undeclared_settings_are_secret_by_their_name(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret
    assert hidden({name: "v"})[name] == ("[hidden]" if secret else "v")


def test_complaints_of_a_setting_that_appears_twice_are_all_shown() -> None:
    twice = (setting("s", errors=["one"]), setting("s", errors=["one", "two"]))
    form = form_of(answer(*twice), {"s": "v"})
    assert form.errors == (("s", "one"), ("s", "two"))
    assert form.groups[0].errors == 2


def test_a_setting_that_its_recommender_hides_is_shown_only_when_set_or_wrong() -> None:
    unseen = setting("s", visible=False)
    assert list(form_of(answer(unseen), {}).fields()) == []
    assert only(unseen, s="v").value == "v"
    assert only(setting("s", visible=False, errors=["no"])).errors == ("no",)


def test_any_name_gives_an_id_and_the_same_one_each_time() -> None:
    nasty = '"><script>alert(1)</script> \ud800'
    first, second = only(setting(nasty)), only(setting(nasty, importance="HIGH"))
    assert first.anchor == second.anchor
    assert first.anchor.removeprefix("setting-").isalnum()


def test_a_form_without_an_answer_has_what_was_given_and_the_reason() -> None:
    form = form_of({}, {"connector.class": "Nope", "a": "1"}, "Unknown plugin Nope.")
    assert (form.connector_class, form.problem) == ("Nope", "Unknown plugin Nope.")
    assert [field.name for field in form.fields()] == ["connector.class", "a"]


def test_every_answer_that_java_gave_becomes_a_form() -> None:
    forms = [form_of(body, {}) for body in java_answers()]
    assert len(forms) > 20
    assert {form.groups[0].name for form in forms if form.groups} <= {FIRST, "Common to all connectors"}


def java_answers() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def collect(node: Any) -> None:
        if isinstance(node, dict):
            if {"groups", "configs"} <= set(node):
                found.append(node)
            else:
                for part in node.values():
                    collect(part)
        elif isinstance(node, list):
            for part in node:
                collect(part)

    content = recording("plugins")
    collect(unpack(content["trees"], content["answers"]))
    return found


def test_json_and_back() -> None:
    config = {"topic": "t", "connector.class": "C", "name": "n", "ß": "1\n2"}
    text = json_text(config)
    assert list(json.loads(text))[:2] == ["name", "connector.class"]
    assert read_json(text) == (config, "")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "not valid JSON"),
        ("[]", "one JSON object"),
        ('"a"', "one JSON object"),
        ('{"a": {"b": 1}}', "a: a setting must be"),
        ('{"a": []}', "a: a setting must be"),
        ('{"a": 1, "a": 2}', "a is set twice"),
        ("[" * 100_000, "without nesting"),
    ],
)
def test_invalid_configuration_text_says_why(text: str, wrong: str) -> None:
    config, problem = read_json(text)
    assert config == {}
    assert wrong in problem


def test_numbers_and_switches_become_the_text_that_was_written() -> None:
    assert read_json('{"a": 1.50, "b": true, "c": null, "d": 12345678901234567890}')[0] == {
        "a": "1.50",
        "b": "true",
        "d": "12345678901234567890",
    }
