"""Connect values as typed Arrow columns: the column of a schema, or of values that have none.

Times of day are columns of int: Spark reads none of its own from Python. Pure.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Schema, SchemaAndValue, Type
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.pipeline.connect_values import connect_values
from spark_connect_rt.records.transforms.struct_columns import ARROW_TYPES

MOMENT = pa.timestamp("us", "UTC")
DECIMAL_DIGITS = 38  # the most that Spark has
_LOGICAL = {logical.DATE: pa.date32(), logical.TIME: pa.int32(), logical.TIMESTAMP: MOMENT}
_UNFIT = (pa.ArrowException, TypeError, ValueError, OverflowError, ArithmeticError)


def column_type(schema: Schema) -> pa.DataType:
    """Return the type of a column of such values. Raises DataError: there is none."""
    if schema.name == logical.DECIMAL:
        return pa.decimal128(DECIMAL_DIGITS, max(0, logical.scale_of(schema)))
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name]
    if schema.type is Type.ARRAY:
        return pa.list_(_part(schema.value_schema))
    if schema.type is Type.MAP:
        return pa.map_(_part(schema.key_schema), _part(schema.value_schema))
    if schema.type is Type.STRUCT:
        return _struct((member.name, column_type(member.schema)) for member in schema.fields)
    return ARROW_TYPES[schema.type]


def type_of(found: SchemaAndValue) -> pa.DataType:
    """Return the type of a column that can hold this value; of one without a schema by what it is. Raises DataError."""
    schema, value = found
    if schema is not None:
        return column_type(schema)
    try:
        return plain_type(
            pa.array([_plain_value(value)]).type, lambda kind: MOMENT if pa.types.is_timestamp(kind) else kind
        )
    except _UNFIT as error:
        raise DataError(f"no column type can hold it: {error}") from None


def common_type(kinds: Iterable[pa.DataType]) -> pa.DataType:
    """Return a type for values of all these: structs have all their fields. Raises DataError: there is none."""
    schemas = [pa.schema([pa.field("value", kind)]) for kind in kinds]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field("value").type
    except pa.ArrowException as error:
        raise DataError(f"the values are of different kinds: {error}") from None


def plain_type(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type with every leaf replaced; one that was null in every value is text.

    Fields that were an empty object in every value are left out. Raises DataError: nothing is left.
    """
    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return _struct((field.name, plain_type(field.type, leaf)) for field in fields if not _is_empty(field.type))
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type, leaf), plain_type(kind.item_type, leaf))
    if pa.types.is_list(kind):
        return pa.list_(plain_type(kind.value_type, leaf))
    return pa.string() if pa.types.is_null(kind) else leaf(kind)


def typed_column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values as a column. Raises DataError: one does not fit."""
    try:
        return pa.array([_fitted(value, kind) for value in values], kind)
    except _UNFIT as error:
        raise DataError(f"does not fit a column of {kind}: {error}") from None


def cast_column(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column that a source had already, as another type. Raises DataError: a value does not fit."""
    if values.type == kind:
        return values
    try:
        return values.cast(kind)
    except pa.ArrowException:
        return typed_column(connect_values(values, None), kind)


def _fitted(value: Any, kind: pa.DataType) -> Any:
    """Return a value in the form in which Arrow takes it for a column."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        members = value.to_dict() if isinstance(value, Struct) else value
        if not isinstance(members, Mapping):
            raise TypeError(f"expected an object, not {type(value).__name__}")
        return {field.name: _fitted(members.get(field.name), field.type) for field in fields}
    if pa.types.is_map(kind):
        return [(_fitted(key, kind.key_type), _fitted(item, kind.item_type)) for key, item in value.items()]
    if pa.types.is_list(kind):
        if isinstance(value, str | bytes | Mapping):  # Arrow would take one letter by another
            raise TypeError(f"expected an array, not {type(value).__name__}")
        return [_fitted(element, kind.value_type) for element in value]
    return _leaf(value, kind)


def _leaf(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, dt.time):
        return logical.ms_of(value)
    if isinstance(value, str) and (pa.types.is_temporal(kind) or pa.types.is_decimal(kind)):
        return pa.scalar(value).cast(kind).as_py()  # as JSON has them
    if isinstance(value, float) and pa.types.is_decimal(kind):
        return Decimal(repr(value))
    return value


def _plain_value(value: Any) -> Any:
    """Return a value without a schema in the form by which Arrow tells its type."""
    if isinstance(value, Struct):
        return {name: _plain_value(part) for name, part in value.to_dict().items()}
    if isinstance(value, Mapping):
        return {name: _plain_value(part) for name, part in value.items()}
    return [_plain_value(part) for part in value] if isinstance(value, list | tuple) else value


def _part(schema: Schema | None) -> pa.DataType:
    if schema is None:
        raise DataError("an array or a map without the schema of its parts has no column")
    return column_type(schema)


def _is_empty(kind: pa.DataType) -> bool:
    return bool(pa.types.is_struct(kind)) and kind.num_fields == 0


def _struct(fields: Iterable[tuple[str, pa.DataType]]) -> pa.DataType:
    members = [pa.field(name, kind) for name, kind in fields]
    if not members:
        raise DataError("an object without fields has no column")
    return pa.struct(members)
