"""Rows of a result -> pieces in the plan's columns: good rows, refused rows, how far the piece goes. Pure.

A database holds values that Connect's types and Python cannot represent: infinity, years before 1 and after 9999,
24:00, NaN in a NUMERIC. Both ways of reading treat them alike: the row is rejected and reported, the others continue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_connect_rt.api.data.json_text import readable_json
from spark_connect_rt.api.data.logical import timestamp_schema
from spark_connect_rt.connectors.sql.sql_columns import UTC_TIME, SourceColumn, arrow_column, column_of_values
from spark_connect_rt.connectors.sql.sql_queries import MOMENT, ReadPlan
from spark_connect_rt.errors import DataError

_MOMENT_COLUMN = SourceColumn(MOMENT, timestamp_schema(), UTC_TIME, is_position=True)
_SHOWN_CHARACTERS = 200
ToColumn = Callable[[SourceColumn, Any], pa.Array]


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """One row that cannot become a record: its place, the error, and its values as JSON for a dead letter."""

    place: str
    error: DataError
    data: bytes


@dataclass(frozen=True, slots=True)
class RowsPiece:
    """Rows in the plan's columns, and the values that count for the progress, those of rejected rows too."""

    rows: pa.RecordBatch
    marks: pa.RecordBatch
    """The incrementing column and MOMENT, as far as the mode has them, of each row in which they can be read."""
    refused: tuple[RefusedRow, ...] = ()


def columns_of(plan: ReadPlan) -> tuple[SourceColumn, ...]:
    """Return the columns of a result: the plan's, and MOMENT where the mode has timestamps."""
    return (*plan.columns, _MOMENT_COLUMN) if plan.timestamps else plan.columns


def piece_of_rows(rows: Sequence[Sequence[Any]], plan: ReadPlan) -> RowsPiece:
    """Return rows of a driver's Python values, at least one, as a piece."""
    return _piece(
        list(zip(*rows, strict=True)),
        plan,
        lambda column, values: column_of_values(column, values, plan.zone),
    )


def piece_of_batch(batch: pa.RecordBatch, plan: ReadPlan) -> RowsPiece:
    """Return an ADBC driver's batch as a piece."""

    def to_column(column: SourceColumn, values: pa.Array) -> pa.Array:
        try:
            return arrow_column(column, values, plan.zone)
        except pa.ArrowException:
            if len(values) > 1:
                raise
            # Values that Arrow cannot convert are converted like rows.
            return column_of_values(column, values.to_pylist(), plan.zone)

    return _piece(batch.columns, plan, to_column)


def _piece(given: Sequence[Any], plan: ReadPlan, to_column: ToColumn) -> RowsPiece:
    columns = columns_of(plan)
    problems: dict[int, DataError] = {}
    unmarked: set[int] = set()
    arrays = []
    for column, values in zip(columns, given, strict=True):
        array, found = _read(column, values, to_column)
        arrays.append(array)
        problems = {**found, **problems}
        if column.name in (MOMENT, plan.incrementing):
            unmarked |= set(found)
    whole = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])
    marks = whole.select([name for name in (plan.incrementing, MOMENT) if name in whole.schema.names])
    if not problems:
        return RowsPiece(whole, marks)
    return RowsPiece(
        _without(whole, problems),
        _without(marks, unmarked),
        tuple(_refused(at, problems[at], given, whole, plan) for at in sorted(problems)),
    )


def _without(batch: pa.RecordBatch, places: set[int] | Mapping[int, Any]) -> pa.RecordBatch:
    return batch.take(pa.array([at for at in range(batch.num_rows) if at not in places], pa.int64()))


def _read(column: SourceColumn, values: Any, to_column: ToColumn) -> tuple[pa.Array, dict[int, DataError]]:
    """Return a column, null where a value was refused, and why it was, by row."""
    try:
        return to_column(column, values), {}
    except (DataError, pa.ArrowException):
        pass
    parts, problems = [], {}
    for at in range(len(values)):
        try:
            parts.append(to_column(column, values[at : at + 1]))
        except (DataError, pa.ArrowException) as error:
            said = str(error).partition("column ")[2] or str(error)
            problems[at] = DataError(f"column {column.name}: {said.removeprefix(f'{column.name}: ')}")
            parts.append(pa.nulls(1, column.arrow))
    return pa.concat_arrays(parts), problems


def _refused(at: int, error: DataError, given: Sequence[Any], whole: pa.RecordBatch, plan: ReadPlan) -> RefusedRow:
    names = [plan.incrementing] if plan.incrementing else list(plan.keys)
    key = "".join(f" {name} {whole.column(name)[at].as_py()}" for name in names)
    shown = {column.name: _shown(values[at]) for column, values in zip(plan.columns, given, strict=False)}
    return RefusedRow(f"table {plan.name}{key}", error, readable_json(shown))


def _shown(value: Any) -> Any:
    """Return a value for the dead letter; a value of Arrow that Python cannot represent is the driver's."""
    if not isinstance(value, pa.Scalar):
        return value
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        return str(value.cast(pa.int64() if value.type.bit_width == 64 else pa.int32()).as_py())[:_SHOWN_CHARACTERS]
