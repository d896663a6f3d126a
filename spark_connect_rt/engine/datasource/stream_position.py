"""Where a stream is: for each source partition its source offset, and how many of its rows the stream has given out.

Pure. The offset is where a task resumes. The count makes a batch repeatable: a task whose offsets are exact, resumed
where a batch began, gives the same rows in the same order, however it cuts them into batches this time. An offset that
is not exact lies before rows that were given: they are repeated, and the count does not show which rows a batch had.
JSON all through, as Spark keeps it:
``{source partition: {"offset": source offset, "rows": count}}``, both as JSON texts; "" for rows without a partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from spark_connect_rt.base.json_text import decode_json, encode_json
from spark_connect_rt.engine.datasource.read_options import COLUMNS, Decode, ReadLimits, SourceOffset

Position = dict[str, dict[str, Any]]
NOWHERE = ""
POSITION_COLUMNS = ("source_partition", "source_offset")
"""The columns of rows by which a stream knows where it is."""


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
        (decode_json(partition.encode()), decode_json(entry["offset"].encode()))
        for partition, entry in position.items()
        if partition != NOWHERE and entry["offset"] is not None
    )


def advanced(position: Position, batch: pa.RecordBatch) -> Position:
    """Return the position behind a batch of the format's columns."""
    table = pa.table([batch.column(name) for name in POSITION_COLUMNS], names=["partition", "offset"])
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
    counts = {name: entry["rows"] - start.get(name, {"rows": 0})["rows"] for name, entry in end.items()}
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


class RepeatedBatch:
    """A batch that is polled again: which of the rows belong to it, and what it still lacks."""

    def __init__(self, start: Position, end: Position, *, exact: bool) -> None:
        """``exact``: each offset of the connector covers exactly the rows up to it."""
        self._exact = exact
        self.lacking = rows_between(start, end)
        """Source partition -> how many rows."""
        self._ends = {} if exact else {name: end[name]["offset"] for name in self.lacking}
        self._at = {name: entry["offset"] for name, entry in start.items()}

    @property
    def complete(self) -> bool:
        """Whether nothing that comes later can belong to it."""
        return not any(self.lacking.values()) and not self._ends

    def rows_of(self, batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Return the rows of one poll that belong to it, without empty batches."""
        take = self._first_rows if self._exact else self._rows_up_to_end
        found = [rows for batch in batches if (rows := take(batch)).num_rows]
        # A poll is never cut: the rows behind one that has the end's offset may have that offset, too.
        reached = [n for n, end in self._ends.items() if self.lacking[n] == 0 and self._at.get(n) == end]
        for name in reached:
            del self._ends[name]
        return found

    def _first_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return first_rows(batch, self.lacking)

    def _rows_up_to_end(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        mask = []
        columns = (batch.column(name).to_pylist() for name in POSITION_COLUMNS)
        for partition, offset in zip(*columns, strict=True):
            name = NOWHERE if partition is None else partition
            mask.append(name in self._ends)
            if name in self._ends:
                self.lacking[name] = max(0, self.lacking[name] - 1)
                self._at[name] = self._at.get(name) if offset is None else offset  # as ``advanced`` continues
        return batch.filter(pa.array(mask, pa.bool_()))


def as_position(offset: Mapping[str, Any]) -> Position:
    """Return Spark's copy of an offset as a position."""
    return {name: dict(entry) for name, entry in offset.items()}


# One task of a connector as a partition of a read, with everything that an executor needs.
#
# Quick to import, as all that plans a read has to be: each query plans in its own process
# (docs/explanation/spark_costs.md). Reading code is imported where it runs.


@dataclass
class TaskPartition(InputPartition):  # type: ignore[misc]
    """One task of the connector; settings are raw, secrets are looked up where the task runs."""

    task_class: str
    task_config: Mapping[str, str]
    config: Mapping[str, str]
    clients: str
    limits: ReadLimits
    starting: tuple[SourceOffset, ...]
    decodes: tuple[Decode, ...] = ()
    kinds: Mapping[str, pa.DataType] = field(default_factory=dict)  # of the decoded columns
    columns: tuple[str, ...] = tuple(COLUMNS)  # of the read; its batches may have more


def made_columns(partition: TaskPartition, also: Sequence[str] = ()) -> frozenset[str]:
    """Return the columns that a task's batches have: those of the read, and what decoding and limits look at."""
    decoded = {"topic", *POSITION_COLUMNS, *(rule.column for rule in partition.decodes)} if partition.decodes else ()
    sized = ("key", "value") if partition.limits.max_bytes is not None else ()
    return frozenset({*partition.columns, *decoded, *sized, *also})
