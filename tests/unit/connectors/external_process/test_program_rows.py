"""What a stream's JSON objects become: schemas, columns, keys, what does not fit, and where states stand."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.api.data.schema import Type
from spark_connect_rt.api.records import SourceBatch, SourceRecord
from spark_connect_rt.connectors.external_process.program_output import STATE, STREAM, Intake, topic_of
from spark_connect_rt.connectors.external_process.stream_rows import FINGERPRINT, VERSION, RowSettings, shape_of
from spark_connect_rt.errors import DataError

TEXT, NUMBER = {"type": "string"}, {"type": ["null", "number"]}


class Reports:
    def __init__(self) -> None:
        self.places: list[tuple[str, bytes | None]] = []

    def __call__(self, place: str, error: Exception, data: bytes | None) -> None:
        self.places.append((place, data))


def intake(streams: list[str], settings: RowSettings | None = None, offsets: Any = None) -> tuple[Intake, Reports]:
    reports = Reports()
    return Intake(streams, offsets or {}, "t.${stream}", settings or RowSettings(), reports), reports


def summary(found: Intake) -> list[tuple[str, list[Any], Any]]:
    """Return (stream of the partition, values, state of the offset) of everything taken."""
    pieces = []
    for batch in found.take():
        values = batch.values.to_pylist() if isinstance(batch, SourceBatch) else [batch.value]
        pieces.append((batch.source_partition[STREAM], values, batch.source_offset[STATE]))
    return pieces


@pytest.mark.parametrize(
    ("tree", "kind", "arrow"),
    [
        (TEXT, Type.STRING, pa.string()),
        ({"type": ["null", "integer"]}, Type.INT64, pa.int64()),
        ({"type": ["integer", "number"]}, Type.FLOAT64, pa.float64()),
        ({"type": "boolean"}, Type.BOOLEAN, pa.bool_()),
        ({"type": "array", "items": TEXT}, Type.ARRAY, pa.list_(pa.string())),
        ({"type": "object", "properties": {"a": NUMBER}}, Type.STRUCT, pa.struct({"a": pa.float64()})),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, Type.INT64, pa.int64()),
        (
            {"anyOf": [{"type": "string", "format": "date-time"}, {"type": ["string", "null"]}]},
            Type.STRING,
            pa.string(),
        ),
        *(
            (untyped, Type.STRING, pa.string())
            for untyped in ({}, {"type": "array"}, {"type": "object"}, {"type": "null"})
        ),
        ({"type": ["string", "integer"]}, Type.STRING, pa.string()),
        ({"anyOf": [{"type": "integer"}, TEXT]}, Type.STRING, pa.string()),
    ],
)
def test_json_schemas_have_a_connect_and_an_arrow_type(tree: dict[str, Any], kind: Type, arrow: pa.DataType) -> None:
    shape = shape_of(tree)
    assert (shape.schema.type, shape.schema.optional, shape.arrow) == (kind, True, arrow)


def test_value_without_a_single_type_is_plain_text_or_json() -> None:
    shape = shape_of(
        {
            "type": "object",
            "properties": {"any": {}, "deep": {"type": "array", "items": {"type": ["string", "integer"]}}},
        }
    )
    assert shape.change is not None
    assert shape.change({"any": {"a": 1}, "deep": ["x", 2, None]}) == {"any": '{"a":1}', "deep": ["x", "2", None]}


def test_times_become_connects_when_asked_for() -> None:
    shape = shape_of({"type": "string", "format": "date-time"}, times=True)
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 678000, dt.UTC)
    assert shape.change is not None
    assert pa.array([shape.change("2026-01-02T03:04:05.678Z")], shape.arrow).to_pylist() == [moment]
    assert shape.change("2026-01-02 03:04:05.678") == moment  # without a zone it is taken as UTC
    with pytest.raises(DataError, match="not an ISO 8601 date-time"):
        shape.change("soon")


def test_records_of_a_stream_form_a_batch_followed_by_the_state() -> None:
    found, _ = intake(["a", "b"])
    for name in "ab":
        found.schema(name, {"properties": {"id": {"type": "integer"}}}, ["id"])
    found.record("a", {"id": 1})
    found.record("b", {"id": 9})
    found.record("a", {"id": 2})
    found.state({"a": {STATE: "1"}})
    found.record("a", {"id": 3})
    found.state({"a": {STATE: "2"}, "b": {STATE: "5"}})
    found.record("b", {"id": 10})
    assert summary(found) == [
        ("a", [{"id": 1}, {"id": 2}, {"id": 3}], None),
        ("b", [{"id": 9}], None),
        ("a", [], "2"),
        ("b", [], "5"),
        ("b", [{"id": 10}], "5"),
    ]
    assert found.take() == []
    assert (found.take_progress(), found.take_progress()) == (True, False)


def test_a_schema_that_changes_is_a_new_version_also_over_a_restart() -> None:
    first, other = {"properties": {"id": NUMBER}}, {"properties": {"id": NUMBER, "name": TEXT}}
    found, _ = intake(["a"])
    found.schema("a", first, ["id"])
    found.record("a", {"id": 1})
    found.schema("a", first, ["id"])
    found.record("a", {"id": 2})
    found.schema("a", other, ["id"])
    found.record("a", {"id": 3, "name": "x"})
    batches = [piece for piece in found.take() if isinstance(piece, SourceBatch)]
    versions = [(len(batch.values), batch.value_schema and batch.value_schema.version) for batch in batches]
    assert versions == [(2, 1), (1, 2)]
    again, _ = intake(["a"], offsets={"a": batches[-1].source_offset})
    again.schema("a", other, ["id"])
    again.record("a", {"id": 4, "name": None})
    (batch,) = again.take()
    assert {name: batch.source_offset[name] for name in (VERSION, FINGERPRINT)} == {
        name: batches[-1].source_offset[name] for name in (VERSION, FINGERPRINT)
    }


def test_a_value_that_does_not_fit_is_reported_and_its_neighbours_come() -> None:
    found, reports = intake(["a"])
    found.schema("a", {"properties": {"id": {"type": "integer"}, "name": TEXT}}, ["id"])
    for row in ({"id": 1, "name": 5}, {"id": "x"}, {"id": 2.0}, {"id": 1 << 63}, {"id": True}, {"id": 3, "more": 1}):
        found.record("a", row)
    (values,) = [values for _, values, _ in summary(found)]
    assert values == [{"id": 1, "name": "5"}, {"id": 2, "name": None}, {"id": 3, "name": None}]
    assert [json.loads(data or b"")["id"] for _, data in reports.places] == ["x", 1 << 63, True]


def test_records_before_their_schema_are_reported() -> None:
    found, reports = intake(["a"])
    found.record("a", {"id": 1})
    assert found.take() == []
    assert reports.places == [("stream a", b'{"id":1}')]


def test_a_deleted_object_is_a_tombstone_in_its_place_and_without_a_key_a_record() -> None:
    settings = RowSettings(deleted_field="gone")
    found, _ = intake(["a", "b"], settings)
    for name, keys in (("a", ["id"]), ("b", [])):
        found.schema(name, {"properties": {"id": {"type": "integer"}, "gone": {}}}, keys)
        for row in ({"id": 1}, {"id": 1, "gone": "now"}, {"id": 1}):
            found.record(name, row)
    pieces = found.take()
    assert [isinstance(piece, SourceRecord) for piece in pieces] == [False, True, False, False]
    tombstone = pieces[1]
    assert isinstance(tombstone, SourceRecord)
    assert (tombstone.value, tombstone.value_schema, tombstone.key.to_dict()) == (None, None, {"id": 1})
    assert isinstance(pieces[3], SourceBatch)
    assert len(pieces[3].values) == 3


def test_trees_need_no_schema() -> None:
    found, _ = intake(["a"], RowSettings(structs=False))
    found.record("a", {"id": 1, "deep": {"x": [1, "two"]}})
    found.schema("a", {"properties": {"id": {"type": "integer"}}}, ["id"])
    found.record("a", {"id": 2})
    pieces = found.take()
    assert [(piece.value, piece.key) for piece in pieces if isinstance(piece, SourceRecord)] == [
        ({"id": 1, "deep": {"x": [1, "two"]}}, None),
        ({"id": 2}, {"id": 2}),
    ]


def test_a_table_takes_the_schemas_types_and_fields() -> None:
    found, _ = intake(["a"])
    found.schema("a", {"properties": {"id": {"type": "integer"}, "name": TEXT, "doc": {"type": "object"}}}, ["id"])
    table = pa.table({"id": pa.array([1, 2], pa.int32()), "doc": [{"x": 1}, None], "surplus": [1, 2]})
    found.column("a", table)
    assert summary(found) == [
        ("a", [{"id": 1, "name": None, "doc": '{"x":1}'}, {"id": 2, "name": None, "doc": None}], None)
    ]
    with pytest.raises(DataError, match="column id of type string"):
        found.column("a", pa.table({"id": ["one"]}))


def test_an_unrequested_stream_takes_the_first_streams_partition() -> None:
    found, _ = intake(["db-orders", "db-people"])
    found.other_names["orders"] = "db-orders"
    for name in ("orders", "people", "stranger"):
        found.schema(name, {"properties": {"id": NUMBER}}, [])
        found.record(name, {"id": 1.0})
    assert [stream for stream, _, _ in summary(found)] == ["db-orders", "db-orders", "db-orders"]


def test_topics_have_no_characters_that_none_may_have() -> None:
    assert topic_of("crm.${stream}.v1", "public orders/ü") == "crm.public_orders__.v1"
