"""Structs of one schema as JSON and back: what differs between schemas is found once, not for each struct.

Gives what ``json_values`` gives; anything unusual answers None and goes that way.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.java_numbers import to_single
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.converters.json_bytes import plain_float_tree
from spark_connect_rt.records.converters.json_values import JsonSettings, from_tree, to_tree

_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_KINDS: dict[Type, type[Any]] = {Type.BOOLEAN: bool, Type.STRING: str, Type.FLOAT32: float, Type.FLOAT64: float}
_LEAST_FIELDS = 2  # fewer make no rows for itemgetter


def tree_maker(schema: Schema, settings: JsonSettings) -> Callable[[Struct], dict[str, Any] | None] | None:
    """Return the function from a struct of this very schema to its JSON tree (for ``dump_exact``).

    None: schema, or struct, is unusual.
    """
    if schema.type is not Type.STRUCT:
        return None
    names = [field.name for field in schema.fields]
    converts = [
        (field.index, _writer(field.schema, settings)) for field in schema.fields if not _goes_as_it_is(field.schema)
    ]
    strict = [field.index for field in schema.fields if not field.schema.optional or field.schema.default is not None]

    def make(struct: Struct) -> dict[str, Any] | None:
        values = list(struct.values(with_defaults=False))
        if None in values and any(values[at] is None for at in strict):  # forbidden, or it stands for a default
            return None
        for at, convert in converts:
            if values[at] is not None:
                values[at] = convert(values[at])
        return dict(zip(names, values, strict=True))

    return make


def _goes_as_it_is(schema: Schema) -> bool:
    return schema.name not in logical.PYTHON_TYPES and (
        schema.type in _BITS or schema.type in (Type.BOOLEAN, Type.STRING)
    )


def _writer(schema: Schema, settings: JsonSettings) -> Callable[[Any], Any]:
    if schema.name not in logical.PYTHON_TYPES and schema.type is Type.FLOAT64:
        return plain_float_tree
    return lambda value: to_tree(schema, value, settings)


def structs_of(schema: Schema, trees: Sequence[Any], settings: JsonSettings) -> list[Struct] | None:
    """Return the structs of JSON objects, None where one of them needs a closer look."""
    if schema.type is not Type.STRUCT or len(schema.fields) < _LEAST_FIELDS or not trees:
        return None
    try:
        rows = list(map(list, map(itemgetter(*(field.name for field in schema.fields)), trees)))
    except (KeyError, TypeError):  # a field is missing, or that is no object
        return None
    for member, values in zip(schema.fields, zip(*rows, strict=True), strict=True):
        column = checked_column(member.schema, values, settings)
        if column is None:
            return None
        if column is not values:
            for row, value in zip(rows, column, strict=True):
                row[member.index] = value
    return Struct.all_of_checked(schema, rows)


def checked_column(schema: Schema, values: Sequence[Any], settings: JsonSettings) -> Sequence[Any] | None:
    """Return the Connect values of JSON trees of one schema; None where one of them needs a closer look."""
    kinds = set(map(type, values))
    if type(None) in kinds:
        if not schema.optional or schema.default is not None:
            return None
        kinds.remove(type(None))
    if schema.name not in logical.PYTHON_TYPES:
        if schema.type in _BITS:
            return values if _integers_fit(schema.type, kinds, values) else None
        if kinds <= {_KINDS.get(schema.type)}:
            return values if schema.type is not Type.FLOAT32 else _singles(values)
        if schema.type is Type.FLOAT64 and kinds <= {int, float}:
            return [None if value is None else float(value) for value in values]
    try:
        return [from_tree(schema, value, settings) for value in values]
    except DataError:
        return None


def _singles(values: Sequence[float | None]) -> Sequence[float | None]:
    form = f">{len(values)}f"
    try:
        return struct.unpack(form, struct.pack(form, *values))
    except (OverflowError, struct.error):  # one is too large, or null
        return [None if value is None else to_single(value) for value in values]


def _integers_fit(kind: Type, kinds: set[type[Any]], values: Sequence[Any]) -> bool:
    if not kinds:
        return True
    limit = 1 << _BITS[kind] - 1
    given = values if None not in values else [value for value in values if value is not None]
    return kinds == {int} and -limit <= min(given) and max(given) < limit
