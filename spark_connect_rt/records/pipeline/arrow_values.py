"""Arrow columns as Connect values: the schema of a column, and the types that converters know in column form.

For code that reads Arrow from elsewhere (Parquet, Spark, a database) and hands it on as records.
"""

from __future__ import annotations

import pyarrow as pa

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Schema, Type, struct_of
from spark_connect_rt.errors import DataError

_PLAIN: dict[pa.DataType, tuple[pa.DataType, Type]] = {
    pa.null(): (pa.string(), Type.STRING),
    pa.bool_(): (pa.bool_(), Type.BOOLEAN),
    pa.int8(): (pa.int8(), Type.INT8),
    pa.int16(): (pa.int16(), Type.INT16),
    pa.int32(): (pa.int32(), Type.INT32),
    pa.int64(): (pa.int64(), Type.INT64),
    # Connect has no unsigned numbers: the next larger type; of the largest, what fits.
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
    """Return what a column of ``kind`` is to be cast to, and the (optional) Connect schema of its values.

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
                # Connect's times are of ms: what is finer is cut off.
                columns.append(column if column.type == field.type else column.cast(field.type, safe=_exact(field)))
            except pa.ArrowInvalid as error:
                raise DataError(f"column {field.name}: {error}") from None
        return pa.StructArray.from_arrays(columns, fields=list(self._cast))


def _exact(field: pa.Field) -> bool:
    return not pa.types.is_temporal(field.type) and not pa.types.is_nested(field.type)
