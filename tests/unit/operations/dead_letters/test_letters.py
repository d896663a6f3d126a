"""What the tab Dead letters shows, and what its forms ask for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_connect_rt.operations.dead_letters.page import (
    BadReplay,
    differences,
    editable,
    letter_filter,
    letters_page,
    patch_of,
    replay_body,
    replay_of,
    samples,
    shown,
)
from tests.support.management_stand_in import content

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet="ab/~", max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


def test_a_page_of_letters() -> None:
    page = letters_page({"topic": "q", "letters": content.letters(), "next": "c1"})
    first = page.letters[0]
    assert (page.next, first.id, first.origin, first.replayed) == ("c1", "0/0", "lines-0@100", False)
    assert [letter.value.kind for letter in page.letters] == ["json", "text", "bytes", "json", "nothing"]
    assert page.letters[2].value.text == "de ad be ef"
    assert page.letters[2].value.error == "unknown magic byte 222"
    assert page.letters[3].replayed_by == "r0"


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        ({"base64": "aGVsbG8="}, "bytes", "hello"),
        ({"base64": "AAA="}, "bytes", "00 00"),
        ({"base64": "not base64!"}, "bytes", "not base64!"),
        ({"json": None}, "json", "null"),
        ("odd", "nothing", "null"),
    ],
)
def test_values_are_shown_as_text_or_as_bytes(value: Any, kind: str, text: str) -> None:
    assert (shown(value).kind, shown(value).text) == (kind, text)


@given(JSON, JSON)
def test_the_patch_of_two_values_makes_the_second_of_the_first(before: Any, after: Any) -> None:
    assert patched(before, patch_of(before, after)) == after


def patched(value: Any, patch: list[dict[str, Any]]) -> Any:
    whole = {"": json.loads(json.dumps(value))}
    for operation in patch:
        *path, last = [name.replace("~1", "/").replace("~0", "~") for name in operation["path"].split("/")]
        place: Any = whole
        for name in path:
            place = place[name]
        if operation["op"] == "remove":
            del place[last]
        else:
            place[last] = operation["value"]
    return whole[""]


def test_one_is_not_true_to_a_patch() -> None:
    assert patch_of({"a": 1}, {"a": True}) == [{"op": "replace", "path": "/a", "value": True}]


def test_a_letter_edited_as_a_whole_becomes_a_patch() -> None:
    letter = content.letters()[0]
    original, cut = editable(letter)
    assert cut == ()
    edited = original.replace('"ten"', "10")
    body = replay_body("c", {"letter": ["0/0"], "edited": [edited], "original": [original], "target": ["sink"]})
    assert body == {
        "connector": "c",
        "target": "sink",
        "letters": [{"partition": 0, "offset": 0}],
        "edit": {"patch": [{"op": "replace", "path": "/value/json/amount", "value": 10}]},
    }


def test_truncated_value_cannot_be_edited() -> None:
    part = {"text": "beginning", "cut": 70_000}
    letter = {"key": {"text": "k"}, "value": part, "headers": [{"name": "h", "value": part}]}
    original, cut = editable(letter)
    assert (json.loads(original), cut) == ({"key": {"text": "k"}}, ("value", "headers"))
    edit = {"letter": ["0/0"], "edited": [original.replace('"k"', '"l"')], "original": [original]}
    assert replay_body("c", edit)["edit"]["patch"] == [{"op": "replace", "path": "/key/text", "value": "l"}]


def test_a_filter_and_its_edit_become_a_body() -> None:
    fields = {
        "which": ["filter"],
        "stage": ["VALUE_CONVERTER"],
        "message": [" "],
        "transforms": ['{"transforms": "a"}'],
        "rate": ["2.5"],
        "dry_run": ["1"],
    }
    assert replay_body("c", fields) == {
        "connector": "c",
        "target": "topic",
        "filter": {"stage": "VALUE_CONVERTER"},
        "edit": {"transforms": {"transforms": "a"}},
        "rate": 2.5,
        "dry_run": True,
    }
    assert replay_body("c", {"which": ["all"]}) == {"connector": "c", "target": "topic"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "No letters are selected"),
        ({"letter": ["0/x"]}, "is not a valid letter"),
        ({"which": ["all"], "rate": ["fast"]}, "rate"),
        ({"which": ["all"], "rate": ["nan"]}, "rate"),
        ({"which": ["all"], "patch": ["{}"]}, "a list"),
        ({"which": ["all"], "patch": ["["]}, "JSON patch is not JSON"),
        ({"which": ["all"], "transforms": ["x"]}, "transformations is not JSON"),
        ({"letter": ["0/0"], "edited": ["{"], "original": ["{}"]}, "edited letter is not JSON"),
    ],
)
def test_a_form_that_is_not_a_replay_says_what_to_change(fields: dict[str, list[str]], words: str) -> None:
    with pytest.raises(BadReplay, match=words):
        replay_body("c", fields)


def test_empty_filter_fields_are_ignored() -> None:
    assert letter_filter({"stage": [""], "class": [], "origin": ["lines"], "strange": ["x"]}) == {"origin": "lines"}


def test_a_dry_run_shows_what_would_change() -> None:
    letter = {"key": None, "value": {"json": {"a": 1, "b": 2}}, "headers": []}
    after = letter | {"value": {"json": {"a": "1", "c": None}}}
    sample = samples({"sample": [{"partition": 0, "offset": 4, "before": letter, "after": after, "to": "lines"}]})[0]
    assert sample.place == "0/4"
    [(part, old, new)] = sample.parts
    assert (part, json.loads(old), json.loads(new)) == ("value", {"a": 1, "b": 2}, {"a": "1", "c": None})
    dropped, failed = samples({"sample": [{"before": letter, "after": None}, {"before": letter, "error": "no"}]})
    assert (dropped.dropped, failed.dropped, failed.error) == (True, False, "no")


def test_a_replay_that_failed_in_part_is_bad() -> None:
    assert (
        replay_of({"state": "running", "failed": 1, "failures": [{"partition": 0, "offset": 1, "error": "x"}]}).tone
        == "bad"
    )
    assert replay_of({}).state == ""


def test_equal_configurations_have_no_differences() -> None:
    assert differences({}, {}) == ()


def test_a_text_that_becomes_json_is_one_change_of_the_value() -> None:
    before = {"key": None, "value": {"text": "{broken", "error": "not JSON"}, "headers": [{"name": "h", "value": None}]}
    after = {"key": None, "value": {"json": {"a": 1}}, "headers": []}
    [sample] = samples({"sample": [{"before": before, "after": after}]})
    assert sample.parts == (("value", "{broken", '{\n  "a": 1\n}'), ("headers", "h: null", "none"))
