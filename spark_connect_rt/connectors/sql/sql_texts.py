"""Columns of values -> the texts that PostgreSQL reads, the same for INSERT and for COPY. Pure.

A typed parameter of a statement is cast by the database (1.75 into bigint is 2), a text of COPY is parsed (1.75 is
rejected). Both get the same text, so that the result of a row does not depend on the number of rows. Values that do not
fit the column's type are rejected here: a number is not a boolean, JSON or bytes.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from spark_connect_rt.errors import DataError

SqlType = sa.types.TypeEngine[Any]
ToText = Callable[[Any, "Family"], str]
_EXACT_WHOLE = 2**53  # above it a float stands for several whole numbers
_LONGEST_DIGITS = 1_000  # of a Decimal written out; a longer one keeps its exponent
_LONG_DIGITS = 20


class Family(enum.Enum):
    """The kind of values that a column's type accepts."""

    BOOLEAN = enum.auto()
    WHOLE = enum.auto()
    NUMBER = enum.auto()
    MONEY = enum.auto()
    BYTES = enum.auto()
    DATE = enum.auto()
    TIME = enum.auto()
    MOMENT = enum.auto()
    INTERVAL = enum.auto()
    TEXT = enum.auto()
    UNKNOWN = enum.auto()  # a type that SQLAlchemy has no class for: the database decides
    TEXT_ONLY = enum.auto()  # json, uuid, enums, ranges ...: the value must be their text


_FAMILIES: tuple[tuple[tuple[type[Any], ...], Family], ...] = (
    ((sa.Boolean,), Family.BOOLEAN),
    ((sa.Integer, postgresql.OID), Family.WHOLE),
    ((sa.Float, sa.Numeric), Family.NUMBER),
    ((postgresql.MONEY,), Family.MONEY),
    ((sa.types._Binary,), Family.BYTES),
    ((sa.DateTime,), Family.MOMENT),
    ((sa.Date,), Family.DATE),
    ((sa.Time,), Family.TIME),
    ((postgresql.INTERVAL, sa.Interval), Family.INTERVAL),
    ((sa.Enum,), Family.TEXT_ONLY),
    ((sa.String,), Family.TEXT),
    ((sa.types.NullType,), Family.UNKNOWN),
)
_OF_ARROW = (
    (pa.types.is_signed_integer, int),
    (pa.types.is_floating, float),
    (pa.types.is_boolean, bool),
    (pa.types.is_string, str),
)


def family_of(kind: SqlType) -> Family:
    """Return the kind of values that a type accepts; of a domain, its base type's."""
    if isinstance(kind, postgresql.DOMAIN):
        return family_of(kind.data_type)
    return next((family for kinds, family in _FAMILIES if isinstance(kind, kinds)), Family.TEXT_ONLY)


def text_column(values: pa.Array | Sequence[Any], kind: SqlType) -> pa.Array:
    """Return a column of numbers, booleans or text whose text form (Arrow's cast to string) the database reads.

    Raises DataError: a value's kind does not fit the column's type, or it has no text form.
    """
    if isinstance(values, pa.Array) and pa.types.is_null(values.type):
        return values
    if isinstance(values, pa.Array) and pa.types.is_union(values.type):
        return _of_union(values, kind)
    found = values if isinstance(values, pa.Array) else _plain(values)
    if found is not None:
        of = next((python_type for is_kind, python_type in _OF_ARROW if is_kind(found.type)), None)
        if of is not None:
            family = family_of(kind)
            _check(of, kind, family)
            return _wholes(found) if of is float and family is Family.WHOLE else found
    return pa.array(_texts(_listed(values), kind), pa.string())


def _of_union(values: pa.Array, kind: SqlType) -> pa.Array:
    """Return numbers of which some are whole, in Arrow's form of such a list: a child for each kind."""
    whole, fractions = (values.field(index) for index in (0, 1))
    for child, other in ((whole, fractions), (fractions, whole)):
        if other.null_count == len(values):
            return text_column(child, kind)
    parts = [text_column(child, kind).cast(pa.string()) for child in (fractions, whole)]
    return pc.coalesce(*parts)


def _listed(values: pa.Array | Sequence[Any]) -> Sequence[Any]:
    return values.to_pylist() if isinstance(values, pa.Array) else values


def _plain(values: Sequence[Any]) -> pa.Array | None:
    """Return values of one plain class as an array, None for any others."""
    classes = set(map(type, values)) - {type(None)}
    if not classes:
        return pa.nulls(len(values), pa.string())
    if len(classes) > 1 or not classes <= {int, float, bool, str}:
        return None
    try:
        return pa.array(values)
    except (pa.ArrowException, ValueError, OverflowError):  # a longer integer, or text that is not valid Unicode
        return None


def _wholes(column: pa.Array) -> pa.Array:
    """Return floats for a column of integers: whole numbers without a point, fractions unchanged, to be rejected."""
    try:
        made = column.cast(pa.int64())
        if not pc.any(pc.greater(pc.abs_checked(made), _EXACT_WHOLE)).as_py():
            return made
    except pa.ArrowException:
        pass
    return pa.array(_texts(column.to_pylist(), sa.Integer()), pa.string())


