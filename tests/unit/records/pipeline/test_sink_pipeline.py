"""From consume form to sink records: both shapes of a batch, offsets, headers, tolerance."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.data.schema import OPTIONAL_STRING, STRING
from spark_connect_rt.api.records import SinkRecord, altered
from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.converters.primitive_converters import StringConverter
from spark_connect_rt.records.pipeline.columns import CONSUME_FIELDS, PARTITION, TOPIC
from spark_connect_rt.records.pipeline.sink_pipeline import SinkPipeline, build_sink_records
from tests.unit.records.pipeline.plugins_for_tests import WORKER, find


def pipeline(**connector: str) -> SinkPipeline:
    return SinkPipeline.from_config({k.replace("_", "."): v for k, v in connector.items()}, WORKER, find)


def consumed(metadata: dict[bytes, bytes] | None = None, **columns: list[Any]) -> pa.RecordBatch:
    schema = pa.schema([pa.field(name, CONSUME_FIELDS[name]) for name in columns], metadata=metadata)
    arrays = [pa.array(values, CONSUME_FIELDS[name]) for name, values in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


ONE = {TOPIC: b"t", PARTITION: b"2"}


def test_a_batch_of_one_partition() -> None:
    batch = consumed(ONE, offset=[5, 6], value=[b'{"a":1}', None], key=[b"k", None], timestamp=[1, 2])
    converted = pipeline().convert(batch)
    first, second = converted.records
    assert (first.topic, first.partition, first.offset, first.value, first.key) == ("t", 2, 5, {"a": 1}, "k")
    assert (first.value_schema, first.key_schema, first.timestamp_ms) == (None, s.OPTIONAL_STRING, 1)
    assert (second.value, second.key, second.headers) == (None, None, ())
    assert converted.next_offsets == {TopicPartition("t", 2): 7}


def test_a_batch_of_several_partitions() -> None:
    batch = consumed(topic=["t", "u", "t"], partition=[0, 1, 0], offset=[3, 9, 4], value=[b"1", b"2", b"3"])
    converted = pipeline().convert(batch)
    assert [(r.topic, r.partition, r.offset, r.value) for r in converted.records] == [
        ("t", 0, 3, 1),
        ("u", 1, 9, 2),
        ("t", 0, 4, 3),
    ]
    assert converted.next_offsets == {TopicPartition("t", 0): 5, TopicPartition("u", 1): 10}


def test_headers_are_read() -> None:
    batch = consumed(
        ONE, offset=[0], value=[b"1"], headers=[[{"key": "h", "value": b"12"}, {"key": "n", "value": None}]]
    )
    (record,) = pipeline().convert(batch).records
    assert [(h.key, h.value, h.schema) for h in record.headers] == [("h", 12, s.INT8), ("n", None, None)]


class Rerouted(Transformation):
    """Makes another record under another topic."""

    def apply(self, record: Any) -> Any:
        return SinkRecord("elsewhere", record.partition, record.offset, record.value)


@pytest.mark.parametrize("transforms", [{}, {"transforms": "r", "transforms.r.type": "Rerouted"}])
def test_records_remember_what_they_were_made_from_where_that_is_wanted(transforms: dict[str, str]) -> None:
    def find_here(name: str) -> type[Any]:
        return Rerouted if name == "Rerouted" else find(name)

    for batch in (
        consumed(ONE, offset=[5], value=[b"1"], timestamp=[3]),
        consumed(ONE, offset=[5], value=[b"1"], timestamp=[3], key=[b"k"], headers=[[{"key": "h", "value": b"1"}]]),
    ):
        plain = SinkPipeline.from_config(transforms, WORKER, find_here)
        keeping = SinkPipeline.from_config(transforms, WORKER, find_here, keeps_originals=True)
        (without,), (record,) = plain.convert(batch).records, keeping.convert(batch).records
        assert type(without) is SinkRecord
        row = batch.to_pylist()[0]
        original = ("t", 2, 5, 3, row.get("key"), b"1", row.get("headers"))
        assert keeping.original_of(record) == original
        assert keeping.original_of(altered(record, value="changed by the task")) == original
        assert keeping.original_of(SinkRecord("made", 0, 9, {"a": 1})) == ("made", 0, 9, None, None, b'{"a":1}', None)


def test_an_empty_batch_has_no_offsets() -> None:
    converted = pipeline().convert(consumed(ONE, offset=[], value=[]))
    assert (converted.records, converted.next_offsets, converted.skipped) == ([], {}, 0)


def test_tolerance_none_names_stage_and_record() -> None:
    with pytest.raises(DataError, match=r"record t-2@6: VALUE_CONVERTER failed: Converting byte") as caught:
        pipeline().convert(consumed(ONE, offset=[5, 6], value=[b"1", b"{"]))
    assert caught.value.stage == "VALUE_CONVERTER"


def test_tolerance_all_skips_counts_and_goes_past() -> None:
    settings = {"errors_tolerance": "all", "transforms": "up", "transforms_up_type": "Upper"}
    batch = consumed(ONE, offset=[5, 6, 7, 8], value=[b'"a"', b"{", b'"bad"', b'"drop"'])
    converted = pipeline(**settings).convert(batch)
    assert [record.value for record in converted.records] == ["A"]
    assert (converted.skipped, converted.next_offsets) == (2, {TopicPartition("t", 2): 9})
    assert [errant.place for errant in converted.errants] == ["record t-2@6", "record t-2@7"]


def test_built_records_are_sink_records_like_any_other() -> None:
    rows = [(3, 70, (OPTIONAL_STRING, "a")), (4, None, (None, None))]
    made = build_sink_records("t", 1, STRING, "k", rows)
    assert made == [
        SinkRecord("t", 1, 3, "a", OPTIONAL_STRING, "k", STRING, 70),
        SinkRecord("t", 1, 4, None, None, "k", STRING, None),
    ]
    assert [type(record) for record in made] == [SinkRecord, SinkRecord]
    assert pickle.loads(pickle.dumps(made)) == made
    with pytest.raises(FrozenInstanceError):
        made[0].value = "b"  # type: ignore[misc]


def test_texts_are_read_at_once_as_one_by_one() -> None:
    for encoding, data in (("UTF-8", [b"a", None, b"\xff", "\u00e9".encode()]), ("ISO-8859-1", [b"\xe9"])):
        converter = StringConverter()
        converter.configure({"converter.encoding": encoding})
        schema, values = converter.values_to_connect_data("t", data) or (None, [])
        assert [(schema, value) for value in values] == [tuple(converter.to_connect_data("t", text)) for text in data]
