"""A struct column split and rebuilt, where the result equals that of the rows.

Otherwise each function returns None: nulls that a default replaces, logical types, maps, mixed shapes.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Schema, Type

Columns = list[tuple[str, pa.Array]]
"""The members of a struct column, in order."""

TIMESTAMP_TYPE = pa.timestamp("ms", tz="UTC")
ARROW_TYPES = {
    Type.INT8: pa.int8(),
    Type.INT16: pa.int16(),
    Type.INT32: pa.int32(),
    Type.INT64: pa.int64(),
    Type.FLOAT32: pa.float32(),
    Type.FLOAT64: pa.float64(),
    Type.BOOLEAN: pa.bool_(),
    Type.STRING: pa.string(),
    Type.BYTES: pa.binary(),
}
_LOGICAL_TYPES = {logical.TIMESTAMP: TIMESTAMP_TYPE, logical.DATE: pa.date32()}
_DAY_MS = 86_400_000
_DAYS = (-719_162, 2_932_896)  # of the years 1 to 9999, the range of Python's dates
_MOMENTS = {  # the schema's type, the valid range of a column, and the types through which it is converted
    logical.DATE: (Type.INT32, *_DAYS, pa.int32(), pa.date32()),
    logical.TIME: (Type.INT32, 0, _DAY_MS - 1, pa.int32(), pa.time32("ms")),
    logical.TIMESTAMP: (
        *(Type.INT64, _DAYS[0] * _DAY_MS, (_DAYS[1] + 1) * _DAY_MS - 1),
        *(pa.int64(), TIMESTAMP_TYPE),
    ),
}
_PLAIN = (pa.types.is_signed_integer, pa.types.is_boolean, pa.types.is_string, pa.types.is_binary)


def arrow_type(schema: Schema) -> pa.DataType | None:
    """Return the Arrow type of a flat schema's column, None where it has none."""
    if schema.name in logical.PYTHON_TYPES:
        return _LOGICAL_TYPES.get(schema.name or "")
    return ARROW_TYPES.get(schema.type)


def has_moments(schema: Schema) -> bool:
    """Return whether columns of the schema are dates or times that `moments` makes of whole numbers."""
    return schema.name in _MOMENTS and schema.type is _MOMENTS[schema.name][0]


def moments(schema: Schema, numbers: pa.Array) -> pa.Array | None:
    """Return the dates or times of whole numbers, which are their wire form.

    None: the logical type has no column here, or a value is outside of what Python can hold.
    """
    if not has_moments(schema):
        return None
    _, least, most, unit, kind = _MOMENTS[schema.name or ""]
    found = pc.min_max(numbers).as_py()
    if found["min"] is not None and (found["min"] < least or found["max"] > most):
        return None
    return numbers.cast(unit).cast(kind)


def agrees(schema: Schema | None, column: pa.Array) -> bool:
    """Whether a flat column fits its schema exactly, with no value that a default or a check would change."""
    if schema is None:
        kind = column.type
        return any(is_kind(kind) for is_kind in _PLAIN) or kind in (pa.float32(), pa.float64())
    if column.null_count and not schema.keeps_null:
        return False
    return bool(arrow_type(schema) == column.type)


def flat_columns(schema: Schema | None, column: pa.Array | None) -> Columns | None:
    """Return the members of a column of flat structs, none of them null."""
    if column is None or not pa.types.is_struct(column.type) or column.null_count:
        return None
    names = [field.name for field in column.type]
    if len(set(names)) != len(names):
        return None
    if schema is not None and (schema.type is not Type.STRUCT or [field.name for field in schema.fields] != names):
        return None
    schemas = [None] * len(names) if schema is None else [field.schema for field in schema.fields]
    arrays = column.flatten()
    if not all(map(agrees, schemas, arrays)):
        return None
    return list(zip(names, arrays, strict=True))


def struct_column(columns: Sequence[tuple[str, pa.Array]]) -> pa.Array | None:
    """Return the struct column of members; None: there are none, or two of one name."""
    names = [name for name, _ in columns]
    if not names or len(set(names)) != len(names):
        return None
    return pa.StructArray.from_arrays([array for _, array in columns], names=names)
