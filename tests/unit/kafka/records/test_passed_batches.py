"""Which record batches go on as they are, what of their heads changes, and which are taken apart."""

from __future__ import annotations

import struct
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import DataError
from spark_connect_rt.kafka.copying.pieces import (
    CopiedBatch,
    CopyRules,
    behind,
    halves,
    laid_out,
    pieces_of,
    taken_apart,
)
from spark_connect_rt.kafka.records.passed_batches import ready_to_send
from spark_connect_rt.kafka.records.record_batch_columns import Compression
from tests.unit.kafka.records.test_record_batches import ABORT, COMMIT, _crc32c, batch, marker

HERE = TopicPartition("t", 3)
ANY = CopyRules(None, 1_000_000, 1_000_000, check_crcs=True, committed_only=True)
A, B, C = (b"a", b"1"), (b"b", None), (None, b"3")


def pieces(blob: bytes, position: int = 0, rules: CopyRules = ANY, aborted: Any = None) -> list[CopiedBatch]:
    return list(pieces_of(HERE, position, memoryview(bytearray(blob)), aborted, rules))


def sent(piece: CopiedBatch) -> bytes:
    """Return the batch that a broker is sent of a piece."""
    if piece.head is None:
        return laid_out(piece, 0, ANY)
    ready_to_send(piece.content, piece.head)
    ready_to_send(piece.content, piece.head)  # as after an attempt that failed
    return bytes(piece.content)


def records(content: bytes) -> list[tuple[Any, ...]]:
    """Return (offset, key, value, timestamp) of what the library reads in a batch whose CRC is right."""
    (decoded,) = list(_batches(content))
    assert decoded.validate_crc()
    assert (decoded.base_offset, decoded.producer_id, decoded.is_transactional) == (0, -1, False)
    return [(record.offset, record.key, record.value, record.timestamp) for record in decoded]


def _batches(content: bytes) -> Any:
    reader = MemoryRecords(content)
    while reader.has_next():
        yield reader.next_batch()


def changed(blob: bytes, *fields: tuple[str, int, int]) -> bytes:
    """Return a batch with other fields of its head, (form, place, value), and the CRC that goes with them."""
    raw = bytearray(blob)
    for form, at, value in fields:
        struct.pack_into(form, raw, at, value)
    struct.pack_into(">I", raw, 17, _crc32c(bytes(raw[21:])))
    return bytes(raw)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_a_batch_is_passed_on_with_only_its_head_changed(codec: int) -> None:
    blob = batch(70, A, B, C, producer=9, transactional=True, codec=codec)
    (piece,) = pieces(blob, 70)
    assert (piece.last, piece.count, piece.times, list(piece.runs())) == (72, 3, (1_070, 1_072), [(70, 3)])
    content = sent(piece)
    assert content[61:] == blob[61:]
    assert records(content) == [(0, *A, 1_070), (1, *B, 1_071), (2, *C, 1_072)]


def test_a_batch_of_no_producer_keeps_its_crc() -> None:
    blob = batch(70, A, B)
    (piece,) = pieces(blob)
    assert sent(piece)[16:] == blob[16:]


def test_compacted_batches_are_taken_apart_and_their_offsets_stay_right() -> None:
    """Offsets 5, 6, 9 are left of a batch of 5 to 9, and the whole of the next one."""
    holes = bytearray(batch(5, A, A, A))
    holes[23:27] = struct.pack(">i", 4)
    offset_delta = holes.rindex(b"\x04\x02a") if holes.count(b"\x04\x02a") == 1 else -1
    assert offset_delta > 0, "the third record's delta, 2, and its key"
    holes[offset_delta] = 8
    first, second = pieces(changed(bytes(holes)) + batch(20, C))
    assert list(first.runs()) == [(5, 2), (9, 1)]
    assert [place for place, *_ in records(sent(first))] == [0, 1, 2]
    assert (first.last, second.head is not None, list(second.runs())) == (9, True, [(20, 1)])


def test_a_batch_that_compaction_emptied_is_passed_over() -> None:
    empty = changed(batch(5, A)[:61], (">i", 8, 49), (">i", 57, 0))
    assert pieces(empty) == []
    assert behind(5, empty, []) == 6


def test_times_that_a_broker_gave_become_the_records_times() -> None:
    blob = changed(batch(0, A, B), (">h", 21, 0x08), (">q", 35, 5_555))
    (piece,) = pieces(blob)
    assert records(sent(piece)) == [(0, *A, 5_555), (1, *B, 5_555)]


