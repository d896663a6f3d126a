"""Fields with confidential values (Java ``MaskField``): empty values of their type, or one replacement."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeVar

from spark_connect_rt.api.data.java_numbers import big_decimal
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.struct import check_field
from spark_connect_rt.api.data.values_convert import convert_to_float, convert_to_integer
from spark_connect_rt.api.records import SinkRecord, SourceRecord
from spark_connect_rt.config.config_def import LOW, ConfigDef
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.transforms.key_or_value import (
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    OfKey,
    OfValue,
    SideTransformation,
    non_empty_text,
    optional_text,
    rebuilt,
    require_map,
    require_struct,
    required_list,
)

R = TypeVar("R", SourceRecord, SinkRecord)
CONFIG = ConfigDef(
    [
        required_list("fields", "Fields to mask."),
        optional_text(
            "replacement", "Replacement for every masked value. Only for numbers and text.", LOW, non_empty_text
        ),
        REPLACE_NULL_KEY,
    ]
)
_PURPOSE = "mask fields"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EMPTY: tuple[tuple[tuple[type[Any], ...], Any], ...] = (  # the first that fits counts
    ((bool,), False),
    ((int,), 0),
    ((float,), 0.0),
    ((str,), ""),
    ((Decimal,), Decimal(0)),
    ((dt.datetime,), _EPOCH),
    ((dt.date,), _EPOCH.date()),
    ((dt.time,), dt.time()),
)
_INTEGERS = (Type.INT8, Type.INT16, Type.INT32, Type.INT64)


def masked(schema: Schema | None, value: Any, replacement: str | None) -> Any:
    """Return the replacement of a value; null stays null. Raises DataError: its type cannot be masked."""
    if value is None:
        return None
    return _empty(value) if replacement is None else _replaced(schema, value, replacement)


def _empty(value: Any) -> Any:
    for kinds, empty in _EMPTY:
        if isinstance(value, kinds):
            return empty
    if isinstance(value, list | tuple):
        return []
    if isinstance(value, Mapping):
        return {}
    raise DataError(f"Cannot mask value of type: {type(value).__name__}")


def _replaced(schema: Schema | None, value: Any, replacement: str) -> Any:
    kind = schema.type if schema is not None else None
    if isinstance(value, str):
        return replacement
    if isinstance(value, Decimal):
        try:
            return big_decimal(replacement)
        except ValueError as error:
            raise DataError(f"Unable to convert {replacement} (str) to number") from error
    if isinstance(value, int) and not isinstance(value, bool):
        return convert_to_integer(None, replacement, kind if kind in _INTEGERS else Type.INT64)
    if isinstance(value, float):
        return convert_to_float(None, replacement, kind if kind is Type.FLOAT32 else Type.FLOAT64)
    raise DataError(f"Cannot mask value of type {type(value).__name__} with custom replacement.")


class MaskField(SideTransformation):
    """Replaces the values of some fields by empty ones or by a replacement."""

    def config_def(self) -> ConfigDef:
        """Return the declarations of this transformation's settings."""
        return CONFIG

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings. Raises BadConfigError."""
        values = CONFIG.parse(config)
        self.fields = frozenset(values["fields"])
        self.replacement: str | None = values["replacement"]
        self.replace_null: bool = values[REPLACE_NULL]

    def apply(self, record: R) -> R | None:
        """Return the record with masked fields. Raises DataError: no map or struct, or a type without a mask."""
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            given = require_map(value, _PURPOSE)
            hidden = {name: masked(None, given.get(name), self.replacement) for name in self.fields}
            return self.changed(record, None, {**given, **hidden})
        struct = require_struct(schema, value, _PURPOSE)
        parts = list(struct.values(with_defaults=self.replace_null))
        for name in self.fields:
            member = struct.schema.field(name)
            if member is not None:
                hidden = masked(member.schema, parts[member.index], self.replacement)
                check_field(name, member.schema, hidden)
                parts[member.index] = hidden
        return self.changed(record, schema, rebuilt(struct.schema, parts))


class MaskFieldKey(MaskField, OfKey):
    """Masks fields of a record's key."""


class MaskFieldValue(MaskField, OfValue):
    """Masks fields of a record's value."""
