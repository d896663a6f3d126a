"""``spark.readStream`` of a connector over a log, a RangeSourceConnector: micro-batches are ranges, read by executors.

Owns no record: where a batch ends the connector says, without polling, and Spark writes it down. A batch that is
repeated after a restart is the same ranges. A range that the log has lost by then is an error and is never skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from spark_connect_rt.api.ranges import RangeSourceConnector, SourceRange
from spark_connect_rt.base.json_text import encode_json
from spark_connect_rt.engine.datasource.named_connector import NamedConnector, StreamBook
from spark_connect_rt.engine.datasource.pushed_filters import Comparison
from spark_connect_rt.engine.datasource.read_options import LATEST, ReadLimits, SourceOffset
from spark_connect_rt.engine.datasource.stream_limits import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from spark_connect_rt.engine.datasource.stream_position import (
    Position,
    TaskPartition,
    as_position,
    offsets_of,
    position_at,
)
from spark_connect_rt.errors import DataError

# Which ranges of a log a read or a micro-batch is made of. Pure.
#
# In a stream's position such a source partition has the source offset before the range's end; rows are not counted: the
# numbers of a range say what is in it.


LOG = "log"
"""Where a position keeps the id of the log that an offset belongs to."""
log = logging.getLogger(__name__)
Ends = Mapping[str, int]
"""Source partition, as in a position -> end of its range."""


def name_of(source_range: SourceRange) -> str:
    """Return the range's source partition as a position names it."""
    return encode_json(source_range.partition).decode()


def in_own_words(starting: Iterable[SourceOffset], ranges: Iterable[SourceRange]) -> list[SourceOffset]:
    """Return stored offsets with the source's own form of each source partition: names may be in any order."""
    own = {_in_order(range_.partition): range_.partition for range_ in ranges}
    return [(own.get(_in_order(partition), partition), offset) for partition, offset in starting]


def numbers_in(position: Position, source: RangeSourceConnector) -> dict[str, int]:
    """Return the number at which each source partition resumes."""
    return {
        encode_json(partition).decode(): source.number_behind(offset)
        for partition, offset in offsets_of(position)
        if offset is not None
    }


def ranges_behind(position: Position, source: RangeSourceConnector) -> list[SourceRange]:
    """Return all that is there behind a stream's position, of a log that is another one now all it has.

    Raises DataError: records behind it are gone, and the source does not let that pass.
    """
    numbers = numbers_in(position, source)
    ranges = source.ranges(offsets_of(position))
    others = {name_of(range_) for range_ in ranges if _is_another(position.get(name_of(range_)), range_)}
    for range_ in ranges:
        name = name_of(range_)
        next_number, recreated = numbers.get(name, range_.first), name in others
        if not recreated and next_number == range_.first:
            continue
        lost = f"{name} was deleted and created again" if recreated else f"its source begins at {range_.first} now"
        lost = f"records are lost: {name} would continue at {next_number}, {lost}"
        if not source.may_lose(recreated=recreated):
            raise DataError(
                f"{lost}. Start with another checkpoint, at startingOffsets=connect or with the offsets to "
                "continue from."
            )
        log.warning("%s", lost)
    if others:
        ranges = source.ranges(offsets_of({name: entry for name, entry in position.items() if name not in others}))
    return ranges


def _is_another(place: Mapping[str, Any] | None, source_range: SourceRange) -> bool:
    known = None if place is None else place.get(LOG)
    return None not in (known, source_range.log_id) and known != source_range.log_id


def ranges_between(begin: Position, until: Position, source: RangeSourceConnector) -> list[SourceRange]:
    """Return what a planned batch is made of, however the source ends now. Raises DataError: some of it is gone."""
    before, ends = numbers_in(begin, source), numbers_in(until, source)
    ranges = {name_of(source_range): source_range for source_range in ranges_behind(begin, source)}
    gone = [name for name, end in ends.items() if end != before.get(name) and name not in ranges]
    if gone:
        raise DataError(f"records are lost: the source no longer has {', '.join(gone)}")
    return non_empty(replace(range_, end=ends.get(name, range_.first)) for name, range_ in ranges.items())


def up_to(ranges: Iterable[SourceRange], ends: Ends) -> list[SourceRange]:
    """Return the ranges cut to end no later than ``ends``; empty ones, and partitions that it lacks, are left out."""
    return non_empty(
        replace(range_, end=min(_end(range_), ends.get(name_of(range_), range_.first))) for range_ in ranges
    )


