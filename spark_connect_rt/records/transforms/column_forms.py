"""A whole batch through a transformation: the one list of which bundled one has a column form.

Owns the choice between column form and rows. It is a layer above the transformations, which change records and need no
Arrow; validation imports them alone.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.simple_date_format import PatternPart
from spark_connect_rt.api.records import B, BatchHeader, Header, HeaderColumn
from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.transforms import field_columns as fields
from spark_connect_rt.records.transforms.cast import FLOATS, INTEGER_BITS, Cast
from spark_connect_rt.records.transforms.extract_field import ExtractField
from spark_connect_rt.records.transforms.flatten import Flatten
from spark_connect_rt.records.transforms.headers import DropHeaders, HeaderFrom, InsertHeader
from spark_connect_rt.records.transforms.hoist_field import HoistField
from spark_connect_rt.records.transforms.insert_field import InsertField
from spark_connect_rt.records.transforms.mask_field import MaskField
from spark_connect_rt.records.transforms.replace_field import ReplaceField
from spark_connect_rt.records.transforms.routers import TimestampRouter
from spark_connect_rt.records.transforms.set_schema_metadata import SetSchemaMetadata
from spark_connect_rt.records.transforms.struct_columns import (
    ARROW_TYPES,
    TIMESTAMP_TYPE,
    agrees,
    flat_columns,
    struct_column,
)
from spark_connect_rt.records.transforms.timestamp_converter import (
    DATE,
    TIMESTAMP,
    UNIX,
    TimestampConverter,
    kind_of_schema,
    schema_of_kind,
)
from spark_connect_rt.records.transforms.value_to_key import ValueToKey

# A column cast to a primitive type, exactly as ``cast_value`` casts each element; None where Arrow would differ.


_INTEGER_TEXT = "^-?[0-9]{1,18}$"
_FLOAT_TEXT = r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$"
_INT_LIMIT = float(1 << 31)
_LONG_LIMIT = float(1 << 63)
_EXACT_IN_DOUBLE = 1 << 53


def cast_batch(cast: Cast, batch: B) -> B | None:
    """Return the batch with its fields cast."""
    schema, column = cast.batch_side(batch)
    if column is None:
        return batch
    if cast.whole is not None:
        mixed = schema is not None and column.null_count  # a null record keeps its old schema
        whole = cast_column(column, cast.whole) if agrees(schema, column) and not mixed else None
        updated = None if schema is None else cast.updated_schema(schema)
        return None if whole is None else cast.changed_batch(batch, updated, whole)
    columns = flat_columns(schema, column)
    if columns is None or (schema is None and not cast.casts.keys() <= {name for name, _ in columns}):
        return None
    result = []
    for name, array in columns:
        kind = cast.casts.get(name)
        changed = array if kind is None else cast_column(array, kind)
        if changed is None:
            return None
        result.append((name, changed))
    made = struct_column(result)
    return None if made is None else cast.changed_batch(batch, schema and cast.updated_schema(schema), made)


def cast_column(column: pa.Array, target: Type) -> pa.Array | None:
    """Return the column as ``target``, None where rows are needed."""
    kind = column.type
    if kind == ARROW_TYPES[target]:
        return column
    if pa.types.is_string(kind):
        return _from_text(column, target)
    if pa.types.is_boolean(kind) or pa.types.is_signed_integer(kind):
        return _from_integers(column, target)
    return _from_floats(column, target) if pa.types.is_floating(kind) else None


def _beyond(column: pa.Array, limit: int) -> bool:
    """Return whether a value is farther from 0 (the smallest int64 has no absolute value)."""
    return _any(pc.greater(column, limit)) or _any(pc.less(column, -limit))


def _from_integers(column: pa.Array, target: Type) -> pa.Array | None:
    is_truth = pa.types.is_boolean(column.type)
    if target is Type.BOOLEAN:
        return column if is_truth else pc.not_equal(column, 0)
    if target is Type.FLOAT32 and not is_truth:
        return None if _beyond(column, 1 << 24) else pc.cast(column, pa.float32())
    if target is Type.FLOAT64 and not is_truth:
        return None if _beyond(column, _EXACT_IN_DOUBLE) else pc.cast(column, pa.float64())
    return pc.cast(column, ARROW_TYPES[target], safe=False)  # unsafe: a number that is too large wraps, as in Java


def _from_floats(column: pa.Array, target: Type) -> pa.Array | None:
    if target in FLOATS:
        return pc.cast(column, ARROW_TYPES[target], safe=False)
    if target is Type.STRING:
        return None
    limit = _LONG_LIMIT if target in (Type.INT64, Type.BOOLEAN) else _INT_LIMIT
    within = pc.less(pc.abs(column), limit)  # NaN is not
    if not pc.all(pc.fill_null(within, True)).as_py():
        return None
    whole = pc.cast(pc.trunc(column), pa.int64(), safe=False)
    return pc.not_equal(whole, 0) if target is Type.BOOLEAN else pc.cast(whole, ARROW_TYPES[target], safe=False)


def _from_text(column: pa.Array, target: Type) -> pa.Array | None:
    if target is Type.BOOLEAN:
        return pc.equal(pc.utf8_lower(column), "true")
    pattern = _INTEGER_TEXT if target in INTEGER_BITS else _FLOAT_TEXT
    fits = pc.match_substring_regex(column, pattern)
    if not pc.all(pc.fill_null(fits, True)).as_py():
        return None
    if target in FLOATS:
        return pc.cast(column, ARROW_TYPES[target])
    try:
        return pc.cast(pc.cast(column, pa.int64()), ARROW_TYPES[target])
    except pa.ArrowInvalid:  # does not fit: rows show which
        return None


def _any(mask: pa.Array) -> bool:
    return bool(pc.any(mask).as_py())


# Column forms of the transformations that add and drop headers (``InsertHeader``, ``HeaderFrom``, ``DropHeaders``).
#
# They add to ``more_headers``: no list of headers is made before the chain has ended.


def insert_header_batch(inserting: InsertHeader, batch: B) -> B | None:
    """Return the batch with one more header, the same for all."""
    return replace(batch, more_headers=(*batch.more_headers, inserting.header))


def header_from_batch(taking: HeaderFrom, batch: B) -> B | None:
    """Return the batch with columns of its structs as headers."""
    schema, column = taking.batch_side(batch)
    columns = flat_columns(schema, column)
    if columns is None or column is None:
        return None
    members = dict(columns)
    added: list[BatchHeader] = []
    for name, header in taking.pairs:
        member = None if schema is None else schema.field(name)
        if name in members:
            added.append(HeaderColumn(header, members[name], member.schema if member else None))
        elif schema is None:
            added.append(Header(header, None))
        else:
            return None  # rows show which record lacks the field: all
    if taking.moved:
        rest = struct_column([(name, array) for name, array in columns if name not in taking.moved])
        if rest is None:
            return None
        batch = taking.changed_batch(batch, schema and taking.updated_schema(schema), rest)
    return replace(batch, more_headers=(*batch.more_headers, *added))


def drop_headers_batch(dropping: DropHeaders, batch: B) -> B | None:
    """Return the batch without some headers."""
    more = tuple(header for header in batch.more_headers if header.key not in dropping.names)
    return replace(batch, headers=_without(batch.headers, dropping.names), more_headers=more)


def _without(headers: pa.Array | None, names: frozenset[str]) -> pa.Array | None:
    """Return lists of headers without those of some names."""
    if headers is None:
        return None
    entries = pc.list_flatten(headers)
    kept = pc.invert(pc.is_in(pc.struct_field(entries, "key"), value_set=pa.array(sorted(names), pa.string())))
    lengths = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
    ends = np.concatenate(([0], np.cumsum(lengths)))
    kept_before = np.concatenate(([0], np.cumsum(kept.to_numpy(zero_copy_only=False))))
    return pa.ListArray.from_arrays(pa.array(kept_before[ends], pa.int32()), entries.filter(kept))


# The column forms of TimestampConverter (numbers, dates and timestamps; text goes by rows) and of TimestampRouter.


_PER_MS = {"nanoseconds": 1_000_000, "microseconds": 1_000, "milliseconds": 1}
_DAY_MS = 86_400_000
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
_LONG_MAX = (1 << 63) - 1
_TIME_LETTERS = "HkKhmsSa"


def convert_batch(converter: TimestampConverter, batch: B) -> B | None:
    """Return the batch with its moments in their new form."""
    schema, column = converter.batch_side(batch)
    if column is None or converter.kind not in (UNIX, DATE, TIMESTAMP):
        return None
    if not converter.field:
        converted = _converted(converter, schema, column) if agrees(schema, column) else None
        updated = None if schema is None else schema_of_kind(converter.kind, schema.optional)
        return None if converted is None else converter.changed_batch(batch, updated, converted)
    columns = flat_columns(schema, column)
    if columns is None or converter.field not in dict(columns) or (schema is not None and schema.default is not None):
        return None
    result = []
    for name, array in columns:
        member = schema.field(name) if schema is not None else None
        changed = array
        if name == converter.field:
            changed = _converted(converter, member.schema if member else None, array)
            if changed is None:
                return None
        result.append((name, changed))
    made = struct_column(result)
    return None if made is None else converter.changed_batch(batch, schema and converter.updated_schema(schema), made)


def _converted(converter: TimestampConverter, schema: Schema | None, array: pa.Array) -> pa.Array | None:
    try:
        kind = kind_of_schema(schema) if schema is not None else None
    except DataError:
        return None
    if array.type == pa.int64() and kind in (None, UNIX):
        ms = _unix_to_ms(array, converter.form.precision)
    elif array.type in (TIMESTAMP_TYPE, pa.date32()):
        ms = pc.cast(pc.cast(array, pa.timestamp("ms")), pa.int64())
    else:
        return None
    return None if ms is None or not _within(ms, _FIRST_MS, _LAST_MS) else _from_ms(converter, ms)


def _within(column: pa.Array, least: int, most: int) -> bool:
    limits = pc.min_max(column).as_py()
    return limits["min"] is None or (limits["min"] >= least and limits["max"] <= most)


def _unix_to_ms(column: pa.Array, precision: str) -> pa.Array | None:
    if precision == "seconds":
        return pc.multiply(column, 1000) if _within(column, -_LAST_MS, _LAST_MS) else None
    return pc.divide(column, _PER_MS[precision])  # cuts towards 0, as Java's TimeUnit


def _from_ms(converter: TimestampConverter, ms: pa.Array) -> pa.Array | None:
    if converter.kind == TIMESTAMP:
        return pc.cast(ms, TIMESTAMP_TYPE)
    if converter.kind == DATE:
        days = pc.cast(pc.floor(pc.divide(pc.cast(ms, pa.float64()), float(_DAY_MS))), pa.int32())
        return pc.cast(days, pa.date32())
    if converter.form.precision == "seconds":
        return pc.divide(ms, 1000)
    factor = _PER_MS[converter.form.precision]
    return pc.multiply(ms, factor) if _within(ms, -_LONG_MAX // factor + 1, _LONG_MAX // factor) else None


def timestamp_routed_batch(router: TimestampRouter, batch: B) -> B | None:
    """Return the batch for its new topic, if all its records are of the same."""
    ms = _common_ms(router.date_format, batch.timestamps_ms)
    return None if ms is None else replace(batch, topic=router.topic_for(batch.topic, ms))


def _common_ms(parts: tuple[PatternPart, ...], times: pa.Array | None) -> int | None:
    """Return a moment whose text is that of every record's timestamp, None where there is none."""
    if times is None or times.null_count or not len(times):
        return None
    limits = pc.min_max(times).as_py()
    same_day = limits["min"] // _DAY_MS == limits["max"] // _DAY_MS
    tells_time = any(part.letter and part.letter in _TIME_LETTERS for part in parts)
    if limits["min"] == limits["max"] or (same_day and not tells_time):
        return int(limits["min"])
    return None


