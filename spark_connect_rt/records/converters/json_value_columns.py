"""JSON trees as Arrow columns: flat objects of one kind, or plain values.

The elements of a column are exactly what ``json_values`` gives for each tree. What is nested, missing here and
there, or unusual in another way answers None and goes by records.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.records.converters.json_columns import ARROW_TYPES
from spark_connect_rt.records.converters.json_rows import checked_column
from spark_connect_rt.records.converters.json_values import JsonSettings

_LOGICAL_TYPES = {
    logical.DATE: pa.date32(),
    logical.TIME: pa.time32("ms"),
    logical.TIMESTAMP: pa.timestamp("ms", "UTC"),
}
_SCHEMALESS_TYPES = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
_NULL = type(None)
_UNFIT = (pa.ArrowException, KeyError, TypeError, ValueError, OverflowError)


def value_column(schema: Schema | None, trees: Sequence[Any], settings: JsonSettings) -> pa.Array | None:
    """Return JSON trees as one column, None where they have none that is exact.

    Without a schema, numbers of which some are whole and some are not are a sparse union of int64 and float64: in
    Connect, too, each of them has a type of its own.
    """
    try:
        if schema is None:
            return _schemaless(trees)
        return _structs(schema, trees, settings) if schema.type is Type.STRUCT else _plain(schema, trees, settings)
    except _UNFIT:
        return None


def _structs(schema: Schema, trees: Sequence[Any], settings: JsonSettings) -> pa.Array | None:
    names = [field.name for field in schema.fields]
    columns = []
    for member in schema.fields:
        # Raises what is no object, or lacks the field: Connect has defaults for that.
        column = _plain(member.schema, list(map(itemgetter(member.name), trees)), settings)
        if column is None:
            return None
        columns.append(column)
    return pa.StructArray.from_arrays(columns, names) if columns else None


def _plain(schema: Schema, trees: Sequence[Any], settings: JsonSettings) -> pa.Array | None:
    is_logical = schema.name in logical.PYTHON_TYPES
    kind = _LOGICAL_TYPES.get(schema.name or "") if is_logical else ARROW_TYPES.get(schema.type)
    values = None if kind is None else checked_column(schema, trees, settings)
    return None if values is None else pa.array(values, kind)


def _schemaless(trees: Sequence[Any]) -> pa.Array | None:
    if not trees or type(trees[0]) is not dict:
        return _schemaless_column(trees)
    shapes = set(map(tuple, trees))
    if len(shapes) != 1 or set(map(type, trees)) != {dict}:
        return None
    (names,) = shapes
    columns = [_schemaless_column(list(map(itemgetter(name), trees))) for name in names]
    if not columns or any(column is None for column in columns):
        return None
    return pa.StructArray.from_arrays(columns, names)


def _schemaless_column(values: Sequence[Any]) -> pa.Array | None:
    kinds = set(map(type, values)) - {_NULL}
    if not kinds:
        return pa.nulls(len(values))
    if kinds == {int, float}:
        return _numbers(values)
    kind = _SCHEMALESS_TYPES.get(kinds.pop()) if len(kinds) == 1 else None
    return None if kind is None else pa.array(values, kind)


def _numbers(values: Sequence[int | float | None]) -> pa.Array:
    fractions = [type(value) is float for value in values]
    parts = [
        pa.array([None if other else value for other, value in zip(fractions, values, strict=True)], pa.int64()),
        pa.array([value if own else None for own, value in zip(fractions, values, strict=True)], pa.float64()),
    ]
    return pa.UnionArray.from_sparse(pa.array(list(map(int, fractions)), pa.int8()), parts, ["int64", "float64"])
