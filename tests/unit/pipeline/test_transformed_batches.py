"""A batch with transformations goes to bytes by columns; the bytes are those of its rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.api.data.schema import FLOAT64, INT64, OPTIONAL_STRING, Schema, struct_of
from spark_connect_rt.api.records import SourceBatch, SourceRecord
from spark_connect_rt.app.plugin_scan import bundled_plugins
from spark_connect_rt.pipeline.source_pipeline import SourcePipeline

ROW = struct_of({"id": INT64, "name": OPTIONAL_STRING, "price": FLOAT64})
VALUES = pa.array(
    [{"id": 1, "name": "a", "price": 1.5}, {"id": 2, "name": None, "price": 2.0}, {"id": 3, "name": "c", "price": 0.5}]
)
CHAIN = {
    "transforms": "insert,mask,replace,route",
    "transforms.insert.type": "InsertFieldValue",
    "transforms.insert.static.field": "by",
    "transforms.insert.static.value": "us",
    "transforms.mask.type": "MaskFieldValue",
    "transforms.mask.fields": "price",
    "transforms.replace.type": "ReplaceFieldValue",
    "transforms.replace.renames": "id:number",
    "transforms.route.type": "RegexRouter",
    "transforms.route.regex": "(.*)",
    "transforms.route.replacement": "new-$1",
}
JSON = {
    "key.converter": "org.apache.kafka.connect.converters.LongConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}


def pipeline(**change: str) -> SourcePipeline:
    return SourcePipeline.from_config({**CHAIN, **change}, JSON, bundled_plugins().class_of)


def batch(schema: Schema | None) -> SourceBatch:
    return SourceBatch({"f": 1}, {"at": 3}, "t", VALUES, schema, pa.array([7, 8, 9]), INT64, pa.array([1, 2, 3]))


def rows(schema: Schema | None) -> list[SourceRecord]:
    values = zip(VALUES.to_pylist(), (7, 8, 9), (1, 2, 3), strict=True)
    return [SourceRecord({"f": 1}, {"at": at}, "t", value, schema, key, INT64, None, at) for value, key, at in values]


def columns(converted: Any) -> dict[str, list[Any]]:
    return {name: converted.batch.column(name).to_pylist() for name in converted.batch.schema.names}


@pytest.mark.parametrize("schema", [None, ROW])
def test_four_transformations_by_columns_give_the_bytes_of_the_rows(schema: Schema | None) -> None:
    one = pipeline()
    assert one._columns(batch(schema)) is not None
    (fast,), (slow,) = one.convert([batch(schema)]), one.convert(rows(schema))
    assert columns(fast) == columns(slow)
    assert fast.topics == slow.topics == ("new-t",)
    assert fast.source_offsets == (({"f": 1}, {"at": 3}),)
    assert fast.records == 3


def test_one_transformation_without_a_column_form_sends_the_batch_row_by_row() -> None:
    change = {"transforms": "insert,head", "transforms.head.type": "InsertHeader"}
    one = pipeline(**change, **{"transforms.head.header": "h", "transforms.head.value.literal": "5"})
    assert one._columns(batch(ROW)) is None
    (converted,) = one.convert([batch(ROW)])
    assert converted.records == 3
    assert converted.batch.column("headers").to_pylist() == [[{"key": "h", "value": b"5"}]] * 3


def test_a_batch_of_which_nothing_is_left_still_moves_its_source_on() -> None:
    one = pipeline(**{"transforms": "drop", "transforms.drop.type": "Filter"})
    (converted,) = one.convert([batch(ROW)])
    assert (converted.records, converted.topics, converted.batch.num_rows) == (0, (), 0)
    assert converted.source_offsets == (({"f": 1}, {"at": 3}),)
