"""A struct column split and rebuilt, where the result equals that of the rows.

Otherwise each function returns None: nulls that a default replaces, logical types, maps, mixed shapes.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

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
_PLAIN = (pa.types.is_signed_integer, pa.types.is_boolean, pa.types.is_string, pa.types.is_binary)


def arrow_type(schema: Schema) -> pa.DataType | None:
    """Return the Arrow type of a flat schema's column, None where it has none."""
    if schema.name in logical.PYTHON_TYPES:
        return _LOGICAL_TYPES.get(schema.name or "")
    return ARROW_TYPES.get(schema.type)


def agrees(schema: Schema | None, column: pa.Array) -> bool:
    """Whether a flat column fits its schema exactly, with no value that a default or a check would change."""
    if schema is None:
        kind = column.type
        return any(is_kind(kind) for is_kind in _PLAIN) or kind in (pa.float32(), pa.float64())
    if column.null_count and (not schema.optional or schema.default is not None):
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
