"""Record batches as a broker stores them: where each begins, and which of them count.

Transaction markers never count, the batches of aborted transactions not for a reader of committed records. Pure.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from spark_connect_rt.errors import DataError
from spark_connect_rt.kafka.aiokafka_parts import ABORT_MARKER, ControlRecord, MemoryRecords

PRESENT_FORMAT = 2  # "magic"; brokers since Kafka 4.0 store no other
# Below these, one object a record is cheaper than the work that columns need whatever their length.
LEAST_RECORDS = 1_000
LEAST_IN_BATCH = 16
_HEAD = struct.Struct(">qiibIhiqqqhii")
_LENGTH_AND_MAGIC = struct.Struct(">8xi4xb")
_SIZES = struct.Struct(">8xi4xb40xi")
_LENGTH_ENDS, _MAGIC_AT, _CRC_ENDS = 12, 16, 21
_CODEC, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20


class Batch(NamedTuple):
    """One whole batch: the fields of its head, and where its records lie in the answer (compressed, perhaps)."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int  # of what follows it
    attributes: int
    last_delta: int
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    start: int  # of the batch in the answer
    records: int  # in the answer, as are all ends
    end: int

    @property
    def next_offset(self) -> int:
        """Return the offset behind it, also when compaction took its last records."""
        return self.base_offset + self.last_delta + 1

    @property
    def codec(self) -> int:
        """Return how its records are compressed, 0: not at all."""
        return self.attributes & _CODEC

    @property
    def has_append_time(self) -> bool:
        """Return whether every record's timestamp is the batch's last one (message.timestamp.type)."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Return whether it belongs to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Return whether it is the marker that ends a transaction."""
        return bool(self.attributes & _CONTROL)

    def checked_by(self) -> slice:
        """Return the part of the answer that ``crc`` is of."""
        return slice(self.start + _CRC_ENDS, self.end)


class CommittedBatches:
    """Decides of batches, shown one after the other, which ones count."""

    def __init__(self, aborted: Iterable[tuple[int, int]] | None) -> None:
        """Take (producer id, first offset) of the aborted transactions; None: they count, too."""
        self._waiting = sorted(aborted or (), key=lambda transaction: transaction[1])
        self._bad_producers: set[int] = set()

    def counts(self, batch: Any, is_control: bool, aborts: Callable[[], bool]) -> bool:
        """Return whether a batch's records are to be read; ``aborts``: whether a marker ends an aborted transaction."""
        while self._waiting and self._waiting[0][1] <= batch.base_offset:
            self._bad_producers.add(self._waiting.pop(0)[0])
        if is_control:
            if batch.producer_id in self._bad_producers and aborts():
                self._bad_producers.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._bad_producers)


def whole_batches(batches: bytes) -> Iterator[Batch]:
    """Yield the batches of the present format, up to one that is truncated or older. Raises DataError: none at all."""
    return (_batch_at(batches, start) for start in _starts(batches))


def _starts(batches: bytes) -> Iterator[int]:
    start, size = 0, len(batches)
    while start + _HEAD.size <= size:
        length, magic = _LENGTH_AND_MAGIC.unpack_from(batches, start)
        end = start + _LENGTH_ENDS + length
        if magic != PRESENT_FORMAT or end > size:
            break
        if end < start + _HEAD.size:
            offset = _batch_at(batches, start).base_offset
            raise DataError(f"the record batch at offset {offset} is damaged (length {length})")
        yield start
        start = end


def _batch_at(batches: bytes, start: int) -> Batch:
    head = _HEAD.unpack_from(batches, start)
    return Batch._make((*head, start, start + _HEAD.size, start + _LENGTH_ENDS + head[1]))


def magic_of(batches: bytes) -> int | None:
    """Return the format of the first batch; None where there is not even the head of one."""
    return batches[_MAGIC_AT] if len(batches) > _MAGIC_AT else None


def pay_as_columns(batches: bytes) -> bool:
    """Return whether an answer holds enough records, in batches long enough, and all of the present format."""
    start, size, count, records = 0, len(batches), 0, 0
    while start + _HEAD.size <= size:
        length, magic, held = _SIZES.unpack_from(batches, start)
        if magic != PRESENT_FORMAT:
            return False
        start += _LENGTH_ENDS + max(length, 0)
        count, records = count + 1, records + max(held, 0)
    return records >= LEAST_RECORDS and records >= LEAST_IN_BATCH * count


def offset_behind(batches: bytes, position: int) -> int:
    """Return the offset to resume at by the batches' heads alone; ``position`` where there is no whole batch.

    Only of batches of the present format: older ones end it.
    """
    last = last_batch(batches)
    return position if last is None else max(position, last.next_offset)


def last_batch(batches: bytes) -> Batch | None:
    """Return the last whole batch, whose offsets are the highest; see ``offset_behind``."""
    starts = deque(_starts(batches), maxlen=1)  # of the others only what says where the next one begins is read
    return _batch_at(batches, starts[0]) if starts else None


def aborts(marker: Any) -> bool:
    """Return whether a control batch of aiokafka's ends an aborted transaction."""
    record = next(iter(marker), None)  # compaction may have emptied it
    return record is not None and bool(ControlRecord.parse(record.key) == ABORT_MARKER)


def marker_aborts(batches: bytes, batch: Batch) -> bool:
    """Return whether a control batch ends an aborted transaction."""
    return aborts(MemoryRecords(bytes(batches[batch.start : batch.end])).next_batch())