def _check(of: type[Any], kind: SqlType, family: Family) -> ToText:
    """Return how values of a class are written. Raises DataError: not into this column."""
    for cls, name, families, to_text in _KINDS:
        if issubclass(of, cls):
            if family in families:
                return to_text
            raise DataError(f"{name} cannot be written into a column of type {type_name(kind)}")
    raise DataError(f"a value of class {of.__name__} cannot be written into a column of type {type_name(kind)}")


def type_name(kind: SqlType) -> str:
    """Return a type's name for messages, such as BIGINT."""
    return str(getattr(kind, "__visit_name__", type(kind).__name__)).upper()


def _texts(values: Sequence[Any], kind: SqlType) -> list[str | None]:
    """Return the text of each value; how a class is written is looked up once."""
    family, is_array = family_of(kind), isinstance(kind, sa.ARRAY)
    writers: dict[type[Any], ToText] = {}
    for of in set(map(type, values)) - {type(None)}:
        lists = is_array and issubclass(of, list | tuple)
        writers[of] = (lambda value, _: _array_text(value, kind)) if lists else _check(of, kind, family)
    if float in writers and family is not Family.WHOLE:  # all at once: Arrow's text of one takes it 15 µs
        floats = pa.array([value for value in values if type(value) is float], pa.float64())
        texts = iter(floats.cast(pa.string()).to_pylist())
        writers[float] = lambda *_: next(texts)
    return [None if value is None else writers[type(value)](value, family) for value in values]


def _array_text(values: Sequence[Any], kind: Any) -> str:
    if any(isinstance(value, list | tuple) for value in values):
        return "{" + ",".join("NULL" if value is None else _array_text(value, kind) for value in values) + "}"
    parts = []
    for text in _texts(values, kind.item_type):
        parts.append("NULL" if text is None else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"')
    return "{" + ",".join(parts) + "}"


def _text_of_text(value: str, _: Family) -> str:
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise DataError("the text has a character that no database text has (NUL or half of a surrogate pair)")
    return str(value)


def _text_of_float(value: float, family: Family) -> str:
    if family is Family.WHOLE and abs(value) <= _EXACT_WHOLE and value.is_integer():
        return str(int(value))
    return str(pa.scalar(value, pa.float64()).cast(pa.string()).as_py())  # the text that COPY's CSV has


def _text_of_decimal(value: Decimal, family: Family) -> str:
    text = str(value)
    if family is not Family.WHOLE and "E" not in text:
        return text
    if not value.is_finite() or abs(value.adjusted()) > _LONGEST_DIGITS:
        return text
    if family is Family.WHOLE and value.adjusted() < _LONG_DIGITS and value == int(value):
        return str(int(value))
    return f"{value:f}"


def _text_of_moment(value: dt.datetime, family: Family) -> str:
    return value.isoformat(" ", _precision(value)) if family is Family.TEXT else value.isoformat(" ")


def _precision(value: dt.datetime | dt.time) -> str:
    """Return how much of a second is written into a text: milliseconds, which Connect's times have, if no more is."""
    return "milliseconds" if value.microsecond and not value.microsecond % 1_000 else "auto"


_NUMBERS = frozenset({Family.WHOLE, Family.NUMBER, Family.TEXT, Family.UNKNOWN})
_BOOLEANS = frozenset({Family.BOOLEAN, Family.TEXT, Family.UNKNOWN})
_BYTES = frozenset({Family.BYTES, Family.TEXT, Family.UNKNOWN})
_DATES = frozenset({Family.DATE, Family.MOMENT, Family.TEXT, Family.UNKNOWN})
_TIMES = frozenset({Family.TIME, Family.INTERVAL, Family.TEXT, Family.UNKNOWN})
_UUIDS = frozenset({Family.TEXT_ONLY, Family.TEXT, Family.UNKNOWN})
_KINDS: tuple[tuple[type[Any], str, frozenset[Family], ToText], ...] = (  # a subclass before its class
    (str, "text", frozenset(Family), _text_of_text),
    (bool, "a boolean", _BOOLEANS, lambda value, _: "true" if value else "false"),
    (int, "an integer", _NUMBERS | {Family.MONEY}, lambda value, _: str(value)),
    (float, "a float", _NUMBERS, _text_of_float),
    (Decimal, "a decimal", _NUMBERS | {Family.MONEY}, _text_of_decimal),
    (bytes, "bytes", _BYTES, lambda value, _: "\\x" + value.hex()),
    (dt.datetime, "a timestamp", _DATES | {Family.TIME}, _text_of_moment),
    (dt.date, "a date", _DATES, lambda value, _: value.isoformat()),
    (dt.time, "a time", _TIMES, lambda value, _: value.isoformat(_precision(value))),
    (UUID, "a UUID", _UUIDS, lambda value, _: str(value)),
)