def test_a_batch_marked_for_deletion_is_taken_apart() -> None:
    (piece,) = pieces(changed(batch(0, A, B), (">h", 21, 0x40)))
    assert (piece.head, piece.count) == (None, 2)


def test_transactions_end_at_the_source() -> None:
    blob = b"".join(
        [
            batch(0, A, producer=1, transactional=True),
            batch(1, (b"x", b"aborted"), producer=2, transactional=True),
            marker(2, 2, ABORT),
            marker(3, 1, COMMIT),
            batch(4, C),
        ]
    )
    committed = pieces(blob, aborted=[(2, 1)])
    assert [list(piece.runs()) for piece in committed] == [[(0, 1)], [(4, 1)]]
    assert [records(sent(piece))[0][2] for piece in pieces(blob)] == [b"1", b"aborted", b"3"]
    assert behind(0, blob[: -len(batch(4, C))], committed[:1]) == 4


def test_batches_of_an_older_format_are_laid_out_in_the_present_one() -> None:
    builder = LegacyRecordBatchBuilder(magic=1, compression_type=0, batch_size=10_000)
    for number in range(3):
        builder.append(number, timestamp=500 + number, key=b"k", value=b"%d" % number)
    blob = bytes(builder.build())
    (piece,) = pieces(blob)
    assert records(sent(piece)) == [(n, b"k", b"%d" % n, 500 + n) for n in range(3)]
    assert (list(piece.runs()), behind(0, blob, [piece])) == ([(0, 3)], 3)


def test_a_batch_is_cut_where_reading_begins() -> None:
    (piece,) = pieces(batch(5, A, B, C), 6)
    assert (list(piece.runs()), [value for _, _, value, _ in records(sent(piece))]) == ([(6, 2)], [None, b"3"])


@pytest.mark.parametrize(
    ("rules", "passes"),
    [
        (ANY, True),
        (replace(ANY, compression=Compression("lz4")), True),
        (replace(ANY, compression=Compression("none")), False),
        (replace(ANY, compression=Compression("zstd")), False),
        (replace(ANY, request_bytes=60), False),
    ],
)
def test_rules_of_the_copy_decide_whether_a_batch_passes(rules: CopyRules, passes: bool) -> None:
    (piece,) = pieces(batch(0, *[A] * 40, codec=3), rules=rules)
    assert (piece.head is not None, piece.count) == (passes, 40)
    if not passes:
        kind = rules.compression.kind if rules.compression else "lz4"
        assert laid_out(piece, 0, rules)[22] == {"none": 0, "lz4": 3, "zstd": 4}[kind]


def test_rows_are_cut_to_the_size_of_batches_and_halved() -> None:
    blob = batch(0, *[(b"k", b"x" * 100)] * 40)
    some = pieces(blob, rules=replace(ANY, request_bytes=1_000, batch_bytes=900))
    assert sum(piece.count for piece in some) == 40
    assert all(piece.size <= 900 for piece in some)
    first, second = halves(some[0])
    assert list(first.runs()) + list(second.runs()) == [(0, first.count), (first.count, second.count)]


def test_small_batches_become_one() -> None:
    some = pieces(batch(0, A) + batch(1, B) + batch(7, C))
    (piece,) = taken_apart(some, 0, ANY)
    assert (list(piece.runs()), len(records(sent(piece)))) == ([(0, 2), (7, 1)], 3)


@pytest.mark.parametrize("codec", [0, 3])
def test_a_damaged_batch_is_never_passed_on(codec: int) -> None:
    blob = bytearray(batch(0, A) + batch(1, B, C, codec=codec))
    blob[-1] ^= 1
    found = pieces_of(HERE, 0, memoryview(blob), None, ANY)
    assert next(found).last == 0
    with pytest.raises(DataError, match="offset 1 is damaged"):
        next(found)
    assert len(pieces(bytes(blob), rules=replace(ANY, check_crcs=False))) == 2


def test_where_the_target_checks_only_a_batch_that_gets_a_new_crc_is_checked_before() -> None:
    trusting = replace(ANY, target_checks=True)
    for producer, passed_on in ((-1, 1), (7, 0)):
        blob = bytearray(batch(0, A, producer=producer))
        blob[-1] ^= 1
        with nullcontext() if passed_on else pytest.raises(DataError, match="offset 0 is damaged"):
            (piece,) = pieces(bytes(blob), rules=trusting)
            assert sent(piece)[21:] == bytes(blob)[21:]
