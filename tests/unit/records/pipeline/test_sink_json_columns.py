"""JSON as columns on its way to a sink task: the values that records would hold, or no columns at all."""

from __future__ import annotations

import datetime as dt
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.api.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from spark_connect_rt.api.data.schema import Schema, Type, struct_of
from spark_connect_rt.api.data.schema_builder import SchemaBuilder
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SinkBatch
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.records.converters.json import JsonConverter
from spark_connect_rt.records.pipeline.sink_pipeline import SinkPipeline
from tests.unit.records.pipeline.test_sink_columns import consumed

JSON = "org.apache.kafka.connect.json.JsonConverter"
CHAINS: dict[str, dict[str, str]] = {
    "none": {},
    "replace": {"type": "ReplaceFieldValue", "exclude": "b", "renames": "a:z"},
    "mask": {"type": "MaskFieldValue", "fields": "a"},
    "insert": {"type": "InsertFieldValue", "static.field": "by", "static.value": "me", "offset.field": "at"},
    "cast": {"type": "CastValue", "spec": "a:string"},
    "extract": {"type": "ExtractFieldValue", "field": "a"},
    "flatten": {"type": "FlattenValue"},
    "key": {"type": "ValueToKey", "fields": "a"},
    "hoist": {"type": "HoistFieldValue", "field": "all"},
}
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)
FRACTIONS = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text('aé\n"\\\x00😀', max_size=4)
COLUMN_KINDS = (NUMBERS, FRACTIONS, NUMBERS | FRACTIONS, TEXT, st.booleans(), st.none())
ODD = st.lists(NUMBERS, max_size=2) | st.just(2**64 - 1) | st.booleans() | st.dictionaries(TEXT, NUMBERS, max_size=1)


def pipeline(chain: str, schemas: bool) -> SinkPipeline:
    worker = {"value.converter": JSON, "key.converter": JSON}
    worker |= {f"{side}.converter.schemas.enable": str(schemas).lower() for side in ("value", "key")}
    config = {f"transforms.one.{name}": value for name, value in CHAINS[chain].items()}
    return SinkPipeline.from_config(
        {"transforms": "one", **config} if config else {}, worker, bundled_plugins().class_of
    )


def exactly(value: Any) -> Any:
    """Return a form in which values differ that Python treats as equal: 1, 1.0 and True; fields in another order."""
    if isinstance(value, Struct):
        return ("struct", value.schema, [exactly(part) for part in value.values(with_defaults=False)])
    if isinstance(value, dict):
        return ("map", [(name, exactly(part)) for name, part in value.items()])
    if isinstance(value, list):
        return [exactly(part) for part in value]
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC)
    return repr(value) if isinstance(value, float) else (type(value), value)


def as_records(schema: Schema | None, column: pa.Array | None, count: int) -> list[Any]:
    """Return the elements of a column as records hold them."""
    return [exactly(_connect(schema, value)) for value in ([None] * count if column is None else column.to_pylist())]


def _connect(schema: Schema | None, value: Any) -> Any:
    if schema is None or schema.type is not Type.STRUCT or value is None:
        return value
    return Struct.of_checked(schema, [_connect(field.schema, value[field.name]) for field in schema.fields])


def assert_same(made: SinkPipeline, values: list[bytes | None], keys: list[bytes | None]) -> SinkBatch | None:
    """Compare both forms of a batch; return the columns."""
    batch = consumed(values, keys)
    found = made.columns(batch)
    if found is None:
        return None
    columns, records = found.columns, made.convert(batch).records
    assert columns is not None
    count = len(records)
    assert columns.offsets.to_pylist() == [record.offset for record in records]
    assert as_records(columns.value_schema, columns.values, count) == [exactly(record.value) for record in records]
    assert as_records(columns.key_schema, columns.keys, count) == [exactly(record.key) for record in records]
    assert all(
        (record.value_schema, record.key_schema) == (columns.value_schema, columns.key_schema) for record in records
    )
    return columns


def columns_of(data: st.DataObject, count: int, names: list[str]) -> list[dict[str, Any]]:
    kinds = [data.draw(st.sampled_from(COLUMN_KINDS)) for _ in names]
    return [{name: data.draw(kind | st.none()) for name, kind in zip(names, kinds, strict=True)} for _ in range(count)]


def text_of(tree: Any) -> bytes:
    return orjson.dumps(tree)


@given(chain=st.sampled_from(sorted(CHAINS)), data=st.data())
@settings(deadline=None, max_examples=120)
def test_columns_of_plain_json_hold_what_records_would(chain: str, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 4))
    trees: list[Any] = columns_of(data, count, ["a", "b", "c d"])
    texts: list[bytes | None] = [text_of(tree) for tree in trees]
    if data.draw(st.integers(0, 3)) == 3:
        other = st.sampled_from([b"", b"{", b"null", b"[1]", b'{"b":1,"a":2,"c d":3}', b'{"a":1}', b'{"a":007}', b"{}"])
        at = data.draw(st.integers(0, count - 1))
        texts[at] = data.draw(st.none() | other | ODD.map(lambda odd: text_of({**trees[at], "a": odd})))
    keys = data.draw(st.sampled_from([[None], [None], [b"1", None], [b'"k"', b'"l"'], [b'{"k":1}'], [b"1", b"1.5"]]))
    assert_same(pipeline(chain, schemas=False), texts, (keys * count)[:count])


