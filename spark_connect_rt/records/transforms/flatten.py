"""Nested structs and maps as one level, names joined by a delimiter (Java ``Flatten``). Arrays stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.schema_builder import SchemaBuilder, copy_basics
from spark_connect_rt.api.data.schema_inference import schema_type
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SinkRecord, SourceRecord
from spark_connect_rt.config.config_def import MEDIUM, ConfigDef, ConfigKey
from spark_connect_rt.config.config_def import Type as ConfigType
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.transforms.key_or_value import (
    OfKey,
    OfValue,
    SchemaCache,
    SideTransformation,
    require_map,
    require_struct,
)

R = TypeVar("R", SourceRecord, SinkRecord)
CONFIG = ConfigDef([ConfigKey("delimiter", ConfigType.STRING, ".", MEDIUM, "Text between the names of the levels.")])
_PURPOSE = "flattening"


class Flatten(SideTransformation):
    """Flattens; a member of something optional is optional, a default of the whole is one of its parts."""

    def config_def(self) -> ConfigDef:
        """Return the declaration of the delimiter's setting."""
        return CONFIG

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the delimiter for the joined names."""
        self.delimiter: str = CONFIG.parse(config)["delimiter"]
        self._schemas = SchemaCache[Schema]()

    def apply(self, record: R) -> R | None:
        """Return the record on one level. Raises DataError: a map inside of a struct."""
        schema, value = self.schema_of(record), self.value_of(record)
        if value is None:
            return record
        if schema is None:
            flat: dict[str, Any] = {}
            self._flatten_map(require_map(value, _PURPOSE), "", flat)
            return self.changed(record, None, flat)
        struct = require_struct(schema, value, _PURPOSE)
        updated = self.updated_schema(schema)
        result = Struct(updated)
        self._flatten_struct(struct, "", result)
        return self.changed(record, updated, result)

    def name(self, prefix: str, name: str) -> str:
        """Return the name of a member below ``prefix``."""
        return f"{prefix}{self.delimiter}{name}" if prefix else name

    def _flatten_map(self, value: Mapping[str, Any], prefix: str, flat: dict[str, Any]) -> None:
        for key, part in value.items():
            name = self.name(prefix, key)
            kind = None if part is None else schema_type(part)
            if part is not None and kind is None:
                raise DataError(
                    f"Flatten transformation was passed a value of type {type(part).__name__} "
                    "which is not supported by Connect's data API"
                )
            if kind is Type.MAP:
                self._flatten_map(part, name, flat)
            elif kind is Type.STRUCT:
                raise DataError(
                    f"Flatten transformation does not support {type(part).__name__} "
                    f"for record without schemas (for field {name})."
                )
            else:
                flat[name] = part

    def _flatten_struct(self, struct: Struct, prefix: str, result: Struct) -> None:
        for member in struct.schema.fields:
            name = self.name(prefix, member.name)
            if member.schema.type is not Type.STRUCT:
                result.put(name, struct.get(member.name))
                continue
            inner = struct.get_without_default(member.name)
            if inner is not None:
                self._flatten_struct(require_struct(member.schema, inner, _PURPOSE), name, result)

    def updated_schema(self, schema: Schema) -> Schema:
        """Return the schema of the result for an input schema. Raises DataError: there is a map."""
        return self._schemas.get(schema, self._make_schema)

    def _make_schema(self, schema: Schema) -> Schema:
        builder = copy_basics(schema, Type.STRUCT)
        self._add_fields(schema, "", builder, schema.optional, schema.default)
        return builder.build()

    def _add_fields(self, schema: Schema, prefix: str, builder: SchemaBuilder, optional: bool, parent: Any) -> None:
        for member in schema.fields:
            name, inner = self.name(prefix, member.name), member.schema
            default = inner.default
            if default is None and parent is not None:
                default = parent.get(member.name)
            if inner.type is Type.MAP:
                raise DataError(
                    f"Flatten transformation does not support {inner.type.value} "
                    f"for record with schemas (for field {name})."
                )
            if inner.type is Type.STRUCT:
                self._add_fields(inner, name, builder, optional or inner.optional, default)
                continue
            field_builder = copy_basics(inner)
            if optional or inner.optional:
                field_builder.optional()
            builder.field(name, (field_builder if default is None else field_builder.default(default)).build())


class FlattenKey(Flatten, OfKey):
    """Flattens the nested fields of a record's key."""


class FlattenValue(Flatten, OfValue):
    """Flattens the nested fields of a record's value."""
