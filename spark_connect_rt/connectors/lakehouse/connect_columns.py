"""Connect values as columns of a table: which Arrow type a schema has, and how values become that type.

Two steps, so that records and batches give the same columns:

1. `wire_column` puts Python values into Arrow as they are. Batches come in this form already.
2. `table_column` gives them the table's types: Debezium's named types become dates, times and timestamps, small numbers
   become 32 bits wide, and everything nested follows.

Debezium's types: https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-data-types
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError

MOST_DIGITS = 38  # of decimals in Iceberg, Delta and Parquet's engines
_DAY_US = 86_400_000_000
_UTC = pa.timestamp("us", "UTC")
_CLOCK = pa.timestamp("us")
_PRECISION = "connect.decimal.precision"
_UNFIT = (pa.ArrowException, TypeError, ValueError, OverflowError, ArithmeticError, AttributeError)


@dataclass(frozen=True, slots=True)
class ArrowTypeRules:
    """The types that a table format has, and the choices of users.

    Attributes:
        time: whether there is a type for the time of day. Without it, times are int64: microseconds since midnight.
        variable_decimal: digits and scale of columns for decimals of any scale (`VariableScaleDecimal`). None: text.
    """

    time: bool = True
    variable_decimal: tuple[int, int] | None = None


ICEBERG_TYPES = ArrowTypeRules()
DELTA_TYPES = ArrowTypeRules(time=False)

Unfit = dict[int, str]
"""Rows that do not fit, and why."""


def by_halves(convert: Callable[[pa.Array], pa.Array], values: pa.Array) -> tuple[pa.Array, Unfit]:
    """Return `convert(values)`. Rows that it raises DataError for are null, and named with the reason.

    The rows are found by converting halves, so that a few of them cost little.
    """
    try:
        return convert(values), {}
    except DataError as error:
        if len(values) <= 1:
            return convert(pa.nulls(len(values), values.type)), dict.fromkeys(range(len(values)), str(error))
    half = len(values) // 2
    (first, unfit), (second, others) = (
        by_halves(convert, part) for part in (values.slice(0, half), values.slice(half))
    )
    return pa.concat_arrays([first, second]), unfit | {row + half: reason for row, reason in others.items()}


# Types


def column_type(schema: Schema, rules: ArrowTypeRules) -> pa.DataType | None:
    """Return the type of a table's column for values of `schema`. None: a struct without fields, which has no column.

    Raises DataError: an array or map without the schema of its elements.
    """
    named = _NAMED.get(schema.name or "")
    if named is not None:
        return named[0](schema, rules)
    if schema.type is Type.STRUCT:
        fields = struct_fields(schema, rules)
        return pa.struct(fields) if fields else None
    if schema.type is Type.ARRAY:
        element = _element_field("element", schema.value_schema, rules)
        return None if element is None else pa.list_(element)
    if schema.type is Type.MAP:
        key, value = (_element_field(name, part, rules) for name, part in _map_parts(schema))
        return None if key is None or value is None else pa.map_(key.with_nullable(False), value)
    return _PLAIN[schema.type]


def struct_fields(schema: Schema, rules: ArrowTypeRules) -> list[pa.Field]:
    """Return the fields of a STRUCT schema that have a column, nullability included."""
    types = [(member, column_type(member.schema, rules)) for member in schema.fields]
    return [pa.field(member.name, kind, member.schema.optional) for member, kind in types if kind is not None]


def _element_field(name: str, schema: Schema | None, rules: ArrowTypeRules) -> pa.Field | None:
    if schema is None:
        raise DataError(f"the schema of {name}s is missing in an array or map. Give the converter a complete schema")
    kind = column_type(schema, rules)
    return None if kind is None else pa.field(name, kind, schema.optional)


def _map_parts(schema: Schema) -> tuple[tuple[str, Schema | None], tuple[str, Schema | None]]:
    return ("key", schema.key_schema), ("value", schema.value_schema)


_PLAIN = {
    Type.INT8: pa.int32(),
    Type.INT16: pa.int32(),
    Type.INT32: pa.int32(),
    Type.INT64: pa.int64(),
    Type.FLOAT32: pa.float32(),
    Type.FLOAT64: pa.float64(),
    Type.BOOLEAN: pa.bool_(),
    Type.STRING: pa.string(),
    Type.BYTES: pa.binary(),
}
_WIDER = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.date64(): pa.date32(),
}


def plain_type(kind: pa.DataType, rules: ArrowTypeRules) -> pa.DataType | None:
    """Return the type of a table's column for an Arrow column without a schema. None: it has no column."""
    if pa.types.is_null(kind):
        return None
    if pa.types.is_struct(kind):
        members = [(kind.field(at).name, plain_type(kind.field(at).type, rules)) for at in range(kind.num_fields)]
        fields = [pa.field(name, member) for name, member in members if member is not None]
        return pa.struct(fields) if fields else None
    if pa.types.is_map(kind):
        key, value = plain_type(kind.key_type, rules), plain_type(kind.item_type, rules)
        return None if key is None or value is None else pa.map_(key, value)
    if is_list(kind):
        element = plain_type(kind.value_type, rules)
        return None if element is None else pa.list_(pa.field("element", element))
    return _plain_leaf(kind, rules)


