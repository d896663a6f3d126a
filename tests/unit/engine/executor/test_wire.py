"""What crosses between the engine's processes: super-rows, control messages, tickets."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.engine.driver.slot_jobs import ReportedTotals
from spark_connect_rt.engine.executor import control_wire, frames
from spark_connect_rt.engine.executor import frames as row_packs
from spark_connect_rt.engine.executor.frames import MARKER_ROW, BatchHead, Row, RowKind, RowQueue
from spark_connect_rt.engine.executor.ticket import SliceTicket
from spark_connect_rt.engine.task_runner import JavaCode, TaskKind, TaskLaunch
from spark_connect_rt.records.pipeline.columns import produce_batch
from spark_connect_rt.records.pipeline.sink_pipeline import without_partitions
from spark_connect_rt.testing.memory_executor_clients import consume_batch

LAUNCH = TaskLaunch(
    ConnectorTaskId("a", 2), 7, 3, TaskKind.SINK, "m:C", {"k": "v"}, {"c": "d"}, {"w": "x"}, {"p": "q"}, paused=True
)
rows = st.builds(
    Row,
    host=st.integers(0, 2**62),
    kind=st.sampled_from(list(RowKind)),
    head=st.binary(max_size=300),
    data=st.one_of(st.none(), st.binary(min_size=1, max_size=300).map(pa.py_buffer)),
    last=st.booleans(),
)


@settings(deadline=None)
@given(rows)
def test_a_row_survives_arrow(row: Row) -> None:
    batch = frames.to_arrow(row)
    batch.validate(full=True)
    assert batch.schema == frames.ROW_SCHEMA
    (back,) = frames.from_arrow(batch)
    assert (back.host, back.kind, back.head, back.last) == (row.host, row.kind, row.head, row.last)
    assert (back.data.to_pybytes() if back.data else None) == (row.data.to_pybytes() if row.data else None)


def test_a_part_of_a_batch_is_the_same_in_its_process_and_in_another() -> None:
    batch = produce_batch("t", pa.array(["before", "a", "b", "behind"])).slice(1, 2)
    here = Row.of_batch(1, b"head", batch)
    rows = RowQueue()
    rows.put(here)
    queued = rows.get(0)
    assert queued is not None
    assert queued.batch is None
    (there,) = frames.from_arrow(frames.to_arrow(queued))
    assert here.records() is batch
    assert there.records() == batch
    assert here.has_records()
    assert there.has_records()
    assert 0 < here.data_bytes() < there.data_bytes() < here.data_bytes() + 2_000
    assert Row(1, RowKind.PAUSED).records() is None


def test_a_marker_ends_in_a_write_larger_than_sparks_buffer() -> None:
    """Else its last bytes, and with them the row before it, stay in the reader until the next heartbeat."""
    chunks: list[int] = []

    class Sink:
        closed = False

        def write(self, data: bytes) -> int:
            chunks.append(len(data))
            return len(data)

        def flush(self) -> None:
            pass

    with pa.ipc.new_stream(pa.PythonFile(Sink(), mode="w"), frames.ROW_SCHEMA) as stream:
        stream.write_batch(frames.to_arrow(MARKER_ROW))
        assert chunks[-1] > 64


def test_records_survive_a_row() -> None:
    batch = produce_batch("t", pa.array(["a", "b"]))
    (row,) = frames.from_arrow(frames.to_arrow(Row(1, RowKind.BATCH, b"", frames.encode_records(batch))))
    assert row.data is not None
    back = frames.decode_records(row.data)
    assert back == batch
    assert back.schema.metadata == batch.schema.metadata


def test_a_batch_head_survives() -> None:
    head = BatchHead(3, (({"f": "ä"}, {"p": 2**62}), ({"f": "b"}, None)), 1, ("t", "u"))
    assert BatchHead.decode(head.encode()) == head


@pytest.mark.parametrize(
    "java", [None, JavaCode(("/p/a",), "96m", ("-X",), True, (("root", "INFO"),), "a.B", "1", ("d",))]
)
def test_a_launch_survives_json(java: JavaCode | None) -> None:
    launch = replace(LAUNCH, java=java)
    (message,) = control_wire.MessageSplitter().feed(
        control_wire.encode_message({"op": "start", "launch": control_wire.encode_launch(launch)})
    )
    assert control_wire.decode_launch(message["launch"]) == launch


@settings(deadline=None)  # a loaded machine is no failure
@given(st.lists(st.dictionaries(st.text(max_size=5), st.integers(-9, 9)), max_size=6), st.data())
def test_messages_arrive_whole_however_the_stream_is_cut(bodies: list[dict[str, int]], data: st.DataObject) -> None:
    messages = [{**body, "op": "x"} for body in bodies]
    stream = b"".join(control_wire.encode_message(message) for message in messages)
    splitter, heard = control_wire.MessageSplitter(), []
    while stream:
        cut = data.draw(st.integers(1, len(stream)))
        heard.extend(splitter.feed(stream[:cut]))
        stream = stream[cut:]
    assert heard == messages


@given(st.binary(min_size=4, max_size=64))
def test_strange_bytes_raise_value_error_or_wait_for_more(noise: bytes) -> None:
    try:
        list(control_wire.MessageSplitter(limit_bytes=1000).feed(noise))
    except ValueError:
        return


def test_a_message_beyond_the_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(ValueError, match="at most 10"):
        list(control_wire.MessageSplitter(limit_bytes=10).feed(b"\xff\xff\xff\xff"))


def test_a_ticket_crosses_small_and_shows_no_token(tmp_path: Path) -> None:
    ticket = SliceTicket(3, "s3cret", "unix:/x", 10_000, "m:f")
    assert len(pickle.dumps(ticket)) < 1024
    assert pickle.loads(pickle.dumps(ticket)) == ticket
    assert "s3cret" not in repr(ticket)
    ticket.save(tmp_path / "t")
    assert SliceTicket.load(tmp_path / "t") == ticket
    assert (tmp_path / "t").stat().st_mode & 0o077 == 0


def test_books_that_do_not_balance_are_named() -> None:
    totals = ReportedTotals()
    for _ in range(2):
        totals.count({"op": "durable", "host": 1, "n": 5})
    totals.count({"op": "ended", "host": 1})
    assert totals.differences({1: (10, 2)}) == []
    assert totals.differences({}) == ["host 1: writer says (0, 0) (records, batches), driver received (10, 2)"]
    assert len(totals.differences({1: (11, 2), 2: (1, 1)})) == 2


def test_rows_of_leaving_partitions_are_dropped() -> None:
    batch = consume_batch([{"topic": "t", "partition": n % 2, "offset": n, "value": b"v"} for n in range(4)])
    kept = without_partitions(batch, {TopicPartition("t", 1)})
    assert kept.column("offset").to_pylist() == [0, 2]
    assert without_partitions(batch, {TopicPartition("u", 1)}) is batch
    whole = batch.drop_columns(["topic", "partition"]).replace_schema_metadata(
        {b"connectrt.topic": b"t", b"connectrt.partition": b"1"}
    )
    assert without_partitions(whole, {TopicPartition("t", 1)}).num_rows == 0


@settings(deadline=None)
@given(
    st.lists(rows.map(lambda row: replace(row, kind=RowKind.BATCH, head=b'{"a":"\xc3\xa4"}')), min_size=1, max_size=5)
)
def test_packed_rows_come_out_as_they_went_in(some: list[Row]) -> None:
    expected = [replace(row, last=False) for row in some]
    pack = replace(row_packs.packed(expected), last=True)
    (crossed,) = frames.from_arrow(frames.to_arrow(pack))
    back = list(row_packs.unpacked([MARKER_ROW, crossed]))[1:]
    assert [(row.host, row.kind, row.head, row.data) for row in back] == [
        (row.host, row.kind, row.head, row.data) for row in some
    ]
    assert [row.last for row in back] == [False] * (len(some) - 1) + [True]


def test_only_small_batches_are_packed() -> None:
    small, large = pa.py_buffer(b"x"), pa.py_buffer(b"x" * row_packs.SMALL_BYTES)
    assert row_packs.is_small(Row(1, RowKind.BATCH, b"", small))
    assert not row_packs.is_small(Row(1, RowKind.BATCH, b"", large))
    assert not row_packs.is_small(Row(1, RowKind.ENDED))


def test_a_moment_is_waited_only_where_small_rows_come_often() -> None:
    gathering = row_packs.Gathering()
    assert not any(gathering.seen(number * 0.2) for number in range(20))  # five a second
    assert [gathering.seen(10 + number * 0.1) for number in range(8)] == [False] * 7 + [True]
    assert not gathering.seen(20.0)
