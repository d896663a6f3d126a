"""Record batches -> the records that count, one by one, by aiokafka's reader.

For few records, where columns do not pay (kafka.records.record_columns), and for batches of older formats. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from spark_connect_rt.errors import DataError
from spark_connect_rt.kafka.aiokafka_parts import MemoryRecords
from spark_connect_rt.kafka.records.record_batches import CommittedBatches, aborts


class RecordRows:
    """aiokafka's records from ``position`` on. To be gone through once; arguments as of ``record_columns.records_of``.

    Raises DataError on its way: a batch is damaged or of a codec that is not installed.
    """

    def __init__(
        self, position: int, batches: bytes, aborted: Iterable[tuple[int, int]] | None, check_crcs: bool = True
    ) -> None:
        self.behind = position  # the offset to resume at, after the rows that were read
        self._position = position
        self._batches = batches
        self._transactions = CommittedBatches(aborted)
        self._check_crcs = check_crcs

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self._records()
        except DataError:
            raise
        except Exception as error:  # each codec has its own
            raise DataError(f"a record batch after offset {self.behind} is damaged: {error}") from error

    def _records(self) -> Iterator[Any]:
        reader = MemoryRecords(bytes(self._batches))  # which it insists on; no copy where it is
        while reader.has_next():
            batch: Any = reader.next_batch()
            if self._check_crcs and not batch.validate_crc():
                raise DataError(f"the record batch at offset {batch.base_offset} is damaged (CRC)")
            if self._transactions.counts(batch, batch.is_control_batch, partial(aborts, batch)):
                if self.behind > self._position:
                    yield from batch
                else:
                    yield from (record for record in batch if record.offset >= self._position)
            self.behind = max(self.behind, batch.next_offset)