def _plain_leaf(kind: pa.DataType, rules: ArrowTypeRules) -> pa.DataType:
    if pa.types.is_union(kind):  # schemaless numbers, some whole and some not
        return pa.float64()
    if pa.types.is_dictionary(kind):
        return _plain_leaf(kind.value_type, rules)
    if pa.types.is_timestamp(kind):
        return _CLOCK if kind.tz is None else _UTC
    if pa.types.is_time(kind):
        return _time_type(rules)
    if pa.types.is_decimal(kind):
        return _decimal_type(kind.precision, kind.scale)
    return _WIDER.get(kind, kind)


def _time_type(rules: ArrowTypeRules) -> pa.DataType:
    return pa.time64("us") if rules.time else pa.int64()


def _decimal_type(digits: int, scale: int) -> pa.DataType:
    if digits > MOST_DIGITS or scale > MOST_DIGITS:
        return pa.string()
    return pa.decimal128(digits, max(scale, 0))


def is_list(kind: pa.DataType) -> bool:
    """Return whether values of the type are lists, of any kind."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


# Columns as they came -> columns of the table


def table_column(values: pa.Array, schema: Schema | None, rules: ArrowTypeRules, path: str) -> pa.Array | None:
    """Return a column with the type that `column_type` or, without a schema, `plain_type` gives. None: it has none.

    Args:
        values: as a batch has them, or as `wire_column` returns them.
        schema: None for schemaless values.
        rules: of the table's format.
        path: names the column in errors.

    Raises:
        DataError: a value does not fit its type. The message begins with the path of the field.
    """
    kind = plain_type(values.type, rules) if schema is None else column_type(schema, rules)
    return None if kind is None else _converted(values, schema, kind, rules, path)


def _converted(
    values: pa.Array, schema: Schema | None, kind: pa.DataType, rules: ArrowTypeRules, path: str
) -> pa.Array:
    named = None if schema is None else _NAMED.get(schema.name or "")
    try:
        if pa.types.is_null(values.type):
            return pa.nulls(len(values), kind)
        if named is not None:
            return _as_type(named[1](values, rules), kind)
        if pa.types.is_struct(kind):
            return _struct(values, schema, kind, rules, path)
        if pa.types.is_map(kind):
            return _map(values, schema, kind, rules, path)
        if is_list(kind):
            return _list(values, schema, kind, rules, path)
        return _leaf(values, kind)
    except DataError:
        raise
    except _UNFIT as error:
        raise DataError(f"{path}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    lines = str(error.args[0] if error.args else error).splitlines()
    return lines[0] if lines else type(error).__name__


def _leaf(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_union(values.type):
        values = _number_column(values)
    if pa.types.is_time(values.type) and kind == pa.int64():
        return _microseconds(values)
    return _as_type(values, kind)


def _as_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if values.type == kind else values.cast(kind)


def _number_column(values: pa.Array) -> pa.Array:
    """Return a union of whole and other numbers as doubles. Raises pa.ArrowInvalid: a whole number has no double."""
    parts = [values.field(number).cast(pa.float64()) for number in range(values.type.num_fields)]
    return pc.coalesce(*parts)  # of a sparse union, each row has a value in one part only


def _struct(values: pa.Array, schema: Schema | None, kind: pa.DataType, rules: ArrowTypeRules, path: str) -> pa.Array:
    places = {values.type.field(at).name: at for at in range(values.type.num_fields)}
    columns = []
    for field in kind:
        member = None if schema is None else schema.field(field.name)
        part = values.field(places[field.name]) if field.name in places else pa.nulls(len(values))
        columns.append(
            _converted(part, None if member is None else member.schema, field.type, rules, f"{path}.{field.name}")
        )
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=values.is_null())


def null_at(offsets: pa.Array, values: pa.Array) -> pa.Array:
    """Return offsets of lists as Arrow takes them for a column in which some of `values` are null."""
    if not values.null_count:
        return offsets
    return pc.if_else(pa.concat_arrays([values.is_valid(), pa.array([True])]), offsets, pa.scalar(None, offsets.type))


def list_offsets(values: pa.Array) -> pa.Array:
    """Return where each list begins in `values.flatten()`, with the end behind, int32, null where a list is null."""
    lengths = pc.list_value_length(values).fill_null(0).to_numpy()
    return null_at(pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32()), values)


def list_of(offsets: pa.Array, flat: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column of lists of type `kind` that begin at `offsets` in `flat`, which has the element's type."""
    if pa.types.is_large_list(kind):
        return pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), flat, type=kind)
    return pa.ListArray.from_arrays(offsets, flat, type=kind)


