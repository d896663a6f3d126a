"""Pages of rows or of Arrow columns -> columns of one table, whose types only grow. Pure.

A column that first appears in a page is a new field. A column that a page lacks is null. A type that cannot hold a
page's values is replaced by the next wider one, and by text where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from spark_connect_rt.api.data.json_text import json_text
from spark_connect_rt.errors import DataError

Row = Mapping[str, Any]
_UNFIT = (pa.ArrowException, TypeError, ValueError, OverflowError)


class GrowingColumns:
    """The columns of one table as seen so far: ``of_rows`` and ``of_columns`` return pages that have all of them."""

    def __init__(self, declared: Mapping[str, pa.DataType] | None = None) -> None:
        """Begin with the columns whose types are declared. Their values are read as those types."""
        self._declared = dict(declared or {})
        self._types: dict[str, pa.DataType] = dict(self._declared)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns in order of appearance."""
        return tuple(self._types)

    def of_rows(self, rows: Sequence[Row]) -> pa.RecordBatch:
        """Return rows as columns. Raises ValueError: a value does not fit the type declared for its column."""
        return self._page({name: _pruned(column) for name, column in columns_of_rows(rows).items()}, len(rows), rows)

    def of_columns(self, page: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
        """Return a page with all columns; one that has them all, in their types, is not copied. Raises as above."""
        if isinstance(page, pa.Table):
            page = _one_batch(page)
        if list(self._types.items()) == [(field.name, field.type) for field in page.schema]:
            return page
        return self._page(dict(zip(page.schema.names, page.columns, strict=True)), page.num_rows, None)

    def _page(self, columns: Mapping[str, pa.Array | None], length: int, rows: Sequence[Row] | None) -> pa.RecordBatch:
        for name, column in columns.items():
            if column is not None and not pa.types.is_null(column.type) and name not in self._declared:
                self._types[name] = wider(self._types.get(name), column.type)
        made = []
        for name, kind in self._types.items():
            column = columns.get(name)
            if column is None:
                made.append(pa.nulls(length, kind))
            else:
                made.append(fitted(name, column, kind, None if rows is None else [row.get(name) for row in rows]))
        return pa.RecordBatch.from_arrays(made, schema=pa.schema(list(self._types.items())))


def _one_batch(page: pa.Table) -> pa.RecordBatch:
    batches = page.combine_chunks().to_batches()
    return (
        batches[0]
        if batches
        else pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in page.schema], page.schema.names)
    )


def columns_of_rows(rows: Sequence[Row]) -> dict[str, pa.Array]:
    """Return a column for each name; values that have no type in common become text, all but text as JSON."""
    try:
        found = pa.array(rows)
        if pa.types.is_struct(found.type) and found.type.num_fields:
            return dict(zip([field.name for field in found.type], found.flatten(), strict=True))
    except _UNFIT:
        pass
    names = dict.fromkeys(name for row in rows for name in row)
    return {str(name): _column([row.get(name) for row in rows]) for name in names}


def _column(values: Sequence[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except _UNFIT:
        return texts(values)


def texts(values: Sequence[Any]) -> pa.Array:
    """Return values as a column of text: text as it is, else JSON. Raises ValueError: one has no JSON form."""
    try:
        found = [None if value is None else value if isinstance(value, str) else json_text(value) for value in values]
    except DataError as error:
        raise ValueError(str(error)) from error
    return pa.array(found, pa.string())


def wider(known: pa.DataType | None, new: pa.DataType) -> pa.DataType:
    """Return a type for the values of both: the wider number, structs with all fields; text where none is."""
    if known is None or known == new:
        return new
    schemas = [pa.schema([("value", kind)]) for kind in (known, new)]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException:
        return pa.string()


def fitted(name: str, column: pa.Array, kind: pa.DataType, values: Sequence[Any] | None = None) -> pa.Array:
    """Return a column in a type that it fits; ``values`` are its values where they are at hand.

    Raises ValueError naming the column: some value does not fit.
    """
    if column.type == kind:
        return column
    if pa.types.is_string(kind) and (pa.types.is_nested(column.type) or pa.types.is_binary(column.type)):
        return texts(column.to_pylist(maps_as_pydicts="lossy") if values is None else values)
    try:
        return column.cast(kind, safe=not pa.types.is_temporal(kind))
    except pa.ArrowException as error:
        reason = error
    try:
        return pa.array(column.to_pylist() if values is None else values, kind)
    except _UNFIT:
        raise ValueError(f"column {name}: {reason}") from None


def _pruned(column: pa.Array) -> pa.Array | None:
    """Return a column without the fields that are null in every row, for they have no type yet; None: all of it."""
    kind = typed_part(column.type)
    return None if kind is None else column if kind == column.type else column.cast(kind)


def typed_part(kind: pa.DataType) -> pa.DataType | None:
    """Return a type without the fields that were null, or an empty object, in every row; None: nothing is left."""
    if pa.types.is_null(kind):
        return None
    if pa.types.is_struct(kind):
        parts = [(field.name, typed_part(field.type)) for field in kind]
        kept = [pa.field(name, part) for name, part in parts if part is not None]
        return pa.struct(kept) if kept else None
    if pa.types.is_list(kind):
        part = typed_part(kind.value_type)
        return None if part is None else kind if part == kind.value_type else pa.list_(part)
    return kind
