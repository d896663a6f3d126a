"""Parts of an answer that are sent on, piece by piece: batches as they are, and rows of those that cannot pass.

Owns the choice between the two, and how rows are cut. Must not send. Nothing here waits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from aiokafka.errors import IncompatibleBrokerVersion

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.kafka.buffered_connection import BufferedConnection
from spark_connect_rt.kafka.buffered_connection import Piece as ProduceBatchesPiece
from spark_connect_rt.kafka.reading.fetch_consumer import fetched_rows
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
from spark_connect_rt.records.pipeline.columns import without_views

SMALL_BYTES = 4 << 10  # of a batch: several of them that wait are taken apart, and leave as one


@dataclass(frozen=True, slots=True)
class CopyRules:
    """The rules that a copy follows."""

    compression: Compression | None  # None: as it is at the source
    batch_bytes: int  # of rows laid out here, without the head
    request_bytes: int
    check_crcs: bool
    committed_only: bool
    target_checks: bool = False  # the target compares the CRC that the producer wrote, and refuses damaged batches

    @property
    def codec(self) -> int | None:
        """Return the number of the codec that batches must have; None: any."""
        return None if self.compression is None else CODECS.index(self.compression.kind)


@dataclass(slots=True, eq=False)
class CopiedBatch:
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
    is_kept: bool = False  # ``content`` is separate memory

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
) -> Iterator[CopiedBatch]:
    """Yield what counts of an answer, from ``position`` on.

    Raises DataError on its way: a batch is damaged.
    """
    if magic_of(batches) != PRESENT_FORMAT:
        yield from _of_old(partition, position, batches, aborted, rules)
        return
    transactions = CommittedBatches(aborted)
    apart: list[CopiedBatch] = []
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


def behind(position: int, batches: Any, pieces: Sequence[CopiedBatch]) -> int:
    """Return the offset to resume at after an answer that was read."""
    found = offset_behind(batches, position)
    return max(found, *(piece.last + 1 for piece in pieces)) if pieces else found


def taken_apart(batches: Sequence[CopiedBatch], position: int, rules: CopyRules) -> Iterator[CopiedBatch]:
    """Yield the records of neighbouring batches of one partition, as rows. Raises DataError."""
    if not batches:
        return
    joined = b"".join(batch.content for batch in batches)
    yield from _rows(batches[0].source, position, joined, None, rules, batches[0].codec)


def _as_it_is(partition: TopicPartition, batch: Batch, content: Any) -> CopiedBatch:
    times = (batch.first_timestamp, batch.max_timestamp)
    last = batch.next_offset - 1
    return CopiedBatch(partition, last, batch.record_count, len(content), times, batch.codec, content, batch)


def _of_old(
    partition: TopicPartition, position: int, batches: Any, aborted: Any, rules: CopyRules
) -> Iterator[CopiedBatch]:
    yield from _rows(partition, position, bytes(batches), aborted, rules, 0)


def _rows(
    partition: TopicPartition, position: int, batches: bytes, aborted: Any, rules: CopyRules, codec: int
) -> Iterator[CopiedBatch]:
    for rows, _ in fetched_rows(partition, position, batches, aborted, rules.check_crcs):
        if rows is not None:
            yield from _cut(partition, without_views(rows), rules.batch_bytes, codec)


def _cut(partition: TopicPartition, rows: pa.RecordBatch, most_bytes: int, codec: int) -> Iterator[CopiedBatch]:
    ends = np.cumsum(record_bytes(rows))
    at = 0
    while at < rows.num_rows:
        before = int(ends[at - 1]) if at else 0
        end = max(at + 1, int(np.searchsorted(ends, before + most_bytes, side="right")))
        yield _of_rows(partition, rows.slice(at, end - at), int(ends[end - 1]) - before, codec)
        at = end


def _of_rows(partition: TopicPartition, rows: pa.RecordBatch, size: int, codec: int) -> CopiedBatch:
    times = rows.column("timestamp")
    ends = (times[0].as_py(), times[-1].as_py())
    return CopiedBatch(partition, rows.column("offset")[-1].as_py(), rows.num_rows, size, ends, codec, rows=rows)


def halves(piece: CopiedBatch) -> list[CopiedBatch]:
    """Return the two halves of rows; one that holds a single row cannot be halved."""
    assert piece.rows is not None
    half = piece.count // 2
    some = [piece.rows.slice(0, half), piece.rows.slice(half)]
    return [_of_rows(piece.source, rows, int(record_bytes(rows).sum()), piece.codec) for rows in some]


def laid_out(piece: CopiedBatch, now_ms: int, rules: CopyRules) -> bytes:
    """Return rows as a batch."""
    assert piece.rows is not None
    return record_batch(piece.rows, now_ms, rules.compression or Compression(CODECS[piece.codec]))


# Produce requests of ready batches, one batch of a partition at most: newer brokers take no more (KIP-98).


ACKS_OF_ALL = -1
_NO_TRANSACTION = struct.pack(">h", -1)
_ACKS, _NUMBER, _PARTITION = struct.Struct(">hi"), struct.Struct(">i"), struct.Struct(">ii")
_TEXT, _OUTCOME, _OFFSET_BYTES = struct.Struct(">h"), struct.Struct(">ihqq"), 8
_LEAST, _MOST = 3, 8  # versions whose requests have one form
_WITH_LOG_START, _WITH_RECORD_ERRORS = 5, 8  # of answers


class ProduceResult(NamedTuple):
    """The broker's result for a partition's batch."""

    code: int  # Kafka's, 0: it is there
    offset: int  # of its first record; -1: not known


class ProduceBatches:
    """A produce request whose batches are sent from where they lie (Kafka's ``ProduceRequest.json``)."""

    API_KEY = 0

    def __init__(self, batches: Sequence[tuple[TopicPartition, ProduceBatchesPiece]], acks: int, limit_ms: int) -> None:
        """Take each partition's batch, which replicas have to have it, and how long the broker may wait for them."""
        self._batches = sorted(batches, key=lambda batch: (batch[0].topic, batch[0].partition))
        self._acks = _ACKS.pack(acks, limit_ms)

    async def sent_by(self, connection: BufferedConnection) -> Any:
        """Send it; return the ``ProduceResult`` of each partition that the answer names."""
        return await connection.send_pieces(self, list(self._pieces()))

    def version(self, versions: Mapping[int, tuple[int, int]]) -> int:
        """Return the request's version for a broker. Raises IncompatibleBrokerVersion if it supports none of ours."""
        least, most = versions[self.API_KEY]
        if least > _MOST or most < _LEAST:
            raise IncompatibleBrokerVersion(f"produce requests: the broker supports versions {least} to {most}")
        return min(most, _MOST)

    def decoded(self, body: bytes, version: int) -> dict[TopicPartition, ProduceResult]:
        """See PiecesRequest. Raises struct.error: it is truncated."""
        found, at = dict[TopicPartition, ProduceResult](), _NUMBER.size
        for _ in range(_NUMBER.unpack_from(body)[0]):
            (size,) = _TEXT.unpack_from(body, at)
            topic = body[at + _TEXT.size : at + _TEXT.size + size].decode()
            at += _TEXT.size + size
            (count,) = _NUMBER.unpack_from(body, at)
            at += _NUMBER.size
            for _ in range(count):
                number, code, offset, _ = _OUTCOME.unpack_from(body, at)
                found[TopicPartition(topic, number)] = ProduceResult(code, offset)
                at += _OUTCOME.size + (_OFFSET_BYTES if version >= _WITH_LOG_START else 0)
                at = _behind_errors(body, at) if version >= _WITH_RECORD_ERRORS else at
        return found

    def _pieces(self) -> Iterator[ProduceBatchesPiece]:
        by_topic = [(topic, list(some)) for topic, some in groupby(self._batches, lambda batch: batch[0].topic)]
        before = [_NO_TRANSACTION, self._acks, _NUMBER.pack(len(by_topic))]
        for topic, batches in by_topic:
            name = topic.encode()
            before += [struct.pack(">h", len(name)), name, _NUMBER.pack(len(batches))]
            for place, content in batches:
                before.append(_PARTITION.pack(place.partition, len(content)))
                yield b"".join(before)
                yield content
                before = []


def _behind_errors(body: bytes, at: int) -> int:
    """Return where a partition ends: behind its records' errors and its own text."""
    (count,) = _NUMBER.unpack_from(body, at)
    at += _NUMBER.size
    for _ in range(count):
        at = _behind_text(body, at + _NUMBER.size)
    return _behind_text(body, at)


def _behind_text(body: bytes, at: int) -> int:
    return at + _TEXT.size + max(0, int(_TEXT.unpack_from(body, at)[0]))  # -1: none
