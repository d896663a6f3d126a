"""Fields, or a whole key or value, as another primitive type (Java ``Cast``)."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.java_numbers import (
    LONG_BITS,
    narrowed,
    parse_float,
    parse_integer,
    parse_single,
    single_of_decimal,
    to_single,
)
from spark_connect_rt.api.data.java_text import java_text
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.schema_builder import copy_basics
from spark_connect_rt.api.data.schema_inference import schema_type
from spark_connect_rt.api.data.values_text import date_text
from spark_connect_rt.api.records import SinkRecord, SourceRecord
from spark_connect_rt.config.config_def import HIGH, REQUIRED, ConfigDef, ConfigKey
from spark_connect_rt.config.config_def import Type as ConfigType
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.transforms.key_or_value import (
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    OfKey,
    OfValue,
    SchemaCache,
    SideTransformation,
    fields_of,
    java_split,
    rebuilt,
    require_map,
    require_struct,
)

# One value cast to a primitive type, as Java's Cast does: numbers narrow, text is parsed, the rest is refused.


INTEGER_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
FLOATS = (Type.FLOAT32, Type.FLOAT64)
OUTPUT_TYPES = (*INTEGER_BITS, *FLOATS, Type.BOOLEAN, Type.STRING)
INPUT_TYPES = (*OUTPUT_TYPES, Type.BYTES)
_EXACT_IN_SINGLE = 1 << 24
_ENCODED = (logical.DATE, logical.TIME, logical.TIMESTAMP)


def type_names(kinds: tuple[Type, ...]) -> str:
    """Return types as a message lists them."""
    return f"[{', '.join(kind.value for kind in kinds)}]"


def cast_value(schema: Schema | None, value: Any, target: Type) -> Any:
    """Return ``value`` as ``target``; null stays null. Raises DataError."""
    if value is None:
        return None
    kind = schema.type if schema is not None else schema_type(value)
    if kind is None:
        raise DataError(
            f"Cast transformation was passed a value of type {type(value).__name__} "
            "which is not supported by Connect's data API"
        )
    if kind not in INPUT_TYPES:
        raise DataError(
            f"Cast transformation does not support casting from {kind.value}; "
            f"supported types are {type_names(INPUT_TYPES)}"
        )
    if schema is not None and schema.name in _ENCODED and target is not Type.STRING:
        value = logical.to_primitive(schema, value)
    try:
        return _cast(schema, value, target)
    except ValueError as error:
        shown = java_text(value, schema)
        raise DataError(f"Value ({shown}) was out of range for requested data type") from error


def _cast(schema: Schema | None, value: Any, target: Type) -> Any:
    if target is Type.STRING:
        return cast_to_text(schema, value)
    if target is Type.BOOLEAN:
        return _to_boolean(value)
    if target in INTEGER_BITS:
        return _to_integer(value, INTEGER_BITS[target])
    return _to_float(value, target)


def cast_to_text(schema: Schema | None, value: Any) -> str:
    """Return the text of a value: bytes in base64, dates in ISO 8601."""
    if isinstance(value, dt.date | dt.time):
        return date_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return java_text(value, schema)


def _unexpected(value: Any) -> DataError:
    return DataError(f"Unexpected type in Cast transformation: {type(value).__name__}")


def _to_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float | Decimal):
        return narrowed(value, LONG_BITS) != 0
    if isinstance(value, str):
        return value.lower() == "true"
    raise _unexpected(value)


def _to_integer(value: Any, bits: int) -> int:
    if isinstance(value, int | float | Decimal):
        return narrowed(value, bits)
    if isinstance(value, str):
        return parse_integer(value, bits)
    raise _unexpected(value)


def _to_single(value: float | Decimal) -> float:
    exact = isinstance(value, float) or (isinstance(value, int) and abs(value) <= _EXACT_IN_SINGLE)
    return to_single(float(value)) if exact else single_of_decimal(Decimal(value))  # rounded once


def _to_float(value: Any, target: Type) -> float:
    if isinstance(value, str):
        return parse_single(value) if target is Type.FLOAT32 else parse_float(value)
    if isinstance(value, int | float | Decimal):
        return _to_single(value) if target is Type.FLOAT32 else float(value)
    raise _unexpected(value)


R = TypeVar("R", SourceRecord, SinkRecord)
WHOLE = None
_PURPOSE = "cast types"


def parse_spec(spec: Sequence[str]) -> dict[str | None, Type]:
    """Return field name (WHOLE: the whole value) -> type. Raises ValueError with Java's reason."""
    casts: dict[str | None, Type] = {}
    for mapping in spec:
        parts = [part.strip() for part in java_split(mapping)]
        if len(parts) > 2:
            raise ValueError(f"Invalid rename mapping: {mapping}")
        casts[parts[0] if len(parts) == 2 else WHOLE] = _output_type(parts[-1])
    if WHOLE in casts and len(spec) > 1:
        raise ValueError(
            "Cast transformations that specify a type to cast the entire value to "
            "may only specify a single cast in their spec"
        )
    return casts


