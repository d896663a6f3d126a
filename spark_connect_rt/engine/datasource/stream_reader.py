"""``spark.readStream.format("connectrt")``: a source connector's records in micro-batches.

Owns the tasks of one query: they run in the query's own Python process next to the driver, between batches too, because
only polling shows where a batch ends, and Spark must write that down before the batch is run. Polled records wait there
until the batch is done, at most ``maxRecords`` and one poll of each task; executors get them as Arrow.

After a restart Spark asks again for the batch in progress. The tasks resume where it began and give as many rows
of each source partition as it had (``stream_position``). A connector whose offsets are not exact gives all rows up to
the offset where the batch ended, which may be more. Spark's checkpoint decides where a query resumes. The offset
topic is written after each batch (``commitOffsets=connect``), and read by a query that has no checkpoint
(``startingOffsets=connect``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from spark_connect_rt.engine.datasource.named_connector import OffsetBook, StreamBook
from spark_connect_rt.engine.datasource.open_task import OpenTask
from spark_connect_rt.engine.datasource.read_options import COLUMNS, SourceOffset
from spark_connect_rt.engine.datasource.stream_limits import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from spark_connect_rt.engine.datasource.stream_position import (
    Position,
    RepeatedBatch,
    advanced,
    as_position,
    offsets_of,
    position_at,
)
from spark_connect_rt.errors import DataError

BATCH_RECORDS = 100_000  # of a micro-batch, unless maxRecords says otherwise
SMALL_ROWS, JOINED_BATCHES = 1_000, 256  # batches below so many rows are joined, so many at a time
PARTITION_BYTES = 8 * 1024 * 1024  # of what one Spark task gets


@dataclass
class RowsPartition(InputPartition):  # type: ignore[misc]
    """Rows that were polled, as an Arrow stream."""

    arrow: bytes


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """The source of a stream's query, and the size of its micro-batches."""

    open_tasks: Callable[[Sequence[SourceOffset]], list[OpenTask]]  # started at stored offsets
    starting: Callable[[], Sequence[SourceOffset]]  # asked once, by a query without a checkpoint
    max_records: int | None
    idle_ms: int  # how long a repeated batch waits for rows that must be there
    exact: bool  # each source offset covers exactly the rows up to it
    book: Callable[[], OffsetBook] | None  # None: Spark's checkpoint is the only memory
    columns: Sequence[str] = tuple(COLUMNS)  # those that Spark gets; a task's rows have POSITION_COLUMNS, too
    max_wait_ms: int | None = None  # how long a micro-batch that has rows is filled; None: until its limit of rows