def apply_batch(transformation: Transformation, batch: B) -> B | None:
    """Return the batch transformed, fewer records if some were dropped; None: it has to go row by row.

    A class's own ``Transformation.apply_batch`` takes precedence over the column form of the class it extends.
    """
    if type(transformation).apply_batch is not Transformation.apply_batch:
        if not transformation.takes_headers and (batch.headers is not None or batch.more_headers):
            return None
        return transformation.apply_batch(batch)
    changed: B | None = _column_form(transformation, batch)
    return changed


def has_column_form(cls: type[Transformation]) -> bool:
    """Whether batches of that class go by columns, as far as a batch allows it."""
    own = cls.apply_batch is not Transformation.apply_batch
    return own or _column_form.dispatch(cls) is not _column_form.dispatch(object)


@singledispatch
def _column_form(transformation: Any, batch: Any) -> Any:
    return None


_column_form.register(Cast, cast_batch)
_column_form.register(DropHeaders, drop_headers_batch)
_column_form.register(ExtractField, fields.extract_batch)
_column_form.register(Flatten, fields.flatten_batch)
_column_form.register(HeaderFrom, header_from_batch)
_column_form.register(HoistField, fields.hoist_batch)
_column_form.register(InsertField, fields.insert_batch)
_column_form.register(InsertHeader, insert_header_batch)
_column_form.register(MaskField, fields.mask_batch)
_column_form.register(ReplaceField, fields.replace_batch)
_column_form.register(SetSchemaMetadata, fields.set_metadata_batch)
_column_form.register(TimestampConverter, convert_batch)
_column_form.register(TimestampRouter, timestamp_routed_batch)
_column_form.register(ValueToKey, fields.key_batch)