def _list(values: pa.Array, schema: Schema | None, kind: pa.DataType, rules: ArrowTypeRules, path: str) -> pa.Array:
    element = None if schema is None else schema.value_schema
    flat = _converted(values.flatten(), element, kind.value_type, rules, f"{path}.element")
    return list_of(list_offsets(values), flat, kind)


def map_parts(values: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return offsets, keys and items of a column of maps, which may be a slice."""
    offsets = values.offsets.to_numpy()
    begin, end = int(offsets[0]), int(offsets[-1])
    shifted = pa.array(offsets - begin, pa.int32())
    return null_at(shifted, values), values.keys.slice(begin, end - begin), values.items.slice(begin, end - begin)


def _map(values: pa.Array, schema: Schema | None, kind: pa.DataType, rules: ArrowTypeRules, path: str) -> pa.Array:
    offsets, keys, items = map_parts(values)
    key, item = (None, None) if schema is None else (schema.key_schema, schema.value_schema)
    keys = _converted(keys, key, kind.key_type, rules, f"{path}.key")
    items = _converted(items, item, kind.item_type, rules, f"{path}.value")
    return pa.MapArray.from_arrays(offsets, keys, items, type=kind)


# Named types: the type that each has in a table, and how values become that type


def _fixed_type(kind: pa.DataType) -> Callable[[Schema, ArrowTypeRules], pa.DataType]:
    return lambda schema, rules: kind


def _of_decimal(schema: Schema, rules: ArrowTypeRules) -> pa.DataType:
    text = schema.parameter(_PRECISION)
    digits = int(text) if text is not None and text.isdigit() and int(text) > 0 else MOST_DIGITS
    return _decimal_type(digits, logical.scale_of(schema))


def _same(values: pa.Array, rules: ArrowTypeRules) -> pa.Array:
    return values


def _microseconds(values: pa.Array) -> pa.Array:
    width = pa.int32() if pa.types.is_time32(values.type) else pa.int64()
    return values.cast(pa.time64("us")).view(pa.int64()) if pa.types.is_time(values.type) else values.cast(width)


def _times(numerator: int, denominator: int) -> Callable[[pa.Array, ArrowTypeRules], pa.Array]:
    """Return a function that converts numbers of another unit to microseconds, rounded down."""

    def convert(values: pa.Array, rules: ArrowTypeRules) -> pa.Array:
        number = pc.multiply_checked(values.cast(pa.int64()), numerator)
        return _floored(number, denominator) if denominator > 1 else number

    return convert


def _floored(number: pa.Array, denominator: int) -> pa.Array:
    whole = np.floor_divide(number.fill_null(0).to_numpy(), denominator)
    return pa.array(whole, mask=number.is_null().to_numpy(zero_copy_only=False))


def _time_of_day(
    microseconds: Callable[[pa.Array, ArrowTypeRules], pa.Array],
) -> Callable[[pa.Array, ArrowTypeRules], pa.Array]:
    def convert(values: pa.Array, rules: ArrowTypeRules) -> pa.Array:
        number = _microseconds(values) if pa.types.is_time(values.type) else microseconds(values, rules)
        bounds = pc.min_max(number)
        least, most = bounds["min"].as_py(), bounds["max"].as_py()
        if least is not None and not 0 <= least <= most < _DAY_US:
            raise ValueError(f"{least if least < 0 else most} microseconds are not a time of day before 24:00")
        return number.view(pa.time64("us")) if rules.time else number

    return convert


def _moment(
    microseconds: Callable[[pa.Array, ArrowTypeRules], pa.Array],
) -> Callable[[pa.Array, ArrowTypeRules], pa.Array]:
    def convert(values: pa.Array, rules: ArrowTypeRules) -> pa.Array:
        return values if pa.types.is_timestamp(values.type) else microseconds(values, rules).view(_CLOCK)

    return convert


def _days(values: pa.Array, rules: ArrowTypeRules) -> pa.Array:
    return values if pa.types.is_date(values.type) else values.cast(pa.int32()).view(pa.date32())


def parsed_moments(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return ISO 8601 texts as timestamps of microseconds. Finer fractions are truncated. Raises pa.ArrowInvalid."""
    return pc.replace_substring_regex(values, r"(\.\d{6})\d+", r"\1").cast(kind)


def _zoned(values: pa.Array, rules: ArrowTypeRules) -> pa.Array:
    return values if pa.types.is_timestamp(values.type) else parsed_moments(values, _UTC)


def _well_known_bytes(values: pa.Array, rules: ArrowTypeRules) -> pa.Array:
    return _member(values, "wkb")


def _member(values: pa.Array, name: str) -> pa.Array:
    return values.flatten()[values.type.get_field_index(name)]


def _of_variable_decimal(schema: Schema, rules: ArrowTypeRules) -> pa.DataType:
    return pa.string() if rules.variable_decimal is None else pa.decimal128(*rules.variable_decimal)


def _variable_decimals(values: pa.Array, rules: ArrowTypeRules) -> pa.Array:
    unscaled, scales = _member(values, "value").to_pylist(), _member(values, "scale").to_pylist()
    texts = [
        None
        if data is None or scale is None
        else format(Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, logical._EXACT), "f")
        for data, scale in zip(unscaled, scales, strict=True)
    ]
    column = pa.array(texts, pa.string())
    return column if rules.variable_decimal is None else column.cast(pa.decimal128(*rules.variable_decimal))


