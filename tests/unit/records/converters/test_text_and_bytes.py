"""Bytes and values of StringConverter, ByteArrayConverter and SimpleHeaderConverter."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.data.schema_builder import SchemaBuilder
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import BadConfigError, DataError
from spark_connect_rt.records.converters.numbers import (
    BooleanConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    NumberConverter,
    ShortConverter,
)
from spark_connect_rt.records.converters.primitive_converters import (
    ByteArrayConverter,
    SimpleHeaderConverter,
    StringConverter,
)

STRINGS_TO_INT8 = SchemaBuilder.map(s.STRING, s.INT8).build()
POINT = s.struct_of({"x": s.INT32, "y": s.OPTIONAL_STRING})


@pytest.mark.parametrize(
    ("value", "text"),
    [("é", "é"), (True, "true"), (1.0, "1.0"), (1e10, "1.0E10"), (5, "5"),
     ({"a": None}, "{a=null}"), ([1, "b"], "[1, b]"),
     (Struct(POINT, {"x": 1}), "Struct{x=1}"), (Struct(POINT, {"x": 1, "y": "z"}), "Struct{x=1,y=z}")]
)  # fmt: skip
def test_strings_are_what_java_to_string_writes(value: Any, text: str) -> None:
    assert StringConverter().from_connect_data("t", None, value) == text.encode()


def test_string_null_and_character_set() -> None:
    converter = StringConverter()
    assert converter.from_connect_data("t", s.OPTIONAL_STRING, None) is None
    assert converter.to_connect_data("t", None) == (s.OPTIONAL_STRING, None)
    assert converter.to_connect_data("t", b"a\xff") == (s.OPTIONAL_STRING, "a\ufffd")
    converter.configure({"converter.encoding": "ISO-8859-1"})
    assert converter.from_connect_data("t", None, "é") == b"\xe9"
    with pytest.raises(DataError):
        converter.from_connect_data("t", None, "中")
    with pytest.raises(BadConfigError):
        converter.configure({"converter.encoding": "nonsense"})


def test_a_binary_column_that_is_not_text_goes_by_rows() -> None:
    assert StringConverter().column_from_connect_data("t", None, pa.array([b"\xff"])) is None
    assert StringConverter().column_from_connect_data("t", None, pa.array([1.5])) is None


def test_bytes_pass_and_everything_else_is_refused() -> None:
    converter = ByteArrayConverter()
    assert converter.from_connect_data("t", s.BYTES, b"\x00") == b"\x00"
    assert converter.from_connect_data("t", None, bytearray(b"a")) == b"a"
    assert converter.to_connect_data("t", b"x") == (s.OPTIONAL_BYTES, b"x")
    for schema, value in ((s.STRING, "a"), (None, "a"), (s.STRING, None)):
        with pytest.raises(DataError):
            converter.from_connect_data("t", schema, value)
    assert converter.column_from_connect_data("t", None, pa.array([b"a"])) is not None
    assert converter.column_from_connect_data("t", s.STRING, pa.array(["a"])) is None


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [("null", None, None), ("true", s.BOOLEAN, True), ("TRUE", s.STRING, "TRUE"), ("127", s.INT8, 127),
     ("128", s.INT16, 128), ("-70000", s.INT32, -70000), ("9999999999", s.INT64, 9999999999),
     ("1.5", s.FLOAT32, 1.5), ("plain text", s.STRING, "plain text"), ("", s.STRING, ""),
     ("[1,2]", SchemaBuilder.array(s.INT8).build(), [1, 2]), ('{"a":1}', STRINGS_TO_INT8, {"a": 1}),
     ('"1"', s.STRING, '"1"'), ("{oops", s.STRING, "{oops"), ("2020-01-02", logical.date_schema(), dt.date(2020, 1, 2)),
     ("99999999999999999999", logical.decimal_schema(0), Decimal("99999999999999999999"))]
)  # fmt: skip
def test_headers_infer_their_type_from_the_text(text: str, schema: s.Schema | None, value: Any) -> None:
    assert SimpleHeaderConverter().to_connect_header("t", "h", text.encode()) == (schema, value)


def test_headers_write_text() -> None:
    converter = SimpleHeaderConverter()
    assert converter.from_connect_header("t", "h", None, None) is None
    assert converter.from_connect_header("t", "h", s.STRING, "a b") == b"a b"
    assert converter.from_connect_header("t", "h", None, {"a": 1}) == b'{"a":1}'
    assert converter.from_connect_header("t", "h", None, b"\xff") == b"/w=="
    assert converter.to_connect_header("t", "h", b"\xff") == (s.STRING, "\ufffd")
    with pytest.raises(DataError):
        converter.from_connect_header("t", "h", None, object())


def test_numbers_are_of_one_width_and_null_is_null() -> None:
    converter = LongConverter()
    assert converter.from_connect_data("t", s.INT64, -2) == b"\xff" * 7 + b"\xfe"
    assert converter.from_connect_data("t", None, None) is None
    assert converter.to_connect_data("t", None) == (s.OPTIONAL_INT64, None)
    assert converter.to_connect_header("t", "h", b"\x00" * 7 + b"\x05") == (s.OPTIONAL_INT64, 5)
    for refused in (lambda: converter.from_connect_data("t", s.INT32, 1), lambda: converter.to_connect_data("t", b"1")):
        with pytest.raises(DataError):
            refused()
    with pytest.raises(DataError, match="does not fit"):
        ShortConverter().from_connect_data("t", None, 1 << 15)


@pytest.mark.parametrize(
    ("converter", "kind", "values"),
    [(ShortConverter(), pa.int16(), [1, -2]), (IntegerConverter(), pa.int32(), [70000, -1]),
     (LongConverter(), pa.int64(), [1 << 40]), (FloatConverter(), pa.float32(), [1.5, float("inf")]),
     (DoubleConverter(), pa.float64(), [0.1, -0.0])],
)  # fmt: skip
def test_number_columns_are_the_bytes_of_their_rows(converter: NumberConverter, kind: Any, values: list[Any]) -> None:
    array = pa.array([0, *values], kind)[1:]
    column = converter.column_from_connect_data("t", converter.schema, array)
    assert column is not None
    assert column.to_pylist() == [converter.from_connect_data("t", converter.schema, value) for value in values]
    assert converter.column_from_connect_data("t", None, pa.array([None], kind)) is None
    assert converter.column_from_connect_data("t", s.STRING, array) is None


@pytest.mark.parametrize("values", [[True, False, None], [], [None]])
def test_a_column_of_truth_values_is_what_each_of_them_is(values: list[bool | None]) -> None:
    converter = BooleanConverter()
    column = pa.array(values, pa.bool_())
    written = converter.column_from_connect_data("t", s.BOOLEAN, column)
    assert written is not None
    assert written.to_pylist() == [converter.from_connect_data("t", s.BOOLEAN, value) for value in values]
    for kind in (pa.binary(), pa.large_binary()):
        read = converter.column_to_connect_data("t", written.cast(kind))
        assert read is not None
        assert read[0] == s.OPTIONAL_BOOLEAN
        assert read[1].to_pylist() == values


def test_a_column_with_anything_but_truth_values_goes_one_by_one() -> None:
    converter = BooleanConverter()
    assert converter.column_to_connect_data("t", pa.array([b"\x01", b"\x02"])) is None
    assert converter.column_to_connect_data("t", pa.array([b"\x01", b"", None])) is None
    assert converter.column_from_connect_data("t", s.INT8, pa.array([True])) is None
    assert converter.column_from_connect_data("t", None, pa.array([1])) is None
