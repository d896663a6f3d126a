# ruff: noqa: E501 - one line a group of inputs
"""The column form of every transformation gives what its row form gives, record by record."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import BYTES, Field, Schema, Type
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import Header, HeaderColumn, SourceBatch, SourceRecord
from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.errors import DataError
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.records.pipeline.columns import HEADERS_TYPE
from spark_connect_rt.records.pipeline.source_pipeline import SourcePipeline
from spark_connect_rt.records.pipeline.transformation_chain import TransformationChain
from spark_connect_rt.records.transforms.column_forms import apply_batch
from spark_connect_rt.records.transforms.predicates import HasHeaderKey

slow_machine = settings(deadline=None, max_examples=60)
MS = st.integers(-(2**40), 2**42)
KINDS: dict[str, tuple[pa.DataType, Schema, st.SearchStrategy[Any]]] = {
    "i8": (pa.int8(), Schema(Type.INT8), st.integers(-128, 127)),
    "i32": (pa.int32(), Schema(Type.INT32), st.integers(-(2**31), 2**31 - 1)),
    "i64": (pa.int64(), Schema(Type.INT64), st.integers(-(2**63), 2**63 - 1) | MS),
    "f32": (pa.float32(), Schema(Type.FLOAT32), st.floats(width=32)),
    "f64": (pa.float64(), Schema(Type.FLOAT64), st.floats() | st.floats(-1e6, 1e6)),
    "bool": (pa.bool_(), Schema(Type.BOOLEAN), st.booleans()),
    "text": (
        pa.string(),
        Schema(Type.STRING),
        st.text("ab\u00e9", max_size=4) | st.integers(-200, 200).map(str) | st.sampled_from(["true", "TRUE", "1.25"]),
    ),
    "data": (pa.binary(), Schema(Type.BYTES), st.binary(max_size=3)),
    "when": (
        pa.timestamp("ms", tz="UTC"),
        logical.timestamp_schema(),
        MS.map(lambda ms: dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=ms)),
    ),
    "day": (pa.date32(), logical.date_schema(), st.dates(dt.date(1800, 1, 1), dt.date(2200, 1, 1))),
}
NAMES = ("a", "b", "c")
TYPES = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")


@st.composite
def batches(draw: st.DrawFn, flat: bool = True) -> SourceBatch:
    """A batch of structs with up to three fields, with or without a schema, sliced out of a larger one."""
    count = draw(st.integers(0, 4))
    fields, arrays = [], []
    for name in NAMES[: draw(st.integers(1, 3))]:
        kind, schema, values = KINDS[draw(st.sampled_from(sorted(KINDS)))]
        nullable = draw(st.booleans())
        column = draw(st.lists(st.none() | values if nullable else values, min_size=count + 1, max_size=count + 1))
        default = draw(st.none() | values) if nullable and draw(st.booleans()) else None
        fields.append((name, Schema(**{**_parts(schema), "optional": nullable, "default": default})))
        arrays.append(pa.array(column, kind))
    if not flat:
        arrays[0] = pa.StructArray.from_arrays([arrays[0]], names=["in"])
        fields[0] = (fields[0][0], Schema(Type.STRUCT, fields=(Field("in", 0, fields[0][1]),)))
    whole = pa.StructArray.from_arrays(arrays, names=[name for name, _ in fields]).slice(1)
    schema = Schema(Type.STRUCT, name="row", fields=tuple(Field(n, i, s) for i, (n, s) in enumerate(fields)))
    with_schema = draw(st.booleans())
    times = pa.array(draw(st.lists(MS, min_size=count, max_size=count)), pa.int64()) if draw(st.booleans()) else None
    keys = whole if draw(st.booleans()) else None
    return SourceBatch(
        {}, {"at": 1}, "topic-1", whole, schema if with_schema else None, keys, schema if with_schema else None, times,
        draw(st.none() | st.integers(0, 9)), draw(headers(count)),
    )  # fmt: skip


def headers(count: int) -> st.SearchStrategy[pa.Array | None]:
    """Lists of headers of bytes, one a record, sliced out of a larger column; often none."""
    entry = st.fixed_dictionaries({"key": st.sampled_from(["h", "k"]), "value": st.none() | st.binary(max_size=2)})
    lists = st.lists(st.none() | st.lists(entry, max_size=2), min_size=count + 1, max_size=count + 1)
    return st.none() | lists.map(lambda some: pa.array(some, HEADERS_TYPE).slice(1))


def _parts(schema: Schema) -> dict[str, Any]:
    return {part: getattr(schema, part) for part in ("type", "name", "version", "parameters")}


def rows_of(batch: SourceBatch) -> list[SourceRecord]:
    count = len(batch.values)
    keys = [None] * count if batch.keys is None else batch.keys.to_pylist()
    times = [None] * count if batch.timestamps_ms is None else batch.timestamps_ms.to_pylist()
    own = [None] * count if batch.headers is None else batch.headers.to_pylist()
    more = [
        header.values.to_pylist() if isinstance(header, HeaderColumn) else [header.value] * count
        for header in batch.more_headers
    ]
    return [
        SourceRecord(
            {}, {}, batch.topic, value, batch.value_schema, key, batch.key_schema, batch.partition, time,
            (
                *(Header(header["key"], header["value"], BYTES) for header in own[at] or ()),
                *(Header(header.key, part[at], header.schema) for header, part in zip(batch.more_headers, more, strict=True)),
            ),
        )
        for at, (value, key, time) in enumerate(zip(batch.values.to_pylist(), keys, times, strict=True))
    ]  # fmt: skip


def plain(value: Any) -> Any:
    """Structs as dicts, times as ms, and NaN as something equal to itself."""
    if isinstance(value, Struct):
        return {
            field.name: plain(part)
            for field, part in zip(value.schema.fields, value.values(with_defaults=False), strict=True)
        }
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, dt.date):
        return (type(value).__name__, logical.ms_of(value))
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else value, math.copysign(1, value))
    return (type(value).__name__, value)


def shown(record: SourceRecord) -> Any:
    return (
        record.topic, record.key_schema, plain(record.key), record.value_schema, plain(record.value),
        record.timestamp_ms, record.partition, [(header.key, header.schema, plain(header.value)) for header in record.headers],
    )  # fmt: skip


def configured(name: str, config: dict[str, str]) -> Transformation:
    made: Transformation = bundled_plugins().class_of(name)()
    made.configure(config)
    return made


def check(transformation: Transformation, batch: SourceBatch) -> None:
    try:
        changed = apply_batch(transformation, batch)
    except DataError:  # then its rows are asked, and the record to blame is found
        assert not rows_of(batch) or _refuses_a_row(transformation, batch)
        return
    if changed is None:
        return
    by_row = [record for row in rows_of(batch) if (record := transformation.apply(row)) is not None]
    assert list(map(shown, rows_of(changed))) == list(map(shown, by_row))
    assert changed.source_offset == batch.source_offset


def _refuses_a_row(transformation: Transformation, batch: SourceBatch) -> bool:
    try:
        for row in rows_of(batch):
            transformation.apply(row)
    except DataError:
        return True
    return False


SIDES = st.sampled_from(["Key", "Value"])
HEADER_CONVERTERS = ("SimpleHeaderConverter", "StringConverter", "JsonConverter", "ByteArrayConverter", "LongConverter")
NAME = st.sampled_from([*NAMES, "zzz"])


@slow_machine
@given(batches(), SIDES, NAME, st.sampled_from(TYPES), st.booleans())
def test_cast(batch: SourceBatch, side: str, name: str, kind: str, replace_null: bool) -> None:
    config = {"spec": f"{name}:{kind}", "replace.null.with.default": str(replace_null)}
    check(configured(f"Cast{side}", config), batch)


@slow_machine
@given(st.sampled_from(sorted(KINDS)).flatmap(lambda name: st.tuples(st.just(name), st.lists(st.none() | KINDS[name][2], max_size=4))), st.sampled_from(TYPES), st.booleans())  # fmt: skip
@example(("i64", [-(1 << 63)]), "float32", False)
@example(("i64", [-(1 << 63)]), "float64", False)
def test_cast_of_whole_values(column: tuple[str, list[Any]], kind: str, with_schema: bool) -> None:
    arrow, schema, _ = KINDS[column[0]]
    batch = SourceBatch({}, {}, "t", pa.array(column[1], arrow), schema.as_optional() if with_schema else None)
    check(configured("CastValue", {"spec": kind}), batch)


@slow_machine
@given(batches(), SIDES, st.sampled_from([
    {"exclude": "a"}, {"include": "a,b"}, {"renames": "a:z"}, {"renames": "a:b"}, {"renames": "a:b,b:a"}, {"renames": "a:x,b:x"},
    {"include": "b", "renames": "b:a"}, {"exclude": "a,b,c"}, {}, {"exclude": "a", "renames": "a:b"},
    {"include": "b,c", "renames": "a:b"}, {"exclude": "b", "renames": "a:b"},
]))  # fmt: skip
def test_replace_field(batch: SourceBatch, side: str, config: dict[str, str]) -> None:
    check(configured(f"ReplaceField{side}", config), batch)


@slow_machine
@given(batches(), SIDES, st.sampled_from([
    {"topic.field": "t"}, {"topic.field": "t!"}, {"partition.field": "p"}, {"timestamp.field": "ts"}, {"timestamp.field": "ts!"},
    {"static.field": "s", "static.value": "v"}, {"partition.field": "p!"}, {"topic.field": "a"}, {"topic.field": "x", "static.field": "x", "static.value": "v"},
]))  # fmt: skip
def test_insert_field(batch: SourceBatch, side: str, config: dict[str, str]) -> None:
    check(configured(f"InsertField{side}", config), batch)


@settings(deadline=None, max_examples=30)
@given(batches(), SIDES, st.sampled_from(["p", "p?", "p!"]), st.integers(0, 9))
def test_insert_field_of_the_partition(batch: SourceBatch, side: str, field: str, partition: int) -> None:
    check(configured(f"InsertField{side}", {"partition.field": field}), replace(batch, partition=partition))


@slow_machine
@given(batches(), SIDES, st.sampled_from(["a", "a,b", "a,b,c", "zzz"]), st.sampled_from([None, "7", "300", "x", "1.5"]))
def test_mask_field(batch: SourceBatch, side: str, fields: str, replacement: str | None) -> None:
    config = {"fields": fields} if replacement is None else {"fields": fields, "replacement": replacement}
    check(configured(f"MaskField{side}", config), batch)


@slow_machine
@given(batches(), SIDES, NAME)
def test_extract_and_hoist_field(batch: SourceBatch, side: str, name: str) -> None:
    check(configured(f"ExtractField{side}", {"field": name}), batch)
    check(configured(f"HoistField{side}", {"field": name}), batch)


@slow_machine
@given(st.booleans().flatmap(lambda flat: batches(flat=flat)), SIDES, st.sampled_from([".", "_", ""]))
def test_flatten(batch: SourceBatch, side: str, delimiter: str) -> None:
    check(configured(f"Flatten{side}", {"delimiter": delimiter}), batch)


@slow_machine
@given(batches(), SIDES, st.sampled_from(["a", "a,b", "b,a", "a,a", "zzz"]))
def test_metadata_and_key(batch: SourceBatch, side: str, fields: str) -> None:
    check(configured(f"SetSchemaMetadata{side}", {"schema.name": "n", "schema.version": "2"}), batch)
    check(configured("ValueToKey", {"fields": fields}), batch)


@slow_machine
@given(batches(), st.sampled_from(["a", "b", ""]), st.sampled_from(["unix", "Date", "Time", "Timestamp", "string"]),
       st.sampled_from(["seconds", "milliseconds", "microseconds", "nanoseconds"]))  # fmt: skip
def test_timestamp_converter(batch: SourceBatch, field: str, kind: str, precision: str) -> None:
    config = {"field": field, "target.type": kind, "unix.precision": precision, "format": "yyyy-MM-dd HH:mm"}
    check(configured("TimestampConverterValue", config), batch)


@slow_machine
@given(st.lists(st.none() | MS, max_size=4), st.sampled_from(["unix", "Date", "Timestamp"]),
       st.sampled_from(["seconds", "milliseconds", "microseconds", "nanoseconds"]), st.booleans())  # fmt: skip
def test_timestamp_converter_of_whole_values(column: list[Any], kind: str, precision: str, with_schema: bool) -> None:
    schema = Schema(Type.INT64, optional=True) if with_schema else None
    batch = SourceBatch({}, {}, "t", pa.array(column, pa.int64()), schema)
    check(configured("TimestampConverterValue", {"target.type": kind, "unix.precision": precision}), batch)


@slow_machine
@given(batches(), st.sampled_from(["yyyyMMdd", "HH", "yyyy"]))
def test_routers_headers_and_filter(batch: SourceBatch, pattern: str) -> None:
    check(configured("RegexRouter", {"regex": "(.*)-(\\d)", "replacement": "$2-$1"}), batch)
    check(configured("TimestampRouter", {"timestamp.format": pattern}), batch)
    check(configured("DropHeaders", {"headers": "h"}), batch)
    check(configured("Filter", {}), batch)
    predicate = HasHeaderKey()
    predicate.configure({"name": "h"})
    answer = predicate.test_batch(batch)
    rows = rows_of(batch)
    assert ([answer] * len(rows) if isinstance(answer, bool) else answer.to_pylist()) == list(map(predicate.test, rows))


HEADERS_TAKEN = st.sampled_from(
    [("a", "h"), ("a,b", "h,k"), ("a,a", "h,i"), ("a,b,c", "x,y,z"), ("zzz", "h"), ("b,zzz", "h,h")]
)


@slow_machine
@given(batches(), SIDES, HEADERS_TAKEN, st.sampled_from(["move", "copy"]), st.booleans())
def test_header_from(batch: SourceBatch, side: str, taken: tuple[str, str], operation: str, replace_null: bool) -> None:
    config = {
        "fields": taken[0],
        "headers": taken[1],
        "operation": operation,
        "replace.null.with.default": str(replace_null),
    }
    check(configured(f"HeaderFrom{side}", config), batch)


@settings(deadline=None, max_examples=25)
@given(batches(), HEADERS_TAKEN, st.sampled_from(["7", "text", "true", "1.5", "[1,2]", "2020-01-01"]), st.sampled_from(HEADER_CONVERTERS))  # fmt: skip
def test_headers_are_written_as_those_of_rows(
    batch: SourceBatch, taken: tuple[str, str], literal: str, converter: str
) -> None:
    pipeline = SourcePipeline.from_config(
        {
            "transforms": "insert,from,drop,cut", "transforms.insert.type": "InsertHeader", "transforms.insert.header": "new",
            "transforms.insert.value.literal": literal, "transforms.from.type": "HeaderFrom$Value", "transforms.from.fields": taken[0],
            "transforms.from.headers": taken[1], "transforms.from.operation": "copy", "transforms.drop.type": "DropHeaders",
            "transforms.drop.headers": "k", "transforms.cut.type": "Filter", "transforms.cut.predicate": "head",
            "transforms.cut.negate": "true", "predicates": "head", "predicates.head.type": "HasHeaderKey", "predicates.head.name": "new",
            "header.converter": converter, "header.converter.schemas.enable": "false",
        },
        {"key.converter": "JsonConverter", "value.converter": "JsonConverter"},
        bundled_plugins().class_of,
    )  # fmt: skip
    columns = pipeline._columns(batch)
    if columns is not None:
        rows, _, errants = pipeline.convert_rows(rows_of(batch))
        assert errants == ()
        assert (
            columns.column("headers").to_pylist() == rows.column("headers").to_pylist()
            if len(rows)
            else not len(columns)
        )


@slow_machine
@given(st.lists(st.none() | st.integers(0, 9), max_size=5), st.booleans(), st.sampled_from(["tomb", "topic", "head"]))
def test_filter_behind_a_predicate(column: list[Any], negate: bool, predicate: str) -> None:
    chain = TransformationChain.from_config(
        {
            "transforms": "f", "transforms.f.type": "Filter", "transforms.f.predicate": predicate,
            "transforms.f.negate": str(negate), "predicates": "tomb,topic,head", "predicates.tomb.type": "RecordIsTombstone",
            "predicates.topic.type": "TopicNameMatches", "predicates.topic.pattern": "t.*",
            "predicates.head.type": "HasHeaderKey", "predicates.head.name": "h",
        },
        bundled_plugins().class_of,
    )  # fmt: skip
    batch = SourceBatch(
        {}, {"at": 1}, "t", pa.array(column, pa.int64()), timestamps_ms=pa.array(range(len(column)), pa.int64())
    )
    changed = chain.apply_batch(batch)
    assert changed is not None
    by_row = [record for row in rows_of(batch) if (record := chain.apply(row)) is not None]
    assert list(map(shown, rows_of(changed))) == list(map(shown, by_row))


ROW = Schema(
    Type.STRUCT,
    fields=tuple(
        Field(name, index, schema)
        for index, (name, schema) in enumerate([("a", Schema(Type.INT64)), ("b", Schema(Type.STRING, optional=True))])
    ),
)


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("CastValue", {"spec": "a:string"}), ("CastValue", {"spec": "b:int32"}), ("CastValue", {"spec": "a:float64"}),
        ("ReplaceFieldValue", {"exclude": "a"}), ("ReplaceFieldValue", {"renames": "a:z"}), ("InsertFieldValue", {"topic.field": "t"}),
        ("InsertFieldValue", {"timestamp.field": "t"}), ("MaskFieldValue", {"fields": "a,b"}), ("MaskFieldValue", {"fields": "b", "replacement": "x"}),
        ("HoistFieldValue", {"field": "h"}), ("ExtractFieldValue", {"field": "b"}), ("FlattenValue", {}), ("SetSchemaMetadataValue", {"schema.name": "n"}),
        ("TimestampConverterValue", {"field": "a", "target.type": "Timestamp"}), ("TimestampRouter", {}), ("RegexRouter", {"regex": "t", "replacement": "u"}),
        ("ValueToKey", {"fields": "a"}), ("DropHeaders", {"headers": "h"}), ("Filter", {}),
        ("InsertHeader", {"header": "h", "value.literal": "5"}), ("HeaderFromValue", {"fields": "a,b", "headers": "h,i", "operation": "copy"}),
        ("HeaderFromValue", {"fields": "b", "headers": "h", "operation": "move"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("schema", [None, ROW])
def test_an_ordinary_batch_goes_by_columns(name: str, config: dict[str, str], schema: Schema | None) -> None:
    values = pa.array([{"a": 1, "b": "5"}, {"a": 2, "b": None}])
    batch = SourceBatch({}, {"at": 1}, "t", values, schema, timestamps_ms=pa.array([1, 2]))
    if name == "SetSchemaMetadataValue" and schema is None:
        batch = replace(batch, value_schema=ROW)  # without a schema there is nothing to set
    transformation = configured(name, config)
    assert apply_batch(transformation, batch) is not None
    check(transformation, batch)


def test_value_that_a_row_refuses_passes_no_column() -> None:
    batch = SourceBatch({}, {}, "t", pa.array([{"a": 1, "b": "x"}]), ROW)
    for name, config in (
        ("CastValue", {"spec": "b:int8"}),
        ("MaskFieldValue", {"fields": "a", "replacement": "x"}),
        ("ExtractFieldValue", {"field": "zzz"}),
        ("RegexRouter", {"regex": "t", "replacement": "$1"}),
        ("InsertFieldValue", {"offset.field": "o"}),
        ("ValueToKey", {"fields": "zzz"}),
    ):
        transformation = configured(name, config)
        assert apply_batch(transformation, batch) is None
        with pytest.raises(DataError):
            transformation.apply(rows_of(batch)[0])
