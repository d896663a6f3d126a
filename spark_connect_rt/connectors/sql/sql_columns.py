"""Columns of a database table -> fields of a Connect schema and columns of Arrow. Pure.

The database casts types without an equivalent in Connect (uuid, json, arrays, enums ...) to text. So both ways of
reading, rows and Arrow, see the same values. Source of the numeric mappings: the JDBC source's ``numeric.mapping``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from spark_connect_rt.api.data import schema as schemas
from spark_connect_rt.api.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from spark_connect_rt.api.data.schema import Field, Schema
from spark_connect_rt.api.data.schema import Type as ConnectType
from spark_connect_rt.connectors.sql.sql_settings import SQLITE
from spark_connect_rt.errors import DataError

UTC_TIME = pa.timestamp("us", "UTC")
_MOST_DIGITS_OF_LONG = 18
_MOST_DIGITS = 76  # of Arrow's decimals
SqlType = sa.types.TypeEngine[Any]
Given = tuple[Schema, pa.DataType, SqlType | None]


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """One column: its field, its form in Arrow, and the type to which the database casts it first (None: no cast)."""

    name: str
    schema: Schema
    arrow: pa.DataType
    cast: SqlType | None = None
    is_position: bool = False
    """Times of it are compared with an offset: one that the clock skips must not be later than those that follow."""


@dataclass(frozen=True, slots=True)
class TypeRules:
    """The settings that determine a field's type in addition to the column's type."""

    numeric_mapping: str = "none"
    dialect: str = "postgresql"


def source_columns(reflected: Iterable[Mapping[str, Any]], rules: TypeRules) -> tuple[SourceColumn, ...]:
    """Return the columns that SQLAlchemy's inspector describes (``name``, ``type``, ``nullable``)."""
    return tuple(
        source_column(column["name"], column["type"], bool(column.get("nullable", True)), rules) for column in reflected
    )


def source_column(name: str, kind: SqlType, nullable: bool, rules: TypeRules) -> SourceColumn:
    """Return one column of a database type."""
    schema, arrow, cast = _given(kind, rules)
    return SourceColumn(name, schema.as_optional(nullable), arrow, cast)


def row_schema(name: str | None, columns: Sequence[SourceColumn]) -> Schema:
    """Return the schema of a table's rows, named as the JDBC source names it: by the table."""
    members = tuple(Field(column.name, index, column.schema) for index, column in enumerate(columns))
    return Schema(ConnectType.STRUCT, name=name, fields=members)


def _given(kind: SqlType, rules: TypeRules) -> Given:
    if isinstance(kind, sa.Float):
        return _of_float(kind, rules)
    if isinstance(kind, sa.Numeric):
        return _of_numeric(kind, rules)
    for sql, given in _PLAIN:
        if isinstance(kind, sql):
            wide = sql is sa.Integer and rules.dialect == SQLITE  # SQLite's INTEGER has 64 bits
            return (schemas.INT64, pa.int64(), None) if wide else given
    if isinstance(kind, sa.Time) and not kind.timezone:
        return time_schema(), pa.time64("us"), None
    if isinstance(kind, sa.String) and not isinstance(kind, sa.Enum):
        return schemas.STRING, pa.string(), None
    return _TEXT


_TEXT: Given = (schemas.STRING, pa.string(), sa.Text())
_PLAIN: tuple[tuple[type[SqlType], Given], ...] = (
    (sa.Boolean, (schemas.BOOLEAN, pa.bool_(), None)),
    (sa.SmallInteger, (schemas.INT16, pa.int16(), None)),
    (sa.BigInteger, (schemas.INT64, pa.int64(), None)),
    (sa.Integer, (schemas.INT32, pa.int32(), None)),
    (sa.DateTime, (timestamp_schema(), UTC_TIME, None)),
    (sa.Date, (date_schema(), pa.date32(), None)),
    (sa.types._Binary, (schemas.BYTES, pa.binary(), None)),
)


def _of_float(kind: sa.Float[Any], rules: TypeRules) -> Given:
    single = isinstance(kind, sa.REAL) or (kind.precision is not None and kind.precision <= 24)
    if single and rules.dialect != SQLITE:
        return schemas.FLOAT32, pa.float32(), None
    return schemas.FLOAT64, pa.float64(), None


