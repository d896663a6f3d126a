"""What of an answer goes on, piece by piece: batches as they are, and rows of those that cannot pass.

Owns the choice between the two, and how rows are cut. Must not send. Nothing here waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.kafka.reading.fetched_rows import fetched_rows
from spark_connect_rt.kafka.records.passed_batches import check_crc, keeps_crc, passes
from spark_connect_rt.kafka.records.record_batch_columns import CODECS, Compression, record_batch, record_bytes
from spark_connect_rt.kafka.records.record_batches import (
    PRESENT_FORMAT,
    Batch,
    CommittedBatches,
    magic_of,
    marker_aborts,
    offset_behind,
    whole_batches,
)

SMALL_BYTES = 4 << 10  # of a batch: several of them that wait are taken apart, and leave as one


@dataclass(frozen=True, slots=True)
class CopyRules:
    """What is asked of the copy."""

    compression: Compression | None  # None: as it is at the source
    batch_bytes: int  # of rows laid out here, without the head
    request_bytes: int
    check_crcs: bool
    committed_only: bool
    target_checks: bool = False  # the CRC of what goes on as its producer wrote it: what is damaged there is refused

    @property
    def codec(self) -> int | None:
        """Return the number of the codec that batches must have; None: any."""
        return None if self.compression is None else CODECS.index(self.compression.kind)


@dataclass(slots=True, eq=False)
class Piece:
    """Records of one partition that leave as one batch."""

    source: TopicPartition
    last: int  # the offset of the last one at the source
    count: int
    size: int
    times: tuple[int, int]  # of the first record, of the newest
    codec: int
    content: Any = None  # the batch, as it came; its memory may be written to
    head: Batch | None = None  # of ``content``; None: of rows
    rows: pa.RecordBatch | None = field(default=None, repr=False)
    attempts: int = 0
    until_s: float | None = None  # from the first attempt on: no later it is acknowledged
    read_ms: float = 0.0
    topic_id: str | None = None  # of the topic it was read from, where it is known
    is_kept: bool = False  # ``content`` is memory of its own

    def keep(self) -> None:
        """Hold no more memory than its size: of an answer one view is enough to keep the whole."""
        if self.content is not None and not self.is_kept:
            self.content, self.is_kept = memoryview(bytearray(self.content)), True

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield (first offset, records) at the source of what has no hole in between."""
        if self.rows is None:
            yield self.last - self.count + 1, self.count
            return
        offsets = self.rows.column("offset").to_numpy()
        cuts = np.flatnonzero(np.diff(offsets) != 1) + 1
        for some in np.split(offsets, cuts):
            yield int(some[0]), len(some)


def pieces_of(
    partition: TopicPartition, position: int, batches: Any, aborted: Any, rules: CopyRules
) -> Iterator[Piece]:
    """Yield what counts of an answer, from ``position`` on.

    Raises DataError on its way: a batch is damaged.
    """
    if magic_of(batches) != PRESENT_FORMAT:
        yield from _of_old(partition, position, batches, aborted, rules)
        return
    transactions = CommittedBatches(aborted)
    apart: list[Piece] = []
    for batch in whole_batches(batches):
        if not transactions.counts(batch, batch.is_control, partial(marker_aborts, batches, batch)):
            continue
        if batch.next_offset <= position or not batch.record_count:
            continue
        piece = _as_it_is(partition, batch, batches[batch.start : batch.end])
        if passes(batch, position, rules.codec) and piece.size <= rules.request_bytes:
            yield from taken_apart(apart, position, rules)
            apart = []
            if rules.check_crcs and not (rules.target_checks and keeps_crc(batch)):
                check_crc(piece.content, batch)
            yield piece
        else:
            apart.append(piece)
    yield from taken_apart(apart, position, rules)


def behind(position: int, batches: Any, pieces: Sequence[Piece]) -> int:
    """Return the offset to go on at behind an answer that was gone through."""
    found = offset_behind(batches, position)
    return max(found, *(piece.last + 1 for piece in pieces)) if pieces else found


def taken_apart(batches: Sequence[Piece], position: int, rules: CopyRules) -> Iterator[Piece]:
    """Yield the records of neighbouring batches of one partition, as rows. Raises DataError."""
    if not batches:
        return
    joined = b"".join(batch.content for batch in batches)
    yield from _rows(batches[0].source, position, joined, None, rules, batches[0].codec)


def _as_it_is(partition: TopicPartition, batch: Batch, content: Any) -> Piece:
    times = (batch.first_timestamp, batch.max_timestamp)
    last = batch.next_offset - 1
    return Piece(partition, last, batch.record_count, len(content), times, batch.codec, content, batch)


def _of_old(partition: TopicPartition, position: int, batches: Any, aborted: Any, rules: CopyRules) -> Iterator[Piece]:
    yield from _rows(partition, position, bytes(batches), aborted, rules, 0)


def _rows(
    partition: TopicPartition, position: int, batches: bytes, aborted: Any, rules: CopyRules, codec: int
) -> Iterator[Piece]:
    for rows, _ in fetched_rows(partition, position, batches, aborted, rules.check_crcs):
        if rows is not None:
            yield from _cut(partition, rows, rules.batch_bytes, codec)


def _cut(partition: TopicPartition, rows: pa.RecordBatch, most_bytes: int, codec: int) -> Iterator[Piece]:
    ends = np.cumsum(record_bytes(rows))
    at = 0
    while at < rows.num_rows:
        before = int(ends[at - 1]) if at else 0
        end = max(at + 1, int(np.searchsorted(ends, before + most_bytes, side="right")))
        yield _of_rows(partition, rows.slice(at, end - at), int(ends[end - 1]) - before, codec)
        at = end


def _of_rows(partition: TopicPartition, rows: pa.RecordBatch, size: int, codec: int) -> Piece:
    times = rows.column("timestamp")
    ends = (times[0].as_py(), times[-1].as_py())
    return Piece(partition, rows.column("offset")[-1].as_py(), rows.num_rows, size, ends, codec, rows=rows)


def halves(piece: Piece) -> list[Piece]:
    """Return the two halves of rows; one that holds a single row cannot be halved."""
    assert piece.rows is not None
    half = piece.count // 2
    some = [piece.rows.slice(0, half), piece.rows.slice(half)]
    return [_of_rows(piece.source, rows, int(record_bytes(rows).sum()), piece.codec) for rows in some]


def laid_out(piece: Piece, now_ms: int, rules: CopyRules) -> bytes:
    """Return rows as a batch."""
    assert piece.rows is not None
    return record_batch(piece.rows, now_ms, rules.compression or Compression(CODECS[piece.codec]))