def _output_type(name: str) -> Type:
    try:
        kind = Type[name.upper()]
    except KeyError:
        raise ValueError(f"Invalid type found in casting spec: {name}") from None
    if kind not in OUTPUT_TYPES:
        raise ValueError(
            f"Cast transformation does not support casting to {kind.value}; "
            f"supported types are {type_names(OUTPUT_TYPES)}"
        )
    return kind


def _valid_spec(value: Any) -> str | None:
    if not value:
        return "Must specify at least one field to cast."
    try:
        parse_spec(value)
    except ValueError as error:
        return str(error)
    return None


CONFIG = ConfigDef(
    [
        ConfigKey(
            "spec",
            ConfigType.LIST,
            REQUIRED,
            HIGH,
            "Fields and their new types, field:type,field:type; or one type for the whole. Types: int8, int16, int32, "
            "int64, float32, float64, boolean, string. Bytes can only become strings (base64).",
            _valid_spec,
        ),
        REPLACE_NULL_KEY,
    ]
)


class Cast(SideTransformation):
    """Casts by ``spec``; a field that the spec does not name stays as it is."""

    def config_def(self) -> ConfigDef:
        """Return the declarations of this transformation's settings."""
        return CONFIG

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings. Raises BadConfigError."""
        values = CONFIG.parse(config)
        self.casts = parse_spec(values["spec"])
        self.whole = self.casts.get(WHOLE)
        self.replace_null: bool = values[REPLACE_NULL]
        self._schemas = SchemaCache[Schema]()

    def apply(self, record: R) -> R | None:
        """Return the record with its fields cast. Raises DataError: a value has no form in the type."""
        schema, value = self.schema_of(record), self.value_of(record)
        if value is None:
            return record
        if schema is not None:
            return self._with_schema(record, schema, value)
        if self.whole is not None:
            return self.changed(record, None, cast_value(None, value, self.whole))
        given = require_map(value, _PURPOSE)
        cast = {str(name): cast_value(None, given.get(str(name)), kind) for name, kind in self.casts.items()}
        return self.changed(record, None, {**given, **cast})

    def _with_schema(self, record: R, schema: Schema, value: Any) -> R:
        updated = self.updated_schema(schema)
        if self.whole is not None:
            return self.changed(record, updated, cast_value(schema, value, self.whole))
        given = require_struct(schema, value, _PURPOSE)
        parts = list(given.values(with_defaults=self.replace_null))
        for name, kind in self.casts.items():
            member = given.schema.field(str(name))
            if member is not None:
                parts[member.index] = cast_value(member.schema, parts[member.index], kind)
        return self.changed(record, updated, rebuilt(updated, parts))

    def updated_schema(self, schema: Schema) -> Schema:
        """Return the schema of the result for an input schema."""
        return self._schemas.get(schema, self._make_schema)

    def _make_schema(self, schema: Schema) -> Schema:
        builder = copy_basics(schema, self.whole or Type.STRUCT)
        if self.whole is None:
            for member in fields_of(schema):
                builder.field(member.name, self._field_schema(member.name, member.schema))
        if schema.optional:
            builder.optional()
        if schema.default is not None:
            builder.default(cast_value(schema, schema.default, self.whole or Type.STRUCT))
        return builder.build()

    def _field_schema(self, name: str, schema: Schema) -> Schema:
        kind = self.casts.get(name)
        if kind is None:
            return schema
        default = None if schema.default is None else cast_value(schema, schema.default, kind)
        return Schema(kind, optional=schema.optional, default=default)


class CastKey(Cast, OfKey):
    """Casts a record's key, or fields of it."""


class CastValue(Cast, OfValue):
    """Casts a record's value, or fields of it."""
