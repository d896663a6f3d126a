"""Elements of columns as Connect values: the types of Java's contract at every depth, and values beyond Python's."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.api.data.schema import INT64, OPTIONAL_STRING, struct_of
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SourceBatch
from spark_connect_rt.errors import DataError
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.records.pipeline.arrow_values import RowColumns
from spark_connect_rt.records.pipeline.connect_values import connect_values, row_values
from spark_connect_rt.records.pipeline.source_pipeline import SourcePipeline

PAIR = pa.struct([("n", pa.int64()), ("t", pa.string())])
FAR_MS = 400_000_000_000_000  # in the year 14645
JSON = "org.apache.kafka.connect.json.JsonConverter"


def test_structs_are_structs_at_every_depth() -> None:
    kind = pa.struct([("s", PAIR), ("l", pa.list_(PAIR)), ("m", pa.map_(pa.string(), pa.list_(PAIR)))])
    full, partial = {"n": 1, "t": "x"}, {"n": 2, "t": None}
    rows = [
        {"s": full, "l": [full, None, partial], "m": [("a", [partial]), ("b", None)]},
        None,
        {"s": None, "l": None, "m": None},
        {"s": partial, "l": [], "m": []},
    ]
    columns = RowColumns(pa.schema([pa.field("c", kind)]))
    whole = columns.structs(pa.RecordBatch.from_arrays([pa.array([rows[0], *rows], kind)], names=["c"]))
    inner = columns.schema.fields[0].schema
    pair = inner.fields[0].schema
    first, second = (Struct(pair, given) for given in (full, partial))
    expected: list[Any] = [
        Struct(inner, {"s": first, "l": [first, None, second], "m": {"a": [second], "b": None}}),
        None,
        Struct(inner),
        Struct(inner, {"s": second, "l": [], "m": {}}),
    ]
    found = connect_values(whole.slice(1), columns.schema)
    assert [row["c"] for row in found] == expected
    assert all(type(row) is Struct for row in found)
    found[0]["c"].check()


def test_values_without_a_schema_and_structs_without_fields_stay_as_they_are() -> None:
    assert connect_values(pa.array([{"n": 1, "t": "x"}, None], PAIR), None) == [{"n": 1, "t": "x"}, None]
    empty = struct_of({}, optional=True)
    assert connect_values(pa.array([{}, None], pa.struct([])), empty) == [Struct(empty), None]
    missing = struct_of({"n": INT64, "more": OPTIONAL_STRING})
    assert connect_values(pa.array([{"n": 1, "t": "x"}], PAIR), missing)[0]["more"] is None


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (pa.array([0, FAR_MS], pa.timestamp("ms", "UTC")), "value.at: a timestamp"),
        (pa.array([0, 2_000_000_000], pa.int32()).cast(pa.date32()), "value.at: a date32"),
        (pa.array([0, 86_400_000], pa.int32()).cast(pa.time32("ms")), "value.at: a time32"),
    ],
)
def test_a_value_beyond_python_is_the_fault_of_its_row_alone(values: pa.Array, said: str) -> None:
    columns = RowColumns(pa.schema([pa.field("at", values.type)]))
    structs = columns.structs(pa.RecordBatch.from_arrays([values], names=["at"]))
    with pytest.raises(DataError, match=said):
        connect_values(structs, columns.schema)
    good, bad = row_values(structs, columns.schema)
    assert type(good) is Struct
    assert isinstance(bad, DataError)


def test_a_row_that_cannot_be_read_is_errant_and_its_neighbours_are_sent() -> None:
    columns = RowColumns(pa.schema([("id", pa.int64()), ("at", pa.timestamp("ms", "UTC"))]))
    batch = pa.RecordBatch.from_pydict(
        {"id": pa.array([1, 2, 3]), "at": pa.array([0, FAR_MS, 1], pa.timestamp("ms", "UTC"))}
    )
    keys = pa.array(["a", "b", "c"])
    piece = SourceBatch({"f": "x"}, {"row": 3}, "t", columns.structs(batch), columns.schema, keys, OPTIONAL_STRING)
    config = {
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": JSON,
        "errors.tolerance": "all",
    }
    tolerant = SourcePipeline.from_config(config, {}, bundled_plugins().class_of)
    (converted,) = tolerant.convert([_with_map(piece)])
    assert (converted.records, converted.skipped) == (2, 1)
    assert converted.source_offsets == (({"f": "x"}, {"row": 3}),)
    (errant,) = converted.errants
    assert "record for topic t of source partition {'f': 'x'}" in errant.place
    assert "value.at: a timestamp" in str(errant.error)
    strict = SourcePipeline.from_config({**config, "errors.tolerance": "none"}, {}, bundled_plugins().class_of)
    with pytest.raises(DataError, match=r"record for topic t .*value\.at"):
        strict.convert([_with_map(piece)])


_TRANSFORMS = {
    "InsertField$Value": {"static.field": "m", "static.value": "v"},
    "Cast$Value": {"spec": "id:string"},
    "TimestampConverter$Value": {"field": "at", "target.type": "unix"},
    "Flatten$Value": {},
    "ValueToKey": {"fields": "at"},
    "MaskField$Value": {"fields": "at"},
    "HoistField$Value": {"field": "h"},
}
_FAR = {
    "at": pa.array([0, FAR_MS, 1], pa.timestamp("ms", "UTC")),
    "d": pa.array([0, 2_000_000_000, 1], pa.int32()).cast(pa.date32()),
    "l": pa.array([[0], [FAR_MS], [1]], pa.list_(pa.timestamp("ms", "UTC"))),
    "s": pa.array([{"x": 0}, {"x": FAR_MS}, {"x": 1}], pa.struct([("x", pa.timestamp("ms"))])),
}


@pytest.mark.parametrize("transform", [None, *_TRANSFORMS])
@pytest.mark.parametrize("column", _FAR)
def test_far_time_makes_only_its_row_errant(column: str, transform: str | None) -> None:
    times = {"at": pa.array([0, 1, 2], pa.timestamp("ms", "UTC")), column: _FAR[column]}
    batch = pa.RecordBatch.from_pydict({"id": pa.array([1, 2, 3]), **times})
    columns = RowColumns(batch.schema)
    config = {"key.converter": JSON, "value.converter": JSON, "errors.tolerance": "all"}
    if transform is not None:
        own = {f"transforms.t.{name}": text for name, text in _TRANSFORMS[transform].items()}
        config |= {"transforms": "t", "transforms.t.type": f"org.apache.kafka.connect.transforms.{transform}", **own}
    pipeline = SourcePipeline.from_config(config, {}, bundled_plugins().class_of)
    (converted,) = pipeline.convert([SourceBatch({}, {"o": 3}, "t", columns.structs(batch), columns.schema)])
    assert [type(errant.error) for errant in converted.errants] == [DataError] * converted.skipped
    assert (converted.records, converted.skipped) in ((2, 1), (3, 0))  # as columns it may pass as the number it is


def _with_map(piece: SourceBatch) -> SourceBatch:
    """Return the batch with an additional map, so that no converter has a column form for it."""
    kind = pa.map_(pa.string(), pa.int64())
    maps = pa.array([[("k", 1)]] * len(piece.values), kind)
    batch = pa.RecordBatch.from_arrays([*piece.values.flatten(), maps], names=["id", "at", "m"])
    columns = RowColumns(batch.schema)
    return replace(piece, values=columns.structs(batch), value_schema=columns.schema)


def test_a_moment_is_what_python_has_for_it() -> None:
    columns = RowColumns(pa.schema([("at", pa.timestamp("us"))]))
    at = dt.datetime(2026, 11, 26, 16, 30, 0, 123_456)
    batch = pa.RecordBatch.from_pydict({"at": pa.array([at], pa.timestamp("us"))})
    (row,) = connect_values(columns.structs(batch), columns.schema)
    assert row["at"] == at.replace(microsecond=123_000, tzinfo=dt.UTC)
