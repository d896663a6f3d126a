"""Where a stream is: for each source partition its source offset, and how many of its rows the stream has given out.

Pure. The offset is where a task resumes. The count makes a batch repeatable: a task that resumes where a batch began
gives the same rows in the same order, however it cuts them into batches this time. JSON all through, as Spark keeps it:
``{source partition: {"offset": source offset, "rows": count}}``, both as JSON texts; "" for rows without a partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from spark_connect_rt.protocol.json_text import decode_json, encode_json
from spark_connect_rt.spark.datasource.read_options import SourceOffset

Position = dict[str, dict[str, Any]]
NOWHERE = ""


def position_at(offsets: Iterable[SourceOffset]) -> Position:
    """Return the position of a stream that begins at stored offsets."""
    return {
        encode_json(partition).decode(): {"offset": encode_json(offset).decode(), "rows": 0}
        for partition, offset in offsets
        if offset is not None
    }


def offsets_of(position: Position) -> tuple[SourceOffset, ...]:
    """Return what tasks find stored when they resume there."""
    return tuple(
        (decode_json(partition.encode()), decode_json(one["offset"].encode()))
        for partition, one in position.items()
        if partition != NOWHERE and one["offset"] is not None
    )


def advanced(position: Position, batch: pa.RecordBatch) -> Position:
    """Return the position behind a batch of the format's columns."""
    table = pa.table([batch.column("source_partition"), batch.column("source_offset")], names=["partition", "offset"])
    found = table.group_by("partition", use_threads=False).aggregate([("offset", "last"), ([], "count_all")])
    moved = dict(position)
    for row in found.to_pylist():
        name = NOWHERE if row["partition"] is None else row["partition"]
        before = position.get(name, {"offset": None, "rows": 0})
        offset = before["offset"] if row["offset_last"] is None else row["offset_last"]
        moved[name] = {"offset": offset, "rows": before["rows"] + row["count_all"]}
    return moved


def rows_between(start: Position, end: Position) -> dict[str, int]:
    """Return source partition -> how many rows a batch had."""
    counts = {name: one["rows"] - start.get(name, {"rows": 0})["rows"] for name, one in end.items()}
    return {name: count for name, count in counts.items() if count > 0}


def first_rows(batch: pa.RecordBatch, wanted: dict[str, int]) -> pa.RecordBatch:
    """Return the rows of a batch that are still wanted, and count them off ``wanted``."""
    mask = []
    for partition in batch.column("source_partition").to_pylist():
        name = NOWHERE if partition is None else partition
        left = wanted.get(name, 0)
        mask.append(left > 0)
        if left > 0:
            wanted[name] = left - 1
    return batch.filter(pa.array(mask, pa.bool_()))


def as_position(offset: Mapping[str, Any]) -> Position:
    """Return Spark's copy of an offset as a position."""
    return {name: dict(one) for name, one in offset.items()}
