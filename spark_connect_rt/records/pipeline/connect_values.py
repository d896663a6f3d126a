"""Elements of Arrow columns as Connect values: the one way in which a record gets its key and value from columns. Pure.

A plug-in finds in such a record the types of Java's contract at every level. They are a ``Struct`` for a STRUCT schema,
a dict for a MAP, a list for an ARRAY, and the Python value of a logical type.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError


def connect_values(values: pa.Array, schema: Schema | None, place: str = "value") -> list[Any]:
    """Return the elements of a column as values of ``schema``; without a schema structs are dicts.

    Args:
        values: the column; its type agrees with the schema.
        schema: of each element.
        place: names the column in errors.

    Raises:
        DataError: Python has no value for an element: a date or time outside of the years 1 to 9999, a time of day of
            24:00, a map that has a key twice.
    """
    if schema is not None and schema.type is Type.STRUCT and pa.types.is_struct(values.type):
        return _structs(values, schema, place)
    if schema is not None and schema.type is Type.MAP and pa.types.is_map(values.type):
        return _maps(values, schema, place)
    if schema is not None and schema.type is Type.ARRAY and _is_list(values.type):
        return _lists(values, schema, place)
    if pa.types.is_time(values.type) and _beyond_a_day(values):  # Python's part of pyarrow makes it midnight
        raise DataError(f"{place}: a {values.type} is not a time of day: it must be before 24:00")
    try:
        return list(values.to_pylist(maps_as_pydicts="strict"))
    except (KeyError, OverflowError, ValueError) as error:
        reason = str(error.args[0]) if error.args else type(error).__name__
        raise DataError(f"{place}: a {values.type} is out of the range that can be read: {reason}") from error


def row_values(values: pa.Array, schema: Schema | None, place: str = "value") -> list[Any]:
    """Return the elements as ``connect_values``, a DataError in the place of each that cannot be read."""
    try:
        return connect_values(values, schema, place)
    except DataError:
        return [_value_or_error(values.slice(at, 1), schema, place) for at in range(len(values))]


def _value_or_error(values: pa.Array, schema: Schema | None, place: str) -> Any:
    try:
        return connect_values(values, schema, place)[0]
    except DataError as error:
        return error


def _structs(values: pa.Array, schema: Schema, place: str) -> list[Struct | None]:
    columns = dict(zip([field.name for field in values.type], values.flatten(), strict=True))
    nothing = pa.nulls(len(values))
    lists = [
        connect_values(columns.get(member.name, nothing), member.schema, f"{place}.{member.name}")
        for member in schema.fields
    ]
    rows = map(list, zip(*lists, strict=True)) if lists else ([] for _ in range(len(values)))
    found: list[Struct | None] = list(Struct.all_of_checked(schema, rows))
    if values.null_count:
        return [struct if valid else None for struct, valid in zip(found, values.is_valid().to_pylist(), strict=True)]
    return found


def _maps(values: pa.Array, schema: Schema, place: str) -> list[dict[Any, Any] | None]:
    offsets = values.offsets.to_pylist()
    first, last = offsets[0], offsets[-1]
    keys = connect_values(values.keys.slice(first, last - first), schema.key_schema, f"key of {place}")
    items = connect_values(values.items.slice(first, last - first), schema.value_schema, place)
    found: list[dict[Any, Any] | None] = []
    for valid, begin, end in zip(values.is_valid().to_pylist(), offsets, offsets[1:], strict=False):
        pairs = zip(keys[begin - first : end - first], items[begin - first : end - first], strict=True)
        found.append(dict(pairs) if valid else None)
    return found


def _beyond_a_day(values: pa.Array) -> bool:
    number = pa.int32() if values.type.bit_width == 32 else pa.int64()
    end = 86_400 * 1_000 ** ("s", "ms", "us", "ns").index(values.type.unit)
    return bool(pc.any(pc.greater_equal(values.cast(number), pa.scalar(end, number))).as_py())


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _lists(values: pa.Array, schema: Schema, place: str) -> list[list[Any] | None]:
    elements = iter(connect_values(values.flatten(), schema.value_schema, place))  # of nulls it has none
    lengths = pc.list_value_length(values).to_pylist()
    return [None if length is None else list(islice(elements, length)) for length in lengths]
