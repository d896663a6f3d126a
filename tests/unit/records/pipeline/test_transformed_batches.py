"""A batch with transformations goes to bytes by columns; the bytes are those of its rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.api.data.schema import FLOAT64, INT64, OPTIONAL_STRING, Schema, struct_of
from spark_connect_rt.api.records import B, R, SourceBatch, SourceRecord, altered
from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.errors import DataError
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.records.pipeline.columns import HEADERS_TYPE
from spark_connect_rt.records.pipeline.source_pipeline import SourcePipeline, rows_of_piece

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
    made = pipeline()
    assert made._columns(batch(schema)) is not None
    (fast,), (slow,) = made.convert([batch(schema)]), made.convert(rows(schema))
    assert columns(fast) == columns(slow)
    assert fast.topics == slow.topics == ("new-t",)
    assert fast.source_offsets == (({"f": 1}, {"at": 3}),)
    assert fast.records == 3


class Doubling(Transformation):
    """A user's transformation, which has no column form or one that knows of no headers."""

    def apply(self, record: R) -> R | None:
        return altered(record, topic=record.topic * 2)


class DoublingBatches(Doubling):
    def apply_batch(self, batch: B) -> B | None:
        return replace(batch, topic=batch.topic * 2)


@pytest.mark.parametrize(("own", "by_columns"), [(Doubling, False), (DoublingBatches, True)])
def test_one_transformation_without_a_column_form_sends_the_batch_row_by_row(own: type[Any], by_columns: bool) -> None:
    def find(name: str) -> type[Any]:
        return own if name == "Own" else bundled_plugins().class_of(name)

    made = SourcePipeline.from_config({"transforms": "own", "transforms.own.type": "Own"}, JSON, find)
    assert (made._columns(batch(ROW)) is not None) is by_columns
    with_headers = replace(batch(ROW), headers=HEADERS)
    assert made._columns(with_headers) is None
    for given in (batch(ROW), with_headers):
        (converted,) = made.convert([given])
        assert (converted.records, converted.topics) == (3, ("tt",))


HEADERS = pa.array([[{"key": "own", "value": b"x"}, {"key": "gone", "value": b"y"}], None, []], HEADERS_TYPE)
HEADS = {
    "transforms": "head,from,drop,route",
    "transforms.head.type": "InsertHeader",
    "transforms.head.header": "h",
    "transforms.head.value.literal": "5",
    "transforms.from.type": "HeaderFromValue",
    "transforms.from.fields": "name,price",
    "transforms.from.headers": "n,p",
    "transforms.from.operation": "move",
    "transforms.drop.type": "DropHeaders",
    "transforms.drop.headers": "gone",
    "transforms.route.predicate": "has",
    "predicates": "has",
    "predicates.has.type": "HasHeaderKey",
    "predicates.has.name": "n",
}
WRITTEN = {
    "SimpleHeaderConverter": [b"eA==", b"5", (b"a", None, b"c"), (b"1.5", b"2.0", b"0.5")],
    "StringConverter": [b"x", b"5", (b"a", None, b"c"), (b"1.5", b"2.0", b"0.5")],
}


@pytest.mark.parametrize("schema", [None, ROW])
@pytest.mark.parametrize("converter", sorted(WRITTEN))
def test_headers_go_by_columns(schema: Schema | None, converter: str) -> None:
    made = pipeline(**HEADS, **{"header.converter": converter})
    given = replace(batch(schema), headers=HEADERS)
    assert made._columns(given) is not None
    (fast,), (slow,) = (
        made.convert([given]),
        made.convert([record for record, *_ in rows_of_piece(given)]),
    )
    assert columns(fast) == columns(slow)
    assert fast.topics == ("new-t",)
    own, literal, names, prices = WRITTEN[converter]
    wanted = [[("h", literal), ("n", name), ("p", price)] for name, price in zip(names, prices, strict=True)]
    wanted[0] = [("own", own), *wanted[0]]
    found = fast.batch.column("headers").to_pylist()
    assert [[(entry["key"], entry["value"]) for entry in some] for some in found] == wanted


def test_a_header_that_no_converter_writes_goes_row_by_row_to_the_error() -> None:
    made = pipeline(**HEADS, **{"header.converter": "LongConverter"})
    assert made._columns(batch(ROW)) is None
    with pytest.raises(DataError):
        made.convert([batch(ROW)])


def test_a_batch_of_which_nothing_is_left_still_moves_its_source_on() -> None:
    made = pipeline(**{"transforms": "drop", "transforms.drop.type": "Filter"})
    (converted,) = made.convert([batch(ROW)])
    assert (converted.records, converted.topics, converted.batch.num_rows) == (0, (), 0)
    assert converted.source_offsets == (({"f": 1}, {"at": 3}),)
