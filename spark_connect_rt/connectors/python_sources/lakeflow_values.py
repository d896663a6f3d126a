"""Values as JSON has them -> columns of the types that a Lakeflow connector's schema declares. Pure.

Source: what ``parse_value`` of Databricks' community connectors takes for each type; objects where text is declared
are JSON here.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_type

from spark_connect_rt.api.data.json_text import json_text
from spark_connect_rt.connectors.python_sources.page_columns import Row
from spark_connect_rt.errors import DataError

_UNFIT = (pa.ArrowException, TypeError, ValueError, OverflowError, ArithmeticError, AttributeError, DataError)
_TEXTS = (bool, int, float, Decimal, dt.date, dt.time, UUID)  # written as Databricks does, true as True
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
_DATES = ("%Y-%m-%d", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d")
_TIMES = ("%Y-%m-%d %H:%M:%S", "%Y/%m/%d %H:%M:%S")


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """Return the columns of a Spark schema; of types that only Spark has (variant, user-defined) text: JSON."""
    return pa.schema([pa.field(field.name, arrow_type(field.dataType)) for field in schema.fields])


def arrow_type(kind: spark.DataType) -> pa.DataType:
    """Return the type of a column."""
    if isinstance(kind, spark.StructType):
        return pa.struct(list(arrow_schema(kind)))
    if isinstance(kind, spark.ArrayType):
        return pa.list_(arrow_type(kind.elementType))
    if isinstance(kind, spark.MapType):
        return pa.map_(arrow_type(kind.keyType), arrow_type(kind.valueType))
    if isinstance(kind, spark.TimestampType | spark.TimestampNTZType):
        return pa.timestamp("us", "UTC")
    try:
        return to_arrow_type(kind)
    except Exception:  # noqa: BLE001 - of Spark's errors each version has others
        return pa.string()


def batch_of(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows in the schema's columns, others left out. Raises ValueError: a value does not fit."""
    columns = [column_of([row.get(field.name) for row in rows], field.type, field.name) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def column_of(values: Sequence[Any], kind: pa.DataType, name: str) -> pa.Array:
    """Return values as a column. Raises ValueError naming it."""
    try:
        if not _misread_by_arrow(kind):
            return pa.array(values, kind)
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            return pa.array(values, pa.string()).cast(kind)
    except _UNFIT:
        pass
    try:
        return pa.array([converted(value, kind) for value in values], kind)
    except _UNFIT as error:
        raise ValueError(f"column {name}: {error}") from None


def _misread_by_arrow(kind: pa.DataType) -> bool:
    """Tell whether Arrow would take values for others: numbers for microseconds, base64 for the bytes themselves."""
    if pa.types.is_nested(kind):
        return any(_misread_by_arrow(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_temporal(kind) or pa.types.is_binary(kind))


def converted(value: Any, kind: pa.DataType) -> Any:
    """Return one value as the type's Python value. Raises ValueError, TypeError, ArithmeticError: it does not fit."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: converted(value.get(field.name), field.type) for field in kind}
    if pa.types.is_map(kind):
        return [(converted(key, kind.key_type), converted(item, kind.item_type)) for key, item in value.items()]
    if pa.types.is_list(kind):
        return [
            converted(element, kind.value_type) for element in (value if isinstance(value, list | tuple) else [value])
        ]
    return next((convert(value) for is_kind, convert in _CONVERSIONS if is_kind(kind)), value)


def _text(value: Any) -> str:
    if isinstance(value, str | bytes):
        return value if isinstance(value, str) else value.decode()
    if isinstance(value, _TEXTS):
        return str(value)
    return json_text(value)


def _whole(value: Any) -> int:
    return int(value) if not isinstance(value, str) else int(float(value)) if "." in value else int(value)


def _boolean(value: Any) -> bool:
    lowered = value.lower() if isinstance(value, str) else None
    return lowered in _TRUE if lowered in (*_TRUE, *_FALSE) else bool(value)


def _date(value: Any) -> dt.date:
    if isinstance(value, dt.datetime):
        return value.date()
    return value if isinstance(value, dt.date) else _parsed(value, _DATES).date()


def _moment(value: Any) -> dt.datetime:
    if isinstance(value, int | float):
        return dt.datetime.fromtimestamp(value, dt.UTC)
    found = value if isinstance(value, dt.datetime) else _parsed(value, _TIMES)
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def _parsed(value: str, forms: Sequence[str]) -> dt.datetime:
    for form in forms:
        try:
            return dt.datetime.strptime(value, form).replace(tzinfo=dt.UTC)
        except ValueError:
            continue
    return dt.datetime.fromisoformat(value)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        return bytes(value)
    for decode in (lambda text: base64.b64decode(text, validate=True), bytes.fromhex):
        try:
            return decode(value)
        except (binascii.Error, ValueError):
            continue
    return value.encode()


_CONVERSIONS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]], ...] = (
    (pa.types.is_string, _text),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_integer, _whole),
    (pa.types.is_floating, float),
    (pa.types.is_decimal, lambda value: Decimal(str(value))),
    (pa.types.is_date, _date),
    (pa.types.is_timestamp, _moment),
    (pa.types.is_binary, _bytes),
)
