"""Envelopes as Debezium writes them, from JSON to Parquet: each of its types becomes the table's type, exactly."""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_connect_rt.api.records import SinkRecord
from spark_connect_rt.connectors.lakehouse.changes import OP, ChangeForm, ChangeRules, changes_of_records
from spark_connect_rt.connectors.lakehouse.connect_columns import DELTA_TYPES, ICEBERG_TYPES, ArrowTypeRules
from spark_connect_rt.connectors.lakehouse.table_schema import table_schema
from spark_connect_rt.records.converters.json import JsonConverter

CONNECT = "org.apache.kafka.connect.data"
GEOMETRY = [{"type": "bytes", "optional": False, "field": "wkb"}, {"type": "int32", "optional": True, "field": "srid"}]
POINT = [
    {"type": "double", "optional": False, "field": "x"},
    {"type": "double", "optional": False, "field": "y"},
    *GEOMETRY,
]
VARIABLE = [
    {"type": "int32", "optional": False, "field": "scale"},
    {"type": "bytes", "optional": False, "field": "value"},
]
WKB = bytes.fromhex("0101000000000000000000f03f0000000000000040")


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def named(kind: str, name: str, **parts: Any) -> dict[str, Any]:
    """Return a field's schema of Debezium."""
    return {"type": kind, "name": f"io.debezium.{name}", **parts}


def decimal(scale: str, digits: str) -> dict[str, Any]:
    """Return a decimal's schema, whose precision Debezium adds."""
    parameters = {"scale": scale, "connect.decimal.precision": digits}
    return {"type": "bytes", "name": f"{CONNECT}.Decimal", "parameters": parameters}


def unscaled(number: int) -> str:
    return encoded(number.to_bytes(9, "big", signed=True))


