"""Flat JSON objects that are cut at their quotes: exactly the values of the texts one by one, or no column.

One text of each example is damaged or unusual. The texts one by one say what it is worth.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Schema, Type, struct_of
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.converters import json_cut, json_read_columns
from spark_connect_rt.records.converters.json import JsonConverter

MEMBERS: dict[str, tuple[Schema, list[Any]]] = {
    "id": (Schema(Type.INT64), [1, -7, 2**53]),
    "small": (Schema(Type.INT8, optional=True), [5, None, -128]),
    "day": (Schema(Type.INT32, name=logical.DATE, optional=True), [3, None, 0, 20_000]),
    "w ord": (Schema(Type.STRING, optional=True), ["null", None, "a:b,{}", ""]),
    "rate": (Schema(Type.FLOAT32, optional=True), [0.5, None, 3, -2.25]),
    "amount": (Schema(Type.FLOAT64), [0.1, 12, -0.0, 1e-7]),
    "open": (Schema(Type.BOOLEAN, optional=True), [True, None, False]),
    "note": (Schema(Type.STRING), ["x", "ü", " ", "}"]),
}
SCHEMA = struct_of({name: schema for name, (schema, _) in MEMBERS.items()})
FIRST = tuple(values[0] for _, values in MEMBERS.values())
ROWS = st.tuples(*(st.sampled_from(values) for _, values in MEMBERS.values()))
FRAGMENTS = (
    *('"', ",", ":", "{", "}", "[", "null", "true", "-", "+", ".", "0", "1", "e", "E5", "0x1", "nan", "inf", " "),
    *('"note":null', ',"id":2', '"w ord":null', "\\", '\\"', "\n", "\x01", "128", "9" * 20, "\u0663", "1e400", "-0"),
)
DAMAGE = st.tuples(st.integers(0, 200), st.integers(0, 6), st.sampled_from(FRAGMENTS) | st.text(max_size=2))
GAPS = st.sampled_from(["", " "])


class Texts:
    """Texts of one form, with or without a schema."""

    def __init__(self, with_schemas: bool, gap: str) -> None:
        self._with_schemas, self._gap = with_schemas, gap
        opening = self.converter()._envelope(SCHEMA).decode()
        self._opening, self._closing = (opening, "}") if with_schemas else ("", "")

    def converter(self) -> JsonConverter:
        made = JsonConverter()
        made.configure({"schemas.enable": str(self._with_schemas).lower()}, is_key=False)
        return made

    def of(self, row: Sequence[Any]) -> bytes:
        tree = dict(zip(MEMBERS, row, strict=True))
        text = json.dumps(tree, separators=("," + self._gap, ":" + self._gap), ensure_ascii=False)
        return f"{self._opening}{text}{self._closing}".encode()

    def damaged(self, row: Sequence[Any], damage: tuple[int, int, str]) -> bytes:
        """Return the text of a row with some letters replaced, few of them in the schema."""
        at, dropped, inserted = damage
        text = self.of(row).decode()
        at = (at + len(self._opening) if at % 8 else at) % (len(text) + 1)
        return (text[:at] + inserted + text[at + dropped :]).encode(errors="surrogatepass")

    def column_is_exact(self, converter: JsonConverter, texts: list[bytes]) -> bool:
        """Compare the column of texts with the texts one by one, and return whether there was a column."""
        usual = [self.of(FIRST)]
        assert converter.column_to_connect_data("t", pa.array(usual, pa.binary())) is not None  # learns the shape
        found = converter.column_to_connect_data("t", pa.array(usual + texts, pa.binary()))
        one_by_one = self.converter()
        try:
            wanted = [plain(one_by_one.to_connect_data("t", text).value) for text in usual + texts]
        except DataError:
            assert found is None
            return False
        assert found is None or [plain(value) for value in found[1].to_pylist()] == wanted
        return found is not None


def plain(value: Any) -> Any:
    """Return a value whose parts compare with their types and signs."""
    if isinstance(value, Struct):
        value = dict(zip((member.name for member in value.schema.fields), value.values(), strict=True))
    if isinstance(value, dict):
        return [(name, type(part), str(part)) for name, part in value.items()]
    return type(value), value


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_read_columns, "FEWEST", 1)
        patch.setattr(json_cut, "_PIECE_BYTES", 250)  # some examples are cut in several pieces
        yield


@settings(max_examples=500, deadline=None)
@given(
    rows=st.lists(ROWS, min_size=1, max_size=4), damage=DAMAGE, at=st.integers(0, 3), schemas=st.booleans(), gap=GAPS
)
def test_damaged_texts_are_what_they_are_one_by_one(
    rows: list[tuple[Any, ...]], damage: tuple[int, int, str], at: int, schemas: bool, gap: str
) -> None:
    form = Texts(schemas, gap)
    texts = list(map(form.of, rows))
    texts[at % len(rows)] = form.damaged(rows[at % len(rows)], damage)
    form.column_is_exact(form.converter(), texts)


@settings(max_examples=100, deadline=None)
@given(rows=st.lists(ROWS, min_size=1, max_size=6), schemas=st.booleans(), gap=GAPS)
def test_usual_texts_are_cut(rows: list[tuple[Any, ...]], schemas: bool, gap: str) -> None:
    form = Texts(schemas, gap)
    converter = form.converter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_read_columns, "_parsed", None)  # nothing else may read them
        is_exact = form.column_is_exact(converter, list(map(form.of, rows)))
    has_minus_zero = any(str(row[5]) == "-0.0" for row in rows)  # may be a whole number in the text
    assert is_exact
    assert has_minus_zero or converter._flat_objects._wait == 1


def test_members_may_be_in_another_order_than_in_the_schema() -> None:
    schema = struct_of({"a": Schema(Type.INT64), "b": Schema(Type.STRING)})
    converter = Texts(True, "").converter()
    opening = converter._envelope(schema)
    texts = [opening + b'{"b":"%d","a":%d}}' % (number, number) for number in range(3)]
    for _ in range(2):
        found = converter.column_to_connect_data("t", pa.array(texts, pa.binary()))
    assert found is not None
    assert found[1].to_pylist() == [{"a": number, "b": str(number)} for number in range(3)]
    assert converter._flat_objects._wait == 1


@pytest.mark.parametrize("schemas", [False, True])
def test_of_the_first_long_column_a_few_texts_show_what_the_others_are_like(schemas: bool) -> None:
    form, parsed = Texts(schemas, ""), []
    trees = JsonConverter._trees

    def noted(converter: JsonConverter, data: Sequence[bytes | None]) -> Any:
        parsed.append(len(data))
        return trees(converter, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JsonConverter, "_trees", noted)
        found = form.converter().column_to_connect_data("t", pa.array([form.of(FIRST)] * 5_000, pa.binary()))
    assert found is not None
    assert len(found[1]) == 5_000
    assert parsed == [200]
