"""Columns of flat JSON objects that Arrow parses: exactly the values of the texts one by one, or no column at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.records.converters import json_read_columns as json_flat_objects
from spark_connect_rt.records.converters.json import JsonConverter
from spark_connect_rt.records.converters.json_read_columns import Cut, FlatObjects, value_column
from spark_connect_rt.records.converters.json_values import JsonSettings

ROW = b'{"id":1,"word":"a","amount":0.5,"yes":true}'


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_flat_objects, "FEWEST", 1)


def one_by_one(texts: Sequence[bytes]) -> pa.Array | None:
    try:
        trees = [orjson.loads(text) for text in texts]
    except orjson.JSONDecodeError:
        return None
    return value_column(None, trees, JsonSettings())


def at_once(known: Sequence[bytes], texts: Sequence[bytes]) -> pa.Array | None:
    flat = FlatObjects()
    learned = one_by_one(known)
    assert learned is not None
    flat.learn(learned)
    return flat.read(pa.array(texts, pa.binary()))


def look(column: pa.Array) -> tuple[Any, list[tuple[type, Any]]]:
    return column.type, [
        (type(value), str(value)) for tree in column.to_pylist() for value in (*tree.keys(), *tree.values())
    ]


def object_of(number: int, **changes: Any) -> bytes:
    tree = {"id": number, "word": f"w{number}", "amount": number + 0.5, "yes": number % 2 == 0, **changes}
    return json.dumps(tree, separators=(",", ":")).encode()


def test_texts_of_the_shape_seen_last_are_read_at_once() -> None:
    texts = [object_of(number) for number in range(300)]
    column = at_once([ROW], texts)
    assert column is not None
    assert look(column) == look(one_by_one(texts))


@pytest.mark.parametrize(
    "text",
    [
        object_of(2, amount=3),
        object_of(2, amount=2**60),
        object_of(2, amount=-(2**63)),
        object_of(2, amount=-(2**63) - 1),
        object_of(2, amount=-0.0),
        object_of(2, amount=1e22),
        object_of(2, amount=None, word=None, id=None, yes=None),
        object_of(-(2**63)),
        object_of(2, word='quo"te \\ \n \x00 \u20ac / end'),
        object_of(2, word='{"id":1,"word":"x","amount":1,"yes":true}'),
        '{"id": 3, "word": "ü€😀", "amount": 1E-3, "yes": false}'.encode(),
        b'{"id":3,"word":"","amount":-0,"yes":false}',
    ],
)
def test_values_are_what_they_are_by_themselves(text: bytes) -> None:
    for texts in ([text], [ROW, text, ROW]):
        column = at_once([ROW], texts)
        assert column is not None
        assert look(column) == look(one_by_one(texts))


@pytest.mark.parametrize(
    "texts",
    [
        [b'{"word":"a","id":1,"amount":0.5,"yes":true}'],  # another order
        [b'{"id":1,"word":"a","amount":0.5}'],
        [b'{"id":1,"id":2,"word":"a","amount":0.5,"yes":true}'],
        [b'{"id":1,"word":"a","amount":0.5,"yes":true,"more":1}'],
        [b'{"id":1,"word":"a","amount":0.5,"yes":[]}'],
        [b'{"id":1.5,"word":"a","amount":0.5,"yes":true}'],
        [b'{"id":9223372036854775808,"word":"a","amount":0.5,"yes":true}'],
        [b'{"id":01,"word":"a","amount":0.5,"yes":true}'],
        [b'{"id":1,"word":"a","amount":1.,"yes":true}'],
        [b'{"id":1,"word":"a","amount":1e999,"yes":true}'],
        [b'{"id":1,"word":"\\ud800","amount":0.5,"yes":true}'],
        [b'{"id":1,"word":"\\udc00","amount":0.5,"yes":true}'],
        [b'{"id":1,"word":"\xff","amount":0.5,"yes":true}'],
        [b'{"id":1,"word":"a\nb","amount":0.5,"yes":true}'],
        [b'{"id":1,"word":"\\x","amount":0.5,"yes":true}'],
        [b""],
        [b"null"],
        [b'{"id":1,"word":"a"', b',"amount":0.5,"yes":true}'],
        [ROW[:-1], b"}", ROW + ROW],  # as many objects as texts
        [ROW + b"\n" + ROW],
        [b" " + ROW],
        [ROW + b"\n"],
    ],
)
def test_unusual_objects_are_parsed_one_by_one(texts: list[bytes]) -> None:
    assert at_once([ROW], texts) is None
    assert at_once([ROW], [ROW, *texts]) is None


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**64), 2**64),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=6),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=6), st.integers(1, 6), st.booleans())
def test_values_read_at_once_are_exact(rows: list[tuple[Any, Any]], known: int, compact: bool) -> None:
    parts = {"separators": (",", ":")} if compact else {}
    texts = [json.dumps({"a b": a, "c": c}, **parts).encode() for a, c in rows]  # type: ignore[arg-type]
    learned = one_by_one(texts[:known])
    if learned is None:
        return
    flat = FlatObjects()
    flat.learn(learned)
    column = flat.read(pa.array(texts, pa.binary()))
    wanted = one_by_one(texts)
    assert column is None or (wanted is not None and look(column) == look(wanted))


PLAIN = st.tuples(
    st.integers(-(2**63), 2**63 - 1) | st.none(),
    st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53) | st.none(),
    st.text(st.characters(codec="utf-8", exclude_characters='"\\', min_codepoint=32), max_size=8)
    | st.sampled_from(["null", "}", '," "', "a:b,c"]).map(lambda text: text.replace('"', "'"))
    | st.none(),
    st.booleans() | st.none(),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(PLAIN, min_size=1, max_size=8), st.integers(0, 3), st.booleans())
def test_texts_without_escapes_are_cut_at_their_quotes(rows: list[Any], before: int, compact: bool) -> None:
    parts = {"separators": (",", ":")} if compact else {}
    names, first = ("n", "x y", "w", "b"), [(1, 0.5, "a", True), (2, 3, "b", False)]
    texts = [
        json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, **parts).encode()  # type: ignore[arg-type]
        for row in [*first, *rows]
    ]
    flat = FlatObjects()
    flat.learn(value_column(None, [orjson.loads(text) for text in texts[:2]], JsonSettings()))
    given_texts = pa.array([texts[0]] * before + texts, pa.binary()).slice(before)
    schema = pa.schema([("n", pa.int64()), ("x y", pa.float64()), ("w", pa.string()), ("b", pa.bool_())])
    cut = Cut.of(schema, texts[0])
    assert cut is not None
    assert cut.columns([given_texts.cast(pa.string())]) is not None
    column = flat.read(given_texts)
    assert column is not None
    assert look(column) == look(one_by_one(texts))


def test_text_with_escapes_or_other_spaces_is_not_cut() -> None:
    schema = pa.schema([("id", pa.int64()), ("word", pa.string())])
    cut = Cut.of(schema, b'{"id":1,"word":"a"}')
    assert cut is not None
    for text in ('{"id":1,"word":"\\n"}', '{"id":1, "word":"a"}', '{"id":01,"word":"a"}'):
        assert cut.columns([pa.array(['{"id":1,"word":"a"}', text])]) is None
        assert Cut.of(schema, text.encode()) is None
    with pytest.raises(pa.ArrowInvalid):
        cut.columns([pa.array(['{"id":9223372036854775808,"word":"a"}'])])


def test_converter_reads_the_second_batch_at_once_and_continues_on_a_new_shape() -> None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false", "converter.type": "value"}, is_key=False)
    for texts in (
        [object_of(1)],
        [object_of(2), object_of(3)],
        [b'{"x":1}'],
        [b'{"x":2}'],
        [b'{"x":[1]}'],
        [b"broken"],
    ):
        found = converter.column_to_connect_data("t", pa.array(texts, pa.binary()))
        wanted = one_by_one(texts)
        assert (found is None) == (wanted is None)
        assert found is None or wanted is None or look(found[1]) == look(wanted)
