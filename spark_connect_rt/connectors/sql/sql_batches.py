"""Columns of a sink's batch -> columns of a table, with the results of ``sql_rows``, which goes by records. Pure.

The runs of rows are the same, so everything unusual returns None and goes by records. Examples are values that are not
structs, a nested field, a deletion among rows that are only inserted, and a key that ``RowReader`` rejects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SinkBatch, SinkRecord
from spark_connect_rt.connectors.sql.sql_rows import Row, RowReader, RowShape, TableRows, runs_of
from spark_connect_rt.connectors.sql.sql_sink_config import KAFKA, NONE, RECORD_KEY
from spark_connect_rt.errors import DataError

_COMPARED_BY_ARROW = (pa.types.is_integer, pa.types.is_string, pa.types.is_boolean)


@dataclass(frozen=True, slots=True)
class ShapeColumns:
    """Rows of one shape, a column for each of ``shape.columns``."""

    shape: RowShape
    columns: tuple[pa.Array, ...]

    def take(self, places: pa.Array) -> ShapeColumns:
        """Return some of the rows."""
        return ShapeColumns(self.shape, tuple(column.take(places) for column in self.columns))


def runs_of_batch(batch: SinkBatch, reader: RowReader, replaces: bool) -> Sequence[ShapeColumns] | None:
    """Return a batch's runs of rows (``sql_rows.runs_of``); None: it has to go by records."""
    if reader.mode == RECORD_KEY and (batch.keys is None or batch.keys.null_count):
        return None
    if not batch.values.null_count:
        rows = _rows_of_values(batch, reader)
        return None if rows is None else [_last_rows(rows) if replaces else rows]
    return _runs_with_deletions(batch, reader) if replaces and reader.mode == RECORD_KEY else None


def _rows_of_values(batch: SinkBatch, reader: RowReader) -> ShapeColumns | None:
    """Return the rows of records of which each has a value."""
    values = _members(batch.values)
    if values is None:
        return None
    try:
        shape, _ = reader.read(_first_record(batch))
    except DataError:  # some record is to blame, maybe each
        return None
    keys = _key_columns(batch, reader.mode, shape.keys, values)
    columns = [*keys, *(values[name] for name in shape.columns[len(keys) :])]
    return ShapeColumns(shape, tuple(columns)) if all(map(_is_flat, columns)) else None


def _last_rows(rows: ShapeColumns) -> ShapeColumns:
    last = last_of_each_key(rows.columns[: len(rows.shape.keys)])
    return rows if last is None else rows.take(last)


def _runs_with_deletions(batch: SinkBatch, reader: RowReader) -> Sequence[ShapeColumns] | None:
    absent = batch.values.is_null()
    written = batch.where(pc.invert(absent))
    upserts = _rows_of_values(written, reader) if len(written.values) else None
    if upserts is None and len(written.values):
        return None
    gone = batch.where(absent)
    deletions = _rows_of_keys(gone, reader)
    if deletions is None:
        return None
    if upserts is None:
        return [_last_rows(deletions)]
    places = [0, 0]  # of the next row among its own
    keys = _key_columns(batch, RECORD_KEY, upserts.shape.keys, {})
    pairs: list[tuple[RowShape, Row]] = []
    for deletes, *key in zip(absent.to_pylist(), *(column.to_pylist() for column in keys), strict=True):
        at, places[deletes] = places[deletes], places[deletes] + 1
        pairs.append((deletions.shape if deletes else upserts.shape, (*key, at)))
    runs = runs_of(pairs, True)
    return [(deletions if run.shape.deletes else upserts).take(_places_of(run)) for run in runs]


def _rows_of_keys(gone: SinkBatch, reader: RowReader) -> ShapeColumns | None:
    """Return the deletions of records without a value."""
    try:
        shape, _ = reader.read(replace(_first_record(gone), value=None, value_schema=None))
    except DataError:
        return None
    columns = tuple(_key_columns(gone, RECORD_KEY, shape.keys, {}))
    return ShapeColumns(shape, columns) if all(map(_is_flat, columns)) else None


def _places_of(run: TableRows) -> pa.Array:
    """Return the columns of a run's rows, keys first."""
    return pa.array([row[-1] for row in run.rows], pa.int64())


def _members(structs: pa.Array) -> dict[str, pa.Array] | None:
    if not pa.types.is_struct(structs.type) or structs.null_count or not len(structs):
        return None
    return {member.name: column for member, column in zip(structs.type, structs.flatten(), strict=True)}


def _is_flat(column: pa.Array) -> bool:
    return pa.types.is_union(column.type) or not pa.types.is_nested(column.type)


def _first_record(batch: SinkBatch) -> SinkRecord:
    """Return a record of the batch's schemas; a schemaless one has the names that all of them have."""
    value, key = (
        None if column is None else _connect_value(schema, column[0].as_py())
        for schema, column in ((batch.value_schema, batch.values), (batch.key_schema, batch.keys))
    )
    return SinkRecord(batch.topic, batch.partition, 0, value, batch.value_schema, key, batch.key_schema)


def _connect_value(schema: Schema | None, value: Any) -> Any:
    if value is None or schema is None or schema.type is not Type.STRUCT:
        return value
    return Struct.of_checked(schema, [value[member.name] for member in schema.fields])


def _key_columns(batch: SinkBatch, mode: str, names: Sequence[str], values: dict[str, pa.Array]) -> Sequence[pa.Array]:
    if mode == KAFKA:
        count = len(batch.values)
        return [pa.repeat(batch.topic, count), pa.repeat(pa.scalar(batch.partition, pa.int32()), count), batch.offsets]
    if mode != RECORD_KEY:
        return () if mode == NONE else [values[name] for name in names]
    members = _members(batch.keys)
    return [batch.keys] if members is None else [members[name] for name in names]


def last_of_each_key(keys: Sequence[pa.Array]) -> pa.Array | None:
    """Return where the last row of each key is, in the order in which keys come first; None: none comes twice."""
    count = len(keys[0])
    comparable = [column for column in keys if any(is_kind(column.type) for is_kind in _COMPARED_BY_ARROW)]
    if any(map(_ascends, comparable)):
        return None
    if len(comparable) == len(keys):
        names = [f"k{index}" for index in range(len(keys))]
        table = pa.table([*keys, pa.array(range(count), pa.int64())], names=[*names, "at"])
        groups = table.group_by(names, use_threads=False).aggregate([("at", "max"), ("at", "min")])
        if len(groups) == count:
            return None
        # Arrow promises no order of groups, and has another one where keys of several columns hold nulls.
        return groups["at_max"].take(pc.sort_indices(groups["at_min"])).combine_chunks()
    if any(map(_all_differ, comparable)):
        return None
    places = {key: at for at, key in enumerate(zip(*(column.to_pylist() for column in keys), strict=True))}
    return None if len(places) == count else pa.array(places.values(), pa.int64())


def _ascends(column: pa.Array) -> bool:
    """Whether each value is greater than the one before, as numbers of new rows mostly are."""
    if not pa.types.is_integer(column.type) or column.null_count:
        return False
    return bool(pc.all(pc.greater(column[1:], column[:-1])).as_py())


def _all_differ(column: pa.Array) -> bool:
    return bool(pc.count_distinct(column, mode="all").as_py() == len(column))
