"""Record batches of one partition -> the last record of each key in them. Pure.

By the column where there are many: only what is the last of its key becomes an object.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_connect_rt.kafka.records.record_batches import pay_as_columns
from spark_connect_rt.kafka.records.record_rows import RecordRows
from spark_connect_rt.topics.compacted_log import LogRecord

if TYPE_CHECKING:
    from spark_connect_rt.kafka.records.record_columns import Records


@dataclass(frozen=True, slots=True)
class Latest:
    """The records of one partition in one answer of a broker, reduced to the last of each key."""

    records: list[LogRecord]  # the last one of each key, in the order of their keys' first ones
    first: LogRecord | None
    last: LogRecord | None
    next_offset: int  # to resume at


def latest_of(
    partition: int, position: int, batches: bytes, aborted: Iterable[tuple[int, int]] | None = None
) -> Latest:
    """Return the last record of each key.

    Args:
        partition: whose batches these are.
        position: the offset that was asked for; a batch may begin before it.
        batches: record batches, the last one perhaps cut off.
        aborted: (producer id, first offset) of the aborted transactions in them; None: they count, too.

    Raises:
        DataError: a batch is damaged (CRC) or of a codec that is not installed.
    """
    if not pay_as_columns(batches):
        return _by_row(partition, RecordRows(position, batches, aborted))
    # Imported when needed: it brings numpy and pyarrow.
    from spark_connect_rt.kafka.records.record_columns import records_of

    latest: dict[bytes | None, LogRecord] = {}
    first, last, behind = None, None, position
    for found, behind in records_of(position, batches, aborted):  # noqa: B007 - the last one is wanted
        if found is None or not len(found.offsets):
            continue
        begin, last = _log_records(partition, found, [0, -1])
        first = first or begin
        latest.update((record.key, record) for record in _last_of_keys(partition, found))
    return Latest(list(latest.values()), first, last, behind)


def _by_row(partition: int, rows: RecordRows) -> Latest:
    latest: dict[bytes | None, Any] = {}
    first = last = None
    for last in rows:
        first = first or last
        latest[last.key] = last

    def log_record(row: Any) -> LogRecord:
        return LogRecord(partition, row.offset, row.key, row.value, row.timestamp)

    begin, end = (None if row is None else log_record(row) for row in (first, last))
    return Latest([log_record(row) for row in latest.values()], begin, end, rows.behind)


def _last_of_keys(partition: int, records: Records) -> list[LogRecord]:
    import numpy as np

    keys = records.key_column().dictionary_encode(null_encoding="encode")
    last_at = np.empty(len(keys.dictionary), np.int64)
    last_at[keys.indices.to_numpy()] = np.arange(len(keys))  # of several, the last one stays
    by_offset = np.argsort(last_at)
    found = _log_records(partition, records, last_at[by_offset])
    return [found[place] for place in np.argsort(by_offset)]


def _log_records(partition: int, records: Records, which: Any) -> list[LogRecord]:
    chosen = records.those(which)
    columns = (
        chosen.offsets.tolist(),
        chosen.key_column().to_pylist(),
        chosen.value_column().to_pylist(),
        chosen.timestamps.tolist(),
    )
    return [LogRecord(partition, *row) for row in zip(*columns, strict=True)]
