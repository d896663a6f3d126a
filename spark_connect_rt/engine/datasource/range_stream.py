"""``spark.readStream`` of a connector over a log, a RangeSourceConnector: micro-batches are ranges, read by executors.

Owns no record: where a batch ends the connector says, without polling, and Spark writes it down. A batch that is
repeated after a restart is the same ranges. What of them the log has lost by then is an error, never left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from spark_connect_rt.api.ranges import RangeSourceConnector
from spark_connect_rt.engine.datasource.named_connector import NamedConnector
from spark_connect_rt.engine.datasource.range_plan import (
    Ends,
    in_own_words,
    moved,
    numbers_in,
    ranges_behind,
    ranges_between,
    shared,
    up_to,
)
from spark_connect_rt.engine.datasource.read_options import LATEST, ReadLimits
from spark_connect_rt.engine.datasource.stream_book import StreamBook
from spark_connect_rt.engine.datasource.stream_limits import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from spark_connect_rt.engine.datasource.stream_position import as_position, position_at
from spark_connect_rt.engine.datasource.task_partition import TaskPartition


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
        """See DataSourceStreamReader."""
        return position_at(in_own_words(self._connector.starting(), self._source.ranges(())))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """See DataSourceStreamReader."""
        most = self._connector.options.limits.max_records
        return ReadMaxRows(most) if most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note where the source ends now."""
        self._last = numbers_in(moved({}, self._source.ranges(()), self._source), self._source)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """See DataSourceStreamReader."""
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
        """See DataSourceStreamReader."""
        from spark_connect_rt.engine.datasource.bounded_read import task_rows  # on executors: a planner does without

        assert isinstance(partition, TaskPartition)
        return task_rows(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Store the offsets of a batch that is done."""
        self._book.write(as_position(end))

    def stop(self) -> None:
        """Stop the connector."""
        if self._started is not None:
            self._started.stop()
        self._book.close()

    @property
    def _source(self) -> RangeSourceConnector:
        if self._started is None:  # not where a reader is only made to be sent to executors
            self._started = self._connector.started()
        return self._started
