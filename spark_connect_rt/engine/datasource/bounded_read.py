"""A batch read of one task: polled until its limits."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.engine.datasource.open_task import OpenTask, open_task
from spark_connect_rt.engine.datasource.read_options import LATEST, ReadLimits
from spark_connect_rt.engine.datasource.task_partition import TaskPartition


def task_rows(partition: TaskPartition) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a task that lives for this read. Raises DataError, and what its start does."""
    task = open_task(partition)
    try:
        for batch in poll_rows(task, partition.limits):
            yield batch.select(partition.columns)
    finally:
        task.close()
        keep_imports()


@cache
def keep_imports() -> None:
    """Have the collector leave alone what this process has imported by now; once.

    Spark's Python collects behind each task, and 1,100 modules are 0.05 CPU seconds to look through.
    """
    gc.collect()  # what is garbage by now would stay
    gc.freeze()


def poll_rows(task: OpenTask, limits: ReadLimits) -> Iterator[pa.RecordBatch]:
    """Yield batches until the limits. Raises DataError: a record failed and is not tolerated."""
    records_left, bytes_left = limits.max_records, limits.max_bytes
    idle_since_s = time.monotonic()
    while records_left != 0 and bytes_left != 0:
        polled = task.poll()
        if polled is None:
            idle_ms = (time.monotonic() - idle_since_s) * 1000
            if not task.has_more() and (limits.until == LATEST or idle_ms >= limits.idle_ms):
                return
            time.sleep(min(task.idle_wait_ms(), max(1.0, limits.idle_ms - idle_ms)) / 1000)
            continue
        for batch in polled:
            kept, size = _within(batch, records_left, bytes_left)
            records_left = None if records_left is None else records_left - kept.num_rows
            bytes_left = None if bytes_left is None else max(0, bytes_left - size)
            yield kept
            if kept.num_rows < batch.num_rows or records_left == 0 or bytes_left == 0:
                return
        idle_since_s = time.monotonic()


def _within(batch: pa.RecordBatch, records: int | None, size: int | None) -> tuple[pa.RecordBatch, int]:
    """Return the rows within both limits, at least one of them while there is room at all, and their bytes."""
    kept = batch if records is None else batch.slice(0, records)
    if size is None or not kept.num_rows:
        return kept, 0
    lengths = [_lengths(kept.column(name)) for name in ("key", "value")]
    sums = pc.cumulative_sum(pc.add(*lengths)).to_pylist()
    fitting = sum(total <= size for total in sums)
    kept = kept.slice(0, max(1, fitting))
    return kept, sums[kept.num_rows - 1]


def _lengths(column: pa.Array) -> pa.Array:
    """Return the bytes of each element; of decoded ones, on average."""
    if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
        return pc.fill_null(pc.cast(pc.binary_length(column), pa.int64()), 0)
    return pa.repeat(pa.scalar(-(-column.nbytes // len(column)), pa.int64()), len(column))