_TYPE_OF = Callable[[Schema, ArrowTypeRules], pa.DataType]
_CONVERT = Callable[[pa.Array, ArrowTypeRules], pa.Array]
_MS, _US, _NS = _times(1_000, 1), _times(1, 1), _times(1, 1_000)


def _of_time(schema: Schema, rules: ArrowTypeRules) -> pa.DataType:
    return _time_type(rules)


_NAMED: Mapping[str, tuple[_TYPE_OF, _CONVERT]] = {
    logical.DECIMAL: (_of_decimal, _same),
    logical.DATE: (_fixed_type(pa.date32()), _days),
    logical.TIME: (_of_time, _time_of_day(_MS)),
    logical.TIMESTAMP: (_fixed_type(_UTC), _same),
    "io.debezium.time.Date": (_fixed_type(pa.date32()), _days),
    "io.debezium.time.Time": (_of_time, _time_of_day(_MS)),
    "io.debezium.time.MicroTime": (_of_time, _time_of_day(_US)),
    "io.debezium.time.NanoTime": (_of_time, _time_of_day(_NS)),
    "io.debezium.time.Timestamp": (_fixed_type(_CLOCK), _moment(_MS)),
    "io.debezium.time.MicroTimestamp": (_fixed_type(_CLOCK), _moment(_US)),
    "io.debezium.time.NanoTimestamp": (_fixed_type(_CLOCK), _moment(_NS)),
    "io.debezium.time.ZonedTimestamp": (_fixed_type(_UTC), _zoned),
    "io.debezium.data.VariableScaleDecimal": (_of_variable_decimal, _variable_decimals),
    "io.debezium.data.geometry.Geometry": (_fixed_type(pa.binary()), _well_known_bytes),
    "io.debezium.data.geometry.Geography": (_fixed_type(pa.binary()), _well_known_bytes),
    "io.debezium.data.geometry.Point": (_fixed_type(pa.binary()), _well_known_bytes),
}
# Enum, EnumSet, Json, Xml, Uuid, Ltree, ZonedTime, IsoDate and the other names are text, Bits are bytes.


