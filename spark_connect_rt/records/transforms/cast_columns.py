"""A column cast to a primitive type, exactly as ``cast_value`` casts each element; None where Arrow would differ."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.data.schema import Type
from spark_connect_rt.api.records import B
from spark_connect_rt.records.transforms.cast import Cast
from spark_connect_rt.records.transforms.cast_values import FLOATS, INTEGER_BITS
from spark_connect_rt.records.transforms.struct_columns import ARROW_TYPES, agrees, flat_columns, struct_column

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
    return pc.cast(column, ARROW_TYPES[target], safe=False)  # unsafe: what is too large wraps, as in Java


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
    except pa.ArrowInvalid:  # does not fit: rows say which
        return None


def _any(mask: pa.Array) -> bool:
    return bool(pc.any(mask).as_py())
