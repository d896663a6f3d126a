"""A mirror's two ways, by whole batches and by records: the same records, times, headers and offsets arrive."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.kafka.copying.pieces import CopiedBatch, CopyRules, behind, laid_out, pieces_of
from spark_connect_rt.kafka.reading.fetch_consumer import fetched_rows
from spark_connect_rt.kafka.records.passed_batches import ready_to_send
from tests.unit.kafka.records.test_record_batches import ABORT, COMMIT, marker

PLACE = TopicPartition("t", 0)
BYTES = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text("abcé", min_size=1, max_size=5), BYTES), max_size=2)
TIMES = st.integers(0, 2**40)
RECORDS = st.lists(st.tuples(BYTES, BYTES, HEADERS, TIMES), min_size=1, max_size=6)
BATCHES = st.lists(
    st.fixed_dictionaries(
        {
            "records": RECORDS,
            "hole": st.integers(0, 3),  # offsets before it that compaction has left nothing of
            "codec": st.sampled_from([0, 1, 2, 3, 4]),
            "ends": st.sampled_from([None, COMMIT, ABORT]),  # the transaction that it is
        }
    ),
    min_size=1,
    max_size=5,
)
Seen = list[tuple[int, int, bytes | None, bytes | None, list[Any]]]


def log_of(batches: list[dict[str, Any]]) -> tuple[bytes, list[tuple[int, int]], int]:
    """Return the log's bytes, its aborted transactions as an answer names them, and where it ends."""
    at, raw, aborted = 0, b"", []
    for producer, batch in enumerate(batches):
        at += batch["hole"]
        is_transaction = batch["ends"] is not None
        number = producer if is_transaction else -1
        builder = DefaultRecordBatchBuilder(2, batch["codec"], int(is_transaction), number, 0, -1, 1 << 20)
        for place, (key, value, headers, time_ms) in enumerate(batch["records"]):
            builder.append(place, time_ms, key, value, headers)
        made = bytearray(builder.build())
        struct.pack_into(">q", made, 0, at)
        if batch["ends"] == ABORT:
            aborted.append((producer, at))
        raw, at = raw + bytes(made), at + len(batch["records"])
        if is_transaction:
            raw, at = raw + marker(at, producer, batch["ends"]), at + 1
    return raw, aborted, at


def seen(rows: pa.RecordBatch) -> Seen:
    """Return (offset, time, key, value, headers) of each row."""

    def column(name: str) -> list[Any]:
        return rows.column(name).to_pylist() if name in rows.schema.names else [None] * rows.num_rows

    headers = [[(header["key"], header["value"]) for header in some or ()] for some in column("headers")]
    return list(zip(column("offset"), column("timestamp"), column("key"), column("value"), headers, strict=True))


def by_records(raw: bytes, position: int, aborted: list[tuple[int, int]] | None) -> tuple[Seen, int]:
    """Return the rows record by record, and the offset from which reading resumes."""
    found: Seen = []
    for rows, at in fetched_rows(PLACE, position, raw, aborted):
        position = at
        if rows is not None:
            found += seen(rows)
    return found, position


def by_batches(raw: bytes, position: int, aborted: list[tuple[int, int]] | None, rules: CopyRules) -> tuple[Seen, int]:
    """Return the records of the target, with the source's offsets from the offset syncs."""
    found: Seen = []
    sent: list[CopiedBatch] = []
    for piece in pieces_of(PLACE, position, memoryview(bytearray(raw)), aborted, rules):
        offsets = [offset for first, count in piece.runs() for offset in range(first, first + count)]
        sent.append(piece)
        if piece.head is None:
            content = laid_out(piece, 0, rules)
        else:
            ready_to_send(piece.content, piece.head)
            content = bytes(piece.content)
        arrived, _ = by_records(content, 0, None)
        assert [offset for offset, *_ in arrived] == list(range(len(offsets)))  # no hole for the broker to refuse
        assert (piece.count, piece.last) == (len(offsets), offsets[-1])
        found += [(at, *rest) for at, (_, *rest) in zip(offsets, arrived, strict=True)]  # type: ignore[misc]
    return found, behind(position, raw, sent)


@settings(max_examples=60, deadline=None)
@given(batches=BATCHES, start=st.integers(0, 30), committed=st.booleans(), most_bytes=st.sampled_from([60, 1_000_000]))
def test_both_ways_bring_the_same(batches: list[dict[str, Any]], start: int, committed: bool, most_bytes: int) -> None:
    raw, aborted, end = log_of(batches)
    position = min(start, end)
    rules = CopyRules(None, most_bytes, 1_000_000, check_crcs=True, committed_only=committed)
    known = aborted if committed else None
    records, at = by_records(raw, position, known)
    copied, copied_at = by_batches(raw, position, known, rules)
    assert copied == records
    if records:
        assert copied_at >= records[-1][0] + 1
    assert copied_at == at or not records