@dataclass(slots=True)
class _Polled:
    """One batch that was polled and is not done."""

    start: Position
    end: Position
    batches: list[pa.RecordBatch] = field(default_factory=list)
    _small: list[pa.RecordBatch] = field(default_factory=list)

    def add(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Append batches. Small ones are joined: each has its own buffers, many times the size of a few rows."""
        for batch in batches:
            if batch.num_rows < SMALL_ROWS and (not self._small or batch.schema == self._small[0].schema):
                self._small.append(batch)
                if len(self._small) == JOINED_BATCHES:
                    self.join()
            else:
                self.join()
                self.batches.append(batch)

    def join(self) -> None:
        """Join what is waiting for more."""
        if self._small:
            self.batches += pa.Table.from_batches(self._small).combine_chunks().to_batches()
            self._small.clear()


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """See the module. One thread."""

    def __init__(self, plan: StreamPlan) -> None:
        self._plan: StreamPlan | None = plan
        self._tasks: list[OpenTask] = []
        self._at: Position | None = None  # where the tasks are; None: they do not run
        self._polled: _Polled | None = None
        self._book = StreamBook(plan.book)

    def __getstate__(self) -> dict[str, Any]:
        """Executors get a reader of what was polled, nothing else."""
        return {"_plan": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a query without a checkpoint starts: the position of the configured offsets."""
        return position_at(self._planned.starting())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the option ``maxRecords`` as the limit of a micro-batch, by default ``BATCH_RECORDS``."""
        return ReadMaxRows(self._planned.max_records or BATCH_RECORDS)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Do nothing: such a query ends with the first poll that brings nothing."""

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return the latest known position, for Spark's progress reports."""
        return self._at

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Poll until ``limit``, or until no task has anything more; return where that ends."""
        begin = as_position(start)
        self._book.write(begin)  # Spark commits a batch when it plans the one after the next: never the last of a query
        self._resume(begin)
        limit_rows = None if isinstance(limit, ReadAllAvailable) else limit.max_rows
        polled = self._polled = _Polled(begin, begin)
        rows, asked, began_s = 0, self._tasks, time.monotonic()
        while (limit_rows is None or rows < limit_rows) and not (rows and self._is_late(began_s)):
            brought = [(task, found) for task in asked if (found := task.poll())]
            for _, found in brought:
                polled.add(found)
                rows += sum(batch.num_rows for batch in found)
            if not brought and len(asked) == len(self._tasks) and not any(task.has_more() for task in asked):
                break
            asked = [task for task, _ in brought] or self._tasks  # a task that has nothing may take its time to say so
        polled.join()
        for batch in polled.batches:
            polled.end = advanced(polled.end, batch)
        self._at = polled.end
        return polled.end

    def _is_late(self, began_s: float) -> bool:
        limit_ms = self._planned.max_wait_ms
        return limit_ms is not None and (time.monotonic() - began_s) * 1000 >= limit_ms

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Hand out what was polled; after a restart poll it again. Raises DataError: the source has it no more."""
        begin, until = as_position(start), as_position(end)
        if begin == until:
            return []
        if self._polled is None or (self._polled.start, self._polled.end) != (begin, until):
            self._polled = self._again(begin, until)
        return _cut([batch.select(self._planned.columns) for batch in self._polled.batches])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the record batches that the partition carries as Arrow. Runs on an executor."""
        assert isinstance(partition, RowsPartition)
        yield from pa.ipc.open_stream(partition.arrow)

    def commit(self, end: dict[str, Any]) -> None:
        """Store the offsets of a batch that is done."""
        self._book.write(as_position(end))

    def stop(self) -> None:
        """Stop the tasks and close the offset book."""
        self._stop_tasks()
        self._book.close()

    @property
    def _planned(self) -> StreamPlan:
        assert self._plan is not None
        return self._plan

    def _resume(self, position: Position) -> None:
        """Have the tasks run from a position on; restart them unless they are there."""
        if self._at == position:
            return
        self._stop_tasks()
        self._tasks = self._planned.open_tasks(offsets_of(position))
        self._at = position

    def _stop_tasks(self) -> None:
        tasks, self._tasks, self._at = self._tasks, [], None
        for task in tasks:
            task.close()

    def _again(self, start: Position, end: Position) -> _Polled:
        self._resume(start)
        repeated = RepeatedBatch(start, end, exact=self._planned.exact)
        polled = _Polled(start, end)
        moved_s = time.monotonic()
        while not repeated.complete:
            found = [batch for task in self._tasks for batch in task.poll() or ()]
            if found:
                moved_s = time.monotonic()
                polled.add(repeated.rows_of(found))
            elif (time.monotonic() - moved_s) * 1000 > self._planned.idle_ms:
                if not any(repeated.lacking.values()):
                    break  # other offsets than last time: all there is belongs to it
                raise _cannot_repeat(repeated.lacking)
            else:
                time.sleep(min(task.idle_wait_ms() for task in self._tasks) / 1000)
        self._stop_tasks()  # they may be further than the end
        polled.join()
        return polled


def _cannot_repeat(lacking: Mapping[str, int]) -> DataError:
    missing = ", ".join(f"{count} of {name or 'no source partition'}" for name, count in lacking.items())
    return DataError(
        f"the batch in progress when the query ended cannot be repeated, because the source lacks rows: {missing}. "
        "Start with another checkpoint, at startingOffsets=connect or with the offsets to continue from."
    )


def _cut(batches: Sequence[pa.RecordBatch]) -> list[RowsPartition]:
    """Return the rows in pieces of about PARTITION_BYTES, in their order."""
    pieces: list[list[pa.RecordBatch]] = []
    size = PARTITION_BYTES
    for batch in batches:
        if size >= PARTITION_BYTES:
            pieces.append([])
            size = 0
        pieces[-1].append(batch)
        size += batch.nbytes
    return [RowsPartition(_arrow(piece)) for piece in pieces]


def _arrow(batches: Sequence[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())