# Python values -> columns as they are


def wire_column(values: Sequence[Any], schema: Schema | None, path: str) -> pa.Array:
    """Return Connect values as an Arrow column of the schema's own types, nulls of a default replaced by it.

    Without a schema the types are those of the values. Raises DataError: they have no common type, or do not fit.
    """
    try:
        if schema is None:
            return pa.array([_without_structs(value) for value in values])
        return _wire(values, schema, path)
    except DataError:
        raise
    except _UNFIT as error:
        raise DataError(f"{path}: {_reason(error)}") from error


def _without_structs(value: Any) -> Any:
    if isinstance(value, Struct):
        return {name: _without_structs(part) for name, part in value.to_dict().items()}
    if isinstance(value, Mapping):
        return {name: _without_structs(part) for name, part in value.items()}
    return [_without_structs(part) for part in value] if isinstance(value, list | tuple) else value


def _wire(values: Sequence[Any], schema: Schema, path: str) -> pa.Array:
    if schema.type is Type.STRUCT:
        return _wire_structs(values, schema, path)
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        elements = [element for value in values if value is not None for element in value]
        return pa.ListArray.from_arrays(
            _wire_offsets(values), wire_column(elements, schema.value_schema, f"{path}.element")
        )
    if schema.type is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
        pairs = [pair for value in values if value is not None for pair in value.items()]
        keys = wire_column([key for key, _ in pairs], schema.key_schema, f"{path}.key")
        items = wire_column([item for _, item in pairs], schema.value_schema, f"{path}.value")
        return pa.MapArray.from_arrays(_wire_offsets(values), keys, items)
    return _wire_leaves(values, schema)


def _wire_offsets(values: Sequence[Any]) -> pa.Array:
    ends = np.cumsum([0, *(0 if value is None else len(value) for value in values)])
    absent = np.array([*(value is None for value in values), False])
    return pa.array(ends, pa.int32(), mask=absent if absent.any() else None)


def _wire_structs(values: Sequence[Any], schema: Schema, path: str) -> pa.Array:
    absent = np.array([value is None for value in values], bool)
    empty = [None] * len(schema.fields)
    rows = [empty if value is None else _members(value, schema) for value in values]
    columns: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else [[] for _ in schema.fields]
    arrays = [
        wire_column(column, member.schema, f"{path}.{member.name}")
        for member, column in zip(schema.fields, columns, strict=True)
    ]
    names = [member.name for member in schema.fields]
    mask = pa.array(absent) if absent.any() else None
    return (
        pa.StructArray.from_arrays(arrays, names=names, mask=mask) if arrays else pa.nulls(len(values), pa.struct([]))
    )


def _members(value: Any, schema: Schema) -> Sequence[Any]:
    if isinstance(value, Struct):
        return value.values()
    found = [value.get(member.name) for member in schema.fields]
    if schema.fields_have_defaults:
        pairs = zip(schema.fields, found, strict=True)
        return [member.schema.default if part is None else part for member, part in pairs]
    return found


def _wire_leaves(values: Sequence[Any], schema: Schema) -> pa.Array:
    if schema.name == logical.DECIMAL:
        return _wire_decimals(values, schema)
    kind = _WIRE_LOGICAL.get(schema.name or "") or _WIRE.get(schema.type)
    if kind is None:
        raise DataError(f"a schema of type {schema.type.value} lacks the schema of its elements")
    if kind == pa.binary():
        values = [value if value is None or isinstance(value, bytes) else bytes(value) for value in values]
    return pa.array(values, kind)


def _wire_decimals(values: Sequence[Any], schema: Schema) -> pa.Array:
    kind = _of_decimal(schema, ArrowTypeRules())
    if kind == pa.string():
        return pa.array([None if value is None else format(value, "f") for value in values], kind)
    return pa.array(values, kind)


_WIRE = {**_PLAIN, Type.INT8: pa.int8(), Type.INT16: pa.int16()}
_WIRE_LOGICAL = {logical.DATE: pa.date32(), logical.TIME: pa.time64("us"), logical.TIMESTAMP: _UTC}
