"""Bytes of a letter as JSON shows them, and the bytes of an edited value."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

import pytest

from spark_connect_rt.api.data.logical import decimal_schema
from spark_connect_rt.api.data.schema import Schema, Type, struct_of
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError, ExternalError
from spark_connect_rt.operations.dead_letters.letter import LetterConverter, as_tree, encoded, kind_of, same
from spark_connect_rt.records.converters.json import JsonConverter

PLAIN = LetterConverter()


def by_json(schemas: bool = False) -> LetterConverter:
    converter = JsonConverter()
    converter.configure({"schemas.enable": str(schemas).lower()}, False)
    return LetterConverter(
        lambda data: converter.to_connect_data("t", data),
        lambda schema, value: converter.from_connect_data("t", schema, value),
    )


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (None, None),
        (b"", {"text": ""}),
        (b"line\n<script>", {"text": "line\n<script>"}),
        (b'{"a": 36893488147419103232}', {"json": {"a": 2**65}}),
        (b"12", {"text": "12"}),
        (b"\xff\x00", {"base64": "/wA="}),
        (b"a\x00b", {"base64": "YQBi"}),
        (b'{"a": NaN}', {"text": '{"a": NaN}'}),
        (b"[1e999]", {"text": "[1e999]"}),
        (b'["\\ud800"]', {"text": '["\\ud800"]'}),
        (b"[" * 5_000, {"text": "[" * 5_000}),
        (b"[" * 200 + b"]" * 200, {"text": "[" * 200 + "]" * 200}),
    ],
)
def test_bytes_that_no_converter_reads(data: bytes | None, shown: Any) -> None:
    assert PLAIN.shown(data) == shown


def test_long_value_is_truncated_and_marked() -> None:
    shown = PLAIN.shown("é".encode() * 500_000)
    assert shown is not None
    assert (shown["cut"], set(shown["text"]), len(shown["text"])) == (1_000_000, {"é"}, 32_768)
    odd = PLAIN.shown(b"a" + "é".encode() * 500_000)
    assert odd is not None
    assert odd["text"].endswith("é")
    assert PLAIN.shown(b"x" * 1_000_000, None) == {"text": "x" * 1_000_000, "cut": 1_000_000}


@pytest.mark.parametrize("data", [b"x" * 70_000, b"\xff" * 70_000])
def test_truncated_value_is_edited_whole_or_not_at_all(data: bytes) -> None:
    before, page = PLAIN.shown(data, None), PLAIN.shown(data)
    assert before is not None
    assert page is not None
    kind = kind_of(page)
    with pytest.raises(DataError, match="65536 of its 70000 bytes are shown"):
        PLAIN.data(before | {kind: page[kind]}, before, data)
    assert PLAIN.data({"text": "all of it"}, before, data) == b"all of it"


def test_a_long_value_is_edited_within_its_json() -> None:
    data = encoded({"a": "y" * 70_000})
    before = PLAIN.shown(data, None)
    assert before is not None
    assert PLAIN.data({"json": before["json"] | {"b": 1}}, before, data) == data[:-1] + b',"b":1}'


def test_the_converter_comes_first_and_its_refusal_is_shown() -> None:
    assert by_json().shown(b"12") == {"json": 12}
    shown = by_json(schemas=True).shown(b'{"id":1}')
    assert shown is not None
    assert shown["json"] == {"id": 1}
    assert "schema" in shown["error"]
    shown = by_json().shown(b"{id:1}")
    assert shown is not None
    assert shown["text"] == "{id:1}"
    assert "error" in shown


def test_an_unreachable_registry_blames_no_letter() -> None:
    def away(_: bytes) -> Any:
        raise ExternalError("the registry does not answer")

    with pytest.raises(ExternalError):
        LetterConverter(away).shown(b"1")


def test_values_with_a_schema() -> None:
    schema = struct_of({"a": Schema(Type.BYTES), "b": decimal_schema(2), "f": Schema(Type.FLOAT64)})
    tree = as_tree(schema, Struct(schema, {"a": b"\x01", "b": Decimal("1.50"), "f": 0.1}))
    assert tree == {"a": "AQ==", "b": base64.b64encode(b"\x00\x96").decode(), "f": 0.1}


def test_an_edited_value_keeps_its_schema() -> None:
    part = by_json(schemas=True)
    original = json.dumps(
        {"schema": {"type": "struct", "fields": [{"field": "n", "type": "int8"}]}, "payload": {"n": 1}}
    ).encode()
    before = part.shown(original)
    made = part.data({"json": {"n": 2}}, before, original)
    assert json.loads(made or b"")["payload"] == {"n": 2}
    with pytest.raises(DataError):
        part.data({"json": {"n": 300}}, before, original)


def test_an_edit_that_the_converter_cannot_read_is_refused() -> None:
    part = by_json()
    before = part.shown(b"{id:1}")
    assert part.data({"text": '{"id":1}'}, before, b"{id:1}") == b'{"id":1}'
    assert part.data({"json": {"id": 2**65}}, before, b"{id:1}") == b'{"id":36893488147419103232}'
    assert part.data(None, before, b"{id:1}") is None
    with pytest.raises(DataError, match="cannot read"):
        part.data({"text": "{id:2}"}, before, b"{id:1}")


@pytest.mark.parametrize(
    "wanted",
    [{}, 1, "x", {"json": 1, "text": "1"}, {"text": 1}, {"base64": "%"}, {"text": "\ud800"}, {"json": {1j: 1}}],
)
def test_an_edit_that_makes_no_value(wanted: Any) -> None:
    with pytest.raises(DataError):
        PLAIN.data(wanted, {"text": "x"}, b"x")


def test_numbers_and_switches_are_different_values() -> None:
    assert same({"a": [1, None]}, {"a": [1, None]})
    assert not same(1, True)
    assert not same(1, 1.0)
    assert not same({"a": 1}, {"b": 1})
