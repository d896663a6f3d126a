"""The column forms of the transformations that add, drop, rename, mask or move fields."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.records import B, SinkBatch
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.transforms.extract_field import ExtractField, field_at
from spark_connect_rt.records.transforms.flatten import Flatten
from spark_connect_rt.records.transforms.hoist_field import HoistField
from spark_connect_rt.records.transforms.insert_field import InsertField, Insertion
from spark_connect_rt.records.transforms.mask_field import MaskField, masked
from spark_connect_rt.records.transforms.replace_field import ReplaceField
from spark_connect_rt.records.transforms.set_schema_metadata import SetSchemaMetadata
from spark_connect_rt.records.transforms.struct_columns import (
    TIMESTAMP_TYPE,
    Columns,
    agrees,
    arrow_type,
    flat_columns,
    struct_column,
)
from spark_connect_rt.records.transforms.value_to_key import ValueToKey

_SAMPLES: tuple[tuple[Any, Any, pa.DataType], ...] = (  # recognised by, an example, the schemaless type of the mask
    (pa.types.is_boolean, True, pa.bool_()),
    (pa.types.is_signed_integer, 1, pa.int64()),
    (pa.types.is_floating, 1.5, pa.float64()),
    (pa.types.is_string, "x", pa.string()),
)


def replace_batch(replacing: ReplaceField, batch: B) -> B | None:
    """Return the batch with some columns only, under their new names."""
    schema, column = replacing.batch_side(batch)
    if column is None:
        return batch
    columns = flat_columns(schema, column)
    if columns is None:
        return None
    kept = [(name, array) for name, array in columns if replacing.keeps(name)]
    # As in Java, a new name stands for the field that is renamed to it, also where another field has that name.
    if any(replacing.original(replacing.renamed(name)) != name for name, _ in kept):
        return None
    made = struct_column([(replacing.renamed(name), array) for name, array in kept])
    return None if made is None else replacing.changed_batch(batch, schema and replacing.updated_schema(schema), made)


def insert_batch(inserting: InsertField, batch: B) -> B | None:
    """Return the batch with more columns."""
    schema, column = inserting.batch_side(batch)
    if column is None:
        return batch
    columns = flat_columns(schema, column)
    if columns is None:
        return None
    for insertion in inserting.insertions:
        array = _inserted(insertion, inserting, batch, schema)
        if array is None:
            return None
        columns.append((insertion.name, array))
    made = struct_column(columns)
    return None if made is None else inserting.changed_batch(batch, schema and inserting.updated_schema(schema), made)


def _inserted(insertion: Insertion, inserting: InsertField, batch: B, schema: Schema | None) -> pa.Array | None:
    count = len(batch.values)
    if insertion.source in ("topic", "static"):
        return pa.repeat(pa.scalar(batch.topic if insertion.source == "topic" else inserting.static_value), count)
    times = batch.timestamps_ms
    if insertion.source == "timestamp" and times is not None and not times.null_count:
        if schema is None:
            return times
        as_time = pc.cast(times, TIMESTAMP_TYPE)
        return as_time if _within_years(times) else None
    if insertion.source == "offset":
        return batch.offsets if isinstance(batch, SinkBatch) else None
    if insertion.source == "partition" and batch.partition is not None:
        return pa.repeat(pa.scalar(batch.partition, pa.int32()), count)
    missing = insertion.source == "partition" or (insertion.source == "timestamp" and times is None)
    if missing and schema is not None and insertion.schema.optional:
        return pa.nulls(count, arrow_type(insertion.schema))
    return None


_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999


def _within_years(times: pa.Array) -> bool:
    limits = pc.min_max(times).as_py()
    return limits["min"] is None or (limits["min"] >= _FIRST_MS and limits["max"] <= _LAST_MS)


def mask_batch(masking: MaskField, batch: B) -> B | None:
    """Return the batch with some columns masked."""
    schema, column = masking.batch_side(batch)
    columns = flat_columns(schema, column)
    if columns is None or (schema is None and not masking.fields <= {name for name, _ in columns}):
        return None
    result: Columns = []
    for name, array in columns:
        member = schema.field(name) if schema is not None else None
        hidden = array
        if name in masking.fields:
            hidden = _masked(member.schema if member else None, array, masking.replacement)
            if hidden is None:
                return None
        result.append((name, hidden))
    made = struct_column(result)
    return None if made is None else masking.changed_batch(batch, schema, made)


def _masked(schema: Schema | None, array: pa.Array, replacement: str | None) -> pa.Array | None:
    found = next(((sample, kind) for is_kind, sample, kind in _SAMPLES if is_kind(array.type)), None)
    if found is None or (schema is not None and arrow_type(schema) not in (None, array.type)):
        return None
    sample, kind = found
    try:
        mask = masked(schema, sample, replacement)
    except DataError:  # rows show which record
        return None
    of = kind if schema is None else array.type
    return pc.if_else(array.is_valid(), pa.scalar(mask, of), pa.scalar(None, of))


def hoist_batch(hoisting: HoistField, batch: B) -> B | None:
    """Return the batch with its column inside of a struct."""
    schema, column = hoisting.batch_side(batch)
    if column is None or not hoisting.field:
        return None
    if flat_columns(schema, column) is None and not agrees(schema, column):
        return None
    made = struct_column([(hoisting.field, column)])
    return None if made is None else hoisting.changed_batch(batch, schema and hoisting.updated_schema(schema), made)


def extract_batch(extracting: ExtractField, batch: B) -> B | None:
    """Return the batch with one of its columns."""
    schema, column = extracting.batch_side(batch)
    columns = flat_columns(schema, column)
    if columns is None or len(extracting.steps) != 1:
        return None
    found = dict(columns).get(extracting.steps[0])
    member = field_at(schema, extracting.steps) if schema is not None else None
    if found is None or (schema is not None and member is None):
        return None
    return extracting.changed_batch(batch, member.schema if member else None, found)


def flatten_batch(flattening: Flatten, batch: B) -> B | None:
    """Return the batch with the columns of inner structs among the outer ones."""
    schema, column = flattening.batch_side(batch)
    if column is None:
        return batch
    result: Columns = []
    if not _flatten(flattening, schema, column, "", result):
        return None
    made = struct_column(result)
    return None if made is None else flattening.changed_batch(batch, schema and flattening.updated_schema(schema), made)


def _flatten(flattening: Flatten, schema: Schema | None, column: pa.Array, prefix: str, result: Columns) -> bool:
    """Add the flat columns below ``prefix``; answer whether that could be done."""
    if not pa.types.is_struct(column.type) or column.null_count or not _same_names(schema, column):
        return False
    if schema is not None and schema.default is not None:
        return False
    members = [None] * column.type.num_fields if schema is None else [member.schema for member in schema.fields]
    for field, inner, array in zip(column.type, members, column.flatten(), strict=True):
        name = flattening.name(prefix, field.name)
        if pa.types.is_struct(field.type):
            if not _flatten(flattening, inner, array, name, result):
                return False
        elif agrees(inner, array):
            result.append((name, array))
        else:
            return False
    return True


def _same_names(schema: Schema | None, column: pa.Array) -> bool:
    names = [field.name for field in column.type]
    if schema is None:
        return len(set(names)) == len(names)
    return schema.type is Type.STRUCT and [field.name for field in schema.fields] == names


def set_metadata_batch(setting: SetSchemaMetadata, batch: B) -> B | None:
    """Return the batch under its new schema."""
    schema, column = setting.batch_side(batch)
    if schema is None or flat_columns(schema, column) is None:
        return None
    return setting.changed_batch(batch, setting.updated_schema(schema), column)


def key_batch(making: ValueToKey, batch: B) -> B | None:
    """Return the batch with some columns of its values as keys."""
    columns = flat_columns(batch.value_schema, batch.values)
    if columns is None or not set(making.fields) <= {name for name, _ in columns}:
        return None
    by_name = dict(columns)
    keys = struct_column([(name, by_name[name]) for name in making.fields])
    schema = batch.value_schema
    return None if keys is None else replace(batch, key_schema=schema and making.key_schema(schema), keys=keys)
