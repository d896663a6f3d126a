"""A patch of letters, and where a letter may go."""

from __future__ import annotations

from typing import Any

import pytest

from spark_connect_rt.errors import BadConfigError, DataError
from spark_connect_rt.operations.dead_letters.letter_edit import LetterPatch, Origins, check_encoding
from tests.unit.operations.dead_letters.test_letter import letter

LETTER = {"key": {"text": "k"}, "value": {"json": {"a": 1}}, "headers": [{"name": "h", "value": {"json": 7}}]}


def test_patch_applies_to_the_shown_form() -> None:
    patch = LetterPatch(
        [
            {"op": "test", "path": "/value/json/a", "value": 1},
            {"op": "add", "path": "/value/json/b", "value": [1]},
            {"op": "remove", "path": "/headers/0"},
            {"op": "replace", "path": "/key", "value": None},
        ]
    )
    assert patch.apply(LETTER) == {"key": None, "value": {"json": {"a": 1, "b": [1]}}, "headers": []}
    assert LETTER["headers"], "the letter itself stays"


@pytest.mark.parametrize(
    "operations",
    [
        None,
        [],
        {},
        "[]",
        [1],
        [{"op": "fly", "path": "/value"}],
        [{"op": "remove"}],
        [{"op": "remove", "path": ""}],
        [{"op": "remove", "path": "/offset"}],
        [{"op": "add", "path": "/value"}],
        [{"op": "remove", "path": "/value"}] * 101,
        [{"op": "copy", "from": "/value", "path": "/value/x"}] * 9,
    ],
)
def test_an_invalid_patch(operations: Any) -> None:
    with pytest.raises(BadConfigError, match=r"edit\.patch"):
        LetterPatch(operations)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/value/json/a", "value": 2},
        {"op": "replace", "path": "/value/json/none", "value": 2},
        {"op": "replace", "path": "/headers", "value": 2},
        {"op": "add", "path": "/headers/-", "value": {"value": None}},
        {"op": "add", "path": "/headers/99999999999", "value": {"name": "x"}},
        {"op": "remove", "path": "/value/json/a/b/c"},
    ],
)
def test_a_patch_that_does_not_apply(operation: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="patch"):
        LetterPatch([operation]).apply(LETTER)


def test_a_letter_goes_only_where_its_connector_reads() -> None:
    assert Origins.of(None).topic(letter()) == "orders"
    assert Origins.of({"topics": "a, orders"}).topic(letter()) == "orders"
    assert Origins.of({"topics.regex": "ord.*"}).topic(letter()) == "orders"
    assert Origins.of({"topics": "only"}).topic(letter(topic=None)) == "only"
    for config, refused in (
        ({"topics": "a"}, letter()),
        ({"topics.regex": "ord"}, letter()),
        ({"topics": "a,b"}, letter(topic=None)),
    ):
        with pytest.raises(DataError):
            Origins.of(config).topic(refused)


def test_input_that_never_was_a_record_needs_an_edit() -> None:
    buried = letter(value_encoding=b"input")
    with pytest.raises(DataError, match="never converted"):
        check_encoding(buried, lambda part: False)
    check_encoding(buried, lambda part: part == "value")
