"""Record batches of a broker: which records count, and which of them is the last of its key."""

from __future__ import annotations

import struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from spark_connect_rt.errors import DataError
from spark_connect_rt.kafka.logs.compaction import latest_of
from spark_connect_rt.kafka.records import record_batches
from spark_connect_rt.kafka.records.record_batches import offset_behind
from spark_connect_rt.topics.compacted_log import LogRecord

COMMIT, ABORT = 1, 0


@pytest.fixture(autouse=True, params=["rows", "columns"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_batches, "LEAST_RECORDS", 0 if request.param == "columns" else 2**62)
    monkeypatch.setattr(record_batches, "LEAST_IN_BATCH", 0)


def batch(
    at: int,
    *records: tuple[bytes | None, bytes | None],
    producer: int = -1,
    transactional: bool = False,
    codec: int = 0,
) -> bytes:
    """Return a batch whose first offset is ``at``."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=int(transactional),
        producer_id=producer,
        producer_epoch=0,
        base_sequence=-1,
        batch_size=100_000,
    )
    for number, (key, value) in enumerate(records):
        builder.append(number, timestamp=1_000 + at + number, key=key, value=value, headers=[])
    raw = bytearray(builder.build())
    struct.pack_into(">q", raw, 0, at)  # neither this nor the leader's epoch is covered by the checksum
    return bytes(raw)


def marker(at: int, producer: int, kind: int) -> bytes:
    """Return the batch that ends a transaction."""
    raw = bytearray(batch(at, (struct.pack(">hh", 0, kind), b""), producer=producer, transactional=True))
    attributes = struct.unpack_from(">h", raw, 21)[0] | 0x20
    struct.pack_into(">h", raw, 21, attributes)
    struct.pack_into(">I", raw, 17, _crc32c(bytes(raw[21:])))
    return bytes(raw)


def _crc32c(data: bytes) -> int:
    from aiokafka.record.util import calc_crc32c

    return int(calc_crc32c(data))


@pytest.mark.parametrize("cut", [0, 1, 30, 100])
@pytest.mark.parametrize("position", [0, 8, 40])
def test_the_heads_show_where_batches_end(position: int, cut: int) -> None:
    whole = batch(0, (b"a", b"1"), (b"b", b"2")) + marker(5, 7, COMMIT) + batch(9, (b"c", b"x" * 50), codec=3)
    batches = whole[: len(whole) - cut]
    assert offset_behind(batches, position) == latest_of(0, position, batches).next_offset


def test_an_older_format_is_not_recognized_by_its_head() -> None:
    old = bytearray(batch(0, (b"a", b"1")))
    old[16] = 1
    assert offset_behind(bytes(old), 3) == 3


def test_the_last_record_of_each_key_wins_across_batches() -> None:
    found = latest_of(3, 0, batch(0, (b"a", b"1"), (b"b", b"2")) + batch(7, (b"a", None), (None, b"3")))
    assert found.records == [
        LogRecord(3, 7, b"a", None, 1_007),
        LogRecord(3, 1, b"b", b"2", 1_001),
        LogRecord(3, 8, None, b"3", 1_008),
    ]
    assert (found.first, found.last, found.next_offset) == (
        LogRecord(3, 0, b"a", b"1", 1_000),
        LogRecord(3, 8, None, b"3", 1_008),
        9,
    )


def test_records_before_the_position_are_left_out() -> None:
    found = latest_of(0, 2, batch(0, (b"a", b"1"), (b"b", b"2"), (b"a", b"3")) + batch(3, (b"c", b"4")))
    assert [(record.key, record.value) for record in found.records] == [(b"a", b"3"), (b"c", b"4")]
    assert found.first is not None
    assert found.first.offset == 2


def test_a_batch_that_is_truncated_is_asked_for_again() -> None:
    found = latest_of(0, 0, batch(0, (b"a", b"1")) + batch(1, (b"b", b"2"))[:-3])
    assert [record.key for record in found.records] == [b"a"]
    assert found.next_offset == 1


def test_nothing_moves_nothing() -> None:
    found = latest_of(0, 5, b"")
    assert (found.records, found.first, found.last, found.next_offset) == ([], None, None, 5)


@pytest.mark.parametrize("codec", [1, 2, 3, 4], ids=["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches(codec: int) -> None:
    blob = batch(0, *[(b"a", b"%d" % number) for number in range(50)], codec=codec)
    assert [record.value for record in latest_of(0, 0, blob).records] == [b"49"]


def test_a_damaged_batch_is_reported() -> None:
    blob = bytearray(batch(4, (b"a", b"1")))
    blob[-1] ^= 1
    with pytest.raises(DataError, match="offset 4 is damaged"):
        latest_of(0, 0, bytes(blob))


def test_aborted_transactions_count_only_for_who_reads_uncommitted_records() -> None:
    blob = b"".join(
        [
            batch(0, (b"a", b"good"), producer=1, transactional=True),
            batch(1, (b"a", b"aborted"), (b"b", b"aborted"), producer=2, transactional=True),
            batch(3, (b"c", b"plain")),
            marker(4, 2, ABORT),
            marker(5, 1, COMMIT),
            batch(6, (b"d", b"again"), producer=2, transactional=True),
            marker(7, 2, COMMIT),
        ]
    )
    committed = latest_of(0, 0, blob, aborted=[(2, 1)])
    assert {r.key: r.value for r in committed.records} == {b"a": b"good", b"c": b"plain", b"d": b"again"}
    assert committed.next_offset == 8
    everything = latest_of(0, 0, blob)
    assert {r.key: r.value for r in everything.records} == {
        b"a": b"aborted",
        b"b": b"aborted",
        b"c": b"plain",
        b"d": b"again",
    }