def non_empty(ranges: Iterable[SourceRange]) -> list[SourceRange]:
    """Return the ranges that can hold a record."""
    return [range_ for range_ in ranges if range_.first < _end(range_)]


def shared(ranges: Sequence[SourceRange], limit: int) -> list[SourceRange]:
    """Return the beginnings of ranges, ``limit`` numbers together at most, each in proportion to its length."""
    left = sum(_end(range_) - range_.first for range_ in ranges)
    found = []
    for range_ in ranges:
        length = _end(range_) - range_.first
        part = min(length, -(-length * limit // left)) if left else 0
        found.append(replace(range_, end=range_.first + part))
        left, limit = left - length, limit - part
    return found


def moved(position: Position, ranges: Iterable[SourceRange], source: RangeSourceConnector) -> Position:
    """Return a stream's position behind these ranges."""
    found = dict(position)
    for range_ in ranges:
        offset = source.offset_before(_end(range_))
        if offset is not None:
            rows = position.get(name_of(range_), {"rows": 0})["rows"]
            place: dict[str, Any] = {"offset": encode_json(offset).decode(), "rows": rows}
            found[name_of(range_)] = place if range_.log_id is None else {**place, LOG: range_.log_id}
    return found


def wanted(ranges: Iterable[SourceRange], conditions: Sequence[Comparison]) -> list[SourceRange]:
    """Return the ranges that can hold a record whose topic and partition the conditions let through."""
    return [range_ for range_ in ranges if all(_may_keep(range_, condition) for condition in conditions)]


def _in_order(partition: Mapping[str, Any]) -> bytes:
    return encode_json(dict(sorted(partition.items())))


def _may_keep(source_range: SourceRange, condition: Comparison) -> bool:
    value = {"topic": source_range.topic, "partition": source_range.topic_partition}.get(condition.column)
    return value is None or condition.lets(value)


def _end(source_range: SourceRange) -> int:
    assert source_range.end is not None  # only a batch that is read until nothing comes leaves ends open
    return source_range.end


class RangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """See the module. One thread."""

    def __init__(self, connector: NamedConnector, kinds: Mapping[str, pa.DataType]) -> None:
        self._connector = connector
        self._started: RangeSourceConnector | None = None
        self._kinds = kinds
        self._last: Ends | None = None  # where a query ends that reads what is there now
        self._book = StreamBook(connector.book if connector.options.commit_offsets else None)

    def __getstate__(self) -> dict[str, Any]:
        """Executors get ranges, nothing else."""
        return {}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a query without a checkpoint starts: the position of the configured offsets."""
        return position_at(in_own_words(self._connector.starting(), self._source.ranges(())))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the option ``maxRecords`` as the limit of a micro-batch, or no limit."""
        most = self._connector.options.limits.max_records
        return ReadMaxRows(most) if most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note where the source ends now."""
        self._last = numbers_in(moved({}, self._source.ranges(()), self._source), self._source)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return the position of the log's current end, for Spark's progress reports."""
        return moved({}, self._source.ranges(()), self._source)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where the next batch ends. Raises DataError: records behind ``start`` are gone."""
        begin = as_position(start)
        self._book.write(begin)  # Spark commits a batch when it plans the one after the next: never the last of a query
        ranges = ranges_behind(begin, self._source)
        if self._last is not None:
            ranges = up_to(ranges, self._last)
        if isinstance(limit, ReadMaxRows):
            ranges = shared(ranges, limit.max_rows)
        return moved(begin, ranges, self._source)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks that read a batch. Raises DataError: the source has it no more."""
        ranges = ranges_between(as_position(start), as_position(end), self._source)
        return self._connector.range_tasks(self._source, ranges, ReadLimits(LATEST), self._kinds)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the record batches of one planned range. Runs on an executor."""
        from spark_connect_rt.engine.datasource.open_task import task_rows  # on executors: a planner does without

        assert isinstance(partition, TaskPartition)
        return task_rows(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Store the offsets of a batch that is done."""
        self._book.write(as_position(end))

    def stop(self) -> None:
        """Stop the connector and close the offset book."""
        if self._started is not None:
            self._started.stop()
        self._book.close()

    @property
    def _source(self) -> RangeSourceConnector:
        if self._started is None:  # not where a reader is only made to be sent to executors
            self._started = self._connector.started()
        return self._started
