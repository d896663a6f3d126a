"""JsonConverter: Java's bytes, both ways, and column form equal to row form."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.data.java_numbers import to_single
from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.api.data.schema_builder import SchemaBuilder
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import BadConfigError, DataError
from spark_connect_rt.records.converters.json import JsonConverter


def converter(**settings: str) -> JsonConverter:
    made = JsonConverter()
    made.configure({name.replace("_", "."): value for name, value in settings.items()}, is_key=False)
    return made


PLAIN = converter(schemas_enable="false")
WRAPPED = converter()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, None, "x"]}, b'{"b":1,"a":[true,null,"x"]}'),
        (1.0, b"1.0"),
        (1e7, b"1.0E7"),
        (0.0001, b"1.0E-4"),
        (123456.75, b"123456.75"),
        (1.5e300, b"1.5E300"),
        (float("nan"), b'"NaN"'),
        ({"x": float("-inf")}, b'{"x":"-Infinity"}'),
        ('\x1b\\u001b\n"/\u2028é', b'"\\u001B\\\\u001b\\n\\"/\xe2\x80\xa8\xc3\xa9"'),
        (b"\x00\xff", b'"AP8="'),
        ({"k": b"\x01"}, b'{"k":"AQ=="}'),
        ({1: "a", 2: "b"}, b'[[1,"a"],[2,"b"]]'),
        (2**63 - 1, b"9223372036854775807"),
        ({"nested": {"f": 1e-5, "l": [2.0]}}, b'{"nested":{"f":1.0E-5,"l":[2.0]}}'),
    ],
)
def test_schemaless_values_print_as_in_java(value: Any, text: bytes) -> None:
    assert PLAIN.from_connect_data("t", None, value) == text
    assert WRAPPED.from_connect_data("t", None, value) == b'{"schema":null,"payload":%b}' % text


@pytest.mark.parametrize("value", [2**63, 2**70, dt.date(2020, 1, 1), object(), {"a": {1, 2}}, "\ud800"])
def test_values_without_a_json_form_are_data_errors(value: Any) -> None:
    with pytest.raises(DataError):
        PLAIN.from_connect_data("t", None, value)


def test_null_is_a_tombstone_only_without_a_schema() -> None:
    assert PLAIN.from_connect_data("t", None, None) is None
    assert WRAPPED.from_connect_data("t", None, None) is None
    assert PLAIN.from_connect_data("t", s.OPTIONAL_STRING, None) == b"null"
    assert (
        WRAPPED.from_connect_data("t", s.OPTIONAL_STRING, None)
        == b'{"schema":{"type":"string","optional":true},"payload":null}'
    )
    with pytest.raises(DataError):
        WRAPPED.from_connect_data("t", s.STRING, None)


FLIGHT = (
    SchemaBuilder.struct()
    .name("flight")
    .version(2)
    .doc("d")
    .field("year", s.INT32)
    .field("tags", SchemaBuilder.map(s.STRING, s.OPTIONAL_INT64).optional().build())
    .field("legs", SchemaBuilder.array(s.FLOAT32).build())
    .field("price", logical.decimal_schema(2))
    .field("day", logical.date_schema(optional=True))
    .field("state", Schema(s.Type.STRING, optional=True, default="new"))
    .build()
)
FLIGHT_TEXT = (
    b'{"schema":{"type":"struct","fields":[{"type":"int32","optional":false,"field":"year"},'
    b'{"type":"map","keys":{"type":"string","optional":false},"values":{"type":"int64","optional":true},'
    b'"optional":true,"field":"tags"},'
    b'{"type":"array","items":{"type":"float","optional":false},"optional":false,"field":"legs"},'
    b'{"type":"bytes","optional":false,"name":"org.apache.kafka.connect.data.Decimal","version":1,'
    b'"parameters":{"scale":"2"},"field":"price"},'
    b'{"type":"int32","optional":true,"name":"org.apache.kafka.connect.data.Date","version":1,"field":"day"},'
    b'{"type":"string","optional":true,"default":"new","field":"state"}],'
    b'"optional":false,"name":"flight","version":2,"doc":"d"},'
    b'"payload":{"year":2013,"tags":{"a":null},"legs":[3.14],"price":"AJw=","day":15706,"state":"new"}}'
)


def flight() -> Struct:
    return Struct(
        FLIGHT,
        {
            "year": 2013,
            "tags": {"a": None},
            "legs": [3.14],
            "price": Decimal("1.56"),
            "day": dt.date(2013, 1, 1),
        },
    )


def test_envelope_has_javas_key_order_and_reads_back() -> None:
    assert WRAPPED.from_connect_data("t", FLIGHT, flight()) == FLIGHT_TEXT
    assert WRAPPED.from_connect_data("t", FLIGHT, flight().to_dict()) == FLIGHT_TEXT
    for _ in range(2):  # the second time the envelope is known
        schema, value = WRAPPED.to_connect_data("t", FLIGHT_TEXT)
        assert schema == FLIGHT
        assert value.to_dict() == {**flight().to_dict(), "legs": [to_single(3.14)]}


def test_decimals_as_numbers_keep_every_digit() -> None:
    schema = logical.decimal_schema(20)
    number = Decimal("1234567890.12345678901234567890")
    text = converter(decimal_format="numeric").from_connect_data("t", schema, number)
    assert text is not None
    assert text.endswith(b'"payload":1234567890.12345678901234567890}')
    assert WRAPPED.to_connect_data("t", text).value == number


@pytest.mark.parametrize("value", [-1, 0, 127, 128, -128, -129, 255, 256])
def test_decimal_bytes_round_trip(value: int) -> None:
    schema = logical.decimal_schema(0)
    data = logical.decimal_to_bytes(schema, Decimal(value))
    assert len(data) == (1 if -128 <= value <= 127 else 2)
    assert logical.decimal_from_bytes(schema, data) == value


def test_defaults_stand_for_null_unless_switched_off() -> None:
    schema = SchemaBuilder.struct().field("a", Schema(s.Type.INT32, optional=True, default=7)).build()
    assert converter(schemas_enable="false").from_connect_data("t", schema, Struct(schema)) == b'{"a":7}'
    kept = converter(schemas_enable="false", replace_null_with_default="false")
    assert kept.from_connect_data("t", schema, Struct(schema)) == b'{"a":null}'


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"a":1}', b'{"schema":null,"payload":1,"x":2}', b"[1]", b"null", b'{"schema":{},"payload":1}',
             b'{"schema":{"type":"int32","optional":false},"payload":"x"}',
             b'{"schema":{"type":"int8","optional":false},"payload":300}',
             b'{"schema":{"type":"struct","fields":[{"type":"int32"}]},"payload":{}}', b"\xff\xfe"]
)  # fmt: skip
def test_unreadable_envelopes_are_data_errors(data: bytes) -> None:
    with pytest.raises(DataError):
        WRAPPED.to_connect_data("t", data)


def test_envelope_with_content_after_the_payload_is_refused_with_a_known_schema() -> None:
    known = converter()
    assert known.to_connect_data("t", b'{"schema":null,"payload":1}').value == 1
    with pytest.raises(DataError):
        known.to_connect_data("t", b'{"schema":null,"payload":1,"more":2}')


def test_plain_json_reads_with_leading_zeros() -> None:
    assert PLAIN.to_connect_data("t", b'{"a":007,"b":-00.5,"c":"007","d":[00,1]}').value == {
        "a": 7,
        "b": -0.5,
        "c": "007",
        "d": [0, 1],
    }
    assert PLAIN.to_connect_data("t", None) == (None, None)


ROW_TYPE = pa.struct(
    [
        ("i", pa.int32()), ("f", pa.float64()), ("g", pa.float64()), ("t\n", pa.string()), ("b", pa.bool_()),
        ("n", pa.struct([("x", pa.int8())])),
    ]
)  # fmt: skip
ROW_SCHEMA = s.struct_of(
    {
        "i": s.OPTIONAL_INT32, "f": s.OPTIONAL_FLOAT64, "g": s.OPTIONAL_FLOAT64, "t\n": s.OPTIONAL_STRING,
        "b": s.OPTIONAL_BOOLEAN, "n": s.struct_of({"x": s.OPTIONAL_INT8}, optional=True),
    },
    optional=True,
)  # fmt: skip


def test_ordinary_structs_have_a_column_form_also_sliced() -> None:
    values = [{"i": n, "f": n / 4, "g": 1.0, "t\n": 'say "hi"\\\t', "b": True, "n": {"x": 1}} for n in range(9)]
    column = pa.array(values, ROW_TYPE)[3:7]
    text = WRAPPED.column_from_connect_data("t", ROW_SCHEMA, column)
    assert text is not None
    assert text.cast(pa.binary()).to_pylist() == [
        WRAPPED.from_connect_data("t", ROW_SCHEMA, value) for value in values[3:7]
    ]


def test_a_single_precision_column_prints_as_java_floats() -> None:
    column = pa.array([3.14, 0.1, 1.0, 16777216.0 / 4], pa.float32())
    text = PLAIN.column_from_connect_data("t", s.FLOAT32, column)
    assert text is not None
    assert text.to_pylist() == ["3.14", "0.1", "1.0", "4194304.0"]
    assert [PLAIN.from_connect_data("t", s.FLOAT32, x) for x in column.to_pylist()] == [
        t.encode() for t in text.to_pylist()
    ]


def test_wrong_settings_are_all_reported() -> None:
    with pytest.raises(BadConfigError) as caught:
        converter(schemas_enable="perhaps", decimal_format="HEX")
    assert set(caught.value.problems) == {"schemas.enable", "decimal.format"}
