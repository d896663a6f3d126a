"""Columns on their way to and from a Java host."""

from __future__ import annotations

import pyarrow as pa

from spark_connect_rt.engine.java_host.wire import consumed, one_batch, pieces, produce_batches
from spark_connect_rt.records.pipeline.columns import HEADERS_TYPE, PARTITION, TOPIC, columns_batch

KINDS = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "timestamp": pa.int64()}
ROWS = [
    {"offset": 5, "timestamp": 10, "key": b"k", "value": b"one", "headers": [{"key": "h", "value": b"1"}]},
    {"offset": 6, "timestamp": None, "key": None, "value": None, "headers": None},
    {"offset": 7, "timestamp": 12, "key": b"", "value": b"three", "headers": [{"key": "g", "value": None}] * 2},
]
SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS_TYPE),
    ],
    metadata={TOPIC: b"t", PARTITION: b"3"},
)


def as_java_reads_it(batch: pa.RecordBatch) -> list[dict[str, object]]:
    """Take a PUT frame apart by its own head, as Consumed.java does."""
    head, buffers = consumed(batch)
    content = pa.py_buffer(b"".join(map(memoryview, buffers)))
    at, columns = 0, {}
    for name, sizes in head["columns"].items():
        parts = []
        for size in sizes:
            parts.append(content.slice(at, size))
            at += size
        columns[name] = parts
    assert at == content.size

    def made(name: str, kind: pa.DataType, rows: int) -> list[object]:
        validity, *others = columns[name]
        return pa.Array.from_buffers(kind, rows, [validity if validity.size else None, *others]).to_pylist()

    found = {
        name: made(name, KINDS.get(name, pa.binary()), head["rows"])
        for name in columns
        if not name.startswith("header_")
    }
    if "header_lists" in columns:
        ends = memoryview(columns["header_lists"][1]).cast("i")[: head["rows"] + 1]
        keys, values = (
            made(f"header_{name}", kind, ends[-1]) for name, kind in (("keys", pa.string()), ("values", pa.binary()))
        )
        pairs = [{"key": key, "value": value} for key, value in zip(keys, values, strict=True)]
        found["headers"] = [pairs[ends[row] : ends[row + 1]] for row in range(head["rows"])]
    return [{name: column[row] for name, column in found.items()} for row in range(head["rows"])]


def test_consumed_batch_and_its_slice_arrive_unchanged() -> None:
    batch = pa.RecordBatch.from_pylist(ROWS, SCHEMA)
    wanted = [row | {"headers": row["headers"] or []} for row in ROWS]
    assert as_java_reads_it(batch) == wanted
    assert as_java_reads_it(batch.slice(1, 2)) == wanted[1:]
    assert consumed(batch)[0]["topic"] == "t"
    assert consumed(batch)[0]["partition"] == 3


def test_columns_without_any_value_are_left_out() -> None:
    batch = pa.RecordBatch.from_pylist([{"offset": 1}, {"offset": 2}], SCHEMA)
    assert list(consumed(batch)[0]["columns"]) == ["offset"]
    assert as_java_reads_it(batch) == [{"offset": 1}, {"offset": 2}]


def test_topics_and_partitions_may_be_columns() -> None:
    rows = [{"topic": "a", "partition": 0, "offset": 1}, {"topic": "bb", "partition": 9, "offset": 2}]
    schema = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
    batch = pa.RecordBatch.from_pylist(rows, schema)
    assert as_java_reads_it(batch) == rows
    assert "topic" not in consumed(batch)[0]


def section(topic: str, *columns: tuple[str, pa.Array]) -> tuple[dict[str, object], bytes]:
    """Return a section of a BATCH frame as Columns.java writes it."""
    sizes, content = {}, b""
    for name, column in columns:
        parts = [b"" if part is None else part.to_pybytes() for part in column.buffers()]
        sizes[name] = [len(part) for part in parts]
        content += b"".join(parts)
    return {"topic": topic, "rows": len(columns[0][1]), "columns": sizes}, content


def test_sections_become_batches_one_for_each_topic() -> None:
    values = pa.array([b"x", None, b"zz"], pa.binary())
    first, first_bytes = section("a", ("key", pa.array([b"1", b"2", b"3"], pa.binary())), ("value", values))
    second, second_bytes = section("b", ("value", pa.array([b"only"], pa.binary())), ("timestamp", pa.array([7])))
    a, b = produce_batches([first, second], memoryview(first_bytes + second_bytes))
    assert a.schema.metadata == {TOPIC: b"a"}
    assert a.to_pylist() == [{"key": b"1", "value": b"x"}, {"key": b"2", "value": None}, {"key": b"3", "value": b"zz"}]
    assert b.to_pylist() == [{"value": b"only", "timestamp": 7}]


def test_a_section_of_tombstones_has_values_of_null() -> None:
    head, content = section("a", ("key", pa.array([b"1", b"2"], pa.binary())))
    (batch,) = produce_batches([head], memoryview(content))
    assert batch.to_pylist() == [{"key": b"1", "value": None}, {"key": b"2", "value": None}]


def test_a_large_batch_goes_in_pieces_and_a_small_one_as_it_is() -> None:
    batch = pa.record_batch({"offset": pa.array(range(10)), "value": pa.array([b"x" * 1_000] * 10, pa.binary())})
    batch = batch.replace_schema_metadata({TOPIC: b"t"})
    assert pieces(batch, 1 << 20) == [batch]
    cut = pieces(batch, 4_000)
    assert [piece.num_rows for piece in cut] == [3, 3, 3, 1]
    assert all(piece.schema.metadata == {TOPIC: b"t"} for piece in cut)
    assert pa.Table.from_batches(cut) == pa.Table.from_batches([batch])
    head, buffers = consumed(cut[1])
    assert sum(len(buffer) for buffer in buffers) < 3_200
    assert head["rows"] == 3
    assert len(pieces(batch, 1)) == 10


def test_batches_of_several_topics_become_one_whose_rows_have_their_topic() -> None:
    first = columns_batch("a", pa.array([b"1", b"2"]), pa.array([b"k", None], pa.binary()))
    second = columns_batch("b", pa.array([b"3"]), timestamps_ms=pa.array([7], pa.int64()))
    whole = one_batch([first, second])
    whole.validate(full=True)
    assert whole.to_pylist() == [
        {"topic": "a", "value": b"1", "key": b"k", "timestamp": None},
        {"topic": "a", "value": b"2", "key": None, "timestamp": None},
        {"topic": "b", "value": b"3", "key": None, "timestamp": 7},
    ]
