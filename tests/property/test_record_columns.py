"""Record batches by the column equal aiokafka's reading record by record; damage is reported."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import DataError
from spark_connect_rt.kafka.reading.fetch_consumer import fetched_rows
from spark_connect_rt.kafka.records import record_batches as way
from tests.contract.batch_clients_contract import rows_of

PLACE = TopicPartition("t", 3)
ABORT = struct.pack(">hh", 0, 0)
SOME_BYTES = st.none() | st.binary(max_size=20) | st.sampled_from([b"x" * 63, b"x" * 64, b"x" * 8_191, b"x" * 8_192])
HEADERS = st.lists(st.tuples(st.text(max_size=5), SOME_BYTES), max_size=3)
TIMES = st.integers(0, 2**41) | st.just(2**62)
RECORD = st.tuples(st.integers(1, 70_000), TIMES, SOME_BYTES, SOME_BYTES, st.just([]) | HEADERS)


@st.composite
def answers(draw: st.DrawFn) -> tuple[int, bytes, list[tuple[int, int]] | None]:
    """Draw answers of a broker: gaps, codecs, transactions and their markers, a truncated last batch."""
    at, batches = draw(st.integers(0, 2**40)), []
    first = at
    aborted: list[tuple[int, int]] = []
    for _ in range(draw(st.integers(1, 4))):
        at += draw(st.integers(0, 3))
        producer = draw(st.sampled_from([-1, 5, 6]))
        if producer > 0 and draw(st.booleans()):
            aborted.append((producer, at))
        kind = draw(st.sampled_from(["records", "records", "marker"]))
        records = draw(st.lists(RECORD, max_size=8)) if kind == "records" else [(1, 0, ABORT, b"\0" * 6, [])]
        attributes = draw(st.sampled_from([0, 0x08])) | (0x10 if producer > 0 else 0)
        codec = draw(st.sampled_from([0, 0, 1, 2, 3, 4])) if records else 0  # as Kafka leaves emptied batches
        raw = batch_of(at, records, codec, attributes | 0x20 * (kind == "marker"), producer)
        at += struct.unpack_from(">i", raw, 23)[0] + 1
        batches.append(raw)
    whole = b"".join(batches)
    cut = draw(st.sampled_from([0, 0, 1, 70]))
    position = first + draw(st.sampled_from([0, 0, 1, 5, 100_000]))
    return position, whole[: max(0, len(whole) - cut)], draw(st.sampled_from([None, aborted]))


def batch_of(at: int, records: list[Any], codec: int, attributes: int, producer: int = -1) -> bytes:
    """Return a batch of (gap before, timestamp, key, value, headers)."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=-1,
        batch_size=2**30,
    )
    delta = -1
    for gap, timestamp, key, value, headers in records:
        delta += gap
        builder.append(delta, timestamp=timestamp, key=key, value=value, headers=headers)
    raw = bytearray(builder.build())
    struct.pack_into(">q", raw, 0, at)
    struct.pack_into(">h", raw, 21, struct.unpack_from(">h", raw, 21)[0] | attributes)
    return sealed(raw)


def sealed(raw: bytearray) -> bytes:
    struct.pack_into(">I", raw, 17, calc_crc32c(bytes(raw[21:])))
    return bytes(raw)


def read(monkeypatch: pytest.MonkeyPatch, columns: bool, position: int, batches: bytes, aborted: Any) -> Any:
    with monkeypatch.context() as patched:
        patched.setattr(way, "LEAST_RECORDS", 0 if columns else 2**62)
        patched.setattr(way, "LEAST_IN_BATCH", 0)
        rows, behind = [], position
        for found, behind in fetched_rows(PLACE, position, batches, aborted):  # noqa: B007 - the last one is wanted
            rows += [] if found is None else rows_of(_filled(found))
        return rows, behind


def _filled(batch: pa.RecordBatch) -> pa.RecordBatch:
    batch.validate(full=True)
    for name in {"key", "headers"} - set(batch.schema.names):
        batch = batch.append_column(name, pa.nulls(batch.num_rows))
    return batch


@settings(deadline=None)
@given(answers())
@example((0, b"", None))
@example((3, batch_of(0, [(1, 5, b"k", b"v", [("h", None), ("h", b"")]), (4, 4, None, None, [])] * 3, 4, 0x08), None))
def test_columns_are_what_rows_are(answer: tuple[int, bytes, list[tuple[int, int]] | None]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert read(monkeypatch, True, *answer) == read(monkeypatch, False, *answer)


@settings(deadline=None)
@given(st.data())
def test_wrong_lengths_are_reported_or_do_no_harm(data: st.DataObject) -> None:
    """The checksum is right, as it is in a producer's invalid records."""
    raw = bytearray(batch_of(0, [(1, 5, b"key", b"v" * 70, [("h", b"1")])] * 3, 0, 0))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(57, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with pytest.MonkeyPatch.context() as monkeypatch, contextlib.suppress(DataError):
        rows, _ = read(monkeypatch, True, 0, sealed(raw), None)  # validates the bytes that it reads
        assert len(rows) <= 3
        assert all(part is None or part in raw for row in rows for part in (row["key"], row["value"]))


@settings(deadline=None)
@given(st.integers(0, 4), st.data())
def test_a_changed_byte_is_found_by_the_checksum(codec: int, data: st.DataObject) -> None:
    raw = bytearray(batch_of(4, [(1, 5, b"key", b"value" * 9, [])] * 3, codec, 0))
    raw[data.draw(st.integers(17, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.MonkeyPatch.context() as monkeypatch, pytest.raises(DataError, match="offset 4 is damaged"):
        read(monkeypatch, True, 0, bytes(raw), None)


def test_the_present_way_is_chosen_by_the_number_of_records() -> None:
    few, many = (batch_of(0, [(1, 5, None, b"v", [])] * count, 0, 0) for count in (10, 1_000))
    old = bytearray(many)
    old[16] = 1
    assert [way.pay_as_columns(answer) for answer in (few, many, many[:-1], many + bytes(old), b"")] == [
        False,
        True,
        True,
        False,
        False,
    ]
