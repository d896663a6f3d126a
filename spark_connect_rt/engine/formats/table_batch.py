"""One task's batches: ranges in, rows in the table out. Owns the Spark job and the table's schema."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.config.spark_connectors import TableFlushSettings
from spark_connect_rt.engine.executor.hosting import load_clients
from spark_connect_rt.engine.executor.table_ranges import OffsetRange, RangeJob, infer_schema, read_ranges
from spark_connect_rt.engine.formats.driver_tasks import is_data_error, last_error_line, set_active
from spark_connect_rt.engine.formats.table_writer import TableWriter, writer_for
from spark_connect_rt.engine.task_runner import TaskLaunch
from spark_connect_rt.errors import ConnectError

# When a Spark table sink runs its next batch, and how the batch is cut into pieces. Pure.


def pending_count(positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    """Return how many offsets lie between the positions and the log ends."""
    return sum(max(0, ends.get(partition, start) - start) for partition, start in positions.items())


def flush_is_due(settings: TableFlushSettings, pending: int, waited_ms: int) -> bool:
    """Return whether a batch should be written now."""
    return pending > 0 and (pending >= settings.flush_size or waited_ms >= settings.flush_interval_ms)


def bounded_ends(
    positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], max_records: int
) -> dict[TopicPartition, int]:
    """Return the end offset of each partition in the next batch, at most ``max_records`` in all.

    Every partition with something to read gets an even share, so none starves behind a long one.
    """
    waiting = {p: ends[p] - start for p, start in positions.items() if ends.get(p, start) > start}
    chosen: dict[TopicPartition, int] = {}
    left = max_records
    for count, partition in enumerate(sorted(waiting, key=lambda p: (waiting[p], p))):
        share = max(1, left // (len(waiting) - count))
        take = min(waiting[partition], share)
        chosen[partition] = positions[partition] + take
        left -= take
    return chosen


def cut(
    positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], pieces: int
) -> list[list[tuple[TopicPartition, int, int]]]:
    """Deal the ranges (partition, start, end) to at most ``pieces`` lists of about equal size.

    A long range is split; the pieces of one topic partition stay in offset order over the lists.
    """
    total = pending_count(positions, ends)
    if total == 0:
        return []
    size = -(-total // max(1, pieces))
    lists: list[list[tuple[TopicPartition, int, int]]] = [[]]
    room = size
    for partition in sorted(ends):
        start, end = positions[partition], ends[partition]
        while start < end:
            if room == 0:
                lists.append([])
                room = size
            stop = min(end, start + room)
            lists[-1].append((partition, start, stop))
            room -= stop - start
            start = stop
    return lists


SAMPLE_RECORDS = 10_000
SAMPLE_TIMEOUT_MS = 10_000
RECORDS_PER_PIECE = 100_000
log = logging.getLogger(__name__)
ATTEMPTS = 3  # a lost executor is not the task's fault; staging makes the repetition harmless


@dataclass(frozen=True, slots=True)
class AppendedCounts:
    """The counts of one batch that was appended to a table."""

    records: int
    skipped: int
    data_bytes: int


class TableBatches:
    """Writes bounded batches for one launch."""

    def __init__(self, launch: TaskLaunch, config: Mapping[str, str], spark: Any, clients: str, consumer: Any) -> None:
        """Take the launch, its task's settings (resolved), a session and the run's consumer."""
        self._config = config
        self._launch = launch
        self._spark = spark
        self._clients = clients
        self._consumer = consumer
        self._job_group = f"connectrt-{launch.task}-{launch.run}"
        self._cancelled = False
        # Offsets this run wrote that the group may not have committed yet, per partition: [first start, last end).
        self._held: dict[TopicPartition, tuple[int, int]] = {}
        self._topic_ids: dict[TopicPartition, str] = {}  # whose offsets these are, where brokers report it
        self._schema: pa.Schema | None = None
        set_active(spark)
        self._writer: TableWriter = writer_for(spark, config, launch.task)

    def recover(self) -> None:
        """Finish a batch that a crash left declared but not moved."""
        found = self._writer.recover()
        self._held, self._topic_ids = dict(found.ranges), dict(found.topic_ids)

    def starts(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return where to begin each partition: behind what the table holds when its commit was lost.

        An offset inside the range that this run (or the crashed one before it) wrote means "written, not
        committed"; one outside was set by a user and is obeyed. Offsets of a topic that was deleted and created again
        say nothing of the one that is there.
        """
        self._drop_other_topics([held for held in offsets if held in self._held])
        starts = {}
        for partition, offset in offsets.items():
            if offset < 0:
                offset = self._resolve(partition, offset)
            held_start, held_end = self._held.get(partition, (offset, offset))
            starts[partition] = held_end if held_start <= offset < held_end else offset
            if starts[partition] != held_end:
                self._held.pop(partition, None)
        return starts

    def write(self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> AppendedCounts:
        """Append the records between ``starts`` and ``ends`` to the table. Raises what the last attempt raised."""
        ranges = {partition: (starts[partition], end) for partition, end in ends.items()}
        schema = self._schema or self._find_schema(ranges)
        self._schema = schema
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._attempt(schema, ranges)
            except Exception as error:
                if self._cancelled or attempt == ATTEMPTS or is_data_error(error):
                    raise _explained(error, self._launch.task, self._config) from error
        raise AssertionError("unreachable")

    def cancel(self) -> None:
        """Cancel the running Spark job. Any thread."""
        self._cancelled = True
        self._spark.sparkContext.cancelJobGroup(self._job_group)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """All offsets of these are committed, and only these are this run's: the table need not remember them."""
        self._writer.forget({partition: held for partition, held in self._held.items() if partition in partitions})

    def _drop_other_topics(self, partitions: Collection[TopicPartition]) -> None:
        if not partitions:
            return
        topic_ids = self._consumer.topic_ids({partition.topic for partition in partitions})
        ends = self._consumer.end_offsets(list(partitions))
        for partition in partitions:
            held_end, known = self._held[partition][1], self._topic_ids.get(partition)
            is_another = None not in (known, topic_ids.get(partition.topic)) and topic_ids[partition.topic] != known
            if is_another or ends[partition] < held_end:
                log.warning(
                    "%s: the table holds %s up to offset %d of a topic that was deleted and created again, "
                    "reading all of the new topic",
                    self._job_group,
                    partition,
                    held_end,
                )
                del self._held[partition]
                self._topic_ids.pop(partition, None)

    def _attempt(self, schema: pa.Schema, ranges: Mapping[TopicPartition, tuple[int, int]]) -> AppendedCounts:
        context = self._spark.sparkContext
        context.setJobGroup(self._job_group, f"connectrt {self._launch.task}: append", True)
        records, skipped = context.accumulator(0), context.accumulator(0)
        pieces = cut(
            {p: start for p, (start, _) in ranges.items()},
            {p: end for p, (_, end) in ranges.items()},
            pieces_of(sum(end - start for start, end in ranges.values()), _parallelism(context)),
        )
        frame = self._frame(schema, pieces, lambda count, bad: (records.add(count), skipped.add(bad)))
        held = {p: (self._held.get(p, (start, end))[0], end) for p, (start, end) in ranges.items()}
        batch = uuid.uuid4().hex
        if unknown := {partition.topic for partition in held if partition not in self._topic_ids}:
            topic_ids = self._consumer.topic_ids(unknown)
            self._topic_ids |= {
                partition: topic_ids[partition.topic] for partition in held if partition.topic in topic_ids
            }
        try:
            self._writer.append(frame, batch, {**self._held, **held}, self._topic_ids)
        except Exception as error:
            # It may have failed behind the point from which on the batch is the table's: then it must not be repeated.
            if self._cancelled or not self._writer.holds(batch):
                raise
            log.warning("%s: appended despite %s", self._job_group, last_error_line(error))
        self._held.update(held)
        return AppendedCounts(records.value, skipped.value, 0)

    def _frame(
        self,
        schema: pa.Schema,
        pieces: list[list[tuple[TopicPartition, int, int]]],
        count: Callable[[int, int], Any],
    ) -> Any:
        from pyspark.sql.pandas.types import from_arrow_schema

        job = self._job(schema)
        ranges = [[OffsetRange(*span) for span in piece] for piece in pieces]

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for piece in batch.column(0).to_pylist():
                    yield from read_ranges(job, ranges[piece], count)

        spark_schema = from_arrow_schema(schema)
        return self._spark.range(0, len(pieces), 1, len(pieces)).mapInArrow(read, spark_schema)

    def _job(self, schema: pa.Schema) -> RangeJob:
        launch = self._launch
        return RangeJob(
            self._clients,
            launch.client_config,
            launch.connector_config,
            launch.worker_config,
            (),
            schema,
            launch.task,
            launch.dead_letter_producer,
        )

    def _resolve(self, partition: TopicPartition, offset: int) -> int:
        self._consumer.assign({partition: offset})
        try:
            return int(self._consumer.position(partition))
        finally:
            self._consumer.unassign([partition])

    def _find_schema(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> pa.Schema:
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType

        ddl = self._config.get("table.schema", "")
        if ddl:
            return to_arrow_schema(StructType.fromDDL(ddl))
        launch = self._launch
        clients = load_clients(self._clients)
        partition, (start, _) = max(ranges.items(), key=lambda item: item[1][1] - item[1][0])
        self._consumer.assign({partition: start})
        try:
            sample = self._consumer.poll(SAMPLE_RECORDS, SAMPLE_TIMEOUT_MS)
        finally:
            self._consumer.unassign([partition])
        if sample is None:
            raise ConnectError(f"connector={launch.task.connector}: no record to infer the table's schema from")
        return infer_schema(
            sample,
            clients.resolve(launch.connector_config, launch.worker_config),
            clients.resolve(launch.worker_config, launch.worker_config),
            clients.plugin,
        )


def pieces_of(records: int, most: int) -> int:
    """Return how many executor tasks one batch is worth: a task costs a Python process and a file in the table."""
    return max(1, min(most, -(-records // RECORDS_PER_PIECE)))


def _parallelism(context: Any) -> int:
    # local[N] has many more slots than cores: slices idle in them, a batch does not.
    return os.cpu_count() or 1 if context.master.startswith("local[") else int(context.defaultParallelism)


def columns_session(session: Any) -> Any:
    """Return a session for whole columns: slices want a row at a time and a tiny buffer, tables the opposite."""
    own = session.newSession()
    own.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")
    own.conf.set("spark.sql.execution.pandas.udf.buffer.size", "65536")
    return own


def _explained(error: Exception, task: ConnectorTaskId, config: Mapping[str, str]) -> ConnectError:
    target = config.get("path") or config.get("table") or config.get("spark.format")
    if "No space left on device" in str(error):
        why = "no space left on its device. Free some and restart the task"
    else:
        why = last_error_line(error)
    return ConnectError(
        f"connector={task.connector} task={task.task}: cannot append to {target}: {why}. Nothing of this batch is "
        "committed, and its records will be read again.",
        code="CRT-1055",
    )
