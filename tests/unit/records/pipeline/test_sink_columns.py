"""A sink's columns hold the values of its records, and anything without an exact column form goes by records."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SinkBatch, SinkRecord
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.records.pipeline.columns import CONSUME_FIELDS, PARTITION, TOPIC
from spark_connect_rt.records.pipeline.sink_pipeline import SinkPipeline, by_partition

STRING = "org.apache.kafka.connect.storage.StringConverter"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
LONG = "org.apache.kafka.connect.converters.LongConverter"
CHAINS: dict[str, dict[str, str]] = {
    "none": {},
    "route": {"type": "RegexRouter", "regex": "t", "replacement": "u"},
    "filter": {"type": "Filter", "predicate": "gone"},
    "hoist": {"type": "HoistFieldValue", "field": "line"},
}
TEXT = st.text("aé\n", max_size=4).map(str.encode)
ANY_BYTES = st.binary(max_size=4)
LONGS = st.integers(-(2**63), 2**63 - 1).map(lambda number: struct.pack(">q", number))
WORKER = {"key.converter": STRING, "value.converter": STRING}


def pipeline(chain: str, **converters: str) -> SinkPipeline:
    config = {name.replace("_", "."): value for name, value in converters.items()}
    if CHAINS[chain]:
        config |= {"transforms": "one", "predicates": "gone", "predicates.gone.type": "RecordIsTombstone"}
        config |= {f"transforms.one.{name}": value for name, value in CHAINS[chain].items()}
    return SinkPipeline.from_config(config, WORKER, bundled_plugins().class_of)


def consumed(values: list[bytes | None], keys: list[bytes | None], **more: Any) -> pa.RecordBatch:
    columns = {"offset": [10 + 2 * n for n in range(len(values))], "value": values, "key": keys, **more}
    schema = pa.schema([pa.field(n, CONSUME_FIELDS[n]) for n in columns], metadata={TOPIC: b"t", PARTITION: b"3"})
    return pa.RecordBatch.from_arrays([pa.array(v, CONSUME_FIELDS[n]) for n, v in columns.items()], schema=schema)


def records(batch: SinkBatch) -> list[SinkRecord]:
    count = len(batch.values)
    keys = [None] * count if batch.keys is None else batch.keys.to_pylist()
    times = [None] * count if batch.timestamps_ms is None else batch.timestamps_ms.to_pylist()
    rows = zip(batch.offsets.to_pylist(), batch.values.to_pylist(), keys, times, strict=True)
    schemas = batch.value_schema, batch.key_schema
    return [
        SinkRecord(batch.topic, batch.partition, offset, value, schemas[0], key, schemas[1], time)
        for offset, value, key, time in rows
    ]


def plain(record: SinkRecord) -> tuple[Any, ...]:
    value = record.value
    if isinstance(value, Struct):
        value = dict(zip([field.name for field in value.schema.fields], value.values(), strict=True))
    place = (record.topic, record.partition, record.offset, record.timestamp_ms)
    return (*place, value, record.value_schema, record.key, record.key_schema)


@given(
    chain=st.sampled_from(sorted(CHAINS)),
    kinds=st.lists(st.sampled_from([(STRING, TEXT), (BYTES, ANY_BYTES), (LONG, LONGS)]), min_size=2, max_size=2),
    data=st.data(),
)
@settings(deadline=None)
def test_columns_hold_what_records_would(chain: str, kinds: list[tuple[str, Any]], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 4))
    (value_converter, values), (key_converter, keys) = kinds

    def column(elements: st.SearchStrategy[Any]) -> list[Any]:
        return data.draw(st.lists(elements | st.none(), min_size=count, max_size=count))

    times = column(st.integers(0, 2**40))
    made = pipeline(chain, value_converter=value_converter, key_converter=key_converter)
    batch = consumed(column(values), column(keys), timestamp=times)
    by_columns, by_records = made.columns(batch), made.convert(batch)
    if by_columns is None:  # a column of numbers has no room for null; null is also no map to put into a field
        assert LONG in (value_converter, key_converter) or chain == "hoist"
        return
    assert by_columns.columns is not None
    assert [plain(record) for record in records(by_columns.columns)] == [plain(record) for record in by_records.records]
    assert by_columns.count == by_records.count
    assert by_columns.next_offsets == by_records.next_offsets == {TopicPartition("t", 3): 10 + 2 * count - 1}


@pytest.mark.parametrize("chain", sorted(CHAINS))
def test_text_has_columns_in_every_chain(chain: str) -> None:
    assert pipeline(chain).columns(consumed([b"a", b"b"], [b"k", None])) is not None


JSON_VALUES = {"value_converter": "JsonConverter", "value_converter_schemas_enable": "false"}
JSON_HEADERS = {"header_converter": "JsonConverter", "header_converter_schemas_enable": "false"}


def test_headers_keep_a_batch_from_columns_unless_the_task_leaves_them_out() -> None:
    batch = consumed([b"a", b"b"], [None, None], headers=[[{"key": "h", "value": b"1"}], None])
    plain_one = pipeline("none", **JSON_HEADERS)
    assert plain_one.columns(batch) is None
    found = plain_one.columns(batch, headers_matter=False)
    assert found is not None
    assert found.columns is not None
    assert found.columns.values.to_pylist() == ["a", "b"]
    routed = pipeline("route", **JSON_HEADERS).columns(batch, headers_matter=False)
    assert routed is not None
    assert routed.columns is not None
    assert (routed.columns.values.to_pylist(), routed.columns.headers) == (["a", "b"], None)
    bad = consumed([b"a"], [None], headers=[[{"key": "h", "value": b"{"}]])
    assert plain_one.columns(bad, headers_matter=False) is None, "the record is errant"


HEAD = {
    "transforms": "head,route",
    "transforms.head.type": "InsertHeader",
    "transforms.head.header": "new",
    "transforms.head.value.literal": "5",
    "transforms.route.type": "RegexRouter",
    "transforms.route.regex": "t",
    "transforms.route.replacement": "u",
    "transforms.route.predicate": "has",
    "predicates": "has",
    "predicates.has.type": "HasHeaderKey",
}


@pytest.mark.parametrize(("name", "topic"), [("new", "u"), ("h", "u"), ("none", "t")])
def test_transformations_and_predicates_see_the_headers_of_columns(name: str, topic: str) -> None:
    config = {**HEAD, "predicates.has.name": name, "header.converter": BYTES}
    made = SinkPipeline.from_config(config, WORKER, bundled_plugins().class_of)
    batch = consumed([b"a"], [None], headers=[[{"key": "h", "value": b"1"}]])
    ways: list[dict[str, bool]] = [{"headers_matter": False}, {"with_headers": True}]
    for way in ways:
        found = made.columns(batch, **way)
        if way.get("with_headers"):  # one is added, for ``put``
            assert found is None
            continue
        assert found is not None
        assert found.columns is not None
        assert (found.columns.topic, found.columns.headers, found.columns.more_headers) == (topic, None, ())
    assert [record.topic for record in made.convert(batch).records] == [topic]


def test_headers_of_bytes_come_in_columns_to_a_task_that_takes_them() -> None:
    headers = [[{"key": "h", "value": b"1"}], None]
    batch = consumed([b"a", b"b"], [None, None], headers=headers)
    for chain in "none", "route":
        found = pipeline(chain, header_converter=BYTES).columns(batch, with_headers=True)
        assert found is not None
        assert found.columns is not None
        assert found.columns.headers.to_pylist() == headers
    assert pipeline("none", **JSON_HEADERS).columns(batch, with_headers=True) is None


def test_records_without_a_value_are_nulls_among_the_others_if_the_task_takes_them() -> None:
    batch = consumed([None, b'{"a":1,"m":1}', None, b'{"a":2,"m":2.5}'], [b"k"] * 4)
    made = pipeline("none", **JSON_VALUES)
    assert made.columns(batch) is None
    found = made.columns(batch, absent_values=True)
    assert found is not None
    assert found.columns is not None
    wanted = [None, {"a": 1, "m": 1}, None, {"a": 2, "m": 2.5}]
    assert found.columns.values.to_pylist() == wanted == [record.value for record in made.convert(batch).records]
    assert pipeline("hoist", **JSON_VALUES).columns(batch, absent_values=True) is None
    spoiled = consumed([None, b"{"], [b"k"] * 2)
    assert made.columns(spoiled, absent_values=True) is None


def test_offset_partition_and_time_are_inserted() -> None:
    config = {
        "transforms": "hoist,insert",
        "transforms.hoist.type": "HoistFieldValue",
        "transforms.hoist.field": "line",
        "transforms.insert.type": "InsertFieldValue",
        "transforms.insert.offset.field": "at",
        "transforms.insert.partition.field": "part",
        "transforms.insert.topic.field": "of",
        "transforms.insert.timestamp.field": "when",
    }
    made = SinkPipeline.from_config(config, WORKER, bundled_plugins().class_of)
    batch = consumed([b"a", b"b"], [None, None], timestamp=[1, 2])
    by_columns = made.columns(batch)
    assert by_columns is not None
    assert by_columns.columns is not None
    assert [plain(record) for record in records(by_columns.columns)] == [
        plain(record) for record in made.convert(batch).records
    ]
    assert by_columns.columns.values.field("at").to_pylist() == [10, 12]


@pytest.mark.parametrize(
    "batch",
    [
        consumed([b"\xff"], [None]),
        consumed([b"a"], [b"\xff"]),
        consumed([b"a"], [None], headers=[[{"key": "h", "value": b"1"}]]),
    ],
    ids=["no text", "no text in a key", "headers"],
)
def test_the_rest_goes_by_records(batch: pa.RecordBatch) -> None:
    assert pipeline("none").columns(batch) is None
    assert pipeline("none").convert(batch).count == 1


def test_a_read_of_several_partitions_is_taken_apart_in_order() -> None:
    fields = {name: CONSUME_FIELDS[name] for name in ("topic", "partition", "offset", "value")}
    rows = [("t", 0, 5, b"a"), ("t", 1, 7, b"b"), ("t", 0, 6, b"c"), ("u", 0, 1, b"d")]
    arrays = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), fields.values(), strict=True)]
    parts = by_partition(pa.RecordBatch.from_arrays(arrays, names=list(fields)))
    found = [pipeline("none").columns(part) for part in parts]
    assert [
        (converted.columns.topic, converted.columns.partition, converted.columns.values.to_pylist())
        for converted in found
    ] == [  # type: ignore[union-attr]
        ("t", 0, ["a", "c"]),
        ("t", 1, ["b"]),
        ("u", 0, ["d"]),
    ]
    assert [converted.next_offsets for converted in found] == [  # type: ignore[union-attr]
        {TopicPartition("t", 0): 7},
        {TopicPartition("t", 1): 8},
        {TopicPartition("u", 0): 2},
    ]