def _of_numeric(kind: sa.Numeric[Any], rules: TypeRules) -> Given:
    """Return the form of a NUMERIC; without a scale its values may have any, which no Decimal schema allows."""
    mapping, digits = rules.numeric_mapping, kind.precision
    if kind.scale is None and digits is None:
        return _DOUBLE if mapping.startswith("best_fit") else _TEXT
    scale, digits = kind.scale or 0, digits or _MOST_DIGITS
    if mapping != "none" and scale <= 0 and digits <= _MOST_DIGITS_OF_LONG:
        return _integer_of(digits)
    fits = mapping == "best_fit" and digits <= _MOST_DIGITS_OF_LONG
    if scale > 0 and (fits or mapping == "best_fit_eager_double"):
        return _DOUBLE
    if digits > _MOST_DIGITS or scale < 0:
        return _TEXT
    make = pa.decimal128 if digits <= 38 else pa.decimal256
    return decimal_schema(scale), make(digits, scale), sa.Text()  # text: exact, in every driver


_DOUBLE: Given = (schemas.FLOAT64, pa.float64(), sa.Double())


def _integer_of(digits: int) -> Given:
    for most, schema, arrow in ((2, schemas.INT8, pa.int8()), (4, schemas.INT16, pa.int16())):
        if digits <= most:
            return schema, arrow, sa.SmallInteger()
    return (schemas.INT32, pa.int32(), sa.Integer()) if digits <= 9 else (schemas.INT64, pa.int64(), sa.BigInteger())


# Of Arrow's whole numbers: days from 0001-01-01 to 9999-12-31, their microseconds, those of a day.
_DAYS = ((dt.date.min - dt.date(1970, 1, 1)).days, (dt.date.max - dt.date(1970, 1, 1)).days)
_DAY_US = 86_400_000_000
_MOMENTS = (_DAYS[0] * _DAY_US, (_DAYS[1] + 1) * _DAY_US - 1)


def arrow_column(column: SourceColumn, values: pa.Array, zone: ZoneInfo) -> pa.Array:
    """Return an ADBC driver's column in the column's form.

    Raises pa.ArrowException: some value does not fit. Raises DataError: a date or time is outside of Python's range.
    """
    _check_times(column, values)
    if column.arrow == UTC_TIME:
        made = _utc(values, zone, column.is_position)
    elif column.arrow == pa.time64("us") and pa.types.is_string(values.type):  # SQLite's; Arrow reads moments only
        made = pc.binary_join_element_wise("1970-01-01", values, " ").cast(pa.timestamp("us")).cast(column.arrow)
    else:
        _check_numbers(column, values)
        made = values if values.type == column.arrow else values.cast(column.arrow)
    _check_times(column, made)
    return made


def _check_numbers(column: SourceColumn, values: pa.Array) -> None:
    """Raise DataError for numbers that Arrow would take for other things: for days, for microseconds, for true."""
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        return
    if pa.types.is_temporal(column.arrow):
        raise DataError(f"column {column.name}: a number is not a date or a time of day")
    if (
        pa.types.is_boolean(column.arrow)
        and not pc.all(pc.is_in(values.drop_null(), pa.array([0, 1], values.type))).as_py()
    ):
        raise DataError(f"column {column.name}: the number is neither 0 nor 1")


def _check_times(column: SourceColumn, values: pa.Array) -> None:
    if pa.types.is_date32(values.type):
        what, numbers, (least, most) = "date of the years 1 to 9999", pa.int32(), _DAYS
    elif values.type in (UTC_TIME, pa.timestamp("us")):
        what, numbers, (least, most) = "time of the years 1 to 9999", pa.int64(), _MOMENTS
    elif values.type == pa.time64("us"):
        what, numbers, (least, most) = "time of day before 24:00", pa.int64(), (0, _DAY_US - 1)
    else:
        return
    found = pc.min_max(values.cast(numbers))
    first, last = found["min"].as_py(), found["max"].as_py()
    if first is not None and not least <= first <= last <= most:
        raise DataError(f"column {column.name}: the value is not a {what}")


def _utc(values: pa.Array, zone: ZoneInfo, is_position: bool) -> pa.Array:
    """Return moments; without a zone they are the clock's times in ``zone``.

    A time that the clock repeats is the first of the two. A time that the clock skips is read as if the clock had not
    changed yet. In a position it is the moment of the change, because the following times are later than that.
    """
    if pa.types.is_integer(values.type):  # SQLite's, as ``aware`` reads them
        return values.cast(pa.timestamp("ms", "UTC")).cast(UTC_TIME)
    if not pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us"))
    if values.type.tz is None:
        clocks = values.cast(pa.timestamp("us"))
        values = pc.assume_timezone(clocks, str(zone), ambiguous="earliest", nonexistent="latest")
        skipped = pc.not_equal(pc.local_timestamp(values), clocks)
        if not is_position and pc.any(skipped).as_py():
            read = [None if clock is None else aware(clock, zone) for clock in clocks.to_pylist()]
            return pc.if_else(skipped, pa.array(read, UTC_TIME), values.cast(UTC_TIME))
    return values.cast(UTC_TIME)


