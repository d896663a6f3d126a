"""Converters: written values are read back, columns equal rows, and bad bytes raise only our error."""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.data.schema_builder import SchemaBuilder
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.converters.json import JsonConverter
from spark_connect_rt.records.converters.json_bytes import dump_json
from spark_connect_rt.records.converters.json_values import JsonSettings, to_tree
from spark_connect_rt.records.converters.primitive_converters import StringConverter
from tests.unit.records.converters.test_json import FLIGHT_TEXT, PLAIN, ROW_SCHEMA, ROW_TYPE, WRAPPED

slow_machine = settings(deadline=None, max_examples=60)


@slow_machine
@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_a_data_error(data: bytes) -> None:
    for converter in (PLAIN, WRAPPED):
        with contextlib.suppress(DataError):
            converter.to_connect_data("t", data)


@slow_machine
@given(st.integers(0, len(FLIGHT_TEXT) - 1))
def test_a_truncated_envelope_is_a_data_error(length: int) -> None:
    with pytest.raises(DataError):
        JsonConverter().to_connect_data("t", FLIGHT_TEXT[:length])


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=10,
)


@slow_machine
@given(json_values)
def test_schemaless_values_come_back(value: Any) -> None:
    data = PLAIN.from_connect_data("t", None, value)
    assert PLAIN.to_connect_data("t", data).value == value


rows = st.lists(
    st.none()
    | st.fixed_dictionaries(
        {
            "i": st.none() | st.integers(-(2**31), 2**31 - 1),
            "f": st.none() | st.floats() | st.floats(-1000, 1000).map(lambda x: round(x, 2)),
            "g": st.none() | st.floats(width=32),
            "t\n": st.none() | st.text(st.characters(exclude_categories=["Cs"])),
            "b": st.none() | st.booleans(),
            "n": st.none() | st.fixed_dictionaries({"x": st.none() | st.integers(0, 9)}),
        }
    ),
    max_size=5,
)


@slow_machine
@given(rows, st.booleans(), st.booleans())
def test_column_form_gives_the_bytes_of_the_row_form(values: list[Any], wrapped: bool, with_schema: bool) -> None:
    converter = WRAPPED if wrapped else PLAIN
    schema = ROW_SCHEMA if with_schema else None
    array = pa.array(values, ROW_TYPE)
    column = converter.column_from_connect_data("t", schema, array)
    if column is not None:
        by_row = [converter.from_connect_data("t", schema, value) for value in array.to_pylist()]
        assert column.cast(pa.binary()).to_pylist() == by_row


@slow_machine
@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]))))
def test_string_columns_equal_rows(values: list[str | None]) -> None:
    converter = StringConverter()
    column = converter.column_from_connect_data("t", s.STRING, pa.array(values, pa.string()))
    assert column is not None
    assert column.cast(pa.binary()).to_pylist() == [converter.from_connect_data("t", None, v) for v in values]


FLOAT_SCHEMA = s.Schema(s.Type.FLOAT64, optional=True, default=2.5)
MIXED = s.struct_of(
    {
        "i": s.OPTIONAL_INT32,
        "l": s.INT64,
        "d": s.FLOAT64,
        "f": s.OPTIONAL_FLOAT32,
        "t": s.STRING,
        "b": s.OPTIONAL_BOOLEAN,
        "x": FLOAT_SCHEMA,
        "n": SchemaBuilder.array(s.INT8).optional().build(),
    }
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
mixed_values = st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-(2**31), 2**31 - 1),
        "l": st.integers(-(2**63), 2**63 - 1),
        "d": st.floats() | st.integers(-5, 5),
        "f": st.none() | st.floats(width=32),
        "t": texts,
        "b": st.none() | st.booleans(),
        "x": st.none() | st.floats(-10, 10),
        "n": st.none() | st.lists(st.integers(-128, 127), max_size=2),
    }
)


@slow_machine
@given(st.lists(mixed_values, min_size=1, max_size=4))
def test_structs_are_written_as_their_trees_are(values: list[Any]) -> None:
    converter = JsonConverter()
    for value in values:
        struct = Struct(MIXED, value)
        envelope = converter._envelope(MIXED)  # the bytes before every payload
        assert (
            converter.from_connect_data("t", MIXED, struct)
            == envelope + dump_json(to_tree(MIXED, struct, JsonSettings())) + b"}"
        )


odd_payloads = st.sampled_from(
    [b"{}", b"null", b"[]", b"1", b"{", b'{"i":1}', b'"', b'{"i":"5","l":1,"d":1,"t":"","f":1,"b":1,"x":1,"n":1}']
)


@slow_machine
@given(st.lists(mixed_values, min_size=1, max_size=4), st.lists(odd_payloads, max_size=1), st.integers(0, 3))
def test_many_envelopes_are_read_as_each_of_them_is(values: list[Any], odd: list[bytes], at: int) -> None:
    converter, single = JsonConverter(), JsonConverter()
    data = [converter.from_connect_data("t", MIXED, Struct(MIXED, value)) or b"" for value in values]
    converter.to_connect_data("t", data[0])
    data[at:at] = [converter._envelope(MIXED) + payload + b"}" for payload in odd]
    found = converter.values_to_connect_data("t", data)
    if found is not None:
        assert found[0] == MIXED
        assert [repr(value) for value in found[1]] == [repr(single.to_connect_data("t", each).value) for each in data]
