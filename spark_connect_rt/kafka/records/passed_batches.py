"""Record batches that are copied to another topic as they are: which may, and what of their heads changes. Pure.

A broker takes from a producer only what a producer could have made (Java ``LogValidator``): offsets without holes, no
mark of a transaction's end, its own timestamps. Everything behind the head stays as it is: keys, values, headers,
times, and how it is compressed.
"""

from __future__ import annotations

import struct

from crc32c import crc32c

from spark_connect_rt.errors import DataError
from spark_connect_rt.kafka.records.record_batches import Batch

_CODEC, _TRANSACTIONAL = 0x07, 0x10
_BASE_OFFSET, _LEADER_EPOCH, _CRC, _ATTRIBUTES = struct.Struct(">q"), struct.Struct(">i"), struct.Struct(">I"), 21
_LEADER_EPOCH_AT, _CRC_AT, _PRODUCER_AT = 12, 17, 43
_NO_PRODUCER = struct.pack(">qhi", -1, -1, -1)
_NO_EPOCH = -1


def passes(batch: Batch, position: int, codec: int | None) -> bool:
    """Return whether a batch may be copied as it is.

    Not if compaction made holes in it, its times are its broker's (``message.timestamp.type=LogAppendTime``: a producer
    may not say so), it was marked for deletion, begins before ``position``, or is not compressed by ``codec``
    (None: any).
    """
    return (
        not batch.attributes & ~(_CODEC | _TRANSACTIONAL)
        and batch.record_count == batch.last_delta + 1
        and batch.base_offset >= position
        and codec in (None, batch.codec)
    )


def keeps_crc(batch: Batch) -> bool:
    """Return whether the CRC that its producer wrote still holds for a batch that is ``ready_to_send``."""
    return batch.producer_id == -1 and not batch.is_transactional


def check_crc(content: memoryview | bytes, batch: Batch) -> None:
    """Raise DataError when the bytes of a batch are not those that its producer wrote."""
    if crc32c(memoryview(content)[_ATTRIBUTES:]) != batch.crc:
        raise DataError(f"the record batch at offset {batch.base_offset} is damaged (CRC)")


def put_back_offset(content: memoryview | bytearray, batch: Batch) -> None:
    """Undo of ``ready_to_send`` what records are read by: their offsets at the source."""
    _BASE_OFFSET.pack_into(content, 0, batch.base_offset)


def ready_to_send(content: memoryview | bytearray, batch: Batch) -> None:
    """Make the head of a batch that ``passes`` that of a new one, in place; twice is as once.

    The offsets and the leader's epoch are the broker's to say; a producer's number and its count of batches are
    those of another cluster, and its transaction has ended there. The CRC is over all of it but the first two.
    """
    _BASE_OFFSET.pack_into(content, 0, 0)
    _LEADER_EPOCH.pack_into(content, _LEADER_EPOCH_AT, _NO_EPOCH)
    if keeps_crc(batch):
        return
    content[_ATTRIBUTES + 1] = batch.attributes & _CODEC
    content[_PRODUCER_AT : _PRODUCER_AT + len(_NO_PRODUCER)] = _NO_PRODUCER
    _CRC.pack_into(content, _CRC_AT, crc32c(memoryview(content)[_ATTRIBUTES:]))
