"""A table's rows by columns equal those by records, and values that do not fit go by records."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.data.schema_builder import SchemaBuilder
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.engine.executor.table_ranges import TableDecoder, table_columns
from spark_connect_rt.errors import DataError
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.records.converters.json import JsonConverter
from spark_connect_rt.records.pipeline.columns import CONSUME_FIELDS, PARTITION, TOPIC

CONFIG = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}
ROW = (
    SchemaBuilder.struct()
    .field("id", s.INT32)
    .field("price", s.FLOAT32)
    .field("note", s.OPTIONAL_STRING)
    .field("at", logical.timestamp_schema())
    .build()
)
NOON = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)
TABLE = pa.schema(
    [
        ("note", pa.string()),
        ("id", pa.int64()),
        ("price", pa.float64()),
        ("absent", pa.float32()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


def consumed(values: list[bytes | None]) -> pa.RecordBatch:
    columns = {"offset": range(len(values)), "timestamp": range(len(values)), "value": values}
    fields = [pa.field(name, CONSUME_FIELDS[name]) for name in columns]
    metadata = {TOPIC: b"t", PARTITION: b"0"}
    return pa.RecordBatch.from_arrays(
        [pa.array(list(column), field.type) for column, field in zip(columns.values(), fields, strict=True)],
        schema=pa.schema(fields, metadata=metadata),
    )


def decoder(schema: pa.Schema, by_column: bool, **more: str) -> TableDecoder:
    made = TableDecoder.from_config({**CONFIG, **more}, {}, bundled_plugins().class_of, schema)
    if not by_column:
        made._pipeline.columns = lambda *_, **__: None  # type: ignore[method-assign]
    return made


def written(rows: int) -> list[bytes | None]:
    converter = JsonConverter()
    return [
        converter.from_connect_data(
            "t",
            ROW,
            Struct(ROW, {"id": at, "price": 0.1, "note": "x" if at % 2 else None, "at": NOON}),
        )
        for at in range(rows)
    ]


def test_columns_are_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = consumed(written(20))
    expected = decoder(TABLE, by_column=False).decode(batch).rows
    by_column = decoder(TABLE, by_column=True)
    monkeypatch.setattr(by_column, "_by_record", lambda _: pytest.fail("went record by record"))
    assert by_column.decode(batch).rows.equals(expected)
    assert expected.num_rows == 20


def test_a_tombstone_is_an_errant_as_before() -> None:
    batch = consumed([*written(3), None])
    with pytest.raises(DataError, match="t-0@3"):
        decoder(TABLE, by_column=True).decode(batch)
    tolerant = decoder(TABLE, by_column=True, **{"errors.tolerance": "all"})
    found = tolerant.decode(batch)
    assert (found.rows.num_rows, found.skipped, len(tolerant.take_errants())) == (3, 1, 1)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([2**53 + 1]), pa.float64()),
        (pa.array([300]), pa.int8()),
        (pa.array([0.1]), pa.float32()),
        (pa.array(["1"]), pa.int64()),
        (pa.array([1]), pa.string()),
    ],
)
def test_column_with_per_row_decisions_is_written_by_rows(values: pa.Array, kind: Any) -> None:
    structs = pa.StructArray.from_arrays([values], names=["x"])
    assert table_columns(structs, pa.schema([("x", kind)])) is None
