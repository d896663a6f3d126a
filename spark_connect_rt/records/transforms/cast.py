"""Fields, or a whole key or value, as another primitive type (Java ``Cast``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.schema_builder import copy_basics
from spark_connect_rt.api.records import SinkRecord, SourceRecord
from spark_connect_rt.config.config_def import HIGH, REQUIRED, ConfigDef, ConfigKey
from spark_connect_rt.config.config_def import Type as ConfigType
from spark_connect_rt.records.transforms.cast_values import OUTPUT_TYPES, cast_value, type_names
from spark_connect_rt.records.transforms.record_side import (
    OfKey,
    OfValue,
    SchemaCache,
    SideTransformation,
    fields_of,
    rebuilt,
    require_map,
    require_struct,
)
from spark_connect_rt.records.transforms.settings import REPLACE_NULL, REPLACE_NULL_KEY, java_split

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
        """Declare the settings."""
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
        """Return the schema of what comes out."""
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
    """Casts keys."""


class CastValue(Cast, OfValue):
    """Casts values."""
