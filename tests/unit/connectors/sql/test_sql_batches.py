"""A batch of columns is the very rows that its records would be, in the same order, in the driver's form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.api.data.schema import INT64, OPTIONAL_STRING, STRING, Schema, struct_of
from spark_connect_rt.api.data.schema_builder import SchemaBuilder
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SinkBatch, SinkRecord
from spark_connect_rt.connectors.sql.sql_batches import last_of_each_key, runs_of_batch
from spark_connect_rt.connectors.sql.sql_rows import RowReader, RowShape, runs_of
from spark_connect_rt.connectors.sql.sql_texts import text_column
from spark_connect_rt.connectors.sql.sql_values import CsvRows, conversion, converted_arrays, converted_columns
from spark_connect_rt.records.converters.json import JsonConverter
from spark_connect_rt.records.pipeline.sink_pipeline import SinkPipeline
from tests.unit.records.pipeline.test_sink_columns import consumed
from tests.unit.records.pipeline.test_sink_json_columns import (
    FIELD_KINDS,
    FRACTIONS,
    NUMBERS,
    TEXT,
    exactly,
    pipeline,
    text_of,
)

MODES: list[tuple[str, list[str]]] = [
    ("none", []),
    ("kafka", []),
    ("kafka", ["t", "p", "o"]),
    ("record_value", ["a"]),
    ("record_value", ["b", "a"]),
    ("record_value", []),
    ("record_key", ["k"]),
    ("record_key", []),
]
KEYS = [b'{"k":1}', b'{"k":2}', b'{"k":null}', b"1", b'"x"', None]
FEW = st.sampled_from([0, 1, 2, 2**53, 2**53 + 1, 2**60])  # keys come twice; some are no exact float


def text_of_rows(columns: Any) -> bytes:
    return b"".join(CsvRows([text_column(column, sa.types.NullType()) for column in columns]))


def by_records(
    records: list[SinkRecord], reader: RowReader, replaces: bool, dialect: str
) -> list[tuple[RowShape, Any]]:
    """Return shape and columns of each run, as the record form writes them."""
    runs = runs_of([reader.read(record) for record in records], replaces)
    return [(run.shape, converted_columns(run.rows, conversions(run.shape, dialect))) for run in runs]


def conversions(shape: RowShape, dialect: str) -> list[Any]:
    zone, column = ZoneInfo("Europe/Berlin"), sa.DateTime(timezone=True)
    return [conversion(schema, column, zone, dialect) for schema in shape.schemas]


def assert_same_rows(made: SinkPipeline, batch: pa.RecordBatch, mode: tuple[str, list[str]], **more: Any) -> bool:
    """Compare both forms, run by run; return whether there are columns."""
    reader = RowReader(mode[0], mode[1], more.get("whitelist", ()), True)
    found, replaces, dialect = (
        made.columns(batch, absent_values=True, headers_matter=False),
        more.get("replaces", mode[0] != "none"),
        more.get("dialect", "postgresql"),
    )
    runs = None if found is None or found.columns is None else runs_of_batch(found.columns, reader, replaces)
    if runs is None:
        return False
    wanted_runs = by_records(made.convert(batch).records, reader, replaces, dialect)
    assert [run.shape for run in runs] == [shape for shape, _ in wanted_runs]
    for run, (shape, wanted) in zip(runs, wanted_runs, strict=True):
        ready = converted_arrays(run.columns, conversions(shape, dialect))
        assert text_of_rows(ready) == text_of_rows(wanted)
        lists = [part.to_pylist() if isinstance(part, pa.Array) else part for part in ready]
        assert [list(map(exactly, items)) for items in lists] == [list(map(exactly, row)) for row in wanted]
    return True


@given(mode=st.sampled_from(MODES), data=st.data())
@settings(deadline=None, max_examples=120)
def test_plain_json_has_the_rows_of_its_records(mode: tuple[str, list[str]], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 5))
    kinds = [data.draw(st.sampled_from([FEW, FEW | FRACTIONS, NUMBERS, TEXT, st.booleans()])) for _ in "abc"]
    trees = [{name: data.draw(kind | st.none()) for name, kind in zip("abc", kinds, strict=True)} for _ in range(count)]
    shape = data.draw(st.sampled_from([KEYS[:2], KEYS[:3], KEYS[3:4], KEYS[4:5], KEYS[5:], KEYS]))
    keys = data.draw(st.lists(st.sampled_from(shape), min_size=count, max_size=count))
    batch = consumed([text_of(tree) for tree in trees], keys)
    more = {
        "replaces": mode[0] != "none" and data.draw(st.booleans()),
        "dialect": data.draw(st.sampled_from(["postgresql", "sqlite"])),
    }
    whitelist = data.draw(st.sampled_from([(), ("a", "c")]))
    assert_same_rows(pipeline("none", schemas=False), batch, mode, whitelist=whitelist, **more)


@given(
    mode=st.sampled_from(MODES),
    kinds=st.lists(st.sampled_from(FIELD_KINDS), min_size=2, max_size=3),
    data=st.data(),
)
@settings(deadline=None, max_examples=120)
def test_json_with_schemas_has_the_rows_of_its_records(
    mode: tuple[str, list[str]], kinds: list[tuple[Schema, st.SearchStrategy[Any]]], data: st.DataObject
) -> None:
    fields = {name: schema.as_optional() for name, (schema, _) in zip("abc", kinds, strict=False)}
    schema, writer = struct_of(fields), JsonConverter()
    key_schema = data.draw(st.sampled_from([INT64, struct_of({"k": INT64})]))
    texts, keys = [], []
    for _ in range(data.draw(st.integers(1, 5))):
        row = {name: data.draw(values | st.none()) for name, (_, values) in zip("abc", kinds, strict=False)}
        texts.append(writer.from_connect_data("t", schema, row))
        number = data.draw(st.integers(1, 3))
        key = number if key_schema is INT64 else {"k": number}
        keys.append(writer.from_connect_data("t", key_schema, key))
    more = {
        "replaces": mode[0] != "none" and data.draw(st.booleans()),
        "dialect": data.draw(st.sampled_from(["postgresql", "sqlite"])),
    }
    assert_same_rows(pipeline("none", schemas=True), consumed(texts, keys), mode, **more)


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("schemas", [True, False])
def test_the_usual_batch_goes_by_columns_in_every_mode(mode: tuple[str, list[str]], schemas: bool) -> None:
    value, key = struct_of({"a": INT64, "b": OPTIONAL_STRING, "c": INT64}), struct_of({"k": INT64})
    writer = JsonConverter()
    writer.configure({"schemas.enable": str(schemas).lower()})
    texts = [writer.from_connect_data("t", value, {"a": n % 2, "b": "x" * (n % 2), "c": n}) for n in range(5)]
    keys = [writer.from_connect_data("t", key, {"k": n % 3}) for n in range(5)]
    assert assert_same_rows(pipeline("none", schemas), consumed(texts, keys), mode)


@given(
    schemas=st.booleans(),
    mode=st.sampled_from([("record_key", ["k"]), ("record_key", []), ("kafka", [])]),
    rows=st.lists(
        st.tuples(st.sampled_from("xyz"), st.none() | st.integers(0, 9), st.booleans()), min_size=1, max_size=12
    ),
    plain_keys=st.booleans(),
    replaces=st.booleans(),
    dialect=st.sampled_from(["postgresql", "sqlite"]),
)
@settings(deadline=None, max_examples=300)
def test_deletions_among_rows_and_headers_make_the_runs_of_their_records(
    schemas: bool,
    mode: tuple[str, list[str]],
    rows: list[tuple[str, int | None, bool]],
    plain_keys: bool,
    replaces: bool,
    dialect: str,
) -> None:
    """A key's upsert behind its deletion stays behind it; of others the last is left, in its kind's run."""
    value, key = struct_of({"a": INT64, "b": OPTIONAL_STRING}), STRING if plain_keys else struct_of({"k": STRING})
    writer = JsonConverter()
    writer.configure({"schemas.enable": str(schemas).lower()})
    keys = [writer.from_connect_data("t", key, name if plain_keys else {"k": name}) for name, _, _ in rows]
    texts = [
        None if number is None else writer.from_connect_data("t", value, {"a": number, "b": name})
        for name, number, _ in rows
    ]
    headers = [[{"key": "h", "value": b"x"}] if has else None for _, _, has in rows]
    batch = consumed(texts, keys, headers=headers)
    had_columns = assert_same_rows(pipeline("none", schemas), batch, mode, replaces=replaces, dialect=dialect)
    by_key = mode[0] == "record_key" and not (plain_keys and not mode[1])
    assert had_columns or not replaces or not by_key


def batch_of(values: pa.Array, schema: Schema | None = None, keys: pa.Array | None = None) -> SinkBatch:
    return SinkBatch("t", 0, pa.array(range(len(values)), pa.int64()), values, schema, keys)


@pytest.mark.parametrize(
    ("batch", "mode"),
    [
        (batch_of(pa.array(["text"])), "none"),
        (batch_of(pa.array([{"a": 1}, None])), "none"),
        (batch_of(pa.array([{"a": 1}, None])), "kafka"),
        (batch_of(pa.array([{"a": 1}, None])), "record_value"),
        (batch_of(pa.array([{"a": 1}, None]), keys=pa.array([1, None])), "record_key"),
        (batch_of(pa.array([{"b": [1]}, None]), keys=pa.array([1, 2])), "record_key"),
        (batch_of(pa.array([{"a": {"b": 1}}])), "none"),
        (batch_of(pa.array([{"a": [1]}])), "none"),
        (batch_of(pa.array([{"a": 1}])), "record_key"),
        (batch_of(pa.array([{"a": 1}, {"a": 2}]), keys=pa.array([1, None])), "record_key"),
        (batch_of(pa.array([{"b": 1}])), "record_value"),
        (batch_of(pa.array([{"a": [("k", 1)]}], pa.struct({"a": pa.map_(pa.string(), pa.int64())}))), "none"),
    ],
)
def test_unusual_batch_is_written_by_records(batch: SinkBatch, mode: str) -> None:
    fields = [] if mode == "none" else ["a"]
    assert runs_of_batch(batch, RowReader(mode, fields, (), True), True) is None


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab")), min_size=1, max_size=8))
@settings(deadline=None)
def test_of_each_key_the_last_is_left_where_the_first_was(keys: list[tuple[int, str]]) -> None:
    columns = [pa.array([key[part] for key in keys]) for part in (0, 1)]
    wanted = list({key: at for at, key in enumerate(keys)}.values())
    found = last_of_each_key(columns)
    assert (list(range(len(keys))) if found is None else found.to_pylist()) == wanted


def test_columns_that_are_not_keys_of_the_table_may_be_null() -> None:
    schema = struct_of({"k": INT64}, optional=True)
    keys = pa.array([None, {"k": 1}])
    batch = replace(batch_of(pa.array([{"a": 1}, {"a": 2}]), keys=keys), key_schema=schema)
    (rows,) = runs_of_batch(batch, RowReader("record_value", ["a"], (), True), True) or ()
    assert [column.to_pylist() for column in rows.columns] == [[1, 2]]


def test_a_struct_is_read_by_its_schemas_order() -> None:
    schema = SchemaBuilder.struct().field("b", INT64).field("a", INT64).build()
    records = [SinkRecord("t", 0, 0, Struct(schema, {"a": 1, "b": 2}), schema)]
    (rows,) = (
        runs_of_batch(batch_of(pa.array([{"b": 2, "a": 1}]), schema), reader := RowReader("none", [], (), True), False)
        or ()
    )
    assert [column.to_pylist() for column in rows.columns] == [[2], [1]]
    assert rows.shape is reader.read(records[0])[0]


def test_the_last_rows_stand_where_their_keys_came_first_also_with_nulls() -> None:
    keys = [pa.array([0, 0, None, 0, 1]), pa.array([0, None, None, 0, None])]
    found = last_of_each_key(keys)
    assert found is not None
    assert found.to_pylist() == [3, 1, 2, 4]