_MOMENTS = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)).map(
    lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000, tzinfo=dt.UTC)
)
FIELD_KINDS: list[tuple[Schema, st.SearchStrategy[Any]]] = [
    (Schema(Type.INT8), st.integers(-128, 127)),
    (Schema(Type.INT16), st.integers(-(2**15), 2**15 - 1)),
    (Schema(Type.INT32), st.integers(-(2**31), 2**31 - 1)),
    (Schema(Type.INT64), st.integers(-(2**63), 2**63 - 1)),
    (Schema(Type.FLOAT32), st.floats(width=32)),
    (Schema(Type.FLOAT64), st.floats() | st.integers(-5, 5).map(float)),
    (Schema(Type.BOOLEAN), st.booleans()),
    (Schema(Type.STRING), TEXT),
    (Schema(Type.STRING, name="my.own"), TEXT),
    (Schema(Type.BYTES), st.binary(max_size=3)),
    (date_schema(), st.dates()),
    (time_schema(), _MOMENTS.map(lambda at: at.time())),
    (timestamp_schema(), _MOMENTS),
    (decimal_schema(2), st.decimals(-9, 9, places=2)),
    (SchemaBuilder.array(Schema(Type.INT32)).build(), st.lists(st.integers(0, 3), max_size=2)),
    (struct_of({"a": Schema(Type.INT32)}), st.integers(0, 3).map(lambda number: {"a": number})),
]


@given(
    chain=st.sampled_from(sorted(CHAINS)),
    kinds=st.lists(st.sampled_from(FIELD_KINDS), min_size=1, max_size=3),
    data=st.data(),
)
@settings(deadline=None, max_examples=120)
def test_columns_of_json_with_schemas_hold_what_records_would(
    chain: str, kinds: list[tuple[Schema, st.SearchStrategy[Any]]], data: st.DataObject
) -> None:
    optional = [data.draw(st.booleans()) for _ in kinds]
    schema = struct_of({
        name: kind.as_optional(maybe) for name, (kind, _), maybe in zip("abc", kinds, optional, strict=False)
    })  # fmt: skip
    writer = JsonConverter()
    texts: list[bytes | None] = []
    for _ in range(data.draw(st.integers(1, 4))):
        row = {
            name: data.draw(values | st.none() if maybe else values)
            for name, (_, values), maybe in zip("abc", kinds, optional, strict=False)
        }
        texts.append(writer.from_connect_data("t", schema, row))
    if data.draw(st.integers(0, 3)) == 3:
        whole = texts[0] or b""
        odd = [None, whole[:-2] + b',"more":1}}', whole.replace(b'"payload":{', b'"payload":{"a":null,'), whole + b" "]
        texts.append(data.draw(st.sampled_from([*odd, b'{"schema":null,"payload":{"a":1}}', b"{}", whole[:-1]])))
    made = pipeline(chain, schemas=True)
    assert_same(made, texts, [None] * len(texts))


def test_numbers_stay_what_they_are() -> None:
    texts: list[bytes | None] = [b'{"a":1,"b":1}', b'{"a":1.0,"b":2}', b'{"a":null,"b":3}', b'{"a":2.5,"b":null}']
    columns = assert_same(pipeline("none", schemas=False), texts, [None] * 4)
    assert columns is not None
    assert list(map(repr, columns.values.field("a").to_pylist())) == ["1", "1.0", "None", "2.5"]
    assert columns.values.field("b").type == pa.int64()


def test_every_flat_schema_has_columns() -> None:
    at = dt.datetime(2024, 1, 2, 3, 4, 5, 6000, tzinfo=dt.UTC)
    row = {"i": 1, "f": 1.0, "s": "x", "y": True, "raw": b"\x00", "at": at, "day": at.date(), "hour": at.time()}
    fields = [Type.INT8, Type.FLOAT32, Type.STRING, Type.BOOLEAN, Type.BYTES]
    schema = struct_of(
        {name: Schema(kind) for name, kind in zip(row, fields, strict=False)}
        | {"at": timestamp_schema(), "day": date_schema(), "hour": time_schema()}
    )
    text = JsonConverter().from_connect_data("t", schema, row)
    columns = assert_same(pipeline("none", schemas=True), [text, text], [None, None])
    assert columns is not None
    assert columns.values.to_pylist() == [row, row]


@pytest.mark.parametrize("schemas", [True, False])
@pytest.mark.parametrize("chain", ["none", "replace", "insert", "mask", "key"])
def test_the_usual_batch_has_columns(chain: str, schemas: bool) -> None:
    schema = struct_of({"a": Schema(Type.INT64), "b": Schema(Type.STRING, optional=True)})
    converter = JsonConverter()
    converter.configure({"schemas.enable": str(schemas).lower()})
    texts = [converter.from_connect_data("t", schema, {"a": n, "b": None if n else "x"}) for n in range(3)]
    assert assert_same(pipeline(chain, schemas), texts, [None] * 3) is not None


@pytest.mark.parametrize(
    "values",
    [
        [b'{"a":1}', b'{"b":1}'],
        [b'{"a":1}', b'{"a":1,"b":2}'],
        [b'{"a":1,"b":1}', b'{"b":1,"a":1}'],
        [b'{"a":{"b":1}}'],
        [b'{"a":[1]}'],
        [b'{"a":1}', None],
        [b'{"a":1}', b'{"a":"1"}'],
        [b'{"a":1}', b'{"a":true}'],
        [b'{"a":9223372036854775808}'],
        [b"{}"],
        [b""],
        [b"{"],
    ],
)
def test_odd_json_goes_by_records(values: list[bytes | None]) -> None:
    assert pipeline("none", schemas=False).columns(consumed(values, [None] * len(values))) is None
