"""Columns of a sink's batch -> columns of a table: what ``sql_rows`` finds out record by record. Pure.

The rows are the same, so everything unusual answers None and goes by records: no struct, a null, a nested field, a key
that ``RowReader`` refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SinkBatch, SinkRecord
from spark_connect_rt.connectors.sql_rows import RowReader, Shape
from spark_connect_rt.connectors.sql_sink_config import KAFKA, NONE, RECORD_KEY
from spark_connect_rt.errors import DataError

_COMPARED_BY_ARROW = (pa.types.is_integer, pa.types.is_string, pa.types.is_boolean)


@dataclass(frozen=True, slots=True)
class RowColumns:
    """Rows of one shape, a column for each of ``shape.columns``."""

    shape: Shape
    columns: tuple[pa.Array, ...]


def rows_of_batch(batch: SinkBatch, reader: RowReader, replaces: bool) -> RowColumns | None:
    """Return a batch's rows; with ``replaces`` of each key only the last. None: it has to go by records."""
    values = _members(batch.values)
    if values is None or (reader.mode == RECORD_KEY and (batch.keys is None or batch.keys.null_count)):
        return None
    try:
        shape, _ = reader.read(_first_record(batch))
    except DataError:  # some record is to blame, maybe each
        return None
    keys = _key_columns(batch, reader.mode, shape.keys, values)
    columns = [*keys, *(values[name] for name in shape.columns[len(keys) :])]
    if not all(map(_is_flat, columns)):
        return None
    last = last_of_each_key(columns[: len(shape.keys)]) if replaces else None
    return RowColumns(shape, tuple(columns if last is None else [column.take(last) for column in columns]))


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
    for column in keys:
        if any(is_kind(column.type) for is_kind in _COMPARED_BY_ARROW) and _all_differ(column):
            return None
    last = {key: at for at, key in enumerate(zip(*(column.to_pylist() for column in keys), strict=True))}
    return None if len(last) == count else pa.array(last.values(), pa.int64())


def _all_differ(column: pa.Array) -> bool:
    return bool(pc.count_distinct(column, mode="all").as_py() == len(column))
