"""Values of Connect records in the form a database's driver takes, and whole columns of them as CSV for COPY. Pure."""

from __future__ import annotations

import datetime as dt
import decimal
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.csv
import sqlalchemy as sa

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.json_text import json_text
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.connectors.sql.sql_settings import SQLITE
from spark_connect_rt.errors import DataError

_CSV_ROWS = 4_096  # of a piece: some 200 kB, the amount that a socket takes at once
Convert = Callable[[Any], Any]
_AS_THEY_ARE = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64, Type.STRING, Type.BOOLEAN)
_PLAIN_VALUES = frozenset((int, str, float, bool, type(None)))  # every driver takes them as they are
_PLAIN_ARROW = (
    pa.types.is_signed_integer,
    pa.types.is_floating,
    pa.types.is_string,
    pa.types.is_boolean,
    pa.types.is_null,
    pa.types.is_union,  # of numbers, some whole, some not
)
_SQLITE_TIME = "%Y-%m-%d %H:%M:%S.%f"
_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
VARIABLE_SCALE_DECIMAL = "io.debezium.data.VariableScaleDecimal"


def conversion(schema: Schema | None, column: sa.types.TypeEngine[Any], zone: ZoneInfo, dialect: str) -> Convert | None:
    """Return the conversion of a field's values for a column; None: they need none.

    It raises DataError: a nested value has no JSON form; ValueError, OverflowError: a time is outside of Python's
    range.
    """
    if schema is not None and schema.name not in logical.PYTHON_TYPES and schema.type in _AS_THEY_ARE:
        return None
    zoned = bool(getattr(column, "timezone", False))
    if isinstance(column, sa.ARRAY):
        of_part = conversion(None, column.item_type, zone, dialect)
        assert of_part is not None
        return _of_arrays(of_part)
    variable = schema is not None and schema.name == VARIABLE_SCALE_DECIMAL and not isinstance(column, sa.JSON)

    def convert(value: Any) -> Any:
        if isinstance(value, dt.datetime):
            value = _moment(value, zone, zoned)
            return value.strftime(_SQLITE_TIME) if dialect == SQLITE else value
        if variable:
            value = variable_scale_decimal(value)
        if isinstance(value, Struct | Mapping | list | tuple):
            return json_text(value)
        if dialect == SQLITE and isinstance(value, dt.date | dt.time | Decimal):
            return str(value)
        return bytes(value) if isinstance(value, bytearray | memoryview) else value

    return convert


def _of_arrays(of_part: Convert) -> Convert:
    def convert(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [None if element is None else convert(element) for element in value]
        return of_part(value)

    return convert


def variable_scale_decimal(value: Any) -> Decimal:
    """Return the number in a Debezium struct of scale and unscaled bytes. Raises DataError: the struct is invalid."""
    try:
        digits = int.from_bytes(value["value"], "big", signed=True)
        return Decimal(digits).scaleb(-value["scale"], _EXACT)
    except (KeyError, TypeError, ValueError, ArithmeticError, DataError) as error:
        raise DataError(f"a {VARIABLE_SCALE_DECIMAL} needs an integer 'scale' and bytes 'value'") from error


def _moment(value: dt.datetime, zone: ZoneInfo, zoned: bool) -> dt.datetime:
    """Return a moment for a column with a time zone, or the wall clock's time in ``zone`` for one without."""
    aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
    return aware if zoned else aware.astimezone(zone).replace(tzinfo=None)


def converted_columns(rows: Sequence[Sequence[Any]], conversions: Sequence[Convert | None]) -> list[Sequence[Any]]:
    """Return the columns of rows, each value in its driver's form."""
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    for index, convert in enumerate(conversions):
        if convert is not None and not _PLAIN_VALUES.issuperset(map(type, columns[index])):
            columns[index] = [None if value is None else convert(value) for value in columns[index]]
    return columns


def converted_arrays(
    columns: Sequence[pa.Array], conversions: Sequence[Convert | None]
) -> list[pa.Array | Sequence[Any]]:
    """Return flat columns as ``converted_columns`` does; those that are plain stay columns."""
    made: list[pa.Array | Sequence[Any]] = []
    for column, convert in zip(columns, conversions, strict=True):
        if any(is_kind(column.type) for is_kind in _PLAIN_ARROW):
            # A float of 4 bytes is its value in 8, as it is in a record, and not the text of fewest digits.
            made.append(column.cast(pa.float64()) if pa.types.is_floating(column.type) else column)
            continue
        values = column.to_pylist()
        made.append(values if convert is None else [None if value is None else convert(value) for value in values])
    return made


class CsvRows:
    """Rows as CSV that PostgreSQL's COPY reads, nothing for null: made piece by piece while the database reads."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        """Take columns of numbers, booleans and text: ``sql_texts``."""
        self._table = pa.Table.from_arrays(columns, names=[f"c{index}" for index in range(len(columns))])

    def __iter__(self) -> Iterator[bytes]:
        """Yield the text, from its beginning each time."""
        options = pyarrow.csv.WriteOptions(include_header=False, batch_size=_CSV_ROWS)
        for start in range(0, len(self._table), _CSV_ROWS):
            sink = io.BytesIO()
            pyarrow.csv.write_csv(self._table.slice(start, _CSV_ROWS), sink, options)
            yield sink.getvalue()