US = pa.timestamp("us")
UTC = pa.timestamp("us", "UTC")
MOMENT = dt.datetime(2026, 11, 27, 18, 39, 53, 123456)
MICROS = (MOMENT - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
MS_MOMENT = MOMENT.replace(microsecond=123000)
# name -> schema of the field, its JSON value, type in a table, value in a table
TYPES: dict[str, tuple[dict[str, Any], Any, pa.DataType, Any]] = {
    "int8": ({"type": "int8"}, -7, pa.int32(), -7),
    "int16": ({"type": "int16"}, 300, pa.int32(), 300),
    "boolean": ({"type": "boolean"}, True, pa.bool_(), True),
    "float": ({"type": "float"}, 1.5, pa.float32(), 1.5),
    "bytes": ({"type": "bytes"}, encoded(b"\x00\xff"), pa.binary(), b"\x00\xff"),
    "bits": (named("bytes", "data.Bits", parameters={"length": "9"}), encoded(b"\x05\x01"), pa.binary(), b"\x05\x01"),
    "date": (named("int32", "time.Date"), 20_784, pa.date32(), dt.date(2026, 11, 27)),
    "old_date": (named("int32", "time.Date"), -719_162, pa.date32(), dt.date(1, 1, 1)),
    "time": (named("int32", "time.Time"), 3_661_001, pa.time64("us"), dt.time(1, 1, 1, 1000)),
    "micro_time": (named("int64", "time.MicroTime"), 3_661_000_001, pa.time64("us"), dt.time(1, 1, 1, 1)),
    "nano_time": (named("int64", "time.NanoTime"), 3_661_000_001_999, pa.time64("us"), dt.time(1, 1, 1, 1)),
    "timestamp": (named("int64", "time.Timestamp"), MICROS // 1000, US, MS_MOMENT),
    "micro_timestamp": (named("int64", "time.MicroTimestamp"), MICROS, US, MOMENT),
    "nano_timestamp": (named("int64", "time.NanoTimestamp"), MICROS * 1000 + 999, US, MOMENT),
    "before_1970": (named("int64", "time.NanoTimestamp"), -1, US, dt.datetime(1969, 12, 31, 23, 59, 59, 999999)),
    "zoned": (
        named("string", "time.ZonedTimestamp"),
        "2026-11-27T19:39:53.123456+01:00",
        UTC,
        MOMENT.replace(tzinfo=dt.UTC),
    ),
    "zoned_nanos": (
        named("string", "time.ZonedTimestamp"),
        "2026-11-27T18:39:53.123456789Z",
        UTC,
        MOMENT.replace(tzinfo=dt.UTC),
    ),
    "zoned_time": (named("string", "time.ZonedTime"), "10:15:30Z", pa.string(), "10:15:30Z"),
    "year": (named("int32", "time.Year"), 1999, pa.int32(), 1999),
    "duration": (named("int64", "time.MicroDuration"), 5, pa.int64(), 5),
    "interval": (named("string", "time.Interval"), "P1Y", pa.string(), "P1Y"),
    "connect_date": ({"type": "int32", "name": f"{CONNECT}.Date"}, 20_784, pa.date32(), dt.date(2026, 11, 27)),
    "connect_time": ({"type": "int32", "name": f"{CONNECT}.Time"}, 3_661_001, pa.time64("us"), dt.time(1, 1, 1, 1000)),
    "connect_timestamp": (
        {"type": "int64", "name": f"{CONNECT}.Timestamp"},
        MICROS // 1000,
        UTC,
        MS_MOMENT.replace(tzinfo=dt.UTC),
    ),
    "decimal": (
        decimal("2", "9"),
        unscaled(-12_345),
        pa.decimal128(9, 2),
        Decimal("-123.45"),
    ),
    "wide_decimal": (
        decimal("40", "60"),
        unscaled(5),
        pa.string(),
        "0.0000000000000000000000000000000000000005",
    ),
    "variable": (
        named("struct", "data.VariableScaleDecimal", fields=VARIABLE),
        {"scale": 3, "value": unscaled(-1_500)},
        pa.string(),
        "-1.500",
    ),
    "enum": (named("string", "data.Enum", parameters={"allowed": "a,b"}), "a", pa.string(), "a"),
    "enum_set": (named("string", "data.EnumSet", parameters={"allowed": "a,b"}), "a,b", pa.string(), "a,b"),
    "json": (named("string", "data.Json"), '{"a":1}', pa.string(), '{"a":1}'),
    "uuid": (
        named("string", "data.Uuid"),
        "f79c3e09-677c-4bbd-a479-3f349cb785e7",
        pa.string(),
        "f79c3e09-677c-4bbd-a479-3f349cb785e7",
    ),
    "geometry": (
        named("struct", "data.geometry.Geometry", fields=GEOMETRY),
        {"wkb": encoded(WKB), "srid": 4326},
        pa.binary(),
        WKB,
    ),
    "point": (
        named("struct", "data.geometry.Point", fields=POINT),
        {"x": 1.0, "y": 2.0, "wkb": encoded(WKB), "srid": None},
        pa.binary(),
        WKB,
    ),
    "array": (
        {"type": "array", "items": named("int64", "time.MicroTimestamp", optional=True)},
        [MICROS, None],
        pa.list_(pa.field("element", US)),
        [MOMENT, None],
    ),
    "map": (
        {"type": "map", "keys": {"type": "string", "optional": False}, "values": {"type": "string", "optional": True}},
        {"a": "b", "c": None},
        pa.map_(pa.string(), pa.string()),
        [("a", "b"), ("c", None)],
    ),
}


def envelope_of(values: dict[str, Any]) -> tuple[bytes, bytes]:
    """Return the record's key and value as JSON with their schemas."""
    row = [{"type": "int64", "optional": False, "field": "id"}] + [
        {**schema, "optional": True, "field": name} for name, (schema, *_) in TYPES.items()
    ]
    key = {"schema": {"type": "struct", "optional": False, "fields": row[:1]}, "payload": {"id": 1}}
    fields = [
        {"type": "struct", "optional": True, "field": "before", "fields": row},
        {"type": "struct", "optional": True, "field": "after", "fields": row},
        {"type": "string", "optional": False, "field": "op"},
    ]
    value = {
        "schema": {"type": "struct", "optional": False, "name": "s.public.t.Envelope", "fields": fields},
        "payload": {"before": None, "after": {"id": 1, **dict.fromkeys(TYPES), **values}, "op": "c"},
    }
    return json.dumps(key).encode(), json.dumps(value).encode()


def record_of(values: dict[str, Any], offset: int = 0) -> SinkRecord:
    key_converter, value_converter = JsonConverter(), JsonConverter()
    key_converter.configure({"schemas.enable": "true"}, is_key=True)
    value_converter.configure({"schemas.enable": "true"}, is_key=False)
    key, value = envelope_of(values)
    key_schema, key_found = key_converter.to_connect_data("t", key)
    value_schema, value_found = value_converter.to_connect_data("t", value)
    return SinkRecord("t", 0, offset, value_found, value_schema, key_found, key_schema)


RULES = ChangeRules(ChangeForm.DEBEZIUM)


def test_every_type_is_exact_in_a_parquet_file(tmp_path: Path) -> None:
    records = [record_of({name: value for name, (_, value, _, _) in TYPES.items()}), record_of({}, 1)]
    (found,) = changes_of_records(records, RULES)
    assert found.refused == ()
    schema = records[0].value_schema
    assert schema is not None
    after = schema.field("after")
    assert after is not None
    assert found.table.schema.remove(0).equals(table_schema(after.schema).set(0, pa.field("id", pa.int64(), False)))
    assert {name: found.table.schema.field(name).type for name in TYPES} == {
        name: kind for name, (_, _, kind, _) in TYPES.items()
    }
    pq.write_table(found.table, tmp_path / "rows.parquet")
    full, empty = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    assert full == {OP: "u", "id": 1, **{name: value for name, (*_, value) in TYPES.items()}}
    assert empty == {OP: "u", "id": 1, **dict.fromkeys(TYPES)}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("time", 86_400_000, "86400000000 microseconds are not a time of day before 24:00"),
        ("micro_time", -1, "-1 microseconds are not a time of day"),
        ("timestamp", 2**62, "overflow"),
        ("zoned", "infinity", "infinity"),
        ("zoned", "2026-11-27T18:39:53", "zone offset"),
        ("decimal", unscaled(10**15), "precision"),
    ],
)
def test_value_outside_of_its_type_is_refused_alone(name: str, value: Any, reason: str) -> None:
    records = [record_of({}, 0), record_of({name: value}, 1), record_of({}, 2)]
    parts = changes_of_records(records, RULES)
    refused = [each for part in parts for each in part.refused]
    assert [each.index for each in refused] == [1]
    assert name in str(refused[0].error)
    assert reason in str(refused[0].error)
    assert [offset for part in parts for offset in part.offsets.to_pylist()] == [0, 2]


def test_decimals_of_any_scale_fit_a_decimal_column_of_the_users_choice() -> None:
    rules = ChangeRules(ChangeForm.DEBEZIUM, types=ArrowTypeRules(variable_decimal=(20, 4)))
    values = [
        {"scale": 3, "value": unscaled(-1_500)},
        {"scale": 6, "value": unscaled(1)},
        {"scale": -2, "value": unscaled(5)},
    ]
    (found,) = changes_of_records([record_of({"variable": value}, at) for at, value in enumerate(values)], rules)
    assert found.table["variable"].to_pylist() == [Decimal("-1.5000"), Decimal("500.0000")]
    assert [each.index for each in found.refused] == [1]


def test_times_are_microseconds_in_a_format_without_a_type_for_them() -> None:
    rules = ChangeRules(ChangeForm.DEBEZIUM, types=DELTA_TYPES)
    names = ("time", "micro_time", "nano_time", "connect_time")
    (found,) = changes_of_records([record_of({name: TYPES[name][1] for name in names})], rules)
    assert [found.table[name].to_pylist() for name in names] == [
        [3_661_001_000],
        [3_661_000_001],
        [3_661_000_001],
        [3_661_001_000],
    ]
    assert ICEBERG_TYPES.time
