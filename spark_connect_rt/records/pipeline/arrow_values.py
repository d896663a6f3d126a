"""Arrow columns as Connect values: the schema of a column, and the types that converters know in column form.

For code that reads Arrow from elsewhere (Parquet, Spark, a database) and hands it on as records.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Schema, SchemaAndValue, Type, struct_of
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.pipeline.connect_values import connect_values
from spark_connect_rt.records.transforms.struct_columns import ARROW_TYPES

_PLAIN: dict[pa.DataType, tuple[pa.DataType, Type]] = {
    pa.null(): (pa.string(), Type.STRING),
    pa.bool_(): (pa.bool_(), Type.BOOLEAN),
    pa.int8(): (pa.int8(), Type.INT8),
    pa.int16(): (pa.int16(), Type.INT16),
    pa.int32(): (pa.int32(), Type.INT32),
    pa.int64(): (pa.int64(), Type.INT64),
    # Connect has no unsigned numbers: the next larger type. The largest one is converted if the value fits.
    pa.uint8(): (pa.int16(), Type.INT16),
    pa.uint16(): (pa.int32(), Type.INT32),
    pa.uint32(): (pa.int64(), Type.INT64),
    pa.uint64(): (pa.int64(), Type.INT64),
    pa.float16(): (pa.float32(), Type.FLOAT32),
    pa.float32(): (pa.float32(), Type.FLOAT32),
    pa.float64(): (pa.float64(), Type.FLOAT64),
    pa.string(): (pa.string(), Type.STRING),
    pa.large_string(): (pa.string(), Type.STRING),
    pa.binary(): (pa.binary(), Type.BYTES),
    pa.large_binary(): (pa.binary(), Type.BYTES),
}


def connect_column(kind: pa.DataType) -> tuple[pa.DataType, Schema]:
    """Return the type to cast a column of ``kind`` to, and the (optional) Connect schema of its values.

    Raises DataError: values of that type have no Connect form.
    """
    if kind in _PLAIN:
        plain, connect_type = _PLAIN[kind]
        return plain, Schema(connect_type, optional=True)
    if pa.types.is_dictionary(kind):
        return connect_column(kind.value_type)
    logical_column = _logical(kind)
    if logical_column is not None:
        return logical_column
    return _nested(kind)


def _logical(kind: pa.DataType) -> tuple[pa.DataType, Schema] | None:
    if pa.types.is_decimal(kind):
        return kind, logical.decimal_schema(kind.scale, optional=True)
    if pa.types.is_date(kind):
        return pa.date32(), logical.date_schema(optional=True)
    if pa.types.is_time(kind):
        return pa.time32("ms"), logical.time_schema(optional=True)
    if pa.types.is_timestamp(kind):  # without a zone: taken as UTC, as everywhere in Connect
        return pa.timestamp("ms", "UTC"), logical.timestamp_schema(optional=True)
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary(), Schema(Type.BYTES, optional=True)
    return None


def _nested(kind: pa.DataType) -> tuple[pa.DataType, Schema]:
    if pa.types.is_struct(kind):
        members = [
            (kind.field(index).name, *connect_column(kind.field(index).type)) for index in range(kind.num_fields)
        ]
        cast = pa.struct([pa.field(name, cast) for name, cast, _ in members])
        return cast, struct_of([(name, schema) for name, _, schema in members], optional=True)
    if pa.types.is_map(kind):
        (keys, key_schema), (items, item_schema) = connect_column(kind.key_type), connect_column(kind.item_type)
        keyed = key_schema.as_optional(False)
        return pa.map_(keys, items), Schema(Type.MAP, optional=True, key_schema=keyed, value_schema=item_schema)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        cast, schema = connect_column(kind.value_type)
        return pa.list_(cast), Schema(Type.ARRAY, optional=True, value_schema=schema)
    raise DataError(f"a column of {kind} has no Connect type. Cast it, or leave it out")


class RowColumns:
    """How batches of one Arrow schema become columns of Connect structs."""

    def __init__(self, columns: pa.Schema) -> None:
        """Take the schema. Raises DataError naming the column that has no Connect form."""
        pairs: dict[str, tuple[pa.DataType, Schema]] = {}
        for field in columns:
            try:
                pairs[field.name] = connect_column(field.type)
            except DataError as error:
                raise DataError(f"column {field.name}: {error}") from None
        if len(pairs) != len(columns):
            raise DataError(f"columns must have different names, but are {columns.names}")
        self.schema = struct_of({name: schema for name, (_, schema) in pairs.items()})
        self._cast = pa.schema([pa.field(name, cast) for name, (cast, _) in pairs.items()])

    def structs(self, batch: pa.RecordBatch) -> pa.StructArray:
        """Return one struct a row. Raises DataError: a value does not fit (an unsigned number beyond 63 bits)."""
        columns = []
        for field, column in zip(self._cast, batch.columns, strict=True):
            try:
                # Connect's times have a precision of ms: smaller parts are dropped.
                columns.append(column if column.type == field.type else column.cast(field.type, safe=_exact(field)))
            except pa.ArrowInvalid as error:
                raise DataError(f"column {field.name}: {error}") from None
        return pa.StructArray.from_arrays(columns, fields=list(self._cast))


def _exact(field: pa.Field) -> bool:
    return not pa.types.is_temporal(field.type) and not pa.types.is_nested(field.type)


# Connect values as typed Arrow columns: the column of a schema, or of values that have none.
#
# Times of day are columns of int, because Spark reads no Arrow times from Python. Pure.


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
    """Return the type of a column that can hold this value; without a schema, by the value itself. Raises DataError."""
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
    """Return a value without a schema in the form from which Arrow infers its type."""
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
