"""How far a table is read: source partitions and offsets in the JDBC source's form, so that they move over. Pure.

Partition ``{"protocol": "1", "table": "schema.table"}``, of a query ``{"query": "query"}``; offset ``{"incrementing":
n, "timestamp": ms, "timestamp_nanos": nanoseconds within the second}``, only the fields that the mode has.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.api.connector import SourceOffset
from spark_connect_rt.errors import ConnectError

INCREMENTING_KEY, TIMESTAMP_KEY, NANOS_KEY = "incrementing", "timestamp", "timestamp_nanos"
QUERY_PARTITION = {"query": "query"}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class SqlProgress:
    """The last row read: its incrementing column, its time (UTC); None: nothing was read yet, or another mode."""

    incrementing: int | None = None
    moment: dt.datetime | None = None

    def offset(self) -> dict[str, Any]:
        """Return the source offset; empty for nothing (mode bulk has no progress)."""
        offset: dict[str, Any] = {}
        if self.incrementing is not None:
            offset[INCREMENTING_KEY] = self.incrementing
        if self.moment is not None:
            since = self.moment - _EPOCH
            offset[TIMESTAMP_KEY] = since // dt.timedelta(milliseconds=1)
            offset[NANOS_KEY] = self.moment.microsecond * 1000
        return offset


def progress_of(offset: Mapping[str, Any] | None) -> SqlProgress:
    """Return the progress in a stored offset. Raises ConnectError: it is not an offset of this connector."""
    offset = offset or {}
    number, ms, nanos = (offset.get(name) for name in (INCREMENTING_KEY, TIMESTAMP_KEY, NANOS_KEY))
    for name, value in ((INCREMENTING_KEY, number), (TIMESTAMP_KEY, ms), (NANOS_KEY, nanos)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise ConnectError(f"the offset's '{name}' is {value!r}, not an integer")
    if ms is None:
        return SqlProgress(number)
    try:
        moment = _EPOCH + dt.timedelta(milliseconds=ms)
    except OverflowError as error:
        raise ConnectError(f"the offset's '{TIMESTAMP_KEY}' {ms} is outside of the years 1 to 9999") from error
    if nanos is not None:  # parts below a microsecond are dropped, so that such rows are read again and never missed
        if not 0 <= nanos < 1_000_000_000:
            raise ConnectError(f"the offset's '{NANOS_KEY}' is {nanos}, not within one second")
        moment = moment.replace(microsecond=nanos // 1000)
    return SqlProgress(number, moment)


def table_partitions(names: Sequence[str]) -> list[dict[str, str]]:
    """Return the partitions a table's offset may be stored under, ours first: each name, then protocol 0."""
    return [*({"protocol": "1", "table": name} for name in names), {"table": names[-1]}]


def check_offsets(offsets: Sequence[SourceOffset]) -> None:
    """Check offsets that a user wants to write. Raises ConnectError."""
    for partition, offset in offsets:
        if offset is None:
            continue  # every stored offset may be removed
        if not partition or not ("table" in partition or "query" in partition):
            raise ConnectError("Partition objects must contain the key 'table' or the key 'query'")
        progress_of(offset)


def completed_moment(moments: Sequence[dt.datetime], following: dt.datetime | None, before: dt.datetime | None) -> Any:
    """Return the last time of which every row was read, with rows in order of time.

    Rows of one time may come in two pieces, and an offset holds only the time: it must not pass rows still to come.

    Args:
        moments: of the piece's rows, never empty.
        following: of the row after the piece; None: there is none.
        before: the last complete time before the piece.
    """
    last = moments[-1]
    if following is None or following > last:
        return last
    return max((moment for moment in moments if moment < last), default=before)