def column_of_values(column: SourceColumn, values: Sequence[Any], zone: ZoneInfo) -> pa.Array:
    """Return a driver's Python values in the column's form. Raises pa.ArrowException, DataError: one does not fit."""
    if column.is_position:
        times = [None if value is None else _time_of(value) for value in values]
        if all(moment is None or moment.tzinfo is None for moment in times):
            return arrow_column(column, pa.array(times, pa.timestamp("us")), zone)
    convert = _CONVERSIONS.get(column.arrow.id)
    if pa.types.is_integer(column.arrow) and not {int, type(None)}.issuperset(map(type, values)):
        convert = _whole  # Arrow would cut a fraction off
    if convert is not None:
        values = [None if value is None else convert(value, zone) for value in values]
    try:
        return pa.array(values, column.arrow)
    except (TypeError, ValueError, OverflowError) as error:  # pa.ArrowInvalid is a ValueError
        raise DataError(f"column {column.name}: {error}") from error


def _time_of(value: Any) -> Any:
    """Return a driver's value as a datetime, with a zone or without. Raises DataError."""
    try:
        if isinstance(value, str):
            return dt.datetime.fromisoformat(value)
        if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            return dt.datetime.combine(value, dt.time())
        if isinstance(value, int | float):
            return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=value)
    except (ValueError, OverflowError) as error:
        raise DataError(f"{value!r} is not a valid time: {error}") from error
    if not isinstance(value, dt.datetime):
        raise DataError(f"{value!r} is not a valid time")
    return value


def aware(value: Any, zone: ZoneInfo) -> dt.datetime:
    """Return a moment: of a naive datetime in ``zone``, of ISO text, of SQLite's ms since 1970. Raises DataError."""
    try:
        value = _time_of(value)
        return (value if value.tzinfo else value.replace(tzinfo=zone)).astimezone(dt.UTC)  # type: ignore[no-any-return]
    except (ValueError, OverflowError, AttributeError) as error:
        raise DataError(f"{value!r} is not a valid time: {error}") from error


def _date(value: Any, _: ZoneInfo) -> Any:
    try:
        if isinstance(value, dt.date | str):
            return dt.date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        pass
    raise DataError(f"{value!r} is not a date in the years 1 to 9999")


def _time(value: Any, _: ZoneInfo) -> Any:
    try:
        if isinstance(value, dt.time | str):
            return dt.time.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        pass
    raise DataError(f"{value!r} is not a time of day before 24:00")


def _whole(value: Any, _: ZoneInfo) -> Any:
    if isinstance(value, float | Decimal) and value != value // 1:
        raise DataError(f"{value!r} is not a whole number")
    return int(value) if isinstance(value, float | Decimal) else value


def _decimal(value: Any, _: ZoneInfo) -> Any:
    try:
        return Decimal(value)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise DataError(f"{value!r} is not a number") from error


def _bool(value: Any, _: ZoneInfo) -> Any:
    return bool(value) if value in (0, 1) else value  # SQLite has no booleans


_CONVERSIONS: dict[int, Callable[[Any, ZoneInfo], Any]] = {
    UTC_TIME.id: aware,
    pa.date32().id: _date,
    pa.time64("us").id: _time,
    pa.bool_().id: _bool,
    pa.decimal128(1).id: _decimal,
    pa.decimal256(1).id: _decimal,
}


def columns_by_values(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[SourceColumn, ...]:
    """Return columns of a query whose driver names no types, inferred from its first rows; text where all are null."""
    found = []
    for index, name in enumerate(names):
        value = next((row[index] for row in rows if row[index] is not None), None)
        schema, arrow, cast = next((given for kind, given in _BY_VALUE if isinstance(value, kind)), _TEXT)
        if isinstance(value, Decimal):
            schema, arrow, cast = _TEXT
        found.append(SourceColumn(name, schema.as_optional(), arrow, cast))
    return tuple(found)


_BY_VALUE: tuple[tuple[type[Any], Given], ...] = (
    (bool, (schemas.BOOLEAN, pa.bool_(), None)),
    (int, (schemas.INT64, pa.int64(), None)),
    (float, (schemas.FLOAT64, pa.float64(), None)),
    (str, (schemas.STRING, pa.string(), None)),
    (bytes, (schemas.BYTES, pa.binary(), None)),
    (dt.datetime, (timestamp_schema(), UTC_TIME, None)),
    (dt.date, (date_schema(), pa.date32(), None)),
    (dt.time, (time_schema(), pa.time64("us"), None)),
)
